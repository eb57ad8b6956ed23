"""What is read, copied and submitted, in which order: the values of a restore's plan and how they are cut.

Every kind of entry becomes *sources*, that is objects with the bytes they contribute, and *pieces*, that is
runs of those bytes with the place they go to, in the order of the payload. This file turns pieces into
submissions and submissions into a schedule of reads. No I/O.

Source: restore-contract §2 (limits), §3 (procedure), §4.2 (copy spans), §9 (submissions of a delta), §14.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.core.digest import Digest
from app.core.errors import PlanError
from app.core.restore.content import Content
from app.core.store.entry import FileDescriptor
from app.core.store.layout import MAX_OBJECT_BYTES
from app.core.store.snapshot import LayerSpan, PageLayout

ARENA_COUNT = 2
MAX_BATCH_OBJECTS = 4
MAX_BATCH_BYTES = 256 * 1024 * 1024
MAX_SUBMISSION_SPANS = 4_096
# store-format §19 leaves the largest snapshot to the operator: 1 TiB unless told otherwise.
DEFAULT_SNAPSHOT_BYTES = 1 << 40

_SPAN = struct.Struct("<QQQQII")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreLimits:
    """What a restore may use; the defaults are the contract's (restore-contract §2).

    Attributes:
        object_bytes: the largest object a buffer takes.
        arena_bytes: the size of an arena.
        batch_objects: objects authenticated together at most; ``batch_bytes`` their bytes.
        buffers: objects held at once at most.
        submission_spans: copies in one submission.
        snapshot_bytes: the longest payload the operator allows.
    """

    object_bytes: int = MAX_OBJECT_BYTES
    arena_bytes: int = MAX_OBJECT_BYTES
    batch_objects: int = MAX_BATCH_OBJECTS
    buffers: int = MAX_BATCH_OBJECTS
    batch_bytes: int = MAX_BATCH_BYTES
    submission_spans: int = MAX_SUBMISSION_SPANS
    snapshot_bytes: int = DEFAULT_SNAPSHOT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySpan:
    """One contiguous copy from an arena into one layer (restore-contract §4.2).

    Attributes:
        arena_offset: first byte in the arena.
        snapshot_offset: position in the payload, that is stream offset − header length.
        destination_offset: position inside the layer's logical bytes.
        byte_count: > 0.
        destination: layer number, groups in order, layers in order.
    """

    arena_offset: int
    snapshot_offset: int
    destination_offset: int
    byte_count: int
    destination: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One object of an entry.

    Attributes:
        index: number within the entry; those of one stream follow each other in its order.
        subject: the object, for messages.
        content: what of its bytes is used, once they are authentic; ``None`` for a raw extent, where all are.
    """

    index: int
    descriptor: FileDescriptor
    subject: str
    content: Content | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Bytes of one source that go to one layer; ``part`` is the number of the content they lie in."""

    source: int
    part: int
    offset: int
    byte_count: int
    destination: int
    destination_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeCopy:
    """One copy from a source's content into an arena."""

    part: int
    offset: int
    byte_count: int
    arena_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """One read of one source.

    Attributes:
        number: position in the order of reads.
        part_bytes: length of each part of its content; other lengths are corrupt.
        uses: submissions it serves; its buffer is lent until the last of them has copied.
        stream: the stream whose digests its content goes into, if any.
        held: it was read before the schedule was made, and has been kept.
    """

    number: int
    source: Source
    part_bytes: tuple[int, ...]
    uses: int
    stream: int | None
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """What a submission takes from one fetch; possibly nothing, where only its digests are wanted."""

    fetch: Fetch
    copies: tuple[RangeCopy, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One filling of an arena.

    Attributes:
        index: it goes through arena ``index`` mod 2.
        used_bytes: length of the filling.
        stream: the stream whose digests the filling goes into, if any.
    """

    index: int
    takes: tuple[Take, ...]
    spans: tuple[CopySpan, ...]
    used_bytes: int
    stream: int | None = None

    @property
    def arena(self) -> int:
        """The arena it goes through."""
        return self.index % ARENA_COUNT

    @property
    def is_one_buffer(self) -> bool:
        """Whether the filling is one object as it was read, so that its buffer could serve as the arena."""
        (first, *others) = self.takes
        return not others and [(c.part, c.offset, c.byte_count, c.arena_offset) for c in first.copies] == [
            (0, 0, first.fetch.source.descriptor.byte_count, 0)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDigest:
    """A stated digest over the bytes ``start … end`` of a stream."""

    start: int
    end: int
    sha256: Digest
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStream:
    """A stream whose digests are recomputed before the restore may finish (restore-contract §8, §9).

    Attributes:
        prefix: its first bytes where they are not stored but known.
        whole: the digest over all of it, where one is stated.
        tails: digests over consecutive ranges of it.
    """

    whole: RangeDigest | None
    prefix: bytes = b""
    tails: tuple[RangeDigest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One rank's restore once every header is known.

    Attributes:
        layout: of the pages; for rows one page per row.
        layers: destinations; a copy span's ``destination`` is an index into them.
        batches: submissions whose objects must all be authentic before the first of them is placed.
        streams: what is to be digested, by number.
        source_bytes: what the device must have been given in the end.
        object_count: different objects that are read.
    """

    layout: PageLayout
    block_counts: tuple[int, ...]
    layers: tuple[LayerSpan, ...]
    batches: tuple[tuple[Submission, ...], ...]
    streams: tuple[CheckedStream, ...]
    source_bytes: int
    payload_bytes: int
    object_count: int

    @property
    def submissions(self) -> int:
        """Placements it takes (restore-contract §5)."""
        return sum(len(batch) for batch in self.batches)


@dataclass(slots=True)
class Filling:
    """A submission while pieces are collected for it, by source in the order of first need."""

    start: int
    used_bytes: int = 0
    copies: dict[int, list[RangeCopy]] = field(default_factory=dict)
    spans: list[CopySpan] = field(default_factory=list)


def fill_whole_objects(
    pieces: Iterable[Piece], *, sources: Sequence[Source], limits: RestoreLimits
) -> list[Filling]:
    """One filling per object, the whole object, as a flat snapshot is restored (restore-contract §4.2).

    Raises:
        PlanError: an object with more copies than one submission takes.
    """
    fillings: list[Filling] = []
    placed = 0
    for piece in pieces:
        if not fillings or piece.source not in fillings[-1].copies:
            size = sources[piece.source].descriptor.byte_count
            whole = RangeCopy(part=0, offset=0, byte_count=size, arena_offset=0)
            fillings.append(Filling(start=placed, used_bytes=size, copies={piece.source: [whole]}))
        spans = fillings[-1].spans
        spans.append(_span(piece, arena_offset=piece.offset, placed=placed))
        placed += piece.byte_count
        if len(spans) > limits.submission_spans:
            raise PlanError(
                sources[piece.source].subject,
                expected=f"at most {limits.submission_spans} copies in one submission",
                found="more",
            )
    return fillings


def fill_packed(
    pieces: Iterable[Piece], *, sources: Sequence[Source], limits: RestoreLimits
) -> list[Filling]:
    """Fillings of payload bytes only, cut where an arena is full, too many copies are needed, or the objects
    needed exceed the bound on retained payload (restore-contract §9, §14).
    """
    fillings = [Filling(start=0)]
    held = placed = 0
    for piece in pieces:
        size = sources[piece.source].descriptor.byte_count
        done = 0
        while done < piece.byte_count:
            filling = fillings[-1]
            added = 0 if piece.source in filling.copies else size
            full = filling.used_bytes == limits.arena_bytes or len(filling.spans) == limits.submission_spans
            if full or (filling.spans and held + added > limits.batch_bytes):
                fillings.append(Filling(start=placed))
                held = 0
                continue
            held += added
            count = min(piece.byte_count - done, limits.arena_bytes - filling.used_bytes)
            _add(filling, piece=piece, skip=done, byte_count=count)
            done += count
            placed += count
    return fillings


def group_batches(
    fillings: Sequence[Filling], *, sources: Sequence[Source], limits: RestoreLimits
) -> tuple[tuple[int, ...], ...]:
    """Numbers of fillings read together: object 0 alone, then as many in order as a batch holds (§3, 8)."""
    batches: list[tuple[int, ...]] = [(0,)]
    batch: list[int] = []
    held = 0
    for number, filling in enumerate(fillings[1:], start=1):
        size = sum(sources[source].descriptor.byte_count for source in filling.copies)
        if batch and (len(batch) == limits.batch_objects or held + size > limits.batch_bytes):
            batches.append(tuple(batch))
            batch, held = [], 0
        batch.append(number)
        held += size
    if batch:
        batches.append(tuple(batch))
    return tuple(batches)


def encode_spans(spans: Sequence[CopySpan]) -> bytes:
    """The 40-byte records of a submission: four u64le, two u32le, the last 0 (restore-contract §4.2)."""
    return b"".join(
        _SPAN.pack(
            span.arena_offset,
            span.snapshot_offset,
            span.destination_offset,
            span.byte_count,
            span.destination,
            0,
        )
        for span in spans
    )


def require_object_sizes(sources: Sequence[Source], *, largest: int, takers: str) -> None:
    """Checked for all objects before any is opened (restore-contract §3.3).

    Raises:
        PlanError: an object is larger than what it is to be read or copied into.
    """
    for source in sources:
        if source.descriptor.byte_count > largest:
            raise PlanError(
                source.subject,
                expected=f"at most {largest} bytes, what {takers}",
                found=f"{source.descriptor.byte_count} bytes",
            )


def _add(filling: Filling, *, piece: Piece, skip: int, byte_count: int) -> None:
    rest = Piece(
        source=piece.source,
        part=piece.part,
        offset=piece.offset + skip,
        byte_count=byte_count,
        destination=piece.destination,
        destination_offset=piece.destination_offset + skip,
    )
    at = filling.used_bytes
    copy = RangeCopy(part=rest.part, offset=rest.offset, byte_count=byte_count, arena_offset=at)
    filling.copies.setdefault(rest.source, []).append(copy)
    filling.spans.append(_span(rest, arena_offset=at, placed=filling.start + at))
    filling.used_bytes += byte_count


def _span(piece: Piece, *, arena_offset: int, placed: int) -> CopySpan:
    return CopySpan(
        arena_offset=arena_offset,
        snapshot_offset=placed,
        destination_offset=piece.destination_offset,
        byte_count=piece.byte_count,
        destination=piece.destination,
    )
