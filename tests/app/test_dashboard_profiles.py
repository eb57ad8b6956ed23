"""Pages of profiles: matrix, one profile, comparison, documents, namespaces, claims; hostile texts; empty."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.db.session import Database
from tests.app import dashboard_rows as people
from tests.app import profile_rows as rows
from tests.app.browser import text_of
from tests.app.dashboard_rows import NAME, PASSWORD
from tests.app.profile_rows import Paper
from tests.app.test_dashboard_evidence import page
from tests.core import profile_rig as rig

OWN = rows.contract()
PROFILE = f"/profiles/{OWN.sha256}/tp4-dcp4-sparkcache"
HOSTILE = "<script>alert('x')</script>"
PAGES = ("/profiles", "/profiles/documents", "/profiles/compare", "/profiles/namespaces", "/profiles/claims")


@pytest.fixture
def browser(client: TestClient, database: Database) -> TestClient:
    """dana's browser on an installation without profiles."""
    with database.transaction() as session:
        people.add_people(session)
    client.headers["Accept"] = "text/html"
    client.follow_redirects = False
    client.post("/login", data={"name": NAME, "password": PASSWORD})
    return client


def fill(database: Database, papers: Sequence[Paper]) -> None:
    with database.transaction() as session:
        rows.add_papers(session, papers)


def test_pages_without_profiles_say_how_to_bring_some(browser: TestClient) -> None:
    for address in PAGES:
        html = page(browser, address)
        assert 'class="empty"' in html, address
        assert '<a href="/profiles" aria-current="page">Profiles</a>' in html
    assert "sparkgate profile import PATH" in text_of(page(browser, "/profiles"))
    browser.post("/logout", data={"form_token": "x"})
    browser.cookies.clear()
    browser.post("/login", data={"name": "vera", "password": PASSWORD})
    assert "Adding one needs profiles:write" in text_of(page(browser, "/profiles"))


def test_the_matrix_has_two_columns_and_leads_to_what_they_were_read_from(
    browser: TestClient, database: Database
) -> None:
    fill(database, rows.everything())
    html = page(browser, "/profiles")
    said = text_of(html)
    assert "deployment made-tp4-dcp4-sparkcache: qualified" in said
    assert "deployment made-tp4-dcp4-sparkcache: retired" in said
    assert "activation receipt: pass" in said
    assert "no profile of these degrees" in said
    place = f"/profiles/documents/{rows.deployment().sha256}?at=/status#at"
    assert f'href="{place}"' in html
    assert '<mark id="at">' in page(browser, place.partition("#")[0])
    assert browser.get("/profiles?contract=").status_code == 303
    assert "is stored" in text_of(page(browser, f"/profiles?contract={HOSTILE}"))


def test_a_profile_shows_values_checks_and_plans(browser: TestClient, database: Database) -> None:
    fill(database, rows.everything())
    html = page(browser, PROFILE)
    said = text_of(html)
    assert "TP 4 · DCP 4 · 4 nodes · cache on" in said
    assert "sparkring-r33-3c3c3c3c3c3c-tp4-dcp4-sparkcache" in said
    assert "beside the contract" in said
    assert re.search(r"What stands against it \(\d+\)", said)
    template = rows.templates()[2].sha256
    assert f"/profiles/documents/{template}?at=/DECODE_CONTEXT_PARALLEL_SIZE#at" in html
    marked = page(browser, f"/profiles/documents/{template}?at=/DECODE_CONTEXT_PARALLEL_SIZE")
    assert "DECODE_CONTEXT_PARALLEL_SIZE=4</span></mark>" in marked
    plan = browser.get(f"{PROFILE}/plan/2")
    assert plan.headers["content-disposition"] == 'attachment; filename="tp4-dcp4-sparkcache-rank2.json"'
    assert plan.json()["rank"] == 2
    for address in (f"{PROFILE}/plan/4", f"{PROFILE}/plan/x"):
        assert browser.get(address).status_code == 422
    for address in (f"/profiles/{OWN.sha256}/nobody", f"/profiles/{'0' * 64}/tp4-dcp4"):
        assert browser.get(address).status_code == 404


