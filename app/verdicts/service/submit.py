"""Documents come in: kept, judged, and everything they bear on judged again, in one transaction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.core.qualify.facts import DocumentFacts
from app.core.qualify.values import Basis
from app.db.together import look_up_by_keys
from app.receipts.service import Appended, Origin, Submission, append_and_ask
from app.verdicts.service.judging import Made, judge_receipts
from app.verdicts.service.rows import Cause
from app.verdicts.service.surroundings import beforehand, concerned


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What became of submitted bytes: `changed` are the verdicts that are new, about the document and what it
    bears on."""

    sha256: str
    created: bool
    changed: tuple[Made, ...]


def submit(
    session: Session, *, raw: bytes, facts: DocumentFacts, origin: Origin | None, by: str, grade: Basis
) -> Submitted:
    """Keep a document whose facts were read from `raw`, and judge.

    Args: grade: the weakest grade of evidence with which anything is deployable.
    """
    one = Submission(raw=raw, facts=facts, origin=origin)
    (appended,), changed = _submitted(session, [one], by=by, grade=grade)
    return Submitted(sha256=facts.sha256, created=appended.created, changed=tuple(changed))


def submit_many(
    session: Session, *, submissions: Sequence[Submission], by: str, grade: Basis
) -> list[Submitted]:
    """The same for documents that come in together: each is kept, then all of them are judged at once, so
    that a receipt that others of them bear on gets one verdict and not one after each.

    Returns: what became of each; `changed` only those about the document itself.
    """
    every, changed = _submitted(session, submissions, by=by, grade=grade)
    own: dict[str, list[Made]] = {}
    for one in changed:
        if one.receipt is not None:
            own.setdefault(one.receipt, []).append(one)
    return [
        Submitted(
            sha256=one.facts.sha256,
            created=one.created,
            changed=tuple(own.get(one.facts.sha256, ())) if one.created else (),
        )
        for one in every
    ]


def _submitted(
    session: Session, submissions: Sequence[Submission], *, by: str, grade: Basis
) -> tuple[list[Appended], list[Made]]:
    asking = beforehand(submissions)
    look_up_by_keys(session)
    every, answers = append_and_ask(session, submissions=submissions, by=by, questions=asking.questions)
    new = [one for one in every if one.is_new]
    if not new:
        return every, []
    causes = dict(_causes(new, by=by))
    rest = Cause(what="receipt-imported", detail=f"{len(causes)} receipts came in together", by=by)
    if len(causes) == 1:
        (rest,) = causes.values()
    told = asking.told(answers)
    bearing = concerned(session, appended=new, told=told)
    for caused_by, digests in bearing.items():
        for digest in digests:
            causes.setdefault(digest, causes[caused_by])
    changed = judge_receipts(
        session, digests=sorted(causes), cause=rest, causes=causes, new=new, told=told, grade=grade
    )
    return every, changed


def _causes(new: Sequence[Appended], *, by: str) -> Iterator[tuple[str, Cause]]:
    for one in reversed(new):
        sha256, place = one.facts.sha256, one.place
        detail = f"receipt {sha256[:12]} came in"
        if not one.created and place is not None:
            detail = f"receipt {sha256[:12]} stands at {place.repository} {place.path} too"
        what = "receipt-imported" if one.created else "place-added"
        yield sha256, Cause(what=what, detail=detail, by=by, receipt=sha256)
