"""What the pages show, empty and filled; fragments with 304 that stop; forms; hostile text."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from jinja2 import Environment

from app.dashboard import templating
from app.dashboard.htmx import FAST_MS, SLOW_MS
from app.db.session import Database
from app.models import Image, Node, Restore
from app.web.problems import PROBLEMS
from tests.app import dashboard_rows as rows
from tests.app.browser import form_token, text_of
from tests.app.dashboard_rows import HOSTILE

ESCAPED = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"


@pytest.fixture
def restores(empty: TestClient, database: Database, tmp_path: Path) -> dict[str, UUID]:
    """Four restores on one node, and a second node that is away."""
    with database.transaction() as session:
        return rows.fill(session, folder=tmp_path)


@pytest.fixture
def filled(empty: TestClient, restores: dict[str, UUID]) -> TestClient:
    return empty


def poll(browser: TestClient, page: str, etag: str = "") -> Any:
    headers = {"HX-Request": "true"} | ({"If-None-Match": etag} if etag else {})
    return browser.get(f"{page}/live" if page != "/" else "/overview/live", headers=headers)


def polling_ms(html: str) -> int | None:
    found = re.search(r'hx-trigger="every (\d+)ms"', html)
    return int(found[1]) if found else None


def test_every_template_compiles() -> None:
    environment: Environment = templating._ENVIRONMENT
    for name in environment.list_templates():
        environment.get_template(name)


@pytest.mark.parametrize(
    ("page", "advice"),
    [
        ("/", "make up"),
        ("/", "SPARKGATE_STORE_ROOTS"),
        ("/restores", "POST $SPARKGATE/api/v1/restores"),
        ("/restores?outcome=corrupt", "No restore fits these filters"),
        ("/restores/new", "sparkgate store synth"),
        ("/snapshots", "sparkgate store synth"),
        ("/images", "POST $SPARKGATE/api/v1/images"),
    ],
)
def test_an_empty_page_says_what_to_do(empty: TestClient, page: str, advice: str) -> None:
    response = empty.get(page)
    assert response.status_code == 200
    assert advice in text_of(response.text)
    assert response.headers["cache-control"] == "private, no-store"


def test_the_overview_counts_and_names(filled: TestClient) -> None:
    text = text_of(filled.get("/").text)
    for words in ("7 restores in the last 24 hours", "1 restored", "1 corrupt", "1 incomplete", "2 waiting"):
        assert words in text
    assert "alive, heard just now" in text
    assert "away , last heard 5 h ago" in text
    assert "1 path not readable" in text
    assert "complete, 4 ranks" in text
    assert "2.3 GiB of 3.0 GiB" in text


def test_the_list_filters(filled: TestClient, restores: dict[str, UUID]) -> None:
    shown = filled.get("/restores?outcome=corrupt").text
    assert f"/restores/{restores['corrupt']}" in shown
    assert f"/restores/{restores['restored']}" not in shown
    waiting = filled.get("/restores?state=waiting").text
    assert f"/restores/{restores['waiting']}" in waiting
    assert f"/restores/{restores['running']}" not in waiting


def test_the_list_goes_on_to_older_ones(filled: TestClient, restores: dict[str, UUID]) -> None:
    seen, url = [], "/restores?page_size=3"
    while url:
        page = filled.get(url).text
        seen += re.findall(r'href="/restores/([0-9a-f-]{36})"', page)
        older = re.search(r'rel="next" href="([^"]+)"', page)
        url = older[1].replace("&amp;", "&") if older else ""
    assert sorted(seen) == sorted(map(str, restores.values()))


def test_a_restored_restore_says_what_it_is_evidence_about(
    filled: TestClient, restores: dict[str, UUID]
) -> None:
    text = text_of(filled.get(f"/restores/{restores['restored']}").text)
    assert "Engine self-test" in text
    assert "Restored : every rank placed all its bytes" in text
    assert "Structure only: every byte was authenticated and placed. No model answer was asked for" in text
    assert "This says nothing about any container image" in text
    assert "Engine sha256" in text.replace("engine sha256", "Engine sha256")


def test_the_lanes_and_the_table_show_the_same(filled: TestClient, restores: dict[str, UUID]) -> None:
    html = filled.get(f"/restores/{restores['restored']}").text
    assert html.count('class="lane-chart" width') == 4
    assert html.count(">slowest<") == 2
    assert re.findall(r'class="lane slowest" id="lane-(\d)"', html) == ["2"]
    for kind in ("queue", "claim", "barrier", "read_authenticate", "unattributed"):
        assert f'class="bar k-{kind}"' in html
    assert html.count('class="bar sum k-unattributed"') == 4
    assert html.count('class="mark-decided" x1=') >= 4
    for kind in ("read_authenticate", "host_copy", "stream_digest_wait"):
        assert re.search(rf"<title>{kind} [\d,.]+ ms, from [\d,.]+ to [\d,.]+ ms: ", html)
    assert "off by at most 1.0 ms" in text_of(html)


def test_a_corrupt_restore_names_rank_and_object(filled: TestClient, restores: dict[str, UUID]) -> None:
    text = text_of(filled.get(f"/restores/{restores['corrupt']}").text)
    assert "nothing became visible on any rank" in text
    assert "Rank 2, corrupt on node-a/host2, found at stage content" in text
    assert re.search(r"Object object [0-9a-f]{64}", text)
    assert re.search(r"Expected SHA-256 [0-9a-f]{64} Found [0-9a-f]{64}", text)
    assert "Read pages back" not in text


def test_digests_read_back_are_compared_with_those_placed(
    filled: TestClient, restores: dict[str, UUID]
) -> None:
    text = text_of(filled.get(f"/restores/{restores['restored']}").text)
    assert "every rank has answered. The pages are still resident." in text
    assert text.count("as placed") == 4 * 11


def test_every_interval_of_a_rank_has_its_row(filled: TestClient, restores: dict[str, UUID]) -> None:
    html = filled.get(f"/restores/{restores['restored']}/ranks/2").text
    assert html.count('<td class="num muted">') == 53
    assert filled.get(f"/restores/{restores['waiting']}/ranks/2").status_code == 404


def test_runtime_shown_is_that_of_the_worker_that_ran_not_of_its_successor(
    filled: TestClient, restores: dict[str, UUID], database: Database
) -> None:
    with database.transaction() as session:
        restore = session.get_one(Restore, restores["restored"])
        restore.attempts[1].device.generation = 4
        restore.attempts[1].device.runtime = {"engine": "another"}
    text = text_of(filled.get(f"/restores/{restores['restored']}").text)
    assert "another" not in text
    assert "Ranks 0, 1, 2, 3." in text


@pytest.mark.parametrize(
    ("which", "expected"),
    [("waiting", FAST_MS), ("running", FAST_MS), ("restored", SLOW_MS), ("corrupt", None)],
)
def test_a_restore_is_followed_as_long_as_it_can_change(
    filled: TestClient, restores: dict[str, UUID], which: str, expected: int | None
) -> None:
    page = f"/restores/{restores[which]}"
    html = filled.get(page).text
    assert polling_ms(html) == expected
    assert polling_ms(poll(filled, page).text) == expected
    assert ("<noscript>" in html) == (expected is not None)


@pytest.mark.parametrize("which", ["waiting", "restored"])
def test_an_unchanged_fragment_is_304(filled: TestClient, restores: dict[str, UUID], which: str) -> None:
    page = f"/restores/{restores[which]}"
    html = filled.get(page).text
    told = re.search(r"If-None-Match&#34;: &#34;\\&#34;([0-9a-f]{32})", html)
    assert told
    unchanged = poll(filled, page, etag=f'"{told[1]}"')
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert unchanged.headers["etag"] == f'"{told[1]}"'


def test_polling_stops_by_itself_when_all_is_over(
    filled: TestClient, restores: dict[str, UUID], database: Database
) -> None:
    page = f"/restores/{restores['waiting']}"
    before = poll(filled, page)
    with database.transaction() as session:
        restore = session.get_one(Restore, restores["waiting"])
        restore.state, restore.outcome = "finished", "failed"
    after = poll(filled, page, etag=before.headers["etag"])
    assert after.status_code == 200
    assert "hx-get" not in after.text
    assert "hx-trigger" not in after.text


def test_the_overview_polls_while_something_is_open_only(filled: TestClient, database: Database) -> None:
    assert polling_ms(filled.get("/").text) == 1500
    with database.transaction() as session:
        for restore in session.query(Restore).filter(Restore.state != "resident"):
            restore.state, restore.outcome = "finished", restore.outcome or "failed"
    assert polling_ms(poll(filled, "/").text) == SLOW_MS
    with database.transaction() as session:
        for restore in session.query(Restore):
            restore.state = "finished"
    assert polling_ms(poll(filled, "/").text) is None


def test_a_fragment_opened_in_a_tab_leads_to_its_page(filled: TestClient, restores: dict[str, UUID]) -> None:
    page = f"/restores/{restores['running']}"
    assert filled.get(f"{page}/live").headers["location"] == page
    assert filled.get("/overview/live").headers["location"] == "/"


def test_the_form_preselects_what_fits(filled: TestClient) -> None:
    html = filled.get("/restores/new").text
    assert html.count(" selected>") == 3
    assert "· fits</option>" in html
    assert "it is preselected" in html


def test_a_double_click_is_one_restore(filled: TestClient, database: Database) -> None:
    html = filled.get("/restores/new").text
    fields = dict(re.findall(r'name="(form_token|once)" value="([^"]+)"', html.split('id="start"')[1]))
    chosen = re.findall(r'<option value="([^"]+)" selected>', html)
    fields |= {"snapshot": chosen[0], "layout": chosen[1], "resident_s": "60"}
    with ThreadPoolExecutor(4) as clicks:
        answers = list(clicks.map(lambda _: filled.post("/restores/new", data=fields), range(4)))
    assert {answer.status_code for answer in answers} == {303}
    assert len({answer.headers["location"] for answer in answers}) == 1
    assert filled.get(answers[0].headers["location"]).status_code == 200
    with database.reading() as session:
        assert session.query(Restore).count() == 8


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"snapshot": "x"}, "Snapshot: choose one of the complete snapshots"),
        ({"snapshot": f"{'0' * 64}.{'0' * 64}"}, "no node holds a rank of it"),
        ({"layout": ""}, "Layout: choose the page layout"),
        ({"layout": "0" * 64}, "not registered"),
        ({"resident_s": "soon"}, "expected a whole number of seconds"),
        ({"resident_s": "0"}, "expected 1 to 604800 seconds, found 0"),
        ({"once": ""}, "it has been renewed"),
        ({"purpose": "fun"}, "Purpose: expected one of qualification, operational, found &#39;fun&#39;"),
        ({"purpose": "operational"}, "Image: expected the image that an operational restore is for"),
        ({"purpose": "operational", "image": "1" * 64}, "deployable"),
        ({"image": "latest"}, "Image: expected the 64 digits of a config id, or nothing"),
    ],
)
def test_the_form_says_what_is_wrong_and_keeps_the_rest(
    filled: TestClient, database: Database, wrong: dict[str, str], sentence: str
) -> None:
    html = filled.get("/restores/new").text
    chosen = re.findall(r'<option value="([^"]+)" selected>', html)
    good = {"snapshot": chosen[0], "layout": chosen[1], "resident_s": "77", "once": "a"}
    response = filled.post("/restores/new", data={**good, "form_token": form_token(html), **wrong})
    assert response.status_code in (404, 409, 422)
    assert sentence in text_of(response.text)
    assert f'value="{wrong.get("resident_s", "77")}"' in response.text
    with database.reading() as session:
        assert session.query(Restore).count() == 7


def test_pages_are_read_back_and_discarded_from_the_page(
    filled: TestClient, restores: dict[str, UUID], messages: Any
) -> None:
    page = f"/restores/{restores['restored']}"
    token = {"form_token": form_token(filled.get(page).text)}
    again = [filled.post(f"{page}/readbacks", data=token) for _ in range(2)]
    assert [one.headers["location"] for one in again] == [f"{page}#readback"] * 2
    assert [kind for kind, _, _ in messages.sent] == ["readback"] * 4, (
        "an open readback is not asked for twice"
    )
    assert polling_ms(filled.get(page).text) == FAST_MS
    assert filled.post(f"{page}/discard", data=token).status_code == 303
    text = text_of(filled.get(page).text)
    assert "discarded by dana" in text
    assert "Discard pages" not in text
    assert filled.post(f"{page}/readbacks", data=token).status_code in (303, 410)


def test_an_imported_record_is_retold_and_not_judged(filled: TestClient, database: Database) -> None:
    with database.transaction() as session:
        rows.add_images(session)
    text = text_of(filled.get("/images").text)
    assert "imported record" in text
    assert "Retold, not judged. This image was neither run nor judged here." in text
    assert "Four-reader image, semantic gate rejected" in text
    assert all(column in text for column in ("Config id", "Manifest digest", "Index digest", "commit"))


def test_snapshots_stand_by_rank_and_node(filled: TestClient, database: Database) -> None:
    text = text_of(filled.get("/snapshots").text)
    assert "complete, 4 ranks" in text
    assert all(f"{rank} present" in text for rank in range(4))
    with database.transaction() as session:
        node = session.query(Node).filter_by(name="node-a").one()
        node.last_seen_at = node.created_at.replace(year=2020)
    text = text_of(filled.get("/snapshots").text)
    assert "not complete" in text
    assert "Rank 3: only on node-a, which is away" in text
    assert "is on no node that is alive" in text_of(filled.get("/restores/new").text)


def test_hostile_text_stays_text(filled: TestClient, restores: dict[str, UUID], database: Database) -> None:
    with database.transaction() as session:
        session.add(
            Image(
                title=HOSTILE, origin="imported-record", record=HOSTILE, index_digest="a" * 64, created_by="x"
            )
        )
        node = session.query(Node).filter_by(name="node-b").one()
        node.scan_problems = [{"path": HOSTILE, "detail": HOSTILE}]
        restore = session.get_one(Restore, restores["corrupt"])
        restore.attempts[2].problem = {
            "code": "x",
            "subject": HOSTILE,
            "expected": HOSTILE,
            "detail": HOSTILE,
        }
        restore.attempts[2].device.runtime = {HOSTILE: HOSTILE}
        restore.problem = {"rank": 2, "code": "x", "detail": HOSTILE}
    for page in ("/", "/images", "/snapshots", "/restores", f"/restores/{restores['corrupt']}"):
        html = filled.get(page).text
        assert "<script>alert" not in html
        assert 'title="y"' not in html
        assert ESCAPED in html or page == "/"
    assert "<script>alert" not in filled.get(f"/login?next=/{HOSTILE}").text


def test_what_hides_in_a_name_or_turns_it_around_is_shown(
    filled: TestClient, restores: dict[str, UUID], database: Database
) -> None:
    name = "good\u202egnp.exe\u202c\u200b\x1b[31m"
    with database.transaction() as session:
        session.add(Image(title=name, origin="x", record=name, index_digest="a" * 64, created_by="x"))
        restore = session.get_one(Restore, restores["corrupt"])
        restore.problem = {"rank": 2, "code": "x", "detail": name}
    for page in ("/images?tab=registered", "/restores"):
        html = filled.get(page).text
        assert "good\\u202egnp.exe\\u202c\\u200b\\x1b[31m" in html, page
        assert not {"\u202e", "\u202c", "\u200b", "\x1b"} & set(html), page


def test_a_lost_rank_says_why(filled: TestClient, restores: dict[str, UUID], database: Database) -> None:
    with database.transaction() as session:
        attempt = session.get_one(Restore, restores["running"]).attempts[1]
        attempt.state, attempt.problem = "lost", {"code": "rank-lost", "detail": "its lease ran out"}
        attempt.ended_at = attempt.claimed_at
    text = text_of(filled.get(f"/restores/{restores['running']}").text)
    assert "Rank 1, lost on node-a/host1 Why its lease ran out" in text


def test_no_page_carries_inline_style_or_script(filled: TestClient, restores: dict[str, UUID]) -> None:
    pages = ["/", "/restores", "/restores/new", "/images", "/snapshots", "/docs/api", "/docs/problems"]
    for page in [*pages, *(f"/restores/{one}" for one in restores.values())]:
        html = filled.get(page).text
        assert not re.search(
            r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)|javascript:|https?://", html
        )


def test_every_problem_code_has_its_anchor(empty: TestClient) -> None:
    html = empty.get("/docs/problems").text
    assert all(f'id="{code}"' in html for code in PROBLEMS)


def test_every_operation_is_listed_with_scope_and_problems(empty: TestClient) -> None:
    html = empty.get("/docs/api").text
    document = empty.get("/openapi.json").json()
    names = [one["operationId"] for item in document["paths"].values() for one in item.values()]
    assert all(f'id="{name}"' in html for name in names)
    part = text_of(html.split('id="request_restore"')[1].split("</article>")[0])
    assert "scope restores:write" in part
    assert "snapshot-incomplete" in part


def test_static_files_are_kept_long_under_their_content_only(empty: TestClient) -> None:
    for url in re.findall(r'"(/static/[^"]+)"', empty.get("/login").text):
        kept = empty.get(url)
        assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert empty.get(url.split("?")[0]).headers["cache-control"] == "no-cache"
        assert empty.get(url, headers={"If-None-Match": kept.headers["etag"]}).status_code == 304
    assert empty.get("/static/vendor/htmx-4.min.js").headers["content-type"].startswith("text/javascript")
    assert empty.get("/static/../pyproject.toml").status_code == 404
    assert empty.get("/static/%2e%2e/pyproject.toml").status_code == 404
