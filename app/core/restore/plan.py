"""From a manifest and a layout to what must be read, checked and copied, in which order. No I/O.

Source: restore-contract §2 (limits), §3 (procedure), §4.2 (copy spans), §14.
"""

import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from app.core.digest import Digest
from app.core.errors import FormatError, PlanError
from app.core.store.layout import MAX_OBJECT_BYTES
from app.core.store.manifest import FlatSnapshotManifest, ObjectDescriptor
from app.core.store.snapshot import LayerSpan, PageLayout, encode_stream_header, layer_spans

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
        object_bytes: the largest object that fits an arena and a buffer.
        batch_objects: objects read together at most; ``batch_bytes`` their bytes.
        submission_spans: copies in one submission.
        snapshot_bytes: the longest stream the operator allows.
    """

    object_bytes: int = MAX_OBJECT_BYTES
    batch_objects: int = MAX_BATCH_OBJECTS
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
class PlannedObject:
    """One object and everything that follows from its place in the stream.

    Attributes:
        arena: the arena it goes through, object index mod 2.
        spans: its copies, in stream order; arena offsets count from the object's first byte.
    """

    index: int
    descriptor: ObjectDescriptor
    arena: int
    spans: tuple[CopySpan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """One rank's restore before the first object is opened.

    Attributes:
        header: the only bytes the stream may start with.
        block_counts: pages per layer for each group.
        layers: destinations in stream order; a copy span's ``destination`` is an index into them.
        batches: objects read together; the first batch is object 0 alone.
        source_bytes: the whole stream, header included.
        payload_bytes: ``source_bytes`` without the header.
    """

    layout: PageLayout
    block_counts: tuple[int, ...]
    header: bytes
    layers: tuple[LayerSpan, ...]
    batches: tuple[tuple[PlannedObject, ...], ...]
    source_bytes: int
    payload_bytes: int
    snapshot_sha256: Digest

    @property
    def object_count(self) -> int:
        """Objects, and therefore submissions of a flat restore (restore-contract §5)."""
        return sum(len(batch) for batch in self.batches)


def plan_restore(
    manifest: FlatSnapshotManifest, *, layout: PageLayout, limits: RestoreLimits | None = None
) -> RestorePlan:
    """Plan the restore of a flat snapshot into pages of ``layout``.

    Raises:
        FormatError: the stream cannot be the one this layout and span give (length, header outside object 0),
            or it is longer than the operator allows (store-format §8.4, §19).
        PlanError: an object larger than an arena or a batch, or with more copies than one submission takes.
    """
    limits = limits or RestoreLimits()
    counts = layout.block_counts(manifest.committed_tokens)
    header = encode_stream_header(layout.sha256, block_counts=counts)
    _check_length(
        manifest, pages_bytes=layout.payload_bytes(block_counts=counts), header=header, limits=limits
    )
    _check_object_sizes(manifest.objects, limits=limits)
    layers = layer_spans(layout, block_counts=counts, header_bytes=len(header))
    objects = _plan_objects(manifest.objects, layers=layers, header_bytes=len(header), limits=limits)
    return RestorePlan(
        layout=layout,
        block_counts=counts,
        header=header,
        layers=layers,
        batches=cut_batches(objects, limits=limits),
        source_bytes=manifest.encoded_bytes,
        payload_bytes=manifest.encoded_bytes - len(header),
        snapshot_sha256=manifest.snapshot_sha256,
    )


def cut_spans(
    layers: Sequence[LayerSpan], *, start: int, end: int, header_bytes: int, arena_bytes: int
) -> tuple[tuple[CopySpan, ...], ...]:
    """Cut the stream range ``start … end`` at layer borders and arena ends (restore-contract §4.2, §14).

    Args:
        layers: all layers, in stream order and without gaps.
        start: first stream byte of the range; it lands at arena offset 0.
        end: stream byte behind the range.
        header_bytes: length of the stream header, which is copied nowhere.
        arena_bytes: size of an arena, > 0.

    Returns:
        One tuple of spans per arena filling; together they cover every payload byte of the range once.
    """
    return tuple(
        _cut_filling(layers, start=at, end=min(at + arena_bytes, end), header_bytes=header_bytes)
        for at in range(start, end, arena_bytes)
    )


def cut_batches(
    objects: Sequence[PlannedObject], *, limits: RestoreLimits
) -> tuple[tuple[PlannedObject, ...], ...]:
    """Object 0 alone, then as many objects in order as a batch holds (restore-contract §3, 4 and 8)."""
    batches: list[tuple[PlannedObject, ...]] = [tuple(objects[:1])]
    batch: list[PlannedObject] = []
    held = 0
    for item in objects[1:]:
        size = item.descriptor.byte_count
        if batch and (len(batch) == limits.batch_objects or held + size > limits.batch_bytes):
            batches.append(tuple(batch))
            batch, held = [], 0
        batch.append(item)
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


def _check_length(
    manifest: FlatSnapshotManifest, *, pages_bytes: int, header: bytes, limits: RestoreLimits
) -> None:
    if manifest.encoded_bytes > limits.snapshot_bytes:
        raise FormatError(
            "root document.snapshot_encoded_bytes",
            expected=f"at most the operator's limit of {limits.snapshot_bytes} bytes",
            found=f"{manifest.encoded_bytes} bytes",
        )
    if manifest.encoded_bytes != len(header) + pages_bytes:
        raise FormatError(
            "root document.snapshot_encoded_bytes",
            expected=f"{len(header)} header + {pages_bytes} page bytes, as layout and span demand",
            found=f"{manifest.encoded_bytes} bytes",
        )
    first = manifest.objects[0].byte_count
    if first <= len(header):
        raise FormatError(
            "object 0",
            expected=f"the {len(header)} header bytes and at least one more",
            found=f"{first} bytes",
        )


def _check_object_sizes(objects: Sequence[ObjectDescriptor], *, limits: RestoreLimits) -> None:
    largest = min(limits.object_bytes, limits.batch_bytes)
    for index, descriptor in enumerate(objects):
        if descriptor.byte_count > largest:
            raise PlanError(
                f"object {index}",
                expected=f"at most {largest} bytes, what an arena and a buffer take",
                found=f"{descriptor.byte_count} bytes",
            )


def _plan_objects(
    objects: Sequence[ObjectDescriptor],
    *,
    layers: Sequence[LayerSpan],
    header_bytes: int,
    limits: RestoreLimits,
) -> tuple[PlannedObject, ...]:
    planned: list[PlannedObject] = []
    for index, descriptor in enumerate(objects):
        (spans,) = cut_spans(
            layers,
            start=descriptor.start,
            end=descriptor.end,
            header_bytes=header_bytes,
            arena_bytes=limits.object_bytes,
        )
        if len(spans) > limits.submission_spans:
            raise PlanError(
                f"object {index}",
                expected=f"at most {limits.submission_spans} copies in one submission",
                found=f"{len(spans)}",
            )
        planned.append(
            PlannedObject(index=index, descriptor=descriptor, arena=index % ARENA_COUNT, spans=spans)
        )
    return tuple(planned)


def _cut_filling(
    layers: Sequence[LayerSpan], *, start: int, end: int, header_bytes: int
) -> tuple[CopySpan, ...]:
    spans: list[CopySpan] = []
    first = bisect_right(layers, start, key=lambda layer: layer.end)
    for index in range(first, len(layers)):
        layer = layers[index]
        if layer.start >= end:
            break
        at = max(start, layer.start)
        spans.append(
            CopySpan(
                arena_offset=at - start,
                snapshot_offset=at - header_bytes,
                destination_offset=at - layer.start,
                byte_count=min(end, layer.end) - at,
                destination=layer.index,
            )
        )
    return tuple(spans)
