"""A verdict from the row that keeps it, as far as a composition needs it."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.core.qualify.verdict import Verdict
from app.core.qualify.verdict_document import verdict_from
from app.verdicts import repository

# A row never changes, so its verdict may be kept; one of a transaction that fails has an id nobody asks for.
_MOST_KEPT: Final = 4096
_kept: "OrderedDict[UUID, Verdict]" = OrderedDict()
_lock = Lock()


def verdicts_by_id(session: Session, *, verdict_ids: Sequence[UUID]) -> dict[UUID, Verdict]:
    """The verdicts of these rows."""
    with _lock:
        found = {one: _kept[one] for one in verdict_ids if one in _kept}
    missing = [one for one in verdict_ids if one not in found]
    if missing:
        for verdict_id, raw in repository.documents_of(session, verdict_ids=missing).items():
            found[verdict_id] = verdict_from(raw, subject=f"verdict {verdict_id}")
            keep_verdict(verdict_id, found[verdict_id])
    return found


def keep_verdict(verdict_id: UUID, verdict: Verdict) -> None:
    """Remember the verdict of a row."""
    with _lock:
        _kept[verdict_id] = verdict
        _kept.move_to_end(verdict_id)
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
