"""Record facts: each becomes part of a leaf, appended as the last thing its transaction does."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.core.canonical_json import JsonObject
from app.core.ledger.leaf import Leaf, encode_leaf
from app.core.ledger.merkle import Frontier, leaf_hash, right_edge
from app.db.session import before_commit
from app.db.together import ask_together
from app.ledger.repository import log
from app.ledger.repository.rows import AllOf, DigestQuestion, RowKey
from app.ledger.repository.views import VIEWS

_PENDING: Final = "sparkgate.ledger"
# Who acts where no request stands behind a change: the timetable, and what follows from a rank's word.
CONTROL_PLANE: Final = "control plane"


@dataclass(slots=True, kw_only=True)
class _Pending:
    kind: str
    by: str
    facts: JsonObject
    rows: dict[str, list[RowKey]]


def record(
    session: Session,
    *,
    kind: str,
    by: str,
    rows: Mapping[str, Iterable[RowKey]],
    facts: "JsonObject | None" = None,
) -> None:
    """Have rows that this transaction wrote put into the ledger, in one leaf, before it commits.

    Call it beside the write, in the same transaction; it takes no lock and asks nothing yet. When the
    transaction ends (`Database.transaction`), everything is flushed, the rows are read back and digested, the
    ledger's lock is taken, and the leaves are appended. If that fails the transaction is rolled back; if the
    transaction fails there is no leaf. Records of the same kind, person and facts become one leaf.

        ledger.record(session, kind="key-revoked", by=principal.name, rows={"api_key": [key]},
                      facts={"account": "ada", "label": "ci"})

    Args:
        kind: what happened, lower-case words joined by ``-``.
        by: who did it: a principal's name, or `CONTROL_PLANE`.
        rows: view (see `app.ledger.repository.views`) → what to cover: model instances, primary keys (a tuple
            if there are several columns), or `all_of(restore_id)` for everything that belongs to a restore or
            readback. Only rows that this transaction wrote or holds, or that never change: another
            transaction's change would be recorded with an old digest.
        facts: a few words for people, as JSON without fractions. No secrets: leaves are public to auditors.

    Raises:
        LookupError: a view is not known (at once); a row is not there (before the commit).
    """
    for view in rows:
        if view not in VIEWS:
            raise LookupError(f"ledger view: expected one of {', '.join(VIEWS)}, found {view}")
    pending: list[_Pending] | None = session.info.get(_PENDING)
    if pending is None:
        pending = session.info[_PENDING] = []
        before_commit(session, _append)
    wanted = {view: list(keys) for view, keys in rows.items()}
    same = next((one for one in pending if (one.kind, one.by, one.facts) == (kind, by, facts or {})), None)
    if same is None:
        pending.append(_Pending(kind=kind, by=by, facts=facts or {}, rows=wanted))
        return
    for view, keys in wanted.items():
        same.rows.setdefault(view, []).extend(keys)


def all_of(owner: UUID) -> AllOf:
    """Every row of a view that belongs to this restore or readback when the transaction ends."""
    return AllOf(owner=owner)


def _append(session: Session) -> None:
    pending: list[_Pending] = session.info.pop(_PENDING)
    wanted = DigestQuestion(one.rows for one in pending)
    if wanted.is_long:
        # Many rows take longer to digest than a trip, and everybody waits for whoever holds the lock.
        answers = ask_together(session, *wanted.questions)
        digests = wanted.answered(row for rows in answers for row in rows)
        _, edge = log.ask_and_lock(session)
    else:
        answers, edge = log.ask_and_lock(session, *wanted.questions)
        digests = wanted.answered(row for rows in answers for row in rows)
    frontier = Frontier(size=edge.size, hashes=[edge.hashes[node.level] for node in right_edge(edge.size)])
    leaves, nodes = [], []
    for one, rows in zip(pending, digests, strict=True):
        document = encode_leaf(Leaf(kind=one.kind, at=edge.now, by=one.by, rows=rows, facts=one.facts))
        hashed = leaf_hash(document)
        leaves.append(
            log.NewLeaf(
                index=frontier.size,
                kind=one.kind,
                document=document,
                leaf_hash=hashed,
                created_at=edge.now,
            )
        )
        nodes += frontier.append(hashed)
    log.add(session, leaves=leaves, nodes=nodes)
