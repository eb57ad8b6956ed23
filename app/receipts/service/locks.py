"""Locks of judging, in three stages and within a stage in one order, so that nobody waits in a circle.

First what a receipt speaks about, then the receipts whose verdicts are made, then the scopes. The ledger
comes last of all (`app.ledger`). Two receipts that bear on each other share a lock of the first stage; two
that both bear on a third meet at its lock of the second: whoever is later judges with both.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from sqlalchemy.orm import Session

from app.core.digest import sha256
from app.db.together import Question, ask_together
from app.receipts import repository


class Stage(IntEnum):
    """Order of the locks; the numbers are the first half of PostgreSQL's advisory keys."""

    SUBJECT = 0x5350_0001
    RECEIPT = 0x5350_0002
    SCOPE = 0x5350_0003


# Who needs more locks than this takes the whole stage: PostgreSQL's lock table is small.
MOST_LOCKS: Final = 128
_WHOLE_STAGE: Final = 0

# Role → what is locked, and whether two of the role may go side by side.
_SUBJECTS: Final = {
    "image": ("image", False),
    "failure": ("image", False),
    "registry": ("image", False),
    "labels": ("image", False),
    "labels-child": ("image", False),
    "release": ("release", True),
    "withdrawn-release": ("release", False),
    "unproven-release": ("release", False),
    "manifest": ("manifest", True),
    "withdrawn-manifest": ("manifest", False),
    "unproven-manifest": ("manifest", False),
    "artifact": ("artifact", True),
    "supersedes": ("artifact", False),
    "claim": ("receipt", False),
    "place": ("place", False),
    "points": ("place", True),
}


def lock_subjects(session: Session, *, digests: Iterable[str], keys: Iterable[str]) -> None:
    """Hold these receipts' digests and everything that receipts with these keys speak about."""
    ask_together(session, *subject_locks(digests=digests, keys=keys))


def subject_locks(*, digests: Iterable[str], keys: Iterable[str]) -> list[Question]:
    """The same as what is to be asked, at most one."""
    wanted = {f"receipt:{digest}": False for digest in digests}
    for key in keys:
        role, _, value = key.partition(":")
        if role in _SUBJECTS:
            what, shared = _SUBJECTS[role]
            name = f"{what}:{value}"
            wanted[name] = shared and wanted.get(name, True)
    return _locks(stage=Stage.SUBJECT, wanted=wanted)


def lock_receipts(session: Session, *, digests: Iterable[str]) -> None:
    """Hold the receipts whose verdicts are about to be made; one that this transaction has written is nobody
    else's yet, and needs none."""
    ask_together(session, *receipt_locks(digests=digests))


def receipt_locks(*, digests: Iterable[str]) -> list[Question]:
    """The same as what is to be asked, at most one."""
    return _locks(stage=Stage.RECEIPT, wanted=dict.fromkeys(digests, False))


def scope_locks(*, scopes: Iterable[tuple[str, str]]) -> list[Question]:
    """What is to be asked to hold scopes (digest, capability) whose verdicts are about to be made."""
    return _locks(stage=Stage.SCOPE, wanted=dict.fromkeys((":".join(one) for one in scopes), False))


def _locks(*, stage: Stage, wanted: dict[str, bool]) -> list[Question]:
    if not wanted:
        return []
    if len(wanted) > MOST_LOCKS:
        return [repository.lock_question(stage=stage, names=[(_WHOLE_STAGE, False)])]
    named: dict[int, bool] = {}
    for name, shared in wanted.items():
        number = _number(name)
        named[number] = shared and named.get(number, True)
    return [repository.lock_question(stage=stage, names=[(_WHOLE_STAGE, True), *sorted(named.items())])]


def _number(name: str) -> int:
    """31 bits of its digest, never that of the whole stage; two names of one number only wait in vain."""
    return int(sha256(name.encode())[:8], 16) % 0x7FFF_FFFE + 1
