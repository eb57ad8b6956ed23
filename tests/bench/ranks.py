"""Several ranks on one machine at once, each a process of its own as on a node."""

import multiprocessing
import time
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from statistics import median
from typing import Any

from tests.bench.case import Stored, open_case
from tests.bench.floor import floor_memory, measure_floor

PATIENCE_S = 300


def measure_ranks(stored: Stored, *, ranks: int, rounds: int) -> dict[str, Any]:
    """All ranks' services start together; a round lasts until the last of them has its pages.

    ``of_ceiling`` is what the machine's cores need for all ranks' bytes, measured just before the round while
    the ranks wait, over what the round took.
    """
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(ranks + 1)
    pipes, workers = [], []
    for _ in range(ranks):
        here, there = context.Pipe()
        worker = context.Process(target=_rank, args=(stored, together, there, rounds))
        worker.start()
        pipes.append(here)
        workers.append(worker)
    try:
        floors = _lead(stored, together=together, rounds=rounds)
        spans = [_receive(pipe) for pipe in pipes]
    finally:
        together.abort()
        for worker in workers:
            worker.join(timeout=PATIENCE_S)
    walls = []
    for number in range(1, rounds + 1):
        started = min(span[number][0] for span in spans)
        ended = max(span[number][1] for span in spans)
        walls.append((ended - started) / 1e6)
    return {
        "ranks": ranks,
        "whole_ms": median(walls),
        "floor_ms": median(floors[1:]),
        "all_ms": walls,
        "all_floor_ms": floors[1:],
        "of_ceiling": ranks * median(floors[1:]) / median(walls),
    }


def _lead(stored: Stored, *, together: Barrier, rounds: int) -> list[float]:
    """The floor before each round, measured while every rank waits."""
    memory = floor_memory(stored)
    floors = []
    for _ in range(rounds + 1):
        together.wait(timeout=PATIENCE_S)
        floors.append(measure_floor(stored, **memory)["floor"])
        together.wait(timeout=PATIENCE_S)
    return floors


def _receive(pipe: Connection) -> list[tuple[int, int]]:
    if not pipe.poll(PATIENCE_S):
        raise TimeoutError("a rank did not answer")
    spans: list[tuple[int, int]] = pipe.recv()
    return spans


def _rank(stored: Stored, together: Barrier, pipe: Connection, rounds: int) -> None:
    case = open_case(stored)
    spans = []
    for _ in range(rounds + 1):
        with case.prepared(pinned=True) as service:
            together.wait(timeout=PATIENCE_S)
            together.wait(timeout=PATIENCE_S)
            started = time.monotonic_ns()
            service()
            spans.append((started, time.monotonic_ns()))
    pipe.send(spans)
    case.device.close()
