"""One rank's restore on the host, beside its floor and a reference, all in this process and interleaved.

python -m tests.bench.restore --json FILE [--bytes N] [--rounds N]
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from app.core.digest import RunningDigest, sha256
from app.core.restore.buffers import BufferPool, map_pages
from app.core.restore.execute import RankOrder, restore_rank
from app.core.restore.host_device import HostDevice
from app.core.restore.host_placement import HostProducer
from app.core.restore.page_plan import PagePlan, plan_restore
from app.core.restore.reader import BoundedReader, list_documents, read_document
from app.core.restore.report import RankOutcome, RankReport
from app.core.store.layout import MAX_OBJECT_BYTES, DocumentName, object_path
from app.core.store.manifest import parse_manifest
from app.core.store.snapshot import PageLayout, encode_stream_header
from app.core.store.synth import synthesize_store
from tests.bench.machine import describe_machine
from tests.bench.reference_reader import ReferencePlacement
from tests.bench.reference_reader import restore as restore_reference

RECORD_BYTES = 813_068_464


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A store of one rank, its plan, and memory for everything that is measured."""

    root: Path
    name: DocumentName
    layout: PageLayout
    plan: PagePlan
    header_bytes: int
    buffers: BufferPool
    device: HostDevice
    reference: ReferencePlacement

    @property
    def paths(self) -> list[Path]:
        return [self.root / object_path(item.descriptor.sha256) for item in self.plan.sources]


def open_case(folder: Path, *, byte_count: int) -> Case:
    made = synthesize_store(folder, ranks=1, bytes_per_rank=byte_count)
    root, name = made.roots[0], next(iter(list_documents(made.roots[0])))
    manifest = parse_manifest(
        read_document(root, name=name), identity=None, context_digest=name.context_digest
    )
    plan = plan_restore(manifest, layout=made.layout)
    device = HostDevice("host0", pool_bytes=3 * byte_count)
    device.prepare_pool(made.layout, block_counts=plan.block_counts)
    header = encode_stream_header(made.layout.sha256, block_counts=plan.block_counts)
    return Case(
        root=root,
        name=name,
        layout=made.layout,
        plan=plan,
        header_bytes=len(header),
        buffers=BufferPool(),
        device=device,
        reference=ReferencePlacement(arena_bytes=MAX_OBJECT_BYTES, pool_bytes=byte_count),
    )


def run_ours(case: Case) -> RankReport:
    order = RankOrder(
        identity=None,
        storage_key=case.name.storage_key,
        context_digest=case.name.context_digest,
        layout=case.layout,
    )
    with BoundedReader(case.root, buffers=case.buffers) as reader:
        done = restore_rank(
            order, reader=reader, device=case.device, clock=time.monotonic_ns, producer=HostProducer()
        )
    if done.report.outcome is not RankOutcome.RESTORED or done.pages is None:
        raise RuntimeError(f"restore: expected restored, found {done.report.outcome}")
    case.device.discard(done.pages)
    return done.report


def measure_floor(case: Case, *, source: memoryview, target: memoryview) -> dict[str, float]:
    """CPU time of read, hash and copy of the same bytes on one thread, in ms."""
    spent = {"read": 0.0, "hash": 0.0, "second_hash": 0.0, "copy": 0.0}
    stream = RunningDigest()
    for path in case.paths:
        size = path.stat().st_size
        part = source[:size]
        spent["read"] += _cpu_ms(lambda path=path, part=part: _read_into(path, part))
        spent["hash"] += _cpu_ms(lambda part=part: sha256(part))
        spent["second_hash"] += _cpu_ms(lambda part=part: stream.update(part))
        spent["copy"] += _cpu_ms(lambda part=part, size=size: _copy(target[:size], part))
    return spent


def _read_into(path: Path, part: memoryview) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        done = 0
        while done < len(part):
            done += os.preadv(descriptor, [part[done:]], done)
    finally:
        os.close(descriptor)


def _copy(target: memoryview, source: memoryview) -> None:
    np.copyto(np.frombuffer(target, dtype=np.uint8), np.frombuffer(source, dtype=np.uint8))


def _cpu_ms(action: Callable[[], object]) -> float:
    before = time.process_time_ns()
    action()
    return (time.process_time_ns() - before) / 1e6


def _wall_ms(action: Callable[[], object]) -> float:
    before = time.perf_counter_ns()
    action()
    return (time.perf_counter_ns() - before) / 1e6


def measure(case: Case, *, rounds: int) -> dict[str, Any]:
    """Medians over interleaved rounds; the first round only warms up."""
    source, target = map_pages(MAX_OBJECT_BYTES), map_pages(MAX_OBJECT_BYTES)
    floors, ours, reports, references = [], [], [], []
    for number in range(rounds + 1):
        floor = measure_floor(case, source=source, target=target)
        wall = _wall_ms(lambda: reports.append(run_ours(case)))
        reference = _wall_ms(
            lambda: restore_reference(
                case.root, plan=case.plan, header_bytes=case.header_bytes, placement=case.reference
            )
        )
        if number:
            floors.append(floor)
            ours.append(wall)
            references.append(reference)
    return _figures(floors, ours=ours, reports=reports[1:], references=references)


def _figures(
    floors: list[dict[str, float]], *, ours: list[float], reports: list[RankReport], references: list[float]
) -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0))
    part = {name: median(floor[name] for floor in floors) for name in floors[0]}
    pinned_floor = (part["read"] + part["hash"] + part["copy"]) / cores
    unpinned_floor = max(pinned_floor + part["second_hash"] / cores, part["second_hash"])
    service = median(report.service_ns / 1e6 for report in reports)
    return {
        "floor_ms": pinned_floor,
        "floor_unpinned_ms": unpinned_floor,
        "hash_ceiling_ms": part["hash"] / cores,
        "stream_digest_ms": part["second_hash"],
        "copy_ms": part["copy"],
        "read_ms": part["read"],
        "whole_unpinned_ms": service,
        "whole_unpinned_wall_ms": median(ours),
        "reference_ms": median(references),
        "unattributed_ms": median(report.unattributed_ns / 1e6 for report in reports),
        "phases_ms": {
            phase: median(report.phases_ns.get(phase, 0) / 1e6 for report in reports)
            for phase in reports[0].phases_ns
        },
        "ratio_to_floor": service / unpinned_floor,
        "ratio_reference_to_ours": median(
            reference / (report.service_ns / 1e6)
            for reference, report in zip(references, reports, strict=True)
        ),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bytes", type=int, default=RECORD_BYTES)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sparkgate-bench-"))
    try:
        machine = describe_machine()
        case = open_case(folder, byte_count=chosen.bytes)
        figures = measure(case, rounds=chosen.rounds)
        case.device.close()
        objects = len(case.plan.sources)
        result = {"machine": machine, "bytes": chosen.bytes, "objects": objects, "restore": figures}
    finally:
        shutil.rmtree(folder)
    text = json.dumps(result, indent=1, default=lambda value: round(float(value), 3))
    if chosen.json:
        chosen.json.write_text(text + "\n")
    sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
