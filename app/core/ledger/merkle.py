"""The tree of RFC 6962 §2.1: leaf and node hashes, roots, and the two proofs.

A complete subtree of ``2 ** level`` leaves is a `Node`; its hash never changes, so it is what a log stores.
Everything else (roots, paths) is folded from O(log n) of them. Hashes are 32 bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from app.core.digest import sha256_bytes
from app.core.errors import IntegrityError, PlanError

EMPTY_ROOT: Final = sha256_bytes(b"")
HASH_BYTES: Final = 32
# Sizes and indices fit a signed 64-bit integer.
LARGEST_SIZE: Final = 2**63 - 1


class Node(NamedTuple):
    """The complete subtree over leaves ``position << level … ((position + 1) << level) - 1``."""

    level: int
    position: int


# Reads many nodes at once: a log asks its database one question.
NodeReader = Callable[[Sequence[Node]], Mapping[Node, bytes]]


def leaf_hash(document: bytes) -> bytes:
    """The hash of a leaf's bytes."""
    return sha256_bytes(b"\x00" + document)


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return sha256_bytes(b"\x01" + left + right)


def right_edge(size: int) -> tuple[Node, ...]:
    """The complete subtrees a tree of `size` leaves falls into, the largest first."""
    return tuple(_complete(0, size))


class Frontier:
    """The right edge of a tree that grows leaf by leaf: at most one hash per level is kept.

    Args:
        size: leaves so far.
        hashes: of `right_edge(size)`, in its order.
    """

    def __init__(self, *, size: int = 0, hashes: Sequence[bytes] = ()) -> None:
        expected = size.bit_count()
        if len(hashes) != expected:
            raise PlanError(
                f"right edge of size {size}", expected=f"{expected} hashes", found=str(len(hashes))
            )
        self.size = size
        self._hashes = list(hashes)

    def append(self, hashed: bytes) -> list[tuple[Node, bytes]]:
        """Add a leaf by its hash; the subtrees it completes, levels 1 and up, lowest first."""
        completed = []
        level, position = 0, self.size
        while position & 1:
            hashed = node_hash(self._hashes.pop(), hashed)
            level, position = level + 1, position >> 1
            completed.append((Node(level, position), hashed))
        self._hashes.append(hashed)
        self.size += 1
        return completed

    def root(self) -> bytes:
        """The root now."""
        return _fold(self._hashes)


def root_of(size: int, *, read: NodeReader) -> bytes:
    """The root of the first `size` leaves.

    Raises:
        IntegrityError: the reader lacks a node of the tree.
    """
    return _hashes_of([right_edge(size)], read=read)[0]


def inclusion_path(index: int, *, size: int, read: NodeReader) -> list[bytes]:
    """The audit path of leaf `index` in the tree of `size` leaves (RFC 6962 §2.1.1).

    Raises:
        PlanError: not ``0 <= index < size``.
        IntegrityError: the reader lacks a node of the tree.
    """
    if not 0 <= index < size:
        raise PlanError("leaf index", expected=f"0 to {size - 1}", found=str(index))
    return _hashes_of([tuple(_complete(*part)) for part in _inclusion_ranges(index, size=size)], read=read)


def consistency_path(first: int, *, second: int, read: NodeReader) -> list[bytes]:
    """The proof that the tree of `first` leaves is a prefix of the one of `second` (RFC 6962 §2.1.2).

    Empty where ``first`` is 0 or equals ``second``: there is nothing to prove beyond the roots.

    Raises:
        PlanError: not ``0 <= first <= second``.
        IntegrityError: the reader lacks a node of the tree.
    """
    if not 0 <= first <= second:
        raise PlanError("tree sizes", expected="0 <= first <= second", found=f"{first} and {second}")
    if first in (0, second):
        return []
    return _hashes_of(
        [tuple(_complete(*part)) for part in _consistency_ranges(first, second=second)], read=read
    )


