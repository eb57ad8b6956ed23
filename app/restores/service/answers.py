"""A restore is asked a question: which one, what its ranks say, what their parts add up to.

Hashes say that the right bytes were read and placed where they were meant to be placed; only an answer says
that a model finds them there. It is worked out once every rank is ready and before anything is decided, so
that pages which answer wrong are never visible (docs/decisions/0012-faults-on-purpose.md).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from sqlalchemy.orm import Session

from app.core.canonical_json import JsonObject, decode_strict, encode_canonical
from app.core.digest import Digest, sha256
from app.core.errors import CoreError, IncompatibleError
from app.core.oracle.judgement import OracleJudgement, judge_partials
from app.core.oracle.partials import RankPartials
from app.core.oracle.question import OracleQuestion, require_question_fits
from app.core.store.snapshot import PageLayout
from app.errors import FieldProblem, Refused
from app.models import Restore, RestoreAnswer
from app.oracles import service as oracles
from app.restores import repository
from app.restores.service.oracle_parts import read_part

NO_QUESTION: Final = "none"
UNANSWERED_SCHEMA: Final = "sparkgate-oracle-unanswered/v1"


class Semantic(StrEnum):
    """What came of the question, apart from what became of the bytes."""

    RIGHT = "right"
    WRONG = "wrong"
    UNANSWERED = "unanswered"
    NOT_ASKED = "not asked"


PUBLISHABLE: Final = frozenset({Semantic.RIGHT, Semantic.NOT_ASKED})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What is written down of an answer; ``problem`` is what keeps the pages from being published."""

    semantic: Semantic
    observed: str | None
    diagnosis: str | None
    document: JsonObject
    problem: dict[str, Any] | None


class SnapshotNames(Protocol):
    """What a question must fit of the snapshot it is about."""

    @property
    def context_digest(self) -> str: ...

    @property
    def rank_count(self) -> int: ...

    @property
    def span_tokens(self) -> int: ...


def question_of(
    session: Session, *, oracle: str | None, snapshot: SnapshotNames, layout: PageLayout
) -> OracleQuestion | None:
    """What a restore of a snapshot is asked: the question its order names, else the newest one registered.

    Args:
        oracle: a digest, ``none`` for no question, nothing for the registered one.

    Raises:
        NotFound: no question has this digest.
        Refused: the question is about another snapshot or layout.
    """
    if oracle == NO_QUESTION:
        return None
    if oracle is None:
        return oracles.default_question(
            session,
            context_digest=snapshot.context_digest,
            layout_sha256=str(layout.sha256),
            rank_count=snapshot.rank_count,
        )
    question = oracles.known_question(session, sha256=oracle)
    try:
        require_question_fits(
            question,
            context_digest=Digest(snapshot.context_digest),
            layout=layout,
            ranks=snapshot.rank_count,
            span_tokens=snapshot.span_tokens,
        )
    except IncompatibleError as error:
        raise Refused(str(error), errors=(FieldProblem(pointer="/oracle", detail=str(error)),)) from error
    return question


def answer_question(session: Session, *, restore: Restore) -> None:
    """Work out the answer of a restore whose ranks are all ready, and write it down; the caller holds its
    row and decides."""
    question = oracles.known_question(session, sha256=restore.question_sha256 or "")
    try:
        found = _judged(restore, question=question, partials=_partials(session, restore=restore))
    except CoreError as error:
        found = _unanswered(restore, why=str(error))
    restore.semantic, restore.problem = str(found.semantic), found.problem
    raw = encode_canonical(found.document)
    row = RestoreAnswer(
        restore_id=restore.id,
        question_sha256=str(question.sha256),
        semantic=str(found.semantic),
        observed=found.observed,
        diagnosis=found.diagnosis,
        document=raw,
        sha256=str(sha256(raw)),
    )
    repository.add_answer(session, answer=row)
    detail = found.problem["detail"] if found.problem else f"{found.observed}, as expected"
    repository.add_event(session, restore_id=restore.id, kind="answered", detail=str(detail), rank=None)


def partials_of_reports(restore: Restore) -> dict[int, RankPartials]:
    """The partials of every rank that has some, by rank; the reports are loaded."""
    found = {one.rank: one.report.part for one in restore.attempts if one.report is not None}
    parts = {
        rank: read_part(decode_strict(raw, subject="part of an answer"))
        for rank, raw in found.items()
        if raw is not None
    }
    return {rank: part.partials for rank, part in parts.items() if part.partials is not None}


def judged_again(session: Session, *, restore: Restore) -> OracleJudgement | None:
    """What the answer of a restore was, by the same arithmetic over the same reports, which are loaded;
    nothing where there was none."""
    if restore.question_sha256 is None:
        return None
    question = oracles.known_question(session, sha256=restore.question_sha256)
    try:
        return judge_partials(question, partials=list(partials_of_reports(restore).values()))
    except CoreError:
        return None


def _partials(session: Session, *, restore: Restore) -> list[RankPartials]:
    """The partials of all ranks; which of them has none is found by whoever adds them up."""
    return [
        read_part(decode_strict(raw, subject="part of an answer")).partials_or_raise(rank=rank)
        for rank, raw in repository.parts(session, restore_id=restore.id)
    ]


def _judged(restore: Restore, *, question: OracleQuestion, partials: list[RankPartials]) -> _Found:
    judgement = judge_partials(question, partials=partials)
    diagnosis = judgement.diagnosis
    return _Found(
        semantic=_semantic(judgement),
        observed=judgement.answer.word,
        diagnosis=None if diagnosis is None else str(diagnosis.fault),
        document=judgement.to_document(),
        problem=_problem(restore, judgement=judgement),
    )


def _semantic(judgement: OracleJudgement) -> Semantic:
    """With a wrong control a right answer proves nothing."""
    if not judgement.right:
        return Semantic.WRONG
    return Semantic.RIGHT if judgement.control_right else Semantic.UNANSWERED


def _problem(restore: Restore, *, judgement: OracleJudgement) -> dict[str, Any] | None:
    """Why the pages are not published, if so: the answer, the pages themselves, or that it is a drill."""
    diagnosis, expected, found = judgement.diagnosis, judgement.expected, judgement.answer.word
    cause = "" if diagnosis is None else f"; {diagnosis.fault}: {diagnosis.detail}"
    told: dict[str, Any] = {"subject": "answer of all ranks together", "expected": expected, "found": found}
    if not judgement.agreement.qualifies:
        detail = f"expected the answer {expected}, found {found}, every stored byte authentic{cause}"
        return {**told, "code": "semantic", "detail": detail}
    if not judgement.right:
        return {**told, "code": "pages-differ", "detail": f"the answer is right, the pages are not{cause}"}
    if not judgement.control_right:
        control = f"answered {judgement.control.word}, expected {judgement.expected_control}"
        return {
            **told,
            "code": "control-failed",
            "detail": f"the control was {control}: the answer proves nothing",
        }
    if restore.fault_name is not None:
        detail = f"the answer is right although {restore.fault_name} was put in; a drill publishes nothing"
        return {**told, "code": "fault-not-caught", "detail": detail}
    return None


def _unanswered(restore: Restore, *, why: str) -> _Found:
    document: JsonObject = {
        "schema": UNANSWERED_SCHEMA,
        "question_sha256": restore.question_sha256,
        "problem": why[:2000],
    }
    return _Found(
        semantic=Semantic.UNANSWERED,
        observed=None,
        diagnosis=None,
        document=document,
        problem={"code": "unanswered", "detail": f"the question was not answered: {why}"[:2000]},
    )
