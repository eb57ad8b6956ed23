"""The headers that must be known before it is clear which bytes go where (restore-contract §3.5, §9).

A head is given the content of its stream's first objects, authentic ones, until it has seen its header.
"""

from dataclasses import dataclass, field
from typing import Protocol

from app.core.errors import FormatError, Stage
from app.core.restore.plan import Source
from app.core.store.delta_stream import (
    DELTA_PREFIX_BYTES,
    DeltaHeader,
    parse_delta_header,
    parse_delta_prefix,
)
from app.core.store.snapshot import verify_stream_header


class Head(Protocol):
    """The start of one stream.

    Attributes:
        sources: of the stream, in order.
        parts: what was read so far: the lengths of the content of its first sources.
    """

    sources: tuple[Source, ...]
    parts: list[tuple[int, ...]]

    def read(self, parts: tuple[memoryview, ...]) -> bool:
        """Take the content of the next source; returns whether that was enough.

        Raises:
            FormatError: stage ``header``: no header, or another one than there must be.
        """


@dataclass(slots=True, kw_only=True)
class SnapshotHead:
    """A snapshot stream's header, which is known beforehand to the last byte (store-format §8.4)."""

    sources: tuple[Source, ...]
    expected: bytes
    parts: list[tuple[int, ...]] = field(default_factory=list)
    taken: bytearray = field(default_factory=bytearray)

    def read(self, parts: tuple[memoryview, ...]) -> bool:
        """See ``Head``."""
        self.parts.append((len(parts[0]),))
        self.taken += parts[0][: len(self.expected) - len(self.taken)]
        missing = len(self.taken) < len(self.expected)
        if missing and len(self.parts) < len(self.sources):
            return False
        verify_stream_header(self.taken, expected=self.expected)
        return True


@dataclass(slots=True, kw_only=True)
class DeltaHead:
    """A delta stream's header (store-format §11.2, §20.6).

    Attributes:
        reach: bytes of the stream that may belong to it.
        header: once all of it was read.
    """

    sources: tuple[Source, ...]
    subject: str
    reach: int
    parts: list[tuple[int, ...]] = field(default_factory=list)
    taken: bytearray = field(default_factory=bytearray)
    wanted_bytes: int = DELTA_PREFIX_BYTES
    header: DeltaHeader | None = None

    def read(self, parts: tuple[memoryview, ...]) -> bool:
        """See ``Head``."""
        (part,) = parts
        self.parts.append((len(part),))
        at = self._take(part, start=0)
        if len(self.taken) == DELTA_PREFIX_BYTES == self.wanted_bytes:
            self.wanted_bytes += parse_delta_prefix(
                bytes(self.taken), available=self.reach - DELTA_PREFIX_BYTES, subject=self.subject
            )
            self._take(part, start=at)
        if DELTA_PREFIX_BYTES < self.wanted_bytes == len(self.taken):
            self.header = parse_delta_header(bytes(self.taken[DELTA_PREFIX_BYTES:]), subject=self.subject)
            return True
        if len(self.parts) == len(self.sources):
            found = f"an end after {len(self.taken)} bytes"
            raise FormatError(self.subject, expected="a header", found=found, stage=Stage.HEADER)
        return False

    @property
    def header_bytes(self) -> int:
        """Length of the header with magic and length."""
        return self.wanted_bytes

    def _take(self, part: memoryview, *, start: int) -> int:
        block = part[start : start + self.wanted_bytes - len(self.taken)]
        self.taken += block
        return start + len(block)


@dataclass(slots=True, kw_only=True)
class RowHead:
    """The first chunk of rows, which says how long a row of each kind is (store-format §9.2)."""

    sources: tuple[Source, ...]
    parts: list[tuple[int, ...]] = field(default_factory=list)

    def read(self, parts: tuple[memoryview, ...]) -> bool:
        """See ``Head``."""
        self.parts.append(tuple(len(part) for part in parts))
        return True
