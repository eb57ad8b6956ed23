"""Verdicts read: filters, days, history, two images; judged again after a change of rules."""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text
from typer.testing import CliRunner

from app.cli import cli
from app.config import Settings
from app.core.qualify.ruleset import ruleset_version
from app.core.qualify.values import Basis
from app.dashboard import queries_evidence
from app.db.session import Database
from app.verdicts.repository import composing
from app.verdicts.service import rejudge
from tests.app.evidence_client import Evidence
from tests.app.evidence_documents import IMAGE, OTHER_IMAGE, failure, publication, receipt

CONFIG_ID = IMAGE.removeprefix("sha256:")
TODAY = datetime.now(UTC).date()


@pytest.fixture
def judged(evidence: Evidence) -> Evidence:
    """One image qualified and deployable at TP4/DCP1, one rejected, a publication."""
    evidence.append(receipt())
    evidence.append(publication())
    evidence.append(receipt(artifact__image_id=OTHER_IMAGE, case__restore_oracle="spark"))
    return evidence


@pytest.mark.parametrize(
    ("params", "images"),
    [
        ({"outcome": "qualified"}, ["1a"]),
        ({"outcome": "rejected"}, ["2b"]),
        ({"deployable": True}, ["1a"]),
        ({"tp": 4, "dcp": 1}, ["2b", "1a"]),
        ({"tp": 4, "dcp": 4}, []),
        ({"image": CONFIG_ID}, ["1a"]),
        ({"code": "SEMANTIC_ORACLE_MISMATCH"}, ["2b"]),
        ({"gate": "semantic=failed"}, ["2b"]),
        ({"gate": "semantic=demonstrated"}, ["1a"]),
        ({"grade": "demonstrated", "outcome": "qualified"}, ["1a"]),
        ({"model": "alias=glm"}, ["2b", "1a"]),
        ({"commit": "5f" * 20}, ["2b", "1a"]),
        ({"commit": "5f" * 19}, []),
        ({"outcome": "research-only"}, []),
    ],
)
def test_filters_find_the_same_now_and_at_the_end_of_today(
    judged: Evidence, params: dict[str, Any], images: list[str]
) -> None:
    for when in ({}, {"on": TODAY.isoformat()}):
        page = judged.get("verdicts", capability="restore", **params, **when)
        assert [one["image_config_id"][:2] for one in page["verdicts"]] == images
        assert page["total"] == {"count": len(images), "is_exact": True}


@pytest.mark.parametrize(
    ("q", "images"),
    [
        ("1a1a1a", ["1a"]),
        ("rejected", ["2b"]),
        ("SNAPSHOT-V1", ["2b", "1a"]),
        ("semantic oracle mismatch", ["2b"]),
        ("nothing", []),
        ("a & ! | ':*", ["2b", "1a"]),
        ("& ! |", []),
        ("'", []),
        ("\0", []),
        (" \0 . \u202e ", []),
        ("1a1a1a\0", ["1a"]),
        (" ", ["2b", "1a"]),
        ("", ["2b", "1a"]),
    ],
)
def test_a_search_finds_starts_of_words_and_no_operator(judged: Evidence, q: str, images: list[str]) -> None:
    found = judged.scopes(capability="restore", q=q)
    assert [one["image_config_id"][:2] for one in found] == images


def test_a_search_of_a_day_is_refused(judged: Evidence) -> None:
    answer = judged.client.get(
        "/api/v1/verdicts", params={"q": "x", "on": "2026-01-01"}, headers=judged.headers("viewer")
    )
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/q")
    gate = judged.client.get("/api/v1/verdicts", params={"gate": "x"}, headers=judged.headers("viewer"))
    assert gate.json()["errors"][0]["pointer"] == "/gate"


def shift_back(owner_engine: Engine, *, days: int) -> None:
    """Everything judged so far was judged that many days ago."""
    moved = f"created_at - interval '{days} days'"
    with owner_engine.begin() as connection:
        for table in ("verdict", "verdict_current"):
            connection.execute(text(f"UPDATE {table} SET created_at = {moved}"))


def test_what_was_qualified_on_a_day(judged: Evidence, owner_engine: Engine) -> None:
    shift_back(owner_engine, days=5)
    judged.append(failure())
    wanted = {"tp": 4, "dcp": 1, "outcome": "qualified"}

    def on(day: date) -> list[str]:
        return [one["image_config_id"][:2] for one in judged.scopes(on=day.isoformat(), **wanted)]

    assert on(TODAY - timedelta(days=6)) == []
    assert on(TODAY - timedelta(days=5)) == ["1a"]
    assert on(TODAY - timedelta(days=1)) == ["1a"]
    assert on(TODAY) == []
    assert judged.scopes(**wanted) == []


def test_lists_are_paged_by_key(judged: Evidence) -> None:
    for when in ({}, {"on": TODAY.isoformat()}):
        found, token = [], {}
        for _ in range(10):
            page = judged.get("verdicts", page_size=1, **when, **token)
            found += [one["id"] for one in page["verdicts"]]
            if not page["next_page_token"]:
                break
            token = {"page_token": page["next_page_token"]}
        assert found == [one["id"] for one in judged.scopes(**when)]
        assert len(found) == len(set(found)) == 2


def test_one_verdict_says_everything(judged: Evidence) -> None:
    (scope,) = judged.scopes(outcome="rejected")
    full = judged.get(f"verdicts/{scope['id']}")
    assert full["is_current"]
    mismatch = next(one for one in full["document"]["findings"] if one["code"] == "SEMANTIC_ORACLE_MISMATCH")
    assert (mismatch["pointer"], mismatch["value"]) == (
        "/case/restore_oracle",
        "expected 'red', observed 'spark'",
    )
    assert full["document"]["scope"]["image"] == OTHER_IMAGE


