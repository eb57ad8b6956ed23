"""The ring and its table, filters, cancelling and retrying from the page, the pages of nodes."""

import re
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, text

from app.dashboard import queries
from app.dashboard.restores import SPANS, Asked, read_filters
from app.db.session import Database, database_time
from app.models import LedgerLeaf, Node, RankAttempt, Restore
from app.restores.service.lists import RestoreFilters
from tests.app import dashboard_rows as rows
from tests.app.browser import form_token, text_of


def listed(browser: TestClient, query: str) -> set[str]:
    answer = browser.get(f"/restores?{query}")
    assert answer.status_code == 200
    return set(re.findall(r'<th scope="row"[^>]*><a href="/restores/([0-9a-f-]{36})"', answer.text))


# The overview


def test_the_ring_and_its_table_say_the_same(filled: TestClient, restores: dict[str, UUID]) -> None:
    html = filled.get("/").text
    ring, table = html.split('aria-label="Nodes and devices"')
    titles = re.findall(r'<g class="ring-device (is-\w+)"><title>([^<]+)</title>', ring)
    assert len(titles) == 5
    name = str(restores["running"])[:8]
    words = f"node-a/host0, host, generation 3: busy, held by restore {name} rank 0"
    assert titles[0] == ("is-held", f"{words}; last restore restored; consumed a task lately")
    assert titles[4][0] == "is-away"
    assert titles[4][1].endswith("free, node away; no task lately")
    assert ring.count("ring-spoke is-fed") == 4 + 1, "and one in the legend"
    rows_of_table = text_of(table)
    assert rows_of_table.count("busy") == 4
    assert f"{name} rank 3" in rows_of_table
    assert re.search(r"restored \d min ago 4 min ago 3 since 2 h ago", rows_of_table)
    assert "4 of 5" in text_of(ring)


def test_counts_stay_honest_when_there_are_many(
    filled: TestClient, owner_engine: Engine, restores: dict[str, UUID]
) -> None:
    copy = """INSERT INTO restore (id, created_by, context_digest, rank_zero_storage_key, layout_sha256,
        rank_count, span_tokens, resident_s, state, outcome) SELECT gen_random_uuid(), 'load', context_digest,
        rank_zero_storage_key, layout_sha256, 1, 1, 1, 'finished', 'failed'
        FROM restore, generate_series(1, 1200) WHERE restore.id = :one"""
    with owner_engine.begin() as connection:
        connection.execute(text(copy), {"one": restores["restored"]})
    words = text_of(filled.get("/").text)
    assert "1000+ restores in the last 24 hours; the counts are those of the newest 1,000" in words
    assert "1000+ of them fit these filters" in text_of(filled.get("/restores?outcome=failed").text)
    assert "1 of them fit these filters" in text_of(filled.get("/restores?outcome=corrupt").text)


def test_the_ledger_line_says_how_long_the_log_is(filled: TestClient, database: Database) -> None:
    with database.reading() as session:
        size = session.query(LedgerLeaf).count()
    assert size >= 3
    assert f"Ledger : {size} entries, root" in text_of(filled.get("/").text)


# Restores


def test_filters_limit_the_list_and_stand_in_the_address(
    filled: TestClient, restores: dict[str, UUID], database: Database
) -> None:
    every = {str(one) for one in restores.values()}
    assert listed(filled, "node=node-a") == every
    assert listed(filled, "node=node-b") == set()
    assert listed(filled, f"text={restores['corrupt']}") == {str(restores["corrupt"])}
    assert listed(filled, f"text={str(restores['waiting'])[:13].upper()}") == {str(restores["waiting"])}
    assert listed(filled, "text=dana") == every
    for slip in ("%25", "%5C", "_", "nobody", "nobody/key", "f" * 33, "-", "zz"):
        assert listed(filled, f"text={slip}") == set(), (
            f"{slip}: a wild card is a letter, a slip finds nothing"
        )
    old = {str(restores["cancelled"]), str(restores["corrupt"])}
    assert listed(filled, "since=1h") == every - {str(restores["cancelled"])}
    assert listed(filled, "since=24h&state=finished") == old
    assert listed(filled, "since=2020-01-01") == every
    with database.reading() as session:
        digest = session.get_one(Restore, restores["running"]).context_digest
        layout = session.get_one(Restore, restores["running"]).layout_sha256
    assert listed(filled, f"text={digest[:20]}") == listed(filled, f"text={layout[:9]}") == every


