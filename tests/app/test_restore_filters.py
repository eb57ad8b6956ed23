"""Restores by state, outcome, answer and drill, in every combination: of the API, and of the page."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any, get_args

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, text

from app.db.session import Database
from app.restores.schemas import Outcome, Semantic, State
from app.restores.service import lists
from app.restores.service.lists import RestoreFilters
from app.web.paging import Cursor
from tests.app import dashboard_rows as people
from tests.app.asked import AskedRing
from tests.app.browser import text_of

PAGE = 7
OPEN = ("waiting", "running", "publishing", "retracting")
OVER = ("resident", "releasing", "finished")
STATES, OUTCOMES, SEMANTICS = get_args(State), get_args(Outcome), get_args(Semantic)
ADD = text(
    "INSERT INTO restore (id, created_at, created_by, context_digest, rank_zero_storage_key, layout_sha256,"
    " rank_count, span_tokens, resident_s, state, outcome, semantic, question_sha256, fault_name, fault_rank)"
    " SELECT gen_random_uuid(), timestamptz '2026-01-01' + :place * interval '1 minute', 'ada',"
    " context_digest, repeat('b', 64), layout_sha256, 4, 1, 1, :state, :outcome, :semantic,"
    " CASE WHEN :is_asked THEN sha256 END, CASE WHEN :is_drill THEN 'swap-pages' END,"
    " CASE WHEN :is_drill THEN 1 END FROM oracle_question"
)


def every_kind() -> Iterator[dict[str, Any]]:
    """All that the table lets a restore be."""
    ends = [(state, None) for state in OPEN] + list(product(OVER, OUTCOMES))
    for (state, outcome), semantic, is_drill in product(ends, (None, *SEMANTICS), (False, True)):
        is_asked = semantic != "not asked"
        if (outcome is not None and semantic is None) or (is_drill and not is_asked):
            continue
        yield {"state": state, "outcome": outcome, "semantic": semantic, "is_asked": is_asked} | {
            "is_drill": is_drill
        }


@pytest.fixture
def kinds(asked: AskedRing, owner_engine: Engine) -> AskedRing:
    """Two restores of every kind there can be, no two of a kind beside each other."""
    rows = [{**one, "place": 0} for _ in range(2) for one in every_kind()]
    placed = [{**one, "place": place} for place, one in enumerate(rows)]
    with owner_engine.begin() as connection:
        connection.execute(ADD, placed)
    return asked


def walked(database: Database, filters: RestoreFilters) -> list[tuple[Any, ...]]:
    """The whole list, page by page, as (created_at, state, outcome, semantic, is a drill)."""
    seen: list[tuple[Any, ...]] = []
    after: Cursor | None = None
    with database.reading() as session:
        while True:
            rows = lists.list_restores(session, filters=filters, after=after, limit=PAGE)
            seen += [(r.created_at, r.state, r.outcome, r.semantic, r.fault_name is not None) for r in rows]
            if len(rows) < PAGE:
                return seen
            after = Cursor(created_at=rows[-1].created_at, id=rows[-1].id)


def test_every_combination_of_filters_lists_and_counts_what_fits(
    kinds: AskedRing, database: Database
) -> None:
    every = walked(database, RestoreFilters())
    assert len(every) == 2 * len(list(every_kind()))
    for asked_for in product((None, *STATES), (None, *OUTCOMES), (None, *SEMANTICS), (None, True, False)):
        state, outcome, semantic, drill = asked_for
        filters = RestoreFilters(state=state, outcome=outcome, semantic=semantic, drill=drill)
        fits = [
            one
            for one in every
            if all(want is None or want == has for want, has in zip(asked_for, one[1:], strict=True))
        ]
        assert walked(database, filters) == fits, filters
        with database.reading() as session:
            total = lists.count_restores(session, filters=filters)
        assert (total.count, total.is_exact) == (len(fits), True), filters


def listed(asked: AskedRing, query: str) -> list[dict[str, Any]]:
    """All pages of the API's list."""
    client, headers = asked.ring.client, asked.ring.operator_headers
    rows: list[dict[str, Any]] = []
    token = ""
    while True:
        answer = client.get(f"/api/v1/restores?{query}&page_size=5&page_token={token}", headers=headers)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        rows += body["restores"]
        token = body["next_page_token"]
        if not token:
            assert body["total"] == {"count": len(rows), "is_exact": True}
            return rows


