"""Several receipts in one request: each answered on its own, judged as if they had come one by one."""

from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from app.core.base64_text import encode_base64
from app.core.digest import sha256
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.values import Basis
from app.db.session import Database
from app.ledger.service.audit import LedgerAudit
from app.models import ReceiptOrigin, ReceiptRow, VerdictCurrent, VerdictRow
from app.receipts.service import Origin, Submission
from app.receipts.service.stored import facts_of_bytes
from app.verdicts.service import batches, judging
from app.verdicts.service.submit import submit, submit_many
from tests.app.conftest import empty_tables
from tests.app.evidence_client import Evidence
from tests.app.evidence_documents import (
    OTHER_IMAGE,
    WITHDRAWAL,
    failure,
    publication,
    raw,
    receipt,
)

PATH = "/api/v1/receipts/batch"


def send(evidence: Evidence, *documents: bytes, status: int = 200, **place: str) -> Any:
    body = {"documents": [{"document": encode_base64(one), **place} for one in documents]}
    answer = evidence.client.post(PATH, json=body, headers=evidence.headers("operator"))
    assert answer.status_code == status, answer.text
    return answer.json()


def test_each_is_answered_in_its_place_and_a_broken_one_keeps_none_out(
    evidence: Evidence,
    database: Database,
) -> None:
    good, wrong = raw(receipt()), raw(receipt(artifact__image_id=OTHER_IMAGE, case__restore_oracle="spark"))
    first = send(evidence, good, b'{"a": 1, "a": 2}', wrong, good)["receipts"]
    assert [one["status"] for one in first] == [201, 422, 201, 200]
    assert [one["outcome"] for one in first] == ["qualified", None, "rejected", "qualified"]
    assert [one["sha256"] for one in first] == [sha256(good), None, sha256(wrong), sha256(good)]
    problem = first[1]["problem"]
    assert (problem["code"], problem["errors"][0]["pointer"]) == ("document-refused", "/a")
    again = send(evidence, good, wrong)["receipts"]
    assert [(one["status"], one["outcome"]) for one in again] == [(200, "qualified"), (200, "rejected")]
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(ReceiptRow)) == 2
        assert session.scalar(select(func.count()).select_from(VerdictRow)) == 4


def test_what_is_no_base64_is_refused_in_its_place(evidence: Evidence) -> None:
    body = {"documents": [{"document": "e30"}, {"document": encode_base64(raw(receipt()))}]}
    answer = evidence.client.post(PATH, json=body, headers=evidence.headers("operator")).json()
    assert [one["status"] for one in answer["receipts"]] == [422, 201]


@pytest.mark.parametrize("body", [{"documents": []}, {"documents": [{"document": "e30=", "path": "a"}]}, {}])
def test_a_batch_that_is_none_is_refused(evidence: Evidence, body: dict[str, Any]) -> None:
    answer = evidence.client.post(PATH, json=body, headers=evidence.headers("operator"))
    assert (answer.status_code, answer.json()["code"]) == (422, "validation-failed")


def test_versions_of_one_path_keep_their_order(evidence: Evidence, database: Database) -> None:
    old, new = raw(receipt(case__restore_oracle="spark")), raw(receipt())
    send(evidence, old, new, repository="r", path="v.json")
    assert evidence.outcome(sha256(new)) == ("qualified", "NO_REGISTRY_DIGEST")
    (scope,) = evidence.scopes(capability="restore")
    assert (scope["outcome"], scope["receipts"]) == ("qualified", [sha256(new)])
    with database.reading() as session:
        places = session.scalars(select(ReceiptOrigin).order_by(ReceiptOrigin.created_at)).all()
        assert [one.receipt_sha256 for one in places] == [sha256(old), sha256(new)]


def test_one_that_cannot_be_judged_loses_none_of_the_others(
    evidence: Evidence,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    documents = [raw(receipt(profile__load_threads=n)) for n in range(3)]
    truth = judging.receipt_drafts

    def failing(facts: DocumentFacts, *given: Any, **named: Any) -> Any:
        if facts.sha256 == sha256(documents[1]):
            raise ValueError("a rule that fails")
        return truth(facts, *given, **named)

    monkeypatch.setattr(judging, "receipt_drafts", failing)
    answers = send(evidence, *documents)["receipts"]
    assert [one["status"] for one in answers] == [201, 500, 201]
    assert answers[1]["problem"]["code"] == "internal-error"
    monkeypatch.undo()
    assert [one["status"] for one in send(evidence, *documents)["receipts"]] == [200, 201, 200]
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(ReceiptRow)) == 3


def _standing(database: Database) -> set[tuple[Any, ...]]:
    with database.reading() as session:
        rows = session.scalars(
            select(VerdictRow).join(VerdictCurrent, VerdictCurrent.verdict_id == VerdictRow.id)
        )
        return {(one.kind, one.subject_key, one.document_sha256) for one in rows}


def related_documents() -> list[tuple[bytes, Origin | None]]:
    """Documents that bear on each other: a publication, a failure, a withdrawal, versions of one path, two
    commits of one image."""
    old, new = receipt(profile__load_threads=2), receipt(profile__load_threads=3)
    other = receipt(artifact__image_id=OTHER_IMAGE)
    commit = receipt(artifact__image_id=OTHER_IMAGE, artifact__sparkcache_commit="99" * 20)
    withdrawn = {"schema": WITHDRAWAL, "status": "withdrawn", "release": "r1"}
    return [
        (raw(receipt()), None),
        (raw(old), Origin(repository="r", path="v.json")),
        (raw(publication()), Origin(repository="r", path="p.json")),
        (raw(other), None),
        (raw(new), Origin(repository="r", path="v.json")),
        (raw(failure()), None),
        (raw(commit), None),
        (raw(withdrawn), None),
    ]


@pytest.mark.parametrize("backwards", [False, True])
def test_together_they_are_judged_as_one_by_one(
    database: Database, owner_engine: Engine, backwards: bool
) -> None:
    documents = related_documents()[:: -1 if backwards else 1]
    given = [Submission(raw=one, facts=facts_of_bytes(one), origin=where) for one, where in documents]
    grade = Basis.SELF_CONSISTENT
    with database.transaction() as session:
        submit_many(session, submissions=given, by="ada", grade=grade)
    together = _standing(database)
    with database.reading() as session:
        assert not list(LedgerAudit(session).findings())
    empty_tables(owner_engine)
    for one in given:
        with database.transaction() as session:
            submit(session, raw=one.raw, facts=one.facts, origin=one.origin, by="ada", grade=grade)
    assert _standing(database) == together
    assert len(together) > len(given)


def test_an_empty_part_asks_nothing(database: Database) -> None:
    assert batches.take_in(database, submissions=[], by="ada", grade=Basis.ATTESTED) == []
