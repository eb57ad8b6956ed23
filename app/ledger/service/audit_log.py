"""The log against itself: entries re-hashed, the tree rebuilt, nodes and checkpoints compared."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, TypeVar

from sqlalchemy.orm import Session

from app.core.errors import CoreError
from app.core.ledger.checkpoint import Checkpoint, NoteVerifier, parse_checkpoint, verify_checkpoint
from app.core.ledger.leaf import Leaf, parse_leaf
from app.core.ledger.merkle import Frontier, Node, leaf_hash, node_hash
from app.ledger.repository import log
from app.ledger.service.findings import AuditTotals, Finding

_Row = TypeVar("_Row")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Takes each entry that can be read, with its index.
LeafTaker = Callable[[int, Leaf], None]


class LogAudit:
    """One pass over the three tables of the log, side by side, in bounded memory.

    Args:
        verifier: the log's key, if it is known: without one signatures are not judged.
        against: a head from elsewhere that the log must contain.
        take: is given every entry that can be read.
    """

    def __init__(
        self,
        session: Session,
        *,
        verifier: NoteVerifier | None,
        against: Checkpoint | None,
        take: LeafTaker,
        totals: AuditTotals,
    ) -> None:
        self._session = session
        self._verifier = verifier
        self._against = against
        self._take = take
        self._totals = totals
        # Whatever was handed out is kept.
        self._kept = {against.size} if against is not None else set()
        self._frontier = Frontier()
        self._whole = True
        self._next = 0
        self._nodes = _Ahead(log.stream_nodes(session))
        self._checkpoints = _Ahead(log.stream_checkpoints(session))

    def findings(self) -> Iterator[Finding]:
        """Everything that is wrong with the log."""
        with closing(self._nodes), closing(self._checkpoints):
            yield from self._heads()
            for row in log.stream_leaves(self._session):
                yield from self._entry(row)
            self._totals.root = self._frontier.root().hex() if self._whole else None
            yield from self._rest()

    def _entry(self, row: log.StoredLeaf) -> Iterator[Finding]:
        self._totals.entries += 1
        if row.index != self._next:
            yield _missing(self._next, end=row.index)
            self._whole = False
        self._next = row.index + 1
        hashed = leaf_hash(row.document)
        subject = f"ledger_leaf {row.index}"
        if row.leaf_hash != hashed.hex():
            yield Finding(
                code="entry-changed",
                subject=subject,
                expected=f"leaf_hash {hashed.hex()} of its document",
                found=f"leaf_hash {row.leaf_hash}",
            )
            hashed = self._hash_of_old(row, hashed=hashed)
        yield from self._document(row, subject=subject)
        if self._whole:
            for node, expected in self._frontier.append(hashed):
                yield from self._node(node, expected=expected)
            yield from self._heads()

    def _hash_of_old(self, row: log.StoredLeaf, *, hashed: bytes) -> bytes:
        """What the tree was built with: the stored hash, if the node above says so: the bytes changed."""
        above, beside = Node(1, row.index >> 1), Node(0, row.index ^ 1)
        stored = log.bytes_of(row.leaf_hash)
        found = log.texts(self._session, nodes=(above, beside))
        neighbour = log.bytes_of(found.get(beside, ""))
        if isinstance(stored, str) or isinstance(neighbour, str) or above not in found:
            return hashed
        left, right = (neighbour, stored) if row.index & 1 else (stored, neighbour)
        return stored if node_hash(left, right).hex() == found[above] else hashed

    def _document(self, row: log.StoredLeaf, *, subject: str) -> Iterator[Finding]:
        try:
            leaf = parse_leaf(row.document, subject=subject)
        except CoreError as error:
            yield Finding(
                code="entry-unreadable", subject=error.subject, expected=error.expected, found=error.found
            )
            return
        said = (leaf.kind, str((leaf.at - _EPOCH) // timedelta(microseconds=1)))
        kept = (row.kind, row.created_us)
        if said != kept:
            yield Finding(
                code="entry-changed",
                subject=subject,
                expected=" at ".join(said) + " µs",
                found=" at ".join(kept) + " µs",
            )
        self._take(row.index, leaf)

    def _node(self, node: Node, *, expected: bytes) -> Iterator[Finding]:
        """Compare with the stored node; nodes that stand before it belong to no tree of this log."""
        while (head := self._nodes.head) is not None and _order(head[0]) < _order(node):
            yield self._unknown(head[0])
        if head is None or head[0] != node:
            yield Finding(
                code="node-missing", subject=_node_name(node), expected=expected.hex(), found="nothing"
            )
            return
        self._totals.nodes += 1
        self._nodes.step()
        if head[1] != expected.hex():
            yield Finding(
                code="node-changed",
                subject=_node_name(node),
                expected=expected.hex(),
                found=head[1],
            )

    def _unknown(self, node: Node) -> Finding:
        self._nodes.step()
        return Finding(
            code="node-unknown", subject=_node_name(node), expected="no such subtree", found="a hash of one"
        )

    def _heads(self) -> Iterator[Finding]:
        """The checkpoints, and the head from elsewhere, of exactly the size reached."""
        size, root = self._frontier.size, self._frontier.root
        while (row := self._checkpoints.head) is not None and row.size <= size:
            self._checkpoints.step()
            yield from self._checkpoint(row, root=root())
            self._kept.discard(row.size)
        if self._against is not None and self._against.size == size and self._against.root != root():
            yield Finding(
                code="history-differs",
                subject=f"ledger at size {size}",
                expected=f"root {self._against.root.hex()} as signed earlier",
                found=f"root {root().hex()}",
            )

    def _checkpoint(self, row: log.StoredCheckpoint, *, root: bytes | None) -> Iterator[Finding]:
        self._totals.checkpoints += 1
        subject = f"ledger_checkpoint {row.size}"
        if root is not None and row.root != root.hex():
            yield Finding(
                code="checkpoint-differs", subject=subject, expected=f"root {root.hex()}", found=row.root
            )
        try:
            head = self._read(row.note, subject=subject)
        except CoreError as error:
            yield Finding(
                code="checkpoint-changed", subject=subject, expected=error.expected, found=error.found
            )
            return
        if (head.size, head.root.hex()) != (row.size, row.root):
            yield Finding(
                code="checkpoint-changed",
                subject=subject,
                expected=f"size {head.size} and root {head.root.hex()} as its note says",
                found=f"size {row.size} and root {row.root}",
            )

    def _read(self, note: bytes, *, subject: str) -> Checkpoint:
        if self._verifier is None:
            return parse_checkpoint(note, subject=subject).checkpoint
        self._totals.signatures += 1
        return verify_checkpoint(note, verifier=self._verifier, subject=subject)

    def _rest(self) -> Iterator[Finding]:
        """What lies behind the end of the log, or of the part of it that is whole."""
        end = self._next
        while (row := self._checkpoints.head) is not None:
            self._checkpoints.step()
            yield from self._checkpoint(row, root=None)
            self._kept.discard(row.size)
            if row.size > end:
                yield _missing(end, end=row.size)
                end = row.size
        if self._against is not None and self._against.size > self._next:
            yield Finding(
                code="history-cut",
                subject=f"ledger_leaf {self._next} to {self._against.size - 1}",
                expected=f"{self._against.size} entries as signed earlier",
                found=str(self._next),
            )
        for size in self._kept:
            yield Finding(
                code="checkpoint-missing",
                subject=f"ledger_checkpoint {size}",
                expected="the one given, kept as it was handed out",
                found="none",
            )
        while self._whole and (head := self._nodes.head) is not None:
            yield self._unknown(head[0])


class _Ahead(Generic[_Row]):
    """An iterator whose next value can be looked at."""

    def __init__(self, rows: Generator[_Row, None, None]) -> None:
        self._rows = rows
        self.head: _Row | None = next(rows, None)

    def step(self) -> None:
        """Go on."""
        self.head = next(self._rows, None)

    def close(self) -> None:
        """Let the cursor go, read to its end or not."""
        self._rows.close()


def _order(node: Node) -> tuple[int, int]:
    """By the leaf that completes a node, lowest level first; impossible ones last."""
    if node.level < 1 or node.level > 61 or node.position < 0:
        return 2**63, 0
    return (node.position + 1) << node.level, node.level


def _node_name(node: Node) -> str:
    return f"ledger_node {node.level}/{node.position}"


def _missing(start: int, *, end: int) -> Finding:
    names = str(start) if end - start == 1 else f"{start} to {end - 1}"
    return Finding(
        code="entry-missing", subject=f"ledger_leaf {names}", expected="no gap in the log", found="nothing"
    )
