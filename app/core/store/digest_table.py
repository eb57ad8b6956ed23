"""Many digests in little memory: sorted rows of bytes, looked up by bisection.

A set of a million digest texts takes some 170 MB; a million rows here take 32 MB and what is kept with each.
Names on a disk may be chosen by whoever likes to, so a lookup is a bisection, whose cost no choice can raise.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from app.core.digest import Digest

_KEY_BYTES: Final = 32
_BUCKETS: Final = 256


class DigestTableBuilder:
    """Takes digests in any order.

    Args:
        extra_bytes: how many bytes are kept with each.
        several: whether a digest may have several rows, sorted by what is kept with them.
    """

    def __init__(self, *, extra_bytes: int = 0, several: bool = False) -> None:
        self._row_bytes = _KEY_BYTES + extra_bytes
        self._unique_bytes = self._row_bytes if several else _KEY_BYTES
        # By first byte, so that sorting needs room for one bucket at a time.
        self._buckets = [bytearray() for _ in range(_BUCKETS)]

    def add(self, digest: Digest, *, extra: bytes = b"") -> None:
        """Take one row; one that comes twice is kept once.

        Raises:
            ValueError: ``extra`` has another length than announced.
        """
        key = bytes.fromhex(digest)
        if len(key) + len(extra) != self._row_bytes:
            raise ValueError(f"extra: expected {self._row_bytes - _KEY_BYTES} bytes, found {len(extra)}")
        self._buckets[key[0]] += key + extra

    def build(self) -> "DigestTable":
        """The table; the builder is empty afterwards."""
        buckets, self._buckets = self._buckets, [bytearray() for _ in range(_BUCKETS)]
        for bucket in buckets:
            bucket[:] = b"".join(
                _sorted_rows(bucket, row_bytes=self._row_bytes, unique_bytes=self._unique_bytes)
            )
        return DigestTable(buckets, row_bytes=self._row_bytes)


class DigestTable:
    """Sorted rows, each with one byte of marks that may be set.

    Attributes:
        marks: one byte per row, 0 at first.
    """

    def __init__(self, buckets: Sequence[bytearray], *, row_bytes: int) -> None:
        self._buckets = buckets
        self._row_bytes = row_bytes
        # The number of each bucket's first row, and of the row behind the last one.
        self._starts = [0, *accumulate(len(bucket) // row_bytes for bucket in buckets)]
        self.marks = bytearray(self._starts[-1])

    def __len__(self) -> int:
        return len(self.marks)

    def __iter__(self) -> Iterator[Digest]:
        """All digests, in order."""
        return map(self.digest, range(len(self)))

    def find(self, digest: Digest) -> int | None:
        """The number of a digest's first row, or ``None``."""
        key = bytearray.fromhex(digest)
        low, high = self._starts[key[0]], self._starts[key[0] + 1]
        row = bisect_left(range(high), key, lo=low, key=self._key)
        return row if row < high and self._key(row) == key else None

    def digest(self, row: int) -> Digest:
        """The digest of row ``row``."""
        return Digest(self._key(row).hex())

    def extra(self, row: int) -> bytearray:
        """What was kept with it."""
        return self._part(row, start=_KEY_BYTES, end=self._row_bytes)

    def mark(self, row: int, *, bit: int) -> bool:
        """Set a bit of a row's marks; returns whether it was set before."""
        was = bool(self.marks[row] & bit)
        self.marks[row] |= bit
        return was

    def has(self, row: int, *, bit: int) -> bool:
        """Whether any of these bits is set."""
        return bool(self.marks[row] & bit)

    def _key(self, row: int) -> bytearray:
        return self._part(row, start=0, end=_KEY_BYTES)

    def _part(self, row: int, *, start: int, end: int) -> bytearray:
        bucket = bisect_right(self._starts, row) - 1
        at = (row - self._starts[bucket]) * self._row_bytes
        return self._buckets[bucket][at + start : at + end]


def _sorted_rows(bucket: bytearray, *, row_bytes: int, unique_bytes: int) -> Iterator[bytes]:
    previous = b""
    for row in sorted(bytes(bucket[at : at + row_bytes]) for at in range(0, len(bucket), row_bytes)):
        if row[:unique_bytes] != previous:
            yield row
        previous = row[:unique_bytes]
