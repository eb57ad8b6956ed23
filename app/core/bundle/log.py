"""The log of a bundle: entries in order without a gap, every row as recorded, the roots that come out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from app.core.bundle.records import CheckedLeaf, Leaf, RowRecord, Subtree, check_leaf
from app.core.errors import CoreError, IntegrityError
from app.core.ledger.checkpoint import Checkpoint, NoteVerifier, verify_checkpoint
from app.core.ledger.merkle import EMPTY_ROOT, leaf_hash, node_hash
from app.core.ledger.proof import verify_consistency_proof


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """The checkpoints of a bundle as they are signed: the one it covers, the one before, and the proof
    between them."""

    checkpoint: bytes
    previous: bytes | None
    consistency: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedHeads:
    """The same, verified."""

    checkpoint: Checkpoint
    previous: Checkpoint | None


def check_heads(heads: Heads, *, vkey: str) -> CheckedHeads:
    """Signatures of both checkpoints, and the proof between them.

    Raises:
        FormatError: a text in another form.
        IntegrityError: a wrong signature, another log's, or no proof of one history.
    """
    verifier = NoteVerifier.parse(vkey)
    head = verify_checkpoint(heads.checkpoint, verifier=verifier, subject="checkpoint")
    if (heads.previous is None) != (heads.consistency is None):
        raise IntegrityError(
            "previous checkpoint", expected="it and a consistency proof, or neither", found="one of them"
        )
    if heads.previous is None or heads.consistency is None:
        return CheckedHeads(checkpoint=head, previous=None)
    previous = verify_checkpoint(heads.previous, verifier=verifier, subject="previous checkpoint")
    proven = verify_consistency_proof(heads.consistency, old=previous, verifier=verifier)
    if proven != head:
        raise IntegrityError("consistency proof", expected=head.text, found=proven.text)
    return CheckedHeads(checkpoint=head, previous=previous)


class Fold:
    """The root of a log that arrives as leaves and complete subtrees; one hash per level is kept."""

    def __init__(self) -> None:
        self.size = 0
        self._stack: list[tuple[int, bytes]] = []

    def append(self, hashed: bytes, *, level: int = 0) -> None:
        """Add a leaf, or a complete subtree of ``2 ** level`` leaves.

        Raises:
            IntegrityError: no such subtree begins here.
        """
        if self.size % (1 << level):
            raise IntegrityError(
                f"log at entry {self.size}", expected="a subtree that begins here", found=f"level {level}"
            )
        self.size += 1 << level
        while self._stack and self._stack[-1][0] == level:
            hashed = node_hash(self._stack.pop()[1], hashed)
            level += 1
        self._stack.append((level, hashed))

    def root(self) -> bytes:
        """The root now."""
        folded: bytes | None = None
        for _, hashed in reversed(self._stack):
            folded = hashed if folded is None else node_hash(hashed, folded)
        return EMPTY_ROOT if folded is None else folded


class LogReading:
    """One pass over the log.

    Args:
        start: from here on every entry is there with every exported row it names, and the one before it,
            which shows where the range begins.
        heads: what must come out at their sizes.
        kept: a head from elsewhere that the log must contain.

    Attributes:
        full: entries that are there. pruned: some are not.
        outside: exported rows that are named and not there.
    """

    def __init__(self, *, start: int, heads: CheckedHeads, kept: Checkpoint | None = None) -> None:
        self._start = start
        self._head = heads.checkpoint
        self._wanted = [one for one in (heads.previous, heads.checkpoint) if one is not None]
        self._kept = kept
        self._fold = Fold()
        self.kept_holds: bool | None = None
        self.full = 0
        self.pruned = False
        self.outside = 0

    def read(self, entries: Iterable[Leaf | Subtree]) -> Iterator[CheckedLeaf | CoreError]:
        """Each entry that is there with its rows, or what is wrong with one.

        Raises:
            IntegrityError: a gap, more or fewer entries than the checkpoint says, another root.
        """
        self._compare()
        for entry in entries:
            if entry.index != self._fold.size:
                raise IntegrityError("log", expected=f"entry {self._fold.size} next", found=f"{entry.index}")
            if isinstance(entry, Subtree):
                self._prune(entry)
            else:
                self._fold.append(leaf_hash(entry.document))
                yield self._check(entry)
            self._compare()
        self._end()

    def _prune(self, entry: Subtree) -> None:
        first = max(0, self._start - 1)
        if entry.index + (1 << entry.level) > first:
            raise IntegrityError(
                f"log at entry {entry.index}",
                expected=f"every entry from {first} on",
                found="a pruned part",
            )
        self.pruned = True
        self._fold.append(entry.hashed, level=entry.level)

    def _check(self, entry: Leaf) -> CheckedLeaf | CoreError:
        self.full += 1
        try:
            leaf = check_leaf(entry)
        except CoreError as error:
            return error
        self.outside += leaf.outside
        if leaf.outside and entry.index >= self._start:
            return IntegrityError(
                f"entry {entry.index}",
                expected="every row it names, as it lies in the range",
                found=f"{leaf.outside} missing",
            )
        return leaf

    def _compare(self) -> None:
        size = self._fold.size
        for head in self._wanted:
            if head.size == size and head.root != self._fold.root():
                raise IntegrityError(
                    f"log of {size} entries",
                    expected=f"root {head.root.hex()} as signed",
                    found=f"root {self._fold.root().hex()}",
                )
        if self._kept is not None and self._kept.size == size:
            self.kept_holds = self._kept.root == self._fold.root()
        self._wanted = [head for head in self._wanted if head.size != size]

    def _end(self) -> None:
        if self._fold.size != self._head.size:
            raise IntegrityError(
                "log", expected=f"{self._head.size} entries as signed", found=f"{self._fold.size}"
            )
        if self._wanted:
            raise IntegrityError(
                "previous checkpoint",
                expected="a size at which no pruned part lies",
                found=str(self._wanted[0].size),
            )


def joined(
    entries: Iterable[Leaf | Subtree], rows: Iterator[tuple[int, RowRecord]]
) -> Iterator[Leaf | Subtree]:
    """Entries with their rows, both in order.

    Raises:
        IntegrityError: a row of no entry that is there.
    """
    waiting = next(rows, None)
    for entry in entries:
        own = []
        while waiting is not None and waiting[0] == entry.index:
            own.append(waiting[1])
            waiting = next(rows, None)
        if own and isinstance(entry, Leaf):
            entry = Leaf(index=entry.index, document=entry.document, rows=tuple(own))
        elif own:
            raise IntegrityError(f"row of entry {entry.index}", expected="that entry in full", found="pruned")
        yield entry
    if waiting is not None:
        raise IntegrityError("log", expected=f"entry {waiting[0]}, since rows of it are there", found="none")
