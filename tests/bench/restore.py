"""One rank's restore on the host beside its floor and a reference; four ranks at once; sweeps.

``make bench BENCH=restore JSON=FILE``, or ``python -m tests.bench.restore --json FILE [--quick] …``.
Everything is measured in this process and interleaved round by round; four ranks take a process each.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from app.core.restore.conditions import CacheMode
from app.core.restore.report import RankReport
from app.core.restore.timeline import Phase
from tests.bench.case import Case, make_stored, open_case
from tests.bench.floor import floor_memory, measure_floor
from tests.bench.machine import describe_machine, others_cpu_ms
from tests.bench.ranks import measure_ranks
from tests.bench.reference_reader import ReferencePlacement
from tests.bench.reference_reader import restore as restore_reference

RECORD_BYTES = 813_068_464
MIB = 1024 * 1024
READERS = (1, 2, 3, 4, 6, 8)
OBJECT_MIB = (4, 8, 16, 32, 64)
SWEEP_ROUNDS = 3


def measure_rank(case: Case, *, rounds: int) -> dict[str, Any]:
    """Medians over interleaved rounds; the first round only warms up."""
    memory = floor_memory(case.stored)
    placement = ReferencePlacement(
        arena_bytes=case.stored.object_bytes, pool_bytes=case.stored.plan.payload_bytes
    )
    floors: list[dict[str, float]] = []
    pinned: list[RankReport] = []
    unpinned: list[RankReport] = []
    references: list[float] = []
    others: list[float] = []
    for _ in range(rounds + 1):
        others_before = others_cpu_ms()
        floors.append(measure_floor(case.stored, **memory))
        pinned.append(case.restore(pinned=True))
        unpinned.append(case.restore(pinned=False))
        before = time.perf_counter_ns()
        restore_reference(case.stored.root, plan=case.stored.plan, placement=placement)
        references.append((time.perf_counter_ns() - before) / 1e6)
        others.append(others_cpu_ms() - others_before)
    figures = _figures(
        floors[1:],
        pinned=pinned[1:],
        unpinned=unpinned[1:],
        references=references[1:],
        peak_bytes=case.buffers.peak_bytes,
    )
    return figures | {"all_others_cpu_ms": others[1:]}


def _figures(
    floors: list[dict[str, float]],
    *,
    pinned: list[RankReport],
    unpinned: list[RankReport],
    references: list[float],
    peak_bytes: int,
) -> dict[str, Any]:
    floor = {name: median(one[name] for one in floors) for name in floors[0]}
    whole_pinned, whole_unpinned = _service_ms(pinned), _service_ms(unpinned)
    reference = median(references)
    return {
        "floor_ms": floor["floor"],
        "floor_unpinned_ms": floor["floor_unpinned"],
        "hash_ceiling_ms": floor["hash"] * floor["floor"] / (floor["read"] + floor["hash"] + floor["copy"]),
        "read_auth_ms": _phase_ms(pinned, phase=Phase.READ_AUTHENTICATE),
        "whole_pinned_ms": whole_pinned,
        "whole_unpinned_ms": whole_unpinned,
        "stream_digest_ms": floor["second_hash"],
        "copy_ms": floor["copy"],
        "read_ms": floor["read"],
        "arena_wait_ms": _phase_ms(pinned, phase=Phase.ARENA_WAIT),
        "unattributed_ms": median(report.unattributed_ns / 1e6 for report in pinned),
        "peak_payload_bytes": peak_bytes,
        "reference_ms": reference,
        "ratios": {
            "pinned_to_floor": whole_pinned / floor["floor"],
            "unpinned_to_floor": whole_unpinned / floor["floor_unpinned"],
            "reference_to_pinned": reference / whole_pinned,
            "arena_wait_of_service": _phase_ms(pinned, phase=Phase.ARENA_WAIT) / whole_pinned,
            "unattributed_of_service": median(one.unattributed_ns / one.service_ns for one in pinned),
        },
        "phases_pinned_ms": _phases_ms(pinned),
        "phases_unpinned_ms": _phases_ms(unpinned),
        "all_floor_ms": [one["floor"] for one in floors],
        "all_pinned_ms": [one.service_ns / 1e6 for one in pinned],
        "all_unpinned_ms": [one.service_ns / 1e6 for one in unpinned],
    }


def sweep_readers(case: Case) -> list[dict[str, Any]]:
    """Other numbers of readers, warm and cold; more than four are not used."""
    return [
        {"readers": readers, **_sweep(case, readers=readers, cache=cache)}
        for readers in READERS
        for cache in (CacheMode.WARM, CacheMode.COLD)
    ]


def sweep_objects(folder: Path, *, byte_count: int) -> list[dict[str, Any]]:
    """Other object sizes, warm and cold."""
    found = []
    for size in OBJECT_MIB:
        place = folder / f"objects-{size}"
        case = open_case(make_stored(place, byte_count=byte_count, object_bytes=size * MIB))
        found += [
            {"object_mib": size, **_sweep(case, readers=None, cache=cache)}
            for cache in (CacheMode.WARM, CacheMode.COLD)
        ]
        case.device.close()
        shutil.rmtree(place)
    return found


def _sweep(case: Case, *, readers: int | None, cache: CacheMode) -> dict[str, Any]:
    reports = [case.restore(pinned=True, readers=readers, cache=cache) for _ in range(SWEEP_ROUNDS)]
    states = [report.conditions.cache for report in reports if report.conditions.cache]
    return {
        "cache": cache,
        "resident_bytes": max(state.resident_bytes for state in states),
        "object_bytes": states[0].object_bytes,
        "whole_pinned_ms": _service_ms(reports),
    }


def _service_ms(reports: Sequence[RankReport]) -> float:
    return median(report.service_ns / 1e6 for report in reports)


def _phase_ms(reports: Sequence[RankReport], *, phase: Phase) -> float:
    return median(report.phases_ns.get(phase, 0) / 1e6 for report in reports)


def _phases_ms(reports: Sequence[RankReport]) -> dict[str, float]:
    return {phase: _phase_ms(reports, phase=phase) for phase in reports[0].phases_ns}


def run(folder: Path, *, byte_count: int, rounds: int, quick: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"machine": describe_machine(), "bytes": byte_count}
    stored = make_stored(folder / "record", byte_count=byte_count)
    case = open_case(stored)
    result["objects"] = len(stored.plan.sources)
    result["restore"] = measure_rank(case, rounds=rounds)
    if not quick:
        result["readers"] = sweep_readers(case)
    case.device.close()
    del case
    if not quick:
        result["four_ranks"] = measure_ranks(stored, ranks=4, rounds=rounds)
        result["object_sizes"] = sweep_objects(folder, byte_count=byte_count)
    result["machine_after"] = describe_machine()
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bytes", type=int, default=RECORD_BYTES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one rank only")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sparkgate-bench-"))
    try:
        result = run(folder, byte_count=chosen.bytes, rounds=chosen.rounds, quick=chosen.quick)
    finally:
        shutil.rmtree(folder)
    text = json.dumps(_rounded(result), indent=1)
    if chosen.json:
        chosen.json.write_text(text + "\n")
    sys.stdout.write(text + "\n")
    return 0


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value


if __name__ == "__main__":
    sys.exit(main())