def test_the_api_lists_by_answer_and_drill(kinds: AskedRing) -> None:
    wrong = listed(kinds, "semantic=wrong&drill=false")
    assert {(one["semantic"], one["fault"]) for one in wrong} == {("wrong", None)}
    drills = listed(kinds, "drill=true&outcome=failed&state=finished")
    assert {one["fault"]["name"] for one in drills} == {"swap-pages"}
    assert {(one["state"], one["outcome"]) for one in drills} == {("finished", "failed")}
    unasked = listed(kinds, "semantic=not+asked")
    assert {one["semantic"] for one in unasked} == {"not asked"}
    assert all(one["oracle_sha256"] is None for one in unasked)
    assert listed(kinds, "semantic=not+asked&drill=true") == []


@pytest.mark.parametrize("query", ["semantic=nonsense", "semantic=", "drill=perhaps", "answer=right"])
def test_the_api_refuses_what_is_no_such_filter(kinds: AskedRing, query: str) -> None:
    answer = kinds.ring.client.get(f"/api/v1/restores?{query}", headers=kinds.ring.operator_headers)
    assert answer.status_code == 422
    assert query.split("=")[0] in answer.text


def test_a_token_fits_its_answer_only(kinds: AskedRing) -> None:
    client, headers = kinds.ring.client, kinds.ring.operator_headers
    first = client.get("/api/v1/restores?semantic=right&page_size=2", headers=headers).json()
    token = first["next_page_token"]
    for query in ("semantic=wrong", "semantic=right&drill=true"):
        answer = client.get(f"/api/v1/restores?{query}&page_token={token}", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "page-token-invalid")


def test_what_really_happened_is_found(asked: AskedRing) -> None:
    right = asked.follow(*asked.run())
    drill = asked.follow(*asked.run(fault={"name": "swap-pages", "rank": 2}))
    plain = asked.ring.start_restore(oracle="none")
    for query, one in (
        ("semantic=right", right),
        ("semantic=wrong", drill),
        ("drill=true", drill),
        ("semantic=not+asked&drill=false", plain),
    ):
        assert [row["id"] for row in listed(asked, query)] == [one["id"]]


# The page


@pytest.fixture
def browser(kinds: AskedRing, client: TestClient, database: Database) -> TestClient:
    with database.transaction() as session:
        people.add_people(session)
    client.headers["Accept"] = "text/html"
    client.follow_redirects = False
    client.post("/login", data={"name": people.NAME, "password": people.PASSWORD})
    return client


def shown(page: str) -> list[str]:
    return re.findall(r'<th scope="row"[^>]*><a href="/restores/([0-9a-f-]{36})"', page)


def selected(page: str, name: str) -> str:
    part = page.split(f'<select name="{name}">')[1].split("</select>")[0]
    found = re.search(r'<option value="([^"]*)" selected>', part)
    return found[1] if found else ""


def test_the_page_limits_to_an_answer_and_to_drills(kinds: AskedRing, browser: TestClient) -> None:
    for query in ("semantic=wrong&drill=true", "semantic=unanswered&drill=false&outcome=corrupt"):
        rows = listed(kinds, query)
        page = browser.get(f"/restores?{query}&page_size=200").text
        assert shown(page) == [one["id"] for one in rows]
        assert f"{len(rows)} of them fit these filters" in text_of(page)
    assert (selected(page, "semantic"), selected(page, "drill")) == ("unanswered", "false")
    assert selected(browser.get("/restores").text, "drill") == ""


def test_pages_keep_answer_and_drill(kinds: AskedRing, browser: TestClient) -> None:
    seen: list[str] = []
    url = "/restores?semantic=not+asked&drill=false&page_size=4"
    while url:
        page = browser.get(url).text
        seen += shown(page)
        older = re.search(r'rel="next" href="([^"]+)"', page)
        url = older[1].replace("&amp;", "&") if older else ""
        assert not url or "semantic=not+asked&drill=false" in url
    assert seen == [one["id"] for one in listed(kinds, "semantic=not+asked")]


def test_empty_choices_leave_the_address(browser: TestClient) -> None:
    answer = browser.get("/restores?state=&semantic=wrong&drill=")
    assert (answer.status_code, answer.headers["location"]) == (303, "/restores?semantic=wrong")


@pytest.mark.parametrize("query", ["semantic=nonsense", "drill=perhaps"])
def test_a_choice_nobody_knows_is_said_to_be_none(browser: TestClient, query: str) -> None:
    words = text_of(browser.get(f"/restores?{query}").text)
    name, value = query.split("=")
    assert f"Not a filter, so it limits nothing. {name}: expected" in words
    assert f"found {value}" in words


def test_nothing_that_fits_says_so(browser: TestClient) -> None:
    words = text_of(browser.get("/restores?semantic=not+asked&drill=true").text)
    assert "No restore fits these filters." in words
