"""What the GPU costs: hash floor, copies, scatter, whole restores, fence, publish. Medians; JSON by `check`.

The target is the host-visible work: pages are resident within 1.2 × of the slower of hashing and copying to
the device, both measured in this run on these bytes.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from app.core.digest import sha256
from app.core.restore.buffers import BufferPool
from app.core.restore.conditions import CacheMode
from app.core.restore.device import ArenaMode
from app.core.restore.page_cache import prepare_cache
from app.core.restore.plan import CopySpan
from app.core.restore.reader import readers_for
from tests.bench.case import CORES
from workers.gpu.cuda_device import CudaDevice
from workers.gpu.cuda_kernels import SCATTER, SPAN_RECORD_BYTES, count_tiles, encode_table
from workers.gpu.driver import Driver, Launch
from workers.gpu.host_memory import as_bytes

from .stores import Stored, stored_snapshot

RECORD_BYTES: Final = 813_068_464
ROUNDS: Final = 7
QUICK_ROUNDS: Final = 5
SHORT_ROUNDS: Final = 51
TARGETS: Final = {
    "resident_to_limit": ("at most", 1.2),
    "scatter_to_device_copy": ("at least", 0.7),
    "fence_ms": ("below", 1.0),
    "publish_ms": ("below", 1.0),
}


def measure(
    open_gpu: Callable[[], Driver],
    *,
    folder: Path,
    byte_count: int = RECORD_BYTES,
    object_bytes: int = 64 << 20,
    rounds: int = ROUNDS,
) -> dict[str, Any]:
    """All figures of one GPU.

    Args:
        open_gpu: a driver of it, anew for each device.
        folder: where the snapshot is made.
        rounds: of which the median is told, after one that warms up; ≥ 5.
    """
    stored = stored_snapshot(folder, byte_count=byte_count, object_bytes=object_bytes)
    with _device(open_gpu(), stored=stored) as device:
        found: dict[str, Any] = {
            "bytes": stored.payload_bytes,
            "objects": len(stored.object_files),
            "rounds": rounds,
            "arena_mode": str(device.arena_mode),
            "notes": list(device.notes),
        }
        found |= _measure_limits(device, stored=stored, rounds=rounds)
        found |= _measure_kernels(device, stored=stored, rounds=rounds)
        found |= _measure_restores(device, stored=stored, rounds=rounds)
        found |= _measure_order(device, stored=stored)
    ratios = _ratios(found)
    return found | {"ratios": ratios, "targets": judge(ratios | found)}


def judge(figures: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every target with its figure, and whether it is met."""
    met = {
        "at most": lambda found, wanted: found <= wanted,
        "at least": lambda found, wanted: found >= wanted,
        "below": lambda found, wanted: found < wanted,
    }
    return {
        name: {
            "wanted": f"{word} {wanted}",
            "found": figures[name],
            "met": bool(met[word](figures[name], wanted)),
        }
        for name, (word, wanted) in TARGETS.items()
    }


def _ratios(found: dict[str, Any]) -> dict[str, float]:
    limit = max(found["hash_floor_ms"], found["host_to_device_ms"])
    unpinned = max(limit, found["stream_digest_ms"])
    return {
        "resident_to_limit": found["resident_ms"] / limit,
        "resident_recomputed_to_limit": found["resident_recomputed_ms"] / unpinned,
        "scatter_to_device_copy": found["scatter_bytes_per_s"] / found["device_copy_bytes_per_s"],
    }


def _device(driver: Driver, *, stored: Stored, mode: ArenaMode | None = None) -> CudaDevice:
    device = CudaDevice(
        "cuda0",
        driver=driver,
        pool_bytes=2 * stored.payload_bytes + (64 << 20),
        arena_bytes=stored.object_bytes,
        mode=mode,
        timed=True,
    )
    device.prepare_pool(stored.layout, block_counts=stored.block_counts)
    return device


def _measure_limits(device: CudaDevice, *, stored: Stored, rounds: int) -> dict[str, Any]:
    """What the bytes cost whoever hashes them and whoever copies them, and nobody else."""
    sizes = [path.stat().st_size for path in stored.object_files]
    threads = readers_for(CORES)
    buffers = [device.host_memory(stored.object_bytes) for _ in range(4)]
    for buffer, path in zip(buffers, stored.object_files, strict=False):
        content = np.fromfile(path, dtype=np.uint8)
        as_bytes(buffer)[: content.size] = content

    def hash_all() -> None:
        with ThreadPoolExecutor(threads) as pool:
            jobs = [pool.submit(sha256, buffers[at % 4][:size]) for at, size in enumerate(sizes)]
            for job in jobs:
                job.result()

    def hash_one() -> None:
        sha256(buffers[0][: sizes[0]])

    def copy_all() -> None:
        for at, size in enumerate(sizes):
            arena = device.arenas[at % 2]
            target = arena._staging or staging
            source = as_bytes(buffers[at % 4])[:size]
            device.driver.copy_in(target, source=source, stream=arena.stream)
        for arena in device.arenas:
            device.driver.await_stream(arena.stream)

    staging = device.driver.allocate(stored.object_bytes)
    try:
        copied = _median_ms(copy_all, rounds=rounds)
    finally:
        device.driver.release(staging)
    per_byte = _median_ms(hash_one, rounds=rounds) / sizes[0]
    return {
        "readers": threads,
        "hash_floor_ms": _median_ms(hash_all, rounds=rounds),
        "stream_digest_ms": per_byte * sum(sizes),
        "host_to_device_ms": copied,
        "host_to_device_bytes_per_s": sum(sizes) / copied * 1e3,
    }