def test_two_profiles_are_compared_and_a_side_that_is_missing_is_told(
    browser: TestClient, database: Database
) -> None:
    fill(database, rows.everything())
    both = f"left={OWN.sha256}&left_profile=tp4-dcp4&right={OWN.sha256}"
    said = text_of(page(browser, f"/profiles/compare?{both}&right_profile=tp4-dcp1-sparkcache"))
    assert "/environment/DECODE_CONTEXT_PARALLEL_SIZE" in said
    assert "right_profile: expected a profile" in text_of(page(browser, f"/profiles/compare?{both}"))
    assert "They are equal" in text_of(page(browser, f"/profiles/compare?{both}&right_profile=tp4-dcp4"))
    gone = text_of(page(browser, f"/profiles/compare?left={'0' * 64}&right=x%00y"))
    assert "not stored" in gone


def test_an_activation_shows_its_ranks_and_each_rules_result(browser: TestClient, database: Database) -> None:
    bad = rows.activation(__profile="tp4-dcp1-sparkcache")
    fill(database, [*rows.everything(), bad, rows.claim(bad, reason=HOSTILE)])
    html = page(browser, f"/profiles/documents/{bad.sha256}")
    said = text_of(html)
    assert "Fail : A check that blocks failed" in said
    assert "KV_POOL_WINDOW" in said
    assert "Rank 0 Rank 1 Rank 2 Rank 3" in said
    assert "CLM_WITHDRAWN" in said
    assert HOSTILE not in html
    assert "Another question, as evidence of what it shows: incomplete for restore" in said
    good = text_of(page(browser, f"/profiles/documents/{rows.activation().sha256}"))
    assert "A stored release selection pins these bytes" in good
    claims = page(browser, "/profiles/claims")
    assert "withdrawn" in text_of(claims)
    assert HOSTILE not in claims


def test_an_overlay_check_is_shown_with_its_files(
    browser: TestClient, database: Database, tmp_path: Path
) -> None:
    check = rows.overlay_check(tmp_path)
    fill(database, [check])
    said = text_of(page(browser, f"/profiles/documents/{check.sha256}"))
    assert "opt/sparkring/bin/verify-candidate changed" in said
    assert "opt/empty missing" in said
    assert "SL_FILE_DRIFT" in said
    assert "Not covered by the check" in said


def test_documents_are_listed_filtered_and_given_as_bytes(browser: TestClient, database: Database) -> None:
    hostile = Paper(raw=rows.template(tp=4, dcp=4, profile=HOSTILE), path=f"{HOSTILE}.env", kind="template")
    fill(database, [*rows.everything(), hostile])
    html = page(browser, "/profiles/documents")
    assert HOSTILE not in html
    assert "a receipt too" in text_of(html)
    only = page(browser, "/profiles/documents?kind=template")
    assert len(re.findall(r'data-label="Document"', only)) == 4
    assert "Not a kind" in text_of(page(browser, "/profiles/documents?kind=good"))
    assert "No document fits" in text_of(page(browser, "/profiles/documents?text=nothing-like-it"))
    assert browser.get("/profiles/documents?kind=").status_code == 303
    bytes_of = browser.get(f"/profiles/documents/{hostile.sha256}/bytes")
    assert bytes_of.content == hostile.raw
    assert bytes_of.headers["content-type"] == "application/octet-stream"
    assert HOSTILE not in page(browser, f"/profiles/documents/{hostile.sha256}")
    assert browser.get(f"/profiles/documents/{'0' * 64}").status_code == 404
    large = rig.dump(
        {
            "schema": "sparkring-r33-candidate-source-lock/v1",
            "installed_files": {f"f{number}": "0" * 64 for number in range(20_000)},
        }
    )
    fill(database, [Paper(raw=large, path="lock.json")])
    shown = page(browser, f"/profiles/documents/{rig.sha(large)}?at=/installed_files/f1")
    assert "Too long to be shown whole" in text_of(shown)
    assert len(shown) < 1_000_000


def test_namespaces_and_who_meets_whom(browser: TestClient, database: Database) -> None:
    fill(database, [*rows.everything(), rows.contract(__model__revision="ee" * 20)])
    said = text_of(page(browser, "/profiles/namespaces"))
    assert "NS_DCP_COLLISION" in said
    assert "sparkring-r33-3c3c3c3c3c3c-tp4-dcp4-sparkcache" in said
