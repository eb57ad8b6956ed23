"""A restore is asked before it is published: right, wrong with a name, unanswered, not asked; drills."""

import json
from dataclasses import replace
from typing import Any, get_args
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError, ProgrammingError

from app.accounts import service as accounts
from app.core.digest import Digest
from app.core.oracle.partials import INJECTABLE
from app.db.session import Database
from app.restores.schemas import FaultName
from app.web.auth import Scope
from tests.app.asked import AskedRing

FAULTS = tuple(map(str, INJECTABLE))


def test_the_words_of_the_api_are_those_of_the_core() -> None:
    assert get_args(FaultName) == FAULTS


def test_a_right_answer_publishes(asked: AskedRing) -> None:
    restore, ranks = asked.run()
    assert (restore["state"], restore["semantic"], restore["decision"]) == ("publishing", "right", "publish")
    done = asked.follow(restore, ranks)
    assert (done["outcome"], done["state"], done["fault"]) == ("restored", "resident", None)
    assert done["oracle_sha256"] == asked.question.sha256
    answer = done["answer"]
    assert (answer["semantic"], answer["observed"], answer["diagnosis"]) == ("right", "red", None)
    assert answer["document"]["control"]["observed"] == "blue"
    for attempt in done["attempts"]:
        assert attempt["partials"]["wrong_pages"] == 0
        report = attempt["report"]
        assert report["oracle_ns"] > 0
        assert report["oracle_start_ns"] >= report["service_start_ns"]
    assert [one["kind"] for one in done["events"]].count("answered") == 1
    assert done["title"] == "engine self-test"


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_caught_named_and_never_visible(asked: AskedRing, name: str) -> None:
    restore, ranks = asked.run(fault={"name": name, "rank": 2})
    assert (restore["state"], restore["decision"], restore["semantic"]) == ("retracting", "retract", "wrong")
    assert [rank.claim["fault"] for rank in ranks] == [None, None, name, None]
    done = asked.follow(restore, ranks)
    assert (done["state"], done["outcome"], done["semantic"]) == ("finished", "failed", "wrong")
    assert done["fault"] == {"name": name, "rank": 2}
    assert (done["answer"]["observed"], done["answer"]["diagnosis"]) == ("spark", name)
    problem = done["problem"]
    assert (problem["code"], problem["expected"], problem["found"]) == ("semantic", "red", "spark")
    assert f"{name}: rank 2" in problem["detail"]
    # Every hash was right, on every rank: what the ranks reported of their bytes is no different.
    assert {one["report"]["outcome"] for one in done["attempts"]} == {"restored"}
    wrong = [one["partials"]["wrong_pages"] for one in done["attempts"]]
    assert wrong[2] > 0
    assert wrong[:2] + wrong[3:] == [0, 0, 0]
    answer = asked.ring.client.post(
        f"/api/v1/restores/{done['id']}/readbacks", headers=asked.ring.operator_headers
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "not-published")
    assert done["title"] == "engine self-test, drill"


def test_without_a_word_the_newest_question_that_fits_is_asked(asked: AskedRing) -> None:
    newer = replace(asked.question, sharpness=asked.question.sharpness + 1)
    elsewhere = replace(asked.question, context_digest=Digest("ab" * 32))
    for question in (newer, elsewhere):
        assert asked.register(question).status_code == 201
    assert asked.ring.start_restore()["oracle_sha256"] == newer.sha256
    older = asked.ring.start_restore(oracle=str(asked.question.sha256))
    assert (older["oracle_sha256"], older["semantic"]) == (asked.question.sha256, None)


def test_none_switches_the_question_off(asked: AskedRing) -> None:
    restore = asked.ring.start_restore(oracle="none")
    assert (restore["oracle_sha256"], restore["semantic"], restore["answer"]) == (None, "not asked", None)
    ranks = asked.ring.claim_all(restore)
    assert {rank.claim["oracle"] for rank in ranks} == {None}
    for rank in ranks:
        asked.ready(rank, oracle=None).raise_for_status()
    assert asked.follow(restore, ranks)["outcome"] == "restored"