def test_empty_filters_leave_the_address(filled: TestClient) -> None:
    answer = filled.get("/restores?state=&outcome=corrupt&node=&text=&since=")
    assert (answer.status_code, answer.headers["location"]) == (303, "/restores?outcome=corrupt")
    assert filled.get("/restores?state=").headers["location"] == "/restores"


def test_pages_keep_the_filters(filled: TestClient) -> None:
    seen: list[str] = []
    url = "/restores?node=node-a&page_size=3"
    while url:
        page = filled.get(url).text
        seen += re.findall(r'<th scope="row"[^>]*><a href="/restores/([0-9a-f-]{36})"', page)
        older = re.search(r'rel="next" href="([^"]+)"', page)
        url = older[1].replace("&amp;", "&") if older else ""
        assert not url or "node=node-a" in url
    assert len(seen) == len(set(seen)) == 7


@pytest.mark.parametrize("query", ["state=nonsense", "outcome=cancelled", "since=yesterday"])
def test_a_filter_that_says_nothing_is_said_to_be_none(filled: TestClient, query: str) -> None:
    words = text_of(filled.get(f"/restores?{query}").text)
    name, value = query.split("=")
    assert f"Not a filter, so it limits nothing. {name}: expected" in words
    assert f"found {value}" in words


def test_spans_end_now(database: Database) -> None:
    with database.reading() as session:
        now = database_time(session)
    for span, (_, length) in SPANS.items():
        asked = Asked(state="", outcome="", semantic="", drill="", node="", text="", since=span)
        assert read_filters(asked, now=now) == (RestoreFilters(since=now - length), [])


# One restore


def test_a_cancelled_restore_shows_how_it_stopped(filled: TestClient, restores: dict[str, UUID]) -> None:
    words = text_of(filled.get(f"/restores/{restores['cancelled']}").text)
    assert "Incomplete : it was called off before publish was decided" in words
    assert "Cancellation by dana: wrong snapshot" in words
    for step in ("Requested 3 h ago", "Acknowledged 3 h ago : every rank", "Stopped 3 h ago : no rank holds"):
        assert step in words
    half = text_of(filled.get(f"/restores/{restores['cancelling']}").text)
    assert "Retracting : it was called off" in half
    assert "Acknowledged rank 2 has not been told yet" in half
    assert "Stopped not yet on rank 0, 1, 2" in half


def test_cancelling_from_the_page(filled: TestClient, restores: dict[str, UUID], database: Database) -> None:
    page = f"/restores/{restores['waiting']}"
    assert f'href="{page}/cancel"' in filled.get(page).text
    form = filled.get(f"{page}/cancel")
    assert "nothing becomes visible" in text_of(form.text)
    token = {"form_token": form_token(form.text)}
    assert filled.post(f"{page}/cancel", data={"reason": "no token"}).status_code == 403
    assert filled.post(f"{page}/cancel", data={**token, "reason": "x" * 201}).status_code == 422
    answer = filled.post(f"{page}/cancel", data={**token, "reason": " a  reason\n"})
    assert (answer.status_code, answer.headers["location"]) == (303, page)
    with database.reading() as session:
        restore = session.get_one(Restore, restores["waiting"])
        assert (restore.outcome, restore.cancel_reason) == ("incomplete", "a reason")
    words = text_of(filled.get(page).text)
    assert "cancelled by dana: a reason" in words
    assert "no rank had begun" in words
    assert "Try again" in words
    assert filled.post(f"{page}/cancel", data=token).status_code == 303, "asking again changes nothing"


def test_cancelling_too_late_says_so_and_changes_nothing(
    filled: TestClient, restores: dict[str, UUID], database: Database
) -> None:
    page = f"/restores/{restores['restored']}"
    token = {"form_token": form_token(filled.get(page).text)}
    assert f'href="{page}/cancel"' not in filled.get(page).text
    answer = filled.post(f"{page}/cancel", data=token)
    assert answer.status_code == 409
    words = text_of(answer.text)
    assert "Too late, nothing was changed." in words
    assert "its pages can be discarded" in words
    with database.reading() as session:
        assert session.get_one(Restore, restores["restored"]).cancel_requested_at is None