def _measure_kernels(device: CudaDevice, *, stored: Stored, rounds: int) -> dict[str, Any]:
    """A whole payload on the device, copied as one block and scattered as layers; device time by events."""
    driver, stream = device.driver, device.arenas[0].stream
    byte_count = stored.payload_bytes
    source, target = driver.allocate(byte_count), driver.allocate(byte_count)
    pages = device.reserve(stored.layout, block_counts=stored.block_counts)
    addresses = device._budget.pools[stored.layout.sha256].upload_tables(pages)
    table = encode_table(whole_spans(stored))
    table_at = driver.allocate(table.size)
    driver.copy_in(table_at, source=table, stream=stream)
    driver.await_stream(device._work)
    launch = Launch(
        kernel=SCATTER,
        blocks=count_tiles(table),
        linear=source,
        used_bytes=byte_count,
        spans=table_at,
        first_tiles=table_at + (table.size - 4) // (SPAN_RECORD_BYTES + 4) * SPAN_RECORD_BYTES,
        span_count=(table.size - 4) // (SPAN_RECORD_BYTES + 4),
        pages=addresses,
    )
    try:
        copied = _device_ms(
            lambda: driver.copy_within(source, target=target, byte_count=byte_count, stream=stream),
            driver=driver,
            stream=stream,
            rounds=rounds,
        )
        scattered = _device_ms(
            lambda: driver.launch(launch, stream=stream), driver=driver, stream=stream, rounds=rounds
        )
    finally:
        for address in (source, target, table_at, addresses.block):
            driver.release(address)
        device.discard(pages)
    return {
        "device_copy_ms": copied,
        "device_copy_bytes_per_s": byte_count / copied * 1e3,
        "scatter_ms": scattered,
        "scatter_bytes_per_s": byte_count / scattered * 1e3,
        "scatter_blocks": launch.blocks,
    }


def whole_spans(stored: Stored) -> list[CopySpan]:
    """The whole payload in one table, a span per layer."""
    start = stored.layers[0].start
    return [
        CopySpan(
            arena_offset=layer.start - start,
            snapshot_offset=layer.start - start,
            destination_offset=0,
            byte_count=layer.end - layer.start,
            destination=number,
        )
        for number, layer in enumerate(stored.layers)
    ]


def _measure_restores(device: CudaDevice, *, stored: Stored, rounds: int) -> dict[str, Any]:
    """From the order to published pages, page cache warm; the document pinned, or its stream digested too."""
    buffers = BufferPool(buffer_bytes=stored.object_bytes, allocate=device.host_memory)
    with stored.reading(buffers) as reader:
        prepare_cache(reader.files, sources=stored.root.plan.sources, mode=CacheMode.WARM)

    def restore(*, pinned: bool) -> tuple[float, float, dict[str, float]]:
        before = time.perf_counter_ns()
        result = stored.restore(device, buffers=buffers, pinned=pinned)
        if result.pages is None:
            raise RuntimeError(f"restore: expected restored, found {result.report.problem}")
        device.publish(result.pages)
        resident = (time.perf_counter_ns() - before) / 1e6
        before = time.perf_counter_ns()
        if [layer.sha256 for layer in device.digest(result.pages)] != stored.layer_digests:
            raise RuntimeError("restore: expected the host device's layers, found others")
        read_back = (time.perf_counter_ns() - before) / 1e6
        device.discard(result.pages)
        phases = {str(phase): ns / 1e6 for phase, ns in result.report.phases_ns.items()}
        return resident, read_back, phases

    pinned = [restore(pinned=True) for _ in range(rounds + 1)][1:]
    recomputed = [restore(pinned=False) for _ in range(rounds + 1)][1:]
    times = [arena.times for arena in device.arenas]
    return {
        "resident_ms": median(one[0] for one in pinned),
        "resident_recomputed_ms": median(one[0] for one in recomputed),
        "read_back_ms": median(one[1] for one in pinned),
        "all_resident_ms": [one[0] for one in pinned],
        "phases_ms": {name: median(one[2].get(name, 0.0) for one in pinned) for name in pinned[0][2]},
        "last_copies_device_ms": sum(one.copy_ns for one in times) / 1e6,
        "last_scatter_device_ms": sum(one.scatter_ns for one in times) / 1e6,
    }


def _measure_order(device: CudaDevice, *, stored: Stored) -> dict[str, Any]:
    """The fence where nothing is queued, and publishing; host time."""
    fences, publishes = [], []
    producer = device.producer()
    for _ in range(SHORT_ROUNDS):
        pages = device.reserve(stored.layout, block_counts=stored.block_counts)
        device.driver.await_stream(device._work)
        fences.append(_once_ms(lambda pages=pages: device.fence(pages, producer=producer)))
        publishes.append(_once_ms(lambda pages=pages: device.publish(pages)))
        device.discard(pages)
    return {"fence_ms": median(fences), "publish_ms": median(publishes)}


def _device_ms(action: Callable[[], None], *, driver: Driver, stream: int, rounds: int) -> float:
    found = []
    start, end = driver.create_event(timed=True), driver.create_event(timed=True)
    for _ in range(rounds + 1):
        driver.record(start, stream=stream)
        action()
        driver.record(end, stream=stream)
        driver.await_stream(stream)
        found.append(driver.elapsed_ns(start, end=end) / 1e6)
    driver.destroy(events=(start, end))
    return median(found[1:])


def _median_ms(action: Callable[[], None], *, rounds: int) -> float:
    return median([_once_ms(action) for _ in range(rounds + 1)][1:])


def _once_ms(action: Callable[[], object]) -> float:
    before = time.perf_counter_ns()
    action()
    return (time.perf_counter_ns() - before) / 1e6
