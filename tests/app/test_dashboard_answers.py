"""Pages of restores that were asked: question, answer, votes, diagnosis, the healthy one beside the drill."""

import json
import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.accounts import service as accounts
from app.config import Settings
from app.core.qualify.own_receipt import InjectedFault, restore_receipt
from app.db.session import Database
from app.restores.service.receipt import write_receipts
from app.web.auth import Scope
from tests.app.asked import AskedRing
from tests.core.test_drills import WRONG
from tests.core.test_own_receipt import MEASURED
from tests.core.test_own_receipt import restore as own_restore

PASSWORD = "correct horse battery"


@pytest.fixture
def browser(asked: AskedRing, client: TestClient) -> TestClient:
    """ada's browser, on the asked ring's installation."""
    return opened(client, name="ada")


def opened(client: TestClient, *, name: str) -> TestClient:
    client.headers["Accept"] = "text/html"
    client.follow_redirects = False
    client.post("/login", data={"name": name, "password": PASSWORD})
    return client


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def form_of(html: str) -> dict[str, str]:
    """The fields of the start form as they are preselected."""
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', html))
    selects = re.findall(r'<select id="\w+" name="(\w+)".*?</select>', html, re.DOTALL)
    chosen = {}
    for name in selects:
        part = html.split(f'name="{name}"')[1].split("</select>")[0]
        marked = re.search(r'value="([^"]*)" selected', part) or re.search(r'value="([^"]*)"', part)
        chosen[name] = marked[1] if marked else ""
    return {**hidden, **chosen, "resident_s": "600"}


def test_the_page_of_a_drill_tells_the_whole_story(
    asked: AskedRing, browser: TestClient, database: Database, settings: Settings
) -> None:
    healthy = asked.follow(*asked.run())
    drill = asked.follow(*asked.run(fault={"name": "swap-pages", "rank": 2}))
    write_receipts(database, settings=settings)
    html = browser.get(f"/restores/{drill['id']}").text
    text = text_of(html)
    assert "Every hash right on four ranks — answer spark for red." in text
    assert "every hash is right and the answer is wrong; nothing became visible on any rank" in text
    assert "drill: swap-pages on rank 2" in text
    assert "blocks 2 and 6 hold each other" in text
    assert "blue, expected blue" in text
    assert "A drill." in text
    assert len(re.findall(r'class="vote-bar"', html)) == 4
    assert html.count('class="missing"') == 1
    assert "missing" in text
    # The healthy one beside it, and what the rules say of both.
    assert f'href="/restores/{healthy["id"]}"' in html
    assert "rejected" in text
    assert 'class="bar k-oracle"' in html
    assert "Question, after the service" in text
    assert 'id="retry"' not in html
    overview = browser.get("/").text
    assert "the last was a drill" in text_of(overview)
    assert "last restore failed, a drill" in text_of(overview)
    sha256 = asked.ring.restore(drill["id"])["receipt_sha256"]
    receipt = text_of(browser.get(f"/receipts/{sha256}").text)
    assert "swap-pages was put in on purpose on rank 2" in receipt
    assert f"restore {drill['id'][:8]}" in receipt
    assert "A fault was put in on purpose: this shows that the check catches it." in receipt


def test_the_page_of_a_right_answer(asked: AskedRing, browser: TestClient) -> None:
    restore = asked.follow(*asked.run())
    text = text_of(browser.get(f"/restores/{restore['id']}").text)
    assert "Every hash right on four ranks — answer red, as expected." in text
    assert "No model answer was asked for" not in text
    assert "One question of one prompt" in text
    assert text_of(browser.get("/restores").text).count("answer right") == 1
    assert "answer right" in text_of(browser.get("/").text)


def test_a_snapshot_names_its_question(asked: AskedRing, browser: TestClient) -> None:
    restore = asked.ring.start_restore()
    key = f"{restore['context_digest']}.{restore['rank_zero_storage_key']}"
    assert "expects red : asked of every restore" in text_of(browser.get(f"/snapshots/{key}").text)