def test_trying_again_is_one_restore_however_often_it_is_asked_for(
    filled: TestClient, restores: dict[str, UUID], database: Database
) -> None:
    page = f"/restores/{restores['cancelled']}"
    html = filled.get(page).text
    token = {"form_token": form_token(html.split('action="' + page + "/retry")[1])}
    first, second = (filled.post(f"{page}/retry", data=token) for _ in range(2))
    assert first.status_code == second.status_code == 303
    assert first.headers["location"] == second.headers["location"] != page
    newer = filled.get(first.headers["location"]).text
    assert "Try 2 of 2 so far:" in text_of(newer)
    assert f'href="{page}"' in newer
    older = filled.get(page).text
    assert f'href="{first.headers["location"]}"' in older
    assert f'action="{page}/retry"' not in older
    with database.reading() as session:
        assert session.query(Restore).count() == 8


def test_the_last_try_cannot_be_tried_again(
    filled: TestClient, restores: dict[str, UUID], database: Database
) -> None:
    with database.transaction() as session:
        session.get_one(Restore, restores["cancelled"]).try_number = 5
    words = text_of(filled.get(f"/restores/{restores['cancelled']}").text)
    assert "It was the last try" in words
    assert "Try again" not in words


def test_long_work_shows_how_far_it_is(
    filled: TestClient, restores: dict[str, UUID], database: Database
) -> None:
    html = filled.get(f"/restores/{restores['running']}").text
    assert '<progress max="' in html
    assert re.search(r"44 %: 1\.3 GiB of 3\.0 GiB placed, 1 of 4 ranks ready", text_of(html))
    with database.transaction() as session:
        for attempt in session.query(RankAttempt).filter_by(restore_id=restores["running"]):
            attempt.progress = {"objects": 1, "bytes": 2**50, "total_bytes": 2**40}
    assert "100 %:" in text_of(filled.get(f"/restores/{restores['running']}").text)


def test_attempts_stand_with_their_try(filled: TestClient, restores: dict[str, UUID]) -> None:
    html = filled.get(f"/restores/{restores['retried']}").text
    table = html.split('aria-label="Attempts by rank"')[1]
    assert table.count('<td data-label="Try">2</td>') == 4
    assert "Try 2 of 2 so far:" in text_of(html)


# Nodes


def test_a_node_has_a_page(filled: TestClient) -> None:
    words = text_of(filled.get("/nodes/node-b").text)
    assert "Away , last heard" in words
    assert "expected JSON, found" in words
    assert 'href="/restores?node=node-b"' in filled.get("/nodes/node-b").text
    assert text_of(filled.get("/nodes/node-a").text).count("busy") == 4
    assert filled.get("/nodes/node-c").status_code == 404
    assert filled.get("/nodes/%00").status_code == 404


def test_a_large_installation_has_one_row_per_node(filled: TestClient, database: Database) -> None:
    with database.transaction() as session:
        now = database_time(session)
        for number in range(6):
            node = Node(name=f"spark-{number}", last_seen_at=now, scan_problems=[])
            node.devices = [rows.make_device(node.name, number=device, now=now) for device in range(8)]
            session.add(node)
    html = filled.get("/").text
    assert 'aria-label="Nodes and devices"' not in html
    words = text_of(html)
    assert "One row per node, as there are 53 devices" in words
    assert "spark-5 alive, heard just now 8 0 4 min ago 0 B of 24.0 GiB" in words
    assert "node-a alive, heard just now 4 4" in words
    assert text_of(filled.get("/nodes/spark-5").text).count("free") == 8


def test_queries_that_find_the_last_restore_look_back_only_so_far(
    filled: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.reading() as session:
        assert len(queries.newest_attempts_by_device(session)) == 4
        monkeypatch.setattr(queries, "MOST_ATTEMPTS", 4)
        assert queries.newest_attempts_by_device(session) == {}, "the newest restore alone has no outcome"