def test_a_question_about_something_else_is_refused_by_name(asked: AskedRing) -> None:
    other = replace(asked.question, span_tokens=2 * asked.question.span_tokens)
    assert asked.register(other).status_code == 201
    answer = asked.ring.post_restore(oracle=str(other.sha256))
    assert (answer.status_code, answer.json()["code"]) == (422, "refused")
    assert answer.json()["errors"][0]["pointer"] == "/oracle"
    assert "span" in answer.json()["detail"]
    unknown = asked.ring.post_restore(oracle="0" * 64)
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not-found")


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"purpose": "operational", "image_config_id": "1a" * 32}, "/purpose"),
        ({"fault": {"name": "swap-pages", "rank": 4}}, "/fault/rank"),
        ({"oracle": "none"}, "/oracle"),
        ({"fault": {"name": "fire", "rank": 0}}, "/fault/name"),
        ({"fault": {"name": "unknown", "rank": 0}}, "/fault/name"),
        ({"fault": {"name": "swap-pages"}}, "/fault/rank"),
        ({"fault": {"name": "swap-pages", "rank": -1}}, "/fault/rank"),
    ],
)
def test_a_fault_that_could_do_harm_or_show_nothing_is_refused(
    asked: AskedRing, changes: dict[str, Any], pointer: str
) -> None:
    answer = asked.ring.post_restore(**{"fault": {"name": "swap-pages", "rank": 2}, **changes})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_a_fault_without_a_registered_question_is_refused(ring: Any) -> None:
    answer = ring.post_restore(fault={"name": "swap-pages", "rank": 2})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/oracle")


def test_a_fault_needs_a_scope_of_its_own(asked: AskedRing, client: TestClient, database: Database) -> None:
    with database.transaction() as session:
        scopes = frozenset({Scope.RESTORES_WRITE})
        key = accounts.create_key(session, account_name="ada", label="no drills", scopes=scopes)
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": str(uuid4())}
    order = asked.ring.order(fault={"name": "swap-pages", "rank": 2})
    answer = client.post("/api/v1/restores", headers=headers, json=order)
    assert (answer.status_code, answer.json()["code"]) == (403, "scope-missing")
    assert "drills:write" in answer.json()["detail"]
    assert client.post("/api/v1/restores", headers=headers, json=asked.ring.order()).status_code == 202


@pytest.mark.parametrize("rank_says", ["nothing", "a problem"])
def test_without_every_part_there_is_no_answer_and_nothing_is_published(
    asked: AskedRing, rank_says: str
) -> None:
    restore = asked.ring.start_restore()
    ranks = asked.ring.claim_all(restore)
    problem = {"start_ns": 1, "duration_ns": 1, "partials": None, "problem": "device cuda0: lost"}
    for rank in ranks[:3]:
        asked.ready(rank).raise_for_status()
    asked.ready(ranks[3], oracle=None if rank_says == "nothing" else problem).raise_for_status()
    done = asked.follow(restore, ranks)
    assert (done["outcome"], done["semantic"]) == ("failed", "unanswered")
    assert done["problem"]["code"] == "unanswered"
    assert ("device cuda0: lost" in done["problem"]["detail"]) == (rank_says == "a problem")
    assert done["answer"]["observed"] is None


@pytest.mark.parametrize("what", ["another rank", "another question", "no object", "both", "negative"])
def test_a_part_that_is_not_this_ranks_is_refused(asked: AskedRing, what: str) -> None:
    restore = asked.ring.start_restore()
    rank = asked.ring.claim_all(restore)[0]
    part = asked.said(0)["oracle"]
    match what:
        case "another rank":
            part = asked.said(1)["oracle"]
        case "another question":
            part["partials"]["question_sha256"] = "0" * 63 + "1"
        case "no object":
            part = ["red"]
        case "both":
            part["problem"] = "none"
        case "negative":
            part["duration_ns"] = -1
    answer = asked.ready(rank, oracle=part)
    assert answer.status_code == 422, answer.text
    assert "oracle" in answer.json()["detail"]
    assert asked.ring.restore(restore["id"])["attempts"][0]["state"] == "claimed"


def test_a_part_nobody_asked_for_is_refused(asked: AskedRing) -> None:
    rank = asked.ring.claim_all(asked.ring.start_restore(oracle="none"))[0]
    answer = asked.ready(rank)
    assert answer.status_code == 422
    assert "nothing was asked" in answer.json()["detail"]


def test_votes_that_no_rank_has_are_no_answer(asked: AskedRing) -> None:
    """A rank that claims more than its votes would outvote the others."""
    restore = asked.ring.start_restore(fault={"name": "swap-pages", "rank": 2})
    ranks = asked.ring.claim_all(restore)
    for rank in ranks[1:]:
        asked.ready(rank).raise_for_status()
    part = asked.said(0)["oracle"]
    part["partials"]["restored"]["red"] *= 3
    asked.ready(ranks[0], oracle=part).raise_for_status()
    done = asked.follow(restore, ranks)
    assert (done["outcome"], done["semantic"], done["decision"]) == ("failed", "unanswered", "retract")


