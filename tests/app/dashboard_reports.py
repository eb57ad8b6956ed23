"""Reports as a rank worker would have measured them: a whole restore, and one stopped by a wrong digest."""

import random
from typing import Any

from app.core.digest import Digest, sha256
from app.core.errors import Stage
from app.core.restore.device import LayerDigest, PlacementStats
from app.core.restore.report import (
    Problem,
    ProblemCode,
    RankOutcome,
    RankReport,
    ReaderWork,
    StreamDigestState,
)
from app.core.restore.timeline import Interval, Phase

OBJECTS, BYTES = 13, 813_068_464
MS = 10**6


def make_intervals(*, rank: int, objects: int = OBJECTS) -> tuple[tuple[Interval, ...], int]:
    """A plausible course of one rank: intervals in the executor's order, with gaps; and its service time."""
    chance = random.Random(f"rank {rank}")
    slow = 1.35 if rank == 2 else 1.0
    at, intervals = 0, []

    def spend(phase: Phase, ms: float) -> None:
        nonlocal at
        start = at + int(chance.uniform(0.02, 0.35) * MS)
        at = start + int(ms * chance.uniform(0.8, 1.25) * MS)
        intervals.append(Interval(phase=phase, start_ns=start, end_ns=at))

    for phase, ms in ((Phase.MANIFEST_LOOKUP, 3.1), (Phase.PLANNING, 1.4), (Phase.RESERVATION, 0.6)):
        spend(phase, ms)
    for number in range(objects):
        if number % 4 == 0:
            spend(Phase.BUFFER_WAIT, 6 if number else 1)
            spend(Phase.READ_AUTHENTICATE, 118 * slow)
        if number == 0:
            spend(Phase.PRIOR_DEVICE_WORK, 5.5)
        spend(Phase.ARENA_WAIT, 4.2)
        spend(Phase.HOST_COPY, 15.5)
        spend(Phase.SUBMISSION, 5.2)
        if number == 7:
            at += 24 * MS
    spend(Phase.STREAM_DIGEST_WAIT, 64)
    spend(Phase.FINAL_COMPLETION, 11)
    return tuple(intervals), at + int(0.4 * MS)


def make_report(*, rank: int, layout: Any = None) -> RankReport:
    """A rank that placed everything."""
    intervals, service_ns = make_intervals(rank=rank)
    return RankReport(
        outcome=RankOutcome.RESTORED,
        problem=None,
        manifest_sha256=sha256(b"manifest"),
        objects=OBJECTS,
        bytes=BYTES,
        intervals_ns=intervals,
        service_ns=service_ns,
        reader_work=make_reader_work(end_ns=service_ns),
        readers=4,
        stream_digest=StreamDigestState.RECOMPUTED,
        submissions=OBJECTS,
        statistics=PlacementStats(
            source_bytes=BYTES,
            slabs_submitted=OBJECTS,
            scatter_kernel_launches=OBJECTS,
            slot_uploads=1,
            destination_table_uploads=1,
            staged_host_to_device_bytes=BYTES,
            device_error=0,
        ),
        layers=() if layout is None else make_layers(layout, rank=rank),
    )


def make_corrupt_report(*, rank: int, subject: str) -> RankReport:
    """A rank that met a wrong digest in its second batch."""
    intervals, _ = make_intervals(rank=rank)
    read = [at for at, one in enumerate(intervals) if one.phase is Phase.READ_AUTHENTICATE][1]
    return RankReport(
        outcome=RankOutcome.CORRUPT,
        problem=Problem(
            code=ProblemCode.INTEGRITY,
            subject=subject,
            stage=Stage.CONTENT,
            expected=f"SHA-256 {sha256(b'right')}",
            found=str(sha256(b"wrong")),
            detail=f"{subject}: expected SHA-256 {sha256(b'right')}, found {sha256(b'wrong')}",
        ),
        manifest_sha256=sha256(b"manifest"),
        objects=4,
        bytes=250_174_912,
        intervals_ns=intervals[: read + 1],
        service_ns=intervals[read].end_ns + 2 * MS,
        reader_work=make_reader_work(end_ns=133 * MS),
        readers=4,
        stream_digest=StreamDigestState.NOT_REACHED,
        submissions=4,
        statistics=None,
    )


def make_reader_work(*, end_ns: int) -> tuple[ReaderWork, ...]:
    """Three readers, busy all the time."""
    one = ReaderWork(object=sha256(b"object"), start_ns=0, end_ns=end_ns, bytes=1)
    return (one, one, one)


def make_layers(layout: Any, *, rank: int) -> tuple[LayerDigest, ...]:
    return tuple(
        LayerDigest(
            name=layer.name, pages=16, bytes=16 * layer.bytes_per_page, sha256=_layer(layer.name, rank)
        )
        for group in layout.groups
        for layer in group.layers
    )


def _layer(name: str, rank: int) -> Digest:
    return sha256(f"{name} {rank}".encode())
