"""Receipts judged, then the scopes they take part in: new rows where something changed, old ones stay."""

from collections.abc import Iterable, Sequence

from sqlalchemy.orm import Session

from app.core.canonical_json import JsonObject
from app.core.digest import sha256
from app.core.qualify.composition import Receipt
from app.core.qualify.drafts import composed_draft, receipt_drafts
from app.core.qualify.facts import Capability
from app.core.qualify.ruleset import ruleset_version
from app.core.qualify.values import Basis
from app.db.session import database_time
from app.ledger import service as ledger
from app.models import VerdictCurrent, VerdictRow
from app.receipts.service.locks import lock_receipts, lock_scopes
from app.verdicts import repository
from app.verdicts.service import rows
from app.verdicts.service.rows import Cause, Draft
from app.verdicts.service.stored import keep_verdict, verdicts_by_id
from app.verdicts.service.surroundings import around

Scope = tuple[str, str]
"""Digest of a scope, and a capability."""


def judge_receipts(
    session: Session, *, digests: Sequence[str], cause: Cause, grade: Basis
) -> list[VerdictRow]:
    """Judge these receipts and every scope they take or took part in.

    Returns: the rows that are new; none where nothing changed.
    """
    lock_receipts(session, digests=digests)
    scopes: set[Scope] = set()
    written: list[VerdictRow] = []
    for digest in sorted(set(digests)):
        facts, surroundings = around(session, sha256=digest)
        drafts = list(receipt_drafts(facts, surroundings, grade=grade))
        before = repository.currents_of_receipt(session, sha256=digest)
        scopes |= _scopes(before.values()) | _composed(drafts)
        drafts += _vanished(session, before, drafts, grade=grade)
        written += _write(session, drafts=drafts, before=before, cause=cause)
    return written + judge_scopes(session, scopes=scopes, cause=cause, grade=grade)


def judge_scopes(
    session: Session, *, scopes: Iterable[Scope], cause: Cause, grade: Basis
) -> list[VerdictRow]:
    """Make the verdict of each scope from those of its receipts."""
    wanted = sorted(set(scopes))
    if not wanted:
        return []
    lock_scopes(session, scopes=wanted)
    keys = {scope: rows.subject_key("scope", of=scope[0], capability=scope[1]) for scope in wanted}
    before = repository.currents(session, keys=keys.values())
    drafts: list[Draft] = []
    for scope in wanted:
        draft = _scope_draft(session, scope, grade=grade)
        last = before.get(keys[scope])
        if draft is None and last is not None:
            draft = _closing(session, last, grade=grade)
        if draft is not None:
            drafts.append(draft)
    return _write(session, drafts=drafts, before=before, cause=cause)


def _scope_draft(session: Session, scope: Scope, *, grade: Basis) -> Draft | None:
    digest, capability = scope
    for superseded in (False, True):
        found = repository.standing_cases(
            session, scope_digest=digest, capability=capability, superseded=superseded
        )
        if found:
            known = verdicts_by_id(session, verdict_ids=[one.verdict_id for one in found])
            receipts = [
                Receipt(
                    sha256=one.receipt,
                    verdict=known[one.verdict_id],
                    superseded_by=one.superseded_by or "",
                )
                for one in found
            ]
            draft = composed_draft(receipts, capability=Capability(capability), grade=grade)
            if draft is not None:
                return draft
    return None


def _vanished(
    session: Session,
    before: dict[str, VerdictCurrent],
    drafts: Sequence[Draft],
    *,
    grade: Basis,
) -> list[Draft]:
    """What was judged and is no case any more."""
    kept = {draft.subject_key for draft in drafts}
    return [_closing(session, one, grade=grade) for key, one in before.items() if key not in kept]


def _closing(session: Session, last: VerdictCurrent, *, grade: Basis) -> Draft:
    return rows.closing_draft(
        verdicts_by_id(session, verdict_ids=[last.verdict_id])[last.verdict_id],
        kind=last.kind,
        receipt=last.receipt_sha256,
        grade=grade,
        ruleset=ruleset_version(),
    )


def _write(
    session: Session, *, drafts: Sequence[Draft], before: dict[str, VerdictCurrent], cause: Cause
) -> list[VerdictRow]:
    changed = [
        draft
        for draft in drafts
        if draft.subject_key not in before
        or before[draft.subject_key].document_sha256 != sha256(draft.document)
    ]
    if not changed:
        return []
    now = database_time(session)
    written = []
    for draft in changed:
        last = before.get(draft.subject_key)
        previous = None if last is None else last.verdict_id
        written.append(rows.row_of(draft, cause=cause, previous_id=previous, now=now))
    current = [rows.current_values(draft, row) for draft, row in zip(changed, written, strict=True)]
    repository.add_verdicts(session, rows=written, current=current)
    for draft, row in zip(changed, written, strict=True):
        keep_verdict(row.id, draft.verdict)
    facts: JsonObject = {"cause": cause.what, **({"receipt": cause.receipt} if cause.receipt else {})}
    ledger.record(session, kind="verdicts-made", by=cause.by, rows={"verdict": written}, facts=facts)
    return written


def _scopes(before: Iterable[VerdictCurrent]) -> set[Scope]:
    return {(one.scope_digest, one.capability) for one in before if one.composes}


def _composed(drafts: Iterable[Draft]) -> set[Scope]:
    return {(str(one.verdict.scope.digest()), one.verdict.capability.value) for one in drafts if one.composes}