def test_a_drill_that_is_not_caught_publishes_nothing_and_says_so(asked: AskedRing) -> None:
    """A worker that does not put the fault in answers right: that must not look like a restore."""
    restore = asked.ring.start_restore(fault={"name": "swap-pages", "rank": 2})
    ranks = asked.ring.claim_all(restore)
    for rank in ranks:
        rank.claim["fault"] = None
        asked.ready(rank).raise_for_status()
    done = asked.follow(restore, ranks)
    assert (done["outcome"], done["semantic"], done["decision"]) == ("failed", "right", "retract")
    assert done["problem"]["code"] == "fault-not-caught"


def test_a_rank_that_fails_first_leaves_the_question_unanswered(asked: AskedRing) -> None:
    restore = asked.ring.start_restore()
    ranks = asked.ring.claim_all(restore)
    asked.ready(ranks[0]).raise_for_status()
    ranks[1].fail().raise_for_status()
    for rank in (ranks[0], *ranks[2:]):
        rank.say("retracted").raise_for_status()
    done = asked.ring.restore(restore["id"])
    assert (done["outcome"], done["semantic"], done["answer"]) == ("corrupt", "unanswered", None)


def test_called_off_is_called_off(asked: AskedRing) -> None:
    restore = asked.ring.start_restore()
    path = f"/api/v1/restores/{restore['id']}/cancel"
    asked.ring.client.post(path, headers=asked.ring.operator_headers).raise_for_status()
    done = asked.ring.restore(restore["id"])
    assert (done["outcome"], done["semantic"], done["problem"]["code"]) == (
        "incomplete",
        "unanswered",
        "cancelled",
    )


def test_what_befalls_a_rank_afterwards_is_not_the_first_cause(asked: AskedRing) -> None:
    restore, ranks = asked.run(fault={"name": "swap-pages", "rank": 2})
    asked.ring.start_worker("host0")  # the worker of rank 0 was replaced: its attempt is lost
    for rank in ranks[1:]:
        rank.say("retracted").raise_for_status()
    ranks[0].say("retracted")
    done = asked.ring.restore(restore["id"])
    assert (done["semantic"], done["problem"]["code"]) == ("wrong", "semantic")
    assert done["outcome"] in {None, "failed"}


def test_a_retry_asks_the_same_and_a_drill_is_ordered_anew(asked: AskedRing) -> None:
    drill, ranks = asked.run(fault={"name": "swap-pages", "rank": 2})
    asked.follow(drill, ranks)
    refused = _retry(asked, drill)
    assert (refused.status_code, refused.json()["code"]) == (409, "retry-refused")
    assert "drill" in refused.json()["detail"]
    failed = asked.ring.start_restore(oracle="none")
    ranks = asked.ring.claim_all(failed)
    ranks[0].fail().raise_for_status()
    for rank in ranks[1:]:
        rank.say("retracted").raise_for_status()
    again = _retry(asked, failed)
    assert (again.status_code, again.json()["semantic"]) == (202, "not asked")


def test_a_ready_said_twice_is_one_answer(asked: AskedRing) -> None:
    restore, ranks = asked.run()
    assert asked.ready(ranks[3]).status_code == 200
    done = asked.follow(restore, ranks)
    assert [one["kind"] for one in done["events"]].count("answered") == 1


def test_the_database_itself_publishes_nothing_wrong(asked: AskedRing, owner_engine: Engine) -> None:
    restore, _ = asked.run(fault={"name": "swap-pages", "rank": 2})
    for change in (
        "decision = 'publish', state = 'publishing'",
        "semantic = 'right'",
        "fault_name = NULL, fault_rank = NULL",
        "question_sha256 = NULL",
    ):
        with pytest.raises((IntegrityError, ProgrammingError)), owner_engine.begin() as connection:
            connection.execute(
                text(f"UPDATE restore SET {change} WHERE id = :id"),
                {"id": restore["id"]},
            )


def test_lists_show_answer_and_fault(asked: AskedRing) -> None:
    drill, ranks = asked.run(fault={"name": "foreign-slots", "rank": 0})
    asked.follow(drill, ranks)
    answer = asked.ring.client.get("/api/v1/restores", headers=asked.ring.operator_headers).json()
    (listed,) = answer["restores"]
    assert (listed["semantic"], listed["fault"]) == ("wrong", {"name": "foreign-slots", "rank": 0})
    assert json.dumps(listed["problem"])


def _retry(asked: AskedRing, restore: dict[str, Any]) -> Any:
    headers = {**asked.ring.operator_headers, "Idempotency-Key": str(uuid4())}
    return asked.ring.client.post(f"/api/v1/restores/{restore['id']}/retry", headers=headers)
