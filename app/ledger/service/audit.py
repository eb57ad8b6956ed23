"""The whole log and every row it covers, checked in one snapshot of the database; nothing is written.

First the log against itself, its checkpoints and a head from elsewhere (`audit_log`); then every row that
must have a leaf against the latest one that mentions it; then rows mentioned that are not there any more.
"""

from collections.abc import Iterator
from typing import Final

from sqlalchemy.orm import Session

from app.core.digest import Digest, sha256
from app.core.errors import CoreError
from app.core.ledger.checkpoint import Checkpoint, NoteVerifier
from app.core.ledger.leaf import Leaf, parse_leaf
from app.core.store.digest_table import DigestTable, DigestTableBuilder
from app.ledger.repository import log
from app.ledger.repository.rows import stream_due
from app.ledger.repository.views import VIEWS, View
from app.ledger.service.audit_log import LogAudit
from app.ledger.service.findings import AuditProgress, AuditTotals, Finding

_SEEN: Final = 1
_INDEX_BYTES: Final = 8
_NEWEST_FIRST: Final = 2**64 - 1
_TOLD_EVERY: Final = 1000


class LedgerAudit:
    """One audit. `findings` walks everything once; `totals` says how much.

    What stays in memory is 73 bytes per covered row and view; entries and rows are streamed.

    Args:
        session: one snapshot (`Database.reading`), of a role that may read.
        verifier: the log's key; without one, signatures are not judged.
        against: a head signed earlier and kept elsewhere: only it shows a history that was rewritten whole.
        progress: is told now and then how far it is.
    """

    def __init__(
        self,
        session: Session,
        *,
        verifier: NoteVerifier | None = None,
        against: Checkpoint | None = None,
        progress: AuditProgress | None = None,
    ) -> None:
        self.totals = AuditTotals()
        self._session = session
        self._verifier = verifier
        self._against = against
        self._progress = progress or (lambda _totals: None)
        self._mentioned = DigestTableBuilder(extra_bytes=_INDEX_BYTES + 32)
        self._unknown_views: dict[str, int] = {}

    def findings(self) -> Iterator[Finding]:
        """Everything that is not as the application wrote it."""
        for finding in self._findings():
            self.totals.findings += 1
            yield finding
        self._progress(self.totals)

    def _findings(self) -> Iterator[Finding]:
        audit = LogAudit(
            self._session,
            verifier=self._verifier,
            against=self._against,
            take=self._take,
            totals=self.totals,
        )
        yield from audit.findings()
        for view, index in self._unknown_views.items():
            yield Finding(
                code="entry-changed",
                subject=f"ledger_leaf {index}",
                expected="views this version knows",
                found=view,
            )
        table = self._mentioned.build()
        for known in VIEWS.values():
            yield from self._rows(known, table=table)
        if not all(table.marks):
            yield from self._removed(table)

    def _take(self, index: int, leaf: Leaf) -> None:
        """Remember what a leaf says of each row; of several, the table keeps the first: the newest."""
        place = (_NEWEST_FIRST - index).to_bytes(_INDEX_BYTES, "big")
        for view, rows in leaf.rows.items():
            if view not in VIEWS:
                self._unknown_views.setdefault(view, index)
                continue
            for key, digest in rows.items():
                self._mentioned.add(_name(view, key=key), extra=place + bytes.fromhex(digest))
        if index % _TOLD_EVERY == 0:
            self._progress(self.totals)

    def _rows(self, view: View, *, table: DigestTable) -> Iterator[Finding]:
        count = 0
        for key, digest in stream_due(self._session, view=view):
            count += 1
            self.totals.rows += 1
            if self.totals.rows % _TOLD_EVERY == 0:
                self._progress(self.totals)
            row = table.find(_name(view.name, key=key))
            if row is None:
                yield Finding(
                    code="row-added",
                    subject=f"{view.name} {key}",
                    expected=f"a leaf that mentions it ({view.model.__tablename__})",
                    found="none",
                )
                continue
            table.mark(row, bit=_SEEN)
            index, expected = _extra(table, row=row)
            if expected != digest:
                yield Finding(
                    code="row-changed",
                    subject=f"{view.name} {key}",
                    expected=f"digest {expected} as leaf {index} says ({view.model.__tablename__})",
                    found=f"digest {digest}",
                )
        self.totals.by_view[view.name] = count

    def _removed(self, table: DigestTable) -> Iterator[Finding]:
        """Only names are wanted here, and the table holds digests of them: the leaves are read once more."""
        for leaf in log.stream_leaves(self._session):
            try:
                rows = parse_leaf(leaf.document, subject="leaf").rows
            except CoreError:
                continue
            for view, keys in rows.items():
                for key in keys if view in VIEWS else ():
                    row = table.find(_name(view, key=key))
                    if row is not None and not table.mark(row, bit=_SEEN):
                        yield _gone(view, key=key, index=_extra(table, row=row)[0])


def _gone(view: str, *, key: str, index: int) -> Finding:
    return Finding(
        code="row-removed",
        subject=f"{view} {key}",
        expected=f"the row of leaf {index} ({VIEWS[view].model.__tablename__})",
        found="none, or one that is not at that point any more",
    )


def _name(view: str, *, key: str) -> Digest:
    return sha256(f"{view}\n{key}".encode())


def _extra(table: DigestTable, *, row: int) -> tuple[int, str]:
    extra = table.extra(row)
    index = _NEWEST_FIRST - int.from_bytes(extra[:_INDEX_BYTES], "big")
    return index, extra[_INDEX_BYTES:].hex()
