"""Whose attempt it is comes before what is said of it: a foreign node learns nothing from its refusal."""

from typing import Any
from uuid import uuid4

import pytest

from app.accounts import service as accounts
from app.db.session import Database
from app.web.auth import PRESETS
from tests.app.ring import Ring, failed_report, wire

WORDS: dict[str, tuple[str, dict[str, Any]]] = {
    "claim": ("POST", {"json": {"generation": 1}}),
    "heartbeat": ("POST", {"json": {}}),
    "decision": ("GET", {}),
    "publish": ("PUT", {"json": {"epoch": 1}}),
    "retracted": ("PUT", {}),
    "released": ("PUT", {}),
    f"readbacks/{uuid4()}": (
        "PUT",
        {"json": {"layers": [{"name": "k0", "pages": 1, "bytes": 1, "sha256": "a" * 64}]}},
    ),
}
REPORTS = {"no JSON": b"{", "no report": b"{}", "nothing": b"", "deep": b"[" * 50_000}


@pytest.fixture
def foreign(database: Database, ring: Ring) -> dict[str, str]:
    """The key of another node, and the right fencing token."""
    with database.transaction() as session:
        key = accounts.create_key(
            session, account_name="ada", label="other", scopes=PRESETS["worker"], node_name="node-b"
        )
    return {"Authorization": f"Bearer {key}"}


def refusal(ring: Ring, path: str, *, method: str, headers: dict[str, str], **sent: Any) -> tuple[int, str]:
    answer = ring.client.request(method, path, headers=headers, **sent)
    return answer.status_code, answer.json()["code"]


def test_no_word_is_taken_from_another_node(ring: Ring, foreign: dict[str, str]) -> None:
    rank = ring.claim_all(ring.start_restore())[0]
    headers = {**rank.headers, **foreign}
    for word, (method, sent) in WORDS.items():
        path = f"/api/v1/attempts/{rank.attempt_id}/{word}"
        found = refusal(ring, path, method=method, headers=headers, **sent)
        assert (word, found) == (word, (403, "other-node"))


def test_no_report_is_judged_before_whose_attempt_it_is(ring: Ring, foreign: dict[str, str]) -> None:
    rank = ring.claim_all(ring.start_restore())[0]
    real = ring.report(rank.claim["rank"])
    stale = {"Fencing-Token": str(rank.claim["token"] + 1)}
    for name, raw in {**REPORTS, "restored": wire(real), "failed": wire(failed_report(real))}.items():
        for word in ("ready", "failure"):
            path, unknown = (f"/api/v1/attempts/{one}/{word}" for one in (rank.attempt_id, uuid4()))
            found = [
                refusal(ring, path, method="PUT", headers={**rank.headers, **foreign}, content=raw),
                refusal(ring, path, method="PUT", headers={**rank.headers, **stale}, content=raw),
                refusal(ring, unknown, method="PUT", headers=rank.headers, content=raw),
            ]
            expected = [(403, "other-node"), (409, "fencing-token-stale"), (404, "not-found")]
            assert (name, word, found) == (name, word, expected)


def test_a_report_of_ones_own_that_is_none_is_refused_as_such(ring: Ring) -> None:
    rank = ring.claim_all(ring.start_restore())[0]
    for name, raw in REPORTS.items():
        answer = rank.say("ready", content=raw)
        assert (name, answer.status_code, answer.json()["code"]) == (name, 422, "document-refused")
    assert rank.ready().status_code == 200
