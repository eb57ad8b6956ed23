"""The ledger: its head, its latest entries, one entry with the bytes that are hashed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request, Response
from sqlalchemy.orm import Session

from app.core.canonical_json import JsonValue, encode_canonical
from app.core.dsse import fingerprint
from app.core.errors import CoreError
from app.core.ledger.leaf import Leaf, parse_leaf
from app.dashboard.access import LedgerVisitor
from app.dashboard.templating import page
from app.db.session import database_time
from app.errors import AppError
from app.ledger.api import SignerDep
from app.ledger.service import proofs
from app.models import LedgerLeaf
from app.web.deps import ReadSession

router = APIRouter(prefix="/ledger", include_in_schema=False)

SHOWN: Final = 50
LARGEST: Final = 2**63 - 1
_ID: Final = re.compile(r"[0-9a-f-]{32,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A leaf, and what it says; `trouble` instead where its bytes are not a leaf's."""

    row: LedgerLeaf
    leaf: Leaf | None
    trouble: str

    @property
    def facts(self) -> list[tuple[str, str, bool]]:
        """Name, text and whether it is an id or digest, of each fact."""
        found = self.leaf.facts.items() if self.leaf else ()
        texts = [(name.replace("_", " "), _words(value)) for name, value in found]
        return [(name, text, _ID.fullmatch(text) is not None) for name, text in texts]

    @property
    def row_count(self) -> int:
        return sum(len(rows) for rows in self.leaf.rows.values()) if self.leaf else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadLine:
    """The head of the log, or why there is none to show."""

    head: proofs.Head | None
    trouble: str

    @property
    def behind(self) -> int:
        """Entries that the newest checkpoint does not cover."""
        if self.head is None:
            return 0
        return self.head.size - (self.head.latest.size if self.head.latest else 0)


def head_line(session: Session) -> HeadLine:
    """The head; a log that cannot be read is said to be one and takes no page with it."""
    try:
        return HeadLine(head=proofs.head(session), trouble="")
    except (CoreError, AppError) as error:
        return HeadLine(head=None, trouble=str(error))


@router.get("")
def show_ledger(
    request: Request,
    session: ReadSession,
    login: LedgerVisitor,
    signer: SignerDep,
    before: Annotated[int | None, Query(ge=0, le=LARGEST)] = None,
) -> Response:
    """Newest entries first; an index is an address that stays."""
    line = head_line(session)
    size = line.head.size if line.head else 0
    end = size if before is None else min(before, size)
    start = max(0, end - SHOWN)
    found, _ = proofs.entries(session, start=start, limit=end - start) if end else ([], 0)
    return page(
        request,
        "ledger.html",
        login=login,
        now=database_time(session),
        line=line,
        signer=signer,
        key_fingerprint=fingerprint(signer.verifier.public) if signer else "",
        entries=read_entries(found)[::-1],
        newest=before is None,
        older=f"/ledger?before={start}" if start else "",
    )


@router.get("/{index}")
def show_entry(
    index: Annotated[int, Path(ge=0, le=LARGEST)],
    request: Request,
    session: ReadSession,
    login: LedgerVisitor,
    signer: SignerDep,
) -> Response:
    row = proofs.entry(session, index=index)
    line = head_line(session)
    size = line.head.size if line.head else index + 1
    return page(
        request,
        "ledger_entry.html",
        login=login,
        now=database_time(session),
        entry=read_entries([row])[0],
        text=row.document.decode(errors="backslashreplace"),
        newer=index + 1 if index + 1 < size else None,
        size=size,
        signed=signer is not None,
    )


def _words(value: JsonValue) -> str:
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    return value if isinstance(value, str) else encode_canonical(value).decode()


def read_entries(rows: Sequence[LedgerLeaf]) -> list[Entry]:
    """What leaves say."""
    return [_entry(row) for row in rows]


def _entry(row: LedgerLeaf) -> Entry:
    try:
        leaf = parse_leaf(row.document, subject=f"ledger entry {row.index}")
    except CoreError as error:
        return Entry(row=row, leaf=None, trouble=str(error))
    return Entry(row=row, leaf=leaf, trouble="")