def test_two_images_stand_side_by_side(judged: Evidence) -> None:
    sides = judged.get("verdicts/comparison", left=CONFIG_ID, right="2b" * 32)
    restore = [
        (one["left"]["outcome"], one["right"]["outcome"])
        for one in sides["pairs"]
        if one["left"] and one["right"]
    ]
    assert restore == [("qualified", "rejected")]


def test_new_rules_make_new_rows_with_the_reason(
    judged: Evidence, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rejudge.rejudge_part(database, grade=Basis.SELF_CONSISTENT) == 0
    monkeypatch.setattr("app.core.qualify.verdict.ruleset_version", lambda: "e" * 64)
    monkeypatch.setattr("app.core.qualify.composed_document.ruleset_version", lambda: "e" * 64)
    monkeypatch.setattr(rejudge, "ruleset_version", lambda: "e" * 64)
    while rejudge.rejudge_part(database, grade=Basis.SELF_CONSISTENT, by="ada", reason="rule 7 again"):
        pass
    (scope,) = judged.scopes(outcome="qualified")
    assert (scope["ruleset"], scope["cause"], scope["created_by"]) == ("e" * 64, "rules-changed", "ada")
    assert scope["cause_detail"].endswith("rule 7 again")
    history = judged.get(f"verdicts/{scope['id']}/history")["verdicts"]
    assert len(history) == 3
    assert history[1]["ruleset"] != history[0]["ruleset"]


def test_another_grade_judges_again_and_says_so(judged: Evidence, database: Database) -> None:
    while rejudge.rejudge_part(database, grade=Basis.ATTESTED):
        pass
    (scope,) = judged.scopes(outcome="qualified")
    assert (scope["deployable_grade"], scope["deployable"]) == ("attested", True)
    assert rejudge.rejudge_part(database, grade=Basis.ATTESTED) == 0


def test_the_command_judges_again_and_says_how_much(
    judged: Evidence, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.database_url is not None
    monkeypatch.setenv("SPARKGATE_DATABASE_URL", settings.database_url.get_secret_value())
    command = ["rejudge", "--by", "ada", "--reason", "a laxer grade", "--json"]
    idle = CliRunner().invoke(cli, command)
    assert (idle.exit_code, json.loads(idle.stdout)["judged"]) == (0, 0), idle.output
    monkeypatch.setenv("SPARKGATE_DEPLOYABLE_GRADE", "attested")
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["judged"] > 0
    assert json.loads(done.stdout)["ruleset"] == str(ruleset_version())
    (scope,) = judged.scopes(outcome="qualified")
    assert (scope["deployable_grade"], scope["created_by"]) == ("attested", "ada")
    assert scope["cause_detail"].endswith("a laxer grade")


def test_the_command_says_that_there_is_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKGATE_DATABASE_URL", "postgresql+psycopg://nobody@127.0.0.1:1/none")
    refused = CliRunner().invoke(cli, ["rejudge", "--by", "ada", "--reason", "r"])
    assert refused.exit_code == 2
    assert "127.0.0.1" in refused.stderr


def test_one_receipt_that_says_another_thing_is_heard_among_many(
    evidence: Evidence,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of receipts that say the same a few are looked at; who says something else is, wherever it stands."""
    monkeypatch.setattr(composing, "MOST_OF_A_SAYING", 2)
    many = [evidence.append(receipt(profile__load_threads=n))["sha256"] for n in range(5)]
    (scope,) = evidence.scopes(capability="restore")
    assert (scope["outcome"], scope["receipts"]) == ("qualified", sorted(many)[:2])
    weak = receipt(profile__load_threads=9, status="research")
    evidence.append(weak)
    (scope,) = evidence.scopes(capability="restore")
    assert scope["outcome"] == "qualified"
    wrong = evidence.append(receipt(case__restore_oracle="spark"))["sha256"]
    (scope,) = evidence.scopes(capability="restore")
    assert (scope["outcome"], scope["receipts"]) == ("rejected", [wrong])
    assert "SEMANTIC_ORACLE_MISMATCH" in scope["codes"]


def test_an_image_is_noted_as_unjudged_until_a_scope_of_it_is_judged(
    evidence: Evidence,
    database: Database,
) -> None:
    """Registered before or after its receipts: none is listed as one without evidence that has some."""

    def register(config_id: str) -> None:
        body = {"title": config_id[:4], "config_id": config_id}
        answer = evidence.client.post("/api/v1/images", json=body, headers=evidence.headers("operator"))
        assert answer.status_code == 201

    def listed() -> list[str]:
        with database.reading() as session:
            found = queries_evidence.images_without_evidence(session, after=None, limit=1)
            total = queries_evidence.count_images_without_evidence(session)
            titles = [one.title for one in found]
        assert total.count <= 2
        return titles

    register(CONFIG_ID)
    register("77" * 32)
    assert listed() == ["7777"]
    evidence.append(receipt())
    evidence.append(receipt(artifact__image_id=OTHER_IMAGE))
    register(OTHER_IMAGE.removeprefix("sha256:"))
    assert listed() == ["7777"]
    with database.transaction() as session:
        # As if registering had not seen a verdict of the same moment.
        session.execute(
            text("INSERT INTO image_unjudged SELECT id, config_id, now() FROM image WHERE title = '2b2b'")
        )
    assert listed() == ["7777"]
