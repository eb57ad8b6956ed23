"""Pages of images by verdict: lists, one image, two images, a day."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from app.core.digest import sha256
from app.db.session import Database, database_time
from app.models import Image
from tests.app import dashboard_rows as rows
from tests.app.browser import text_of
from tests.app.evidence_rows import BAD, GOOD, Paper, add_papers, own_papers, wrong_answer
from tests.app.test_list_plans import statements
from tests.core import evidence_documents as made


@pytest.fixture
def filled(empty: TestClient, database: Database) -> TestClient:
    with database.transaction() as session:
        add_papers(session, own_papers())
    return empty


def digest_of(paper: dict[str, Any]) -> str:
    return made.facts(paper).sha256


def own_digest() -> str:
    """Of the receipt of our own engine."""
    return str(sha256(next(paper.raw for paper in own_papers() if paper.path == "runs/own.json")))


def page(browser: TestClient, address: str) -> str:
    answer = browser.get(address)
    assert answer.status_code == 200, f"{address}: {answer.status_code}"
    return answer.text


@pytest.mark.parametrize("address", ["/images?tab=qualified", "/receipts"])
def test_without_evidence_pages_say_how_to_bring_some(empty: TestClient, address: str) -> None:
    said = text_of(page(empty, address))
    assert "sparkgate import PATH" in said
    assert "POST $SPARKGATE/api/v1/receipts" in said
    assert "sparkgate import PATH" in text_of(page(empty, "/"))


def test_tabs_hold_their_outcomes_and_count_them(filled: TestClient, database: Database) -> None:
    with database.transaction() as session:
        rows.add_images(session)
    html = page(filled, "/images")
    tabs = html.split('class="tally tabs"')[1].split("</ul>")[0].split("</li>")
    found_tabs = [re.search(r"tab=([a-z-]+).*<b>(\d+\+?)</b>", one, flags=re.DOTALL) for one in tabs]
    counts = {one[1]: one[2] for one in found_tabs if one}
    with database.reading() as session:
        now = session.execute(
            text("SELECT outcome, count(*) FROM verdict_current WHERE kind = 'scope' GROUP BY 1")
        )
        found: dict[str, int] = {outcome: count for outcome, count in now}  # noqa: C416
    other = sum(found.get(name, 0) for name in ("unsupported", "incomplete", "implemented"))
    assert counts == {
        "qualified": str(found["qualified"]),
        "rejected": str(found["rejected"]),
        "research-only": str(found["research-only"]),
        "other": str(other),
        "registered": "2",
    }
    assert re.search(r"<b>2</b> no evidence", page(filled, "/images?tab=no-evidence"))
    assert found["rejected"] == 1
    shown = page(filled, "/images?tab=rejected")
    assert f"/images/{BAD}" in shown
    assert f"/images/{GOOD}" not in shown


def test_outcome_grade_deployable_and_gates_are_words_in_columns_of_their_own(filled: TestClient) -> None:
    html = page(filled, "/images?tab=rejected")
    columns = re.findall(r"<th scope=\"col\"[^>]*>([^<]+)</th>", html)
    assert columns[:5] == ["Image", "Scope", "Outcome", "Grade", "Deployable"]
    assert columns[5:10] == ["structural", "placement", "semantic", "control", "rollback"]
    row = html.split("<tbody>")[1].split("</tr>")[0]
    cells = dict(re.findall(r'data-label="(\w+)"[^>]*>(.*?)</t[hd]>', row, flags=re.DOTALL))
    assert {name: text_of(cell).split()[0] for name, cell in cells.items() if name != "Image"} | {
        "Scope": "TP"
    } == {
        "Scope": "TP",
        "Outcome": "rejected",
        "Grade": "demonstrated",
        "Deployable": "no",
        "Structural": "demonstrated",
        "Placement": "not",
        "Semantic": "failed",
        "Control": "not",
        "Rollback": "not",
        "Judged": "just",
    }
    marks = re.findall(
        r'<svg class="icon".*?</svg>', cells["Structural"] + cells["Semantic"] + cells["Control"]
    )
    assert len(set(marks)) == 3, "each state has a shape of its own"


FILTERED = (
    ("tab=qualified&topology=tp2-dcp1", GOOD, BAD),
    ("tab=rejected&topology=tp2", BAD, GOOD),
    ("tab=rejected&topology=tp4", "", BAD),
    ("tab=rejected&gate=semantic", BAD, GOOD),
    ("tab=rejected&gate=structural&state=demonstrated", BAD, GOOD),
    ("tab=rejected&gate=structural", "", BAD),
    ("tab=rejected&code=semantic_oracle_mismatch", BAD, GOOD),
    ("tab=rejected&code=KNOWN_FAILURE", "", BAD),
    (f"tab=rejected&commit={made.COMMIT}", BAD, GOOD),
    ("tab=rejected&commit=00", "", BAD),
    ("tab=rejected&model=alias%3Dmodel-alias", BAD, GOOD),
    ("tab=rejected&text=d7d7d7 model", BAD, GOOD),
    ("tab=rejected&text=d7d7d7 zebra", "", BAD),
    ("tab=rejected&text='%20|%20!x%20\\", "", BAD),
    *(("tab=rejected&text=" + text, "", BAD) for text in ("%00", "...", "%20%00%20.", "%E2%80%AE")),
    ("tab=rejected&text=%20", BAD, GOOD),
    ("tab=rejected&model=%00", "", BAD),
    ("tab=rejected&code=%00", "", BAD),
    ("tab=rejected&commit=%00", "", BAD),
)
NO_FILTERS = (
    ("tab=green", "tab: expected qualified, rejected"),
    ("topology=four", "topology: expected as tp4 or tp4-dcp1, found four"),
    ("gate=magic", "gate: expected identity"),
    ("gate=semantic&state=fine", "state: expected demonstrated"),
    ("state=failed", "state: expected beside a gate, found alone"),
)


def test_filters_limit_the_list_and_what_is_none_is_said_to_be_none(filled: TestClient) -> None:
    for query, found, left_out in FILTERED:
        html = page(filled, f"/images?{query}")
        assert f'href="/images/{left_out}"' not in html, query
        if found:
            assert f'href="/images/{found}"' in html, query
        else:
            assert "No scope fits these filters" in text_of(html), query
    for query, sentence in NO_FILTERS:
        assert sentence in text_of(page(filled, f"/images?{query}")), query


def test_the_list_goes_on_by_key_and_names_its_json_twin(filled: TestClient, keys: dict[str, str]) -> None:
    name = r'data-label="Image"[^>]*><a href="/images/(\w+)"'
    whole = re.findall(name, page(filled, "/images?tab=qualified"))
    seen, address = [], "/images?tab=qualified&page_size=1"
    while address:
        html = page(filled, address)
        seen += re.findall(name, html)
        older = re.search(r'rel="next" href="([^"]+)"', html)
        address = older[1].replace("&amp;", "&") if older else ""
    assert len(seen) > 1
    assert seen == whole
    filtered = page(filled, f"/images?tab=rejected&topology=tp2&gate=semantic&commit={made.COMMIT}&text=d7d7")
    twin = re.search(r'rel="alternate" type="application/json" href="([^"]+)"', filtered)
    assert twin
    headers = {"Authorization": f"Bearer {keys['viewer']}", "Accept": "application/json"}
    answer = filled.get(twin[1].replace("&amp;", "&"), headers=headers)
    assert answer.status_code == 200
    assert [one["image_config_id"] for one in answer.json()["verdicts"]] == [BAD]


def test_why_an_image_is_rejected_stands_at_the_top_in_one_sentence(filled: TestClient) -> None:
    html = page(filled, f"/images/{BAD}")
    top = text_of(html.split('<ol class="verdict-list"')[1].split("</ol>")[0])
    assert "Rejected for restore, TP 2 · DCP 1 : The answer is not the expected one: expected" in top
    assert "&#39;green&#39;, observed &#39;amber&#39;. The cause is unknown: there is no control." in top
    assert "not deployable Grade of evidence demonstrated" in top
    said = text_of(html)
    assert "Do not run it for restore, TP 2 · DCP 1." in said
    assert "Not registered here; known from receipts only." in said
    assert "No receipt of this scope names an image to go back to." in said


def test_an_image_that_only_receipts_know_has_the_name_they_give_it(
    filled: TestClient, database: Database
) -> None:
    """Named as what it is: a word of receipts, beside the digest and never in its place."""
    listed = text_of(page(filled, "/images?tab=rejected"))
    assert "(says a receipt)" in listed
    assert f"{BAD[:12]}…" in listed
    assert f'<h1 class="wrap">Image {BAD[:12]}</h1>' in page(filled, f"/images/{BAD}")
    named = {**wrong_answer(), "release": "<b>r7</b>"}
    with database.transaction() as session:
        add_papers(session, [Paper(raw=made.raw(named), path="runs/named.json")])
    html = page(filled, f"/images/{BAD}")
    assert '<h1 class="wrap">&lt;b&gt;r7&lt;/b&gt;</h1>' in html
    assert "known from receipts only, and one of them gives it this name" in text_of(html)
    assert '&lt;b&gt;r7&lt;/b&gt; <span class="muted">(says a receipt)</span>' in page(
        filled, "/images?tab=rejected"
    )


def test_findings_lead_to_the_very_characters(filled: TestClient) -> None:
    html = page(filled, f"/images/{BAD}")
    finding = html.split("SEMANTIC_ORACLE_MISMATCH</code>")[1].split("</tr>")[0]
    link = re.search(r'href="(/receipts/[^"]+)"', finding)
    assert link
    address = urlsplit(link[1].replace("&amp;", "&"))
    assert address.path == f"/receipts/{digest_of(wrong_answer())}"
    assert address.fragment == "at"
    receipt = page(filled, f"{address.path}?{address.query}")
    marked = re.search(r'<mark id="at">(.*?)</mark>', receipt)
    assert marked
    assert text_of(marked[1]).strip().startswith("&#34;restore_oracle&#34;: &#34;amber&#34;")


def test_warnings_stay_visible_on_what_is_qualified(filled: TestClient) -> None:
    html = page(filled, f"/images/{GOOD}")
    first = html.split('<ol class="verdict-list"')[1].split("</li>")[0]
    said = text_of(first)
    assert "Qualified for restore, TP 2 · DCP 1 : Qualified for exactly this scope and nothing else." in said
    assert re.search(r"\d warnings", said)
    assert "not deployable No registry manifest digest names this config id." in said
    whole = text_of(html)
    assert "IDENTITY_ALIAS_ONLY The model is named by an alias" in whole
    assert "Established" in whole
    assert "right answer: demonstrated (expected &#39;green&#39;, observed &#39;green&#39;)" in whole
    assert "recomputation control: not tested" in whole
    assert "Not needed for restore and not tested: restart, fault, isolation, drain, readiness." in whole


def test_the_history_says_what_changed_and_why(filled: TestClient, database: Database) -> None:
    wrong = wrong_answer()
    wrong["artifact"]["image_id"] = made.IMAGE
    with database.transaction() as session:
        add_papers(session, [Paper(raw=made.raw(wrong), path="runs/later.json")], by="vera")
    html = page(filled, f"/images/{GOOD}")
    history = html.split("<h2>History of its verdicts</h2>")[1]
    newest = text_of(history.split("<tbody>")[1].split("</tr>")[0])
    assert "qualified → rejected" in re.sub(r"\s+", " ", newest)
    assert "A receipt came in" in newest
    assert "vera" in newest
    top = text_of(html.split('<ol class="verdict-list"')[1].split("</li>")[0])
    assert "Rejected for restore" in top
    assert digest_of(wrong) in html


def test_an_image_is_found_by_id_and_by_config_id_and_nothing_else(
    filled: TestClient, database: Database
) -> None:
    with database.transaction() as session:
        image = Image(
            title="the good one",
            config_id=GOOD,
            manifest_digest="9" * 64,
            origin="registered",
            created_by="dana",
        )
        session.add(image)
        session.flush()
        image_id = image.id
    for key in (str(image_id), GOOD, f"sha256:{GOOD}"):
        said = text_of(page(filled, f"/images/{key}"))
        assert "the good one" in said
        assert "Qualified for restore" in said
        assert "9" * 64 in said
    assert "the good one" in text_of(page(filled, "/images?tab=qualified"))
    for key in ("0" * 64, "zz", "00000000-0000-0000-0000-000000000000"):
        assert filled.get(f"/images/{key}").status_code == 404


def test_differences_of_two_images_are_said_in_words(filled: TestClient) -> None:
    html = page(filled, f"/images/compare?a={GOOD}&b={BAD}")
    said = text_of(html)
    assert "Restore, TP 2 · DCP 1" in said
    for line in ("Outcome ≠ differs qualified rejected", "Grade = the same demonstrated demonstrated"):
        assert line in said
    assert re.search(r"Semantic Was the answer .*? ≠ differs demonstrated failed", said)
    assert re.search(r"Structural Did every rank .*? = the same demonstrated demonstrated", said)
    assert "Manifest digest – not known not known" in said
    same = text_of(page(filled, f"/images/compare?a={GOOD}&b={GOOD}"))
    assert "They are the same image." in same
    assert "≠ differs" not in same
    assert f'href="/images/compare?a={GOOD}&amp;b={BAD}"' in page(filled, f"/images/compare?a={GOOD}")
    assert "not registered, and no receipt names it" in text_of(
        page(filled, f"/images/compare?a={GOOD}&b={'0' * 64}")
    )


def test_two_different_questions_are_said_to_be_different(filled: TestClient, database: Database) -> None:
    other = wrong_answer()
    other["artifact"]["image_id"] = f"sha256:{'8' * 63}a"
    other["profile"]["publication_schema"] = "page-tail-cow-v1"
    with database.transaction() as session:
        add_papers(session, [Paper(raw=made.raw(other), path="runs/other-schema.json")])
    said = text_of(page(filled, f"/images/compare?a={GOOD}&b={'8' * 63}a"))
    assert (
        "Not the same question. The two verdicts differ in publication schema (snapshot-v1; page-tail-cow-v1)"
        in said
    )


def test_what_was_qualified_on_a_day_stays_so(filled: TestClient, database: Database) -> None:
    with database.reading() as session:
        today = database_time(session).date()
    address = f"/qualified?on={today}&tp=2&dcp=1"
    assert f'href="/images/{GOOD}"' in page(filled, address)
    assert f'href="/images/{BAD}"' not in page(filled, address)
    assert f"/images/{GOOD}" not in page(filled, f"/qualified?on={today - timedelta(days=1)}&tp=2&dcp=1")
    assert f"/images/{GOOD}" not in page(filled, f"/qualified?on={today}&tp=4&dcp=1")
    assert f"/images/{GOOD}" in page(filled, "/qualified")
    assert f"/api/v1/verdicts?outcome=qualified&amp;on={today}&amp;tp=2&amp;dcp=1" in page(filled, address)
    for wrong in ("on=yesterday", "tp=four", "dcp=0"):
        assert "Not understood, so it limits nothing" in text_of(page(filled, f"/qualified?{wrong}"))


@pytest.mark.parametrize(
    "address",
    [
        "/qualified?",
        "/qualified?tp=02&",
        f"/images?tab=qualified&commit={made.COMMIT.upper()}&",
        "/images?tab=%20qualified&",
        "/receipts?capability=restore%20&",
        "/receipts?whatever=else&",
    ],
)
def test_a_list_goes_on_however_its_filters_were_written(filled: TestClient, address: str) -> None:
    older = re.search(r'rel="next" href="([^"]+)"', page(filled, f"{address}page_size=1"))
    assert older
    assert "Newest" in page(filled, older[1].replace("&amp;", "&"))


# The session, the counts of the tabs and of what is registered, the ids of the list, its lines; filtered, its
# count. What one image or receipt asks grows with nothing either.
QUESTIONS = {
    "/images?tab=qualified": 5,
    "/images?tab=other": 5,
    "/images?tab=rejected&gate=semantic": 6,
    "/qualified": 4,
    f"/images/{GOOD}": 9,
    f"/receipts/{own_digest()}": 15,
}


@pytest.mark.parametrize("address", QUESTIONS)
def test_a_page_asks_few_questions(filled: TestClient, address: str) -> None:
    page(filled, address)
    with statements() as asked:
        page(filled, address)
    assert len(asked) <= QUESTIONS[address], "\n".join(statement for statement, _ in asked)
