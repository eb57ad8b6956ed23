"""What the bytes cost whoever restores them: CPU time of reading, hashing and copying them once."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from app.core.digest import RunningDigest, sha256
from app.core.restore.buffers import map_pages
from tests.bench.case import CORES, Stored


def measure_floor(stored: Stored, *, source: memoryview, target: memoryview) -> dict[str, float]:
    """CPU time of each step over all objects on one thread, in ms, and the floors that follow.

    ``floor`` is (read + hash + copy) ÷ cores. With the stream digest the bytes are hashed twice; that second
    hash is one serial chain, so the floor is never below it.
    """
    spent = {"read": 0.0, "hash": 0.0, "second_hash": 0.0, "copy": 0.0}
    stream = RunningDigest()
    for path in stored.paths:
        size = path.stat().st_size
        part = source[:size]
        spent["read"] += _cpu_ms(lambda path=path, part=part: _read_into(path, part))
        spent["hash"] += _cpu_ms(lambda part=part: sha256(part))
        spent["second_hash"] += _cpu_ms(lambda part=part: stream.update(part))
        spent["copy"] += _cpu_ms(lambda part=part, size=size: _copy(target[:size], part))
    once = spent["read"] + spent["hash"] + spent["copy"]
    floor = once / CORES
    unpinned = max((once + spent["second_hash"]) / CORES, spent["second_hash"])
    return spent | {"floor": floor, "floor_unpinned": unpinned}


def floor_memory(stored: Stored) -> dict[str, memoryview]:
    """Two pre-faulted buffers."""
    return {"source": map_pages(stored.object_bytes), "target": map_pages(stored.object_bytes)}


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