def test_before_there_is_an_answer_it_says_what_is_expected(asked: AskedRing, browser: TestClient) -> None:
    restore = asked.ring.start_restore()
    text = text_of(browser.get(f"/restores/{restore['id']}").text)
    assert "Asked once every rank has placed its pages; red is expected." in text


def test_a_question_without_an_answer_says_why(asked: AskedRing, browser: TestClient) -> None:
    restore = asked.ring.start_restore()
    ranks = asked.ring.claim_all(restore)
    problem = {"start_ns": 1, "duration_ns": 1, "partials": None, "problem": "<b>lost</b>"}
    for rank in ranks:
        asked.ready(rank, oracle=problem).raise_for_status()
    asked.follow(restore, ranks)
    html = browser.get(f"/restores/{restore['id']}").text
    assert "Every hash right on four ranks — no answer." in text_of(html)
    assert "&lt;b&gt;lost&lt;/b&gt;" in html
    assert "<b>lost</b>" not in html


def test_who_is_not_asked_sees_no_question(asked: AskedRing, browser: TestClient) -> None:
    restore = asked.ring.start_restore(oracle="none")
    html = browser.get(f"/restores/{restore['id']}").text
    assert 'id="answer"' not in html
    assert "No model answer will be asked for" in text_of(html)


def test_an_image_shows_its_drills_apart_from_its_verdicts(asked: AskedRing, browser: TestClient) -> None:
    receipts = (
        own_restore(),
        own_restore(injected_fault=InjectedFault(name="stale-batch", rank=1), answer=WRONG),
    )
    for one in receipts:
        content = restore_receipt(one)
        answer = browser.post("/api/v1/receipts", headers=asked.ring.operator_headers, content=content)
        answer.raise_for_status()
    text = text_of(browser.get(f"/images/{MEASURED}").text)
    above, drills = text.split("Drills with it")
    assert "A fault was put in on purpose" in drills
    assert "INJECTED_FAULT" not in above


def test_the_form_orders_a_drill(asked: AskedRing, browser: TestClient) -> None:
    html = browser.get("/restores/new").text
    assert "the newest: expects red" in text_of(html)
    fields = {**form_of(html), "fault": "stale-batch", "fault_rank": "1"}
    answer = browser.post("/restores/new", data=fields)
    assert answer.status_code == 303, answer.text
    restore = asked.ring.restore(answer.headers["location"].rsplit("/", 1)[1])
    assert restore["fault"] == {"name": "stale-batch", "rank": 1}
    assert restore["oracle_sha256"] == asked.question.sha256


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fault": "fire"}, "Fault: expected one of"),
        ({"fault": "swap-pages", "fault_rank": "x"}, "Rank of the fault"),
        ({"fault": "swap-pages", "fault_rank": "9"}, "a rank from 0 to 3"),
        ({"fault": "swap-pages", "oracle": "none"}, "a question, where a fault is put in"),
        ({"oracle": "12"}, "Question: choose one"),
    ],
)
def test_the_form_refuses_what_the_api_refuses(
    asked: AskedRing, browser: TestClient, changes: dict[str, Any], said: str
) -> None:
    fields = {**form_of(browser.get("/restores/new").text), **changes}
    answer = browser.post("/restores/new", data=fields)
    assert answer.status_code == 422
    assert said in text_of(answer.text)


def test_the_form_offers_drills_only_to_who_may_order_them(
    asked: AskedRing, client: TestClient, database: Database
) -> None:
    held = frozenset({Scope.RESTORES_READ, Scope.RESTORES_WRITE, Scope.NODES_READ})
    with database.transaction() as session:
        accounts.create_account(session, name="otto", password=PASSWORD, scopes=held)
    browser = opened(client, name="otto")
    html = browser.get("/restores/new").text
    assert 'name="fault"' not in html
    fields = {**form_of(html), "fault": "swap-pages", "fault_rank": "0"}
    answer = browser.post("/restores/new", data=fields)
    assert answer.status_code == 403
    assert "drills:write" in text_of(answer.text)
    restores = asked.ring.client.get("/api/v1/restores", headers=asked.ring.operator_headers)
    assert json.loads(restores.text)["restores"] == []