def verify_inclusion(hashed: bytes, *, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Check an audit path (RFC 9162 §2.1.3.2).

    Raises:
        IntegrityError: the leaf is not at `index` of the tree with this size and root.
    """
    if not 0 <= index < size:
        raise IntegrityError("inclusion proof", expected=f"an index below {size}", found=str(index))
    place, last = index, size - 1
    result = hashed
    for step in path:
        if last == 0:
            raise IntegrityError("inclusion proof", expected="a shorter path", found=f"{len(path)} hashes")
        if place & 1 or place == last:
            result = node_hash(step, result)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            result = node_hash(result, step)
        place, last = place >> 1, last >> 1
    if last:
        raise IntegrityError("inclusion proof", expected="a longer path", found=f"{len(path)} hashes")
    _check_root(result, root=root, subject="inclusion proof")


def verify_consistency(
    *, first: int, second: int, path: Sequence[bytes], first_root: bytes, second_root: bytes
) -> None:
    """Check that the first tree is a prefix of the second (RFC 9162 §2.1.4.2).

    Raises:
        IntegrityError: it is not, or the proof does not show it.
    """
    subject = "consistency proof"
    if not 0 <= first <= second:
        raise IntegrityError(subject, expected="0 <= first <= second", found=f"{first} and {second}")
    if first in (0, second):
        if path:
            raise IntegrityError(subject, expected="no hashes", found=str(len(path)))
        _check_root(first_root, root=second_root if first else EMPTY_ROOT, subject=subject)
        return
    if not path:
        raise IntegrityError(subject, expected="at least one hash", found="none")
    is_complete = first & (first - 1) == 0
    steps = [first_root, *path] if is_complete else list(path)
    old, new = _fold_consistency(steps, place=first - 1, last=second - 1)
    _check_root(old, root=first_root, subject=subject)
    _check_root(new, root=second_root, subject=subject)


def _fold_consistency(steps: Sequence[bytes], *, place: int, last: int) -> tuple[bytes, bytes]:
    while place & 1:
        place, last = place >> 1, last >> 1
    old = new = steps[0]
    for step in steps[1:]:
        if last == 0:
            raise IntegrityError("consistency proof", expected="a shorter path", found=f"{len(steps)} hashes")
        if place & 1 or place == last:
            old, new = node_hash(step, old), node_hash(step, new)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            new = node_hash(new, step)
        place, last = place >> 1, last >> 1
    if last:
        raise IntegrityError("consistency proof", expected="a longer path", found=f"{len(steps)} hashes")
    return old, new


def _check_root(found: bytes, *, root: bytes, subject: str) -> None:
    if found != root:
        raise IntegrityError(subject, expected=f"root {root.hex()}", found=f"root {found.hex()}")


def _complete(start: int, end: int) -> Iterator[Node]:
    """A range of leaves as complete subtrees; `start` is aligned to the largest of them."""
    while start < end:
        level = (end - start).bit_length() - 1
        yield Node(level, start >> level)
        start += 1 << level


def _split(size: int) -> int:
    """The largest power of two below `size` (RFC 6962 §2.1)."""
    return 1 << ((size - 1).bit_length() - 1)


def _inclusion_ranges(index: int, *, size: int) -> list[tuple[int, int]]:
    start, end = 0, size
    ranges = []
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    return ranges[::-1]


def _consistency_ranges(first: int, *, second: int) -> list[tuple[int, int]]:
    start, end = 0, second
    ranges = []
    while first != end:
        middle = start + _split(end - start)
        if first <= middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    if start:  # RFC 6962's b: the first tree's own root is known only while it is a whole left part
        ranges.append((start, end))
    return ranges[::-1]


def _hashes_of(parts: Sequence[Sequence[Node]], *, read: NodeReader) -> list[bytes]:
    wanted = [node for part in parts for node in part]
    found = read(wanted) if wanted else {}
    for node in wanted:
        if node not in found:
            raise IntegrityError(
                f"ledger node {node.level}/{node.position}", expected="its hash", found="nothing"
            )
    return [_fold([found[node] for node in part]) for part in parts]


def _fold(hashes: Iterable[bytes]) -> bytes:
    """The root over complete subtrees, the largest first."""
    folded: bytes | None = None
    for hashed in reversed(list(hashes)):
        folded = hashed if folded is None else node_hash(hashed, folded)
    return EMPTY_ROOT if folded is None else folded
