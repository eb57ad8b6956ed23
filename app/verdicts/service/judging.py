"""Receipts judged, then the scopes they take part in: new rows where something changed, old ones stay."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from app.core.canonical_json import JsonObject
from app.core.digest import sha256
from app.core.qualify.composition import Receipt
from app.core.qualify.drafts import composed_draft, receipt_drafts
from app.core.qualify.facts import Capability
from app.core.qualify.ruleset import ruleset_version
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict
from app.db.together import Question, ask_together, send_with_next
from app.ledger import service as ledger
from app.receipts.service import Appended
from app.receipts.service.locks import receipt_locks, scope_locks
from app.receipts.service.related import NOTHING_TOLD, Told
from app.verdicts.repository import composing
from app.verdicts.repository.composing import Newest, StandingCase
from app.verdicts.service import rows
from app.verdicts.service.rows import Cause, Draft
from app.verdicts.service.stored import keep_verdict, verdicts_by_id
from app.verdicts.service.surroundings import Around

Scope = tuple[str, str]
"""Digest of a scope, and a capability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A verdict that is new: its row, and what it says."""

    id: UUID
    kind: str
    receipt: str | None
    verdict: Verdict


def judge_receipts(
    session: Session,
    *,
    digests: Sequence[str],
    cause: Cause,
    grade: Basis,
    causes: Mapping[str, Cause] = MappingProxyType({}),
    new: Sequence[Appended] = (),
    told: Told = NOTHING_TOLD,
) -> list[Made]:
    """Judge these receipts and every scope they take or took part in.

    Args:
        causes: those of single receipts; the rest, scopes among them, are judged because of `cause`.
        new: what this transaction has just written.
        told: what was asked in the trip in which it was.

    Returns: the rows that are new; none where nothing changed.
    """
    wanted = sorted(set(digests))
    created = {one.facts.sha256 for one in new if one.created}
    known = [one for one in wanted if one not in created]
    before = _locked(session, digests=known) if known else {}
    others = Around(session, digests=wanted, new=new, told=told)
    scopes = {_scope(one) for one in before.values() if one.composes}
    drafts: list[Draft] = []
    for digest in wanted:
        facts, surroundings = others.of(digest)
        own = list(receipt_drafts(facts, surroundings, grade=grade))
        scopes |= _composed(own)
        drafts += own
    drafts += _vanished(session, before, drafts, grade=grade)
    made, writing = _made(session, drafts=drafts, before=before, cause=cause, causes=causes)
    return made + judge_scopes(session, scopes=scopes, cause=cause, grade=grade, first=writing)


def _locked(session: Session, *, digests: Sequence[str]) -> dict[str, Newest]:
    """The newest verdicts about receipts that were judged before, once nobody else judges them."""
    locks = receipt_locks(digests=digests)
    return composing.currents(ask_together(session, *locks, composing.currents_question(digests))[-1])


def judge_scopes(
    session: Session,
    *,
    scopes: Iterable[Scope],
    cause: Cause,
    grade: Basis,
    first: Sequence[Question] = (),
) -> list[Made]:
    """Make the verdict of each scope from those of its receipts.

    Args: first: what writes these, in the same trip.
    """
    wanted = sorted(set(scopes))
    if not wanted:
        send_with_next(session, *first)
        return []
    keys = {scope: str(rows.subject_key("scope", of=scope[0], capability=scope[1])) for scope in wanted}
    now = composing.now_question(scopes=wanted, keys=[keys[one] for one in wanted])
    before, standing = composing.now(ask_together(session, *first, *scope_locks(scopes=wanted), now)[-1])
    drafts: list[Draft] = []
    for scope, draft in _scope_drafts(session, wanted, standing, grade=grade):
        last = before.get(keys[scope])
        if draft is None and last is not None:
            draft = _closing(session, last, grade=grade)
        if draft is not None:
            drafts.append(draft)
    made, writing = _made(session, drafts=drafts, before=before, cause=cause)
    send_with_next(session, *writing)
    return made


def _scope_drafts(
    session: Session, scopes: Sequence[Scope], standing: Sequence[StandingCase], *, grade: Basis
) -> Iterator[tuple[Scope, Draft | None]]:
    """What each scope's receipts come to; where none of them stands, those that are superseded."""
    by_scope = _composing(session, standing)
    bare = [one for one in scopes if one not in by_scope]
    if bare:
        by_scope |= _composing(session, composing.superseded_cases(session, scopes=bare))
    for scope in scopes:
        receipts = by_scope.get(scope)
        capability = Capability(scope[1])
        draft = None if receipts is None else composed_draft(receipts, capability=capability, grade=grade)
        yield scope, draft


def _composing(session: Session, standing: Sequence[StandingCase]) -> dict[Scope, list[Receipt]]:
    known = verdicts_by_id(session, verdict_ids=[one.verdict_id for one in standing])
    found: dict[Scope, list[Receipt]] = {}
    for one in standing:
        receipt = Receipt(
            sha256=one.receipt, verdict=known[one.verdict_id], superseded_by=one.superseded_by or ""
        )
        found.setdefault(one.scope, []).append(receipt)
    return found


def _vanished(
    session: Session, before: Mapping[str, Newest], drafts: Sequence[Draft], *, grade: Basis
) -> list[Draft]:
    """What was judged and is no case any more."""
    if not before:
        return []
    kept = {str(draft.subject_key) for draft in drafts}
    return [_closing(session, one, grade=grade) for key, one in before.items() if key not in kept]


def _closing(session: Session, last: Newest, *, grade: Basis) -> Draft:
    return rows.closing_draft(
        verdicts_by_id(session, verdict_ids=[last.verdict_id])[last.verdict_id],
        kind=last.kind,
        receipt=last.receipt_sha256,
        grade=grade,
        ruleset=ruleset_version(),
    )


def _made(
    session: Session,
    *,
    drafts: Sequence[Draft],
    before: Mapping[str, Newest],
    cause: Cause,
    causes: Mapping[str, Cause] = MappingProxyType({}),
) -> tuple[list[Made], list[Question]]:
    """The verdicts that are new, and what writes them."""
    by_key = {str(draft.subject_key): draft for draft in drafts}
    changed = {
        key: draft
        for key, draft in by_key.items()
        if key not in before or before[key].document_sha256 != sha256(draft.document)
    }
    if not changed:
        return [], []
    columns, made = [], []
    for key, draft in changed.items():
        one = Made(id=uuid4(), kind=draft.kind, receipt=draft.receipt, verdict=draft.verdict)
        last = before.get(key)
        columns.append(
            rows.row_of(
                draft,
                cause=causes.get(draft.receipt or "", cause),
                previous_id=None if last is None else last.verdict_id,
                verdict_id=one.id,
            )
        )
        made.append(one)
    documents = [draft.document for draft in changed.values()]
    for one in made:
        keep_verdict(one.id, one.verdict)
    facts: JsonObject = {"cause": cause.what, **({"receipt": cause.receipt} if cause.receipt else {})}
    ledger.record(
        session, kind="verdicts-made", by=cause.by, rows={"verdict": [one.id for one in made]}, facts=facts
    )
    return made, [composing.add_question(rows=columns, documents=documents)]


def _scope(one: Newest) -> Scope:
    return one.scope_digest, one.capability


def _composed(drafts: Iterable[Draft]) -> set[Scope]:
    return {(str(one.verdict.scope.digest()), one.verdict.capability.value) for one in drafts if one.composes}
