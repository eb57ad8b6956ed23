"""Several ranks on one machine at once, each a process of its own as on a node."""

import multiprocessing
import time
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from statistics import median
from typing import Any

from tests.bench.case import Stored, open_case

PATIENCE_S = 300


def measure_ranks(stored: Stored, *, ranks: int, rounds: int, floor_ms: float) -> dict[str, Any]:
    """All ranks start together; a round lasts until the last has its pages.

    ``of_ceiling`` is what the machine's cores need for all ranks' bytes over what it took.
    """
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(ranks)
    pipes, workers = [], []
    for _ in range(ranks):
        here, there = context.Pipe()
        worker = context.Process(target=_rank, args=(stored, together, there, rounds))
        worker.start()
        pipes.append(here)
        workers.append(worker)
    try:
        spans = [_receive(pipe) for pipe in pipes]
    finally:
        for worker in workers:
            worker.join(timeout=PATIENCE_S)
    walls = []
    for number in range(1, rounds + 1):
        started = min(span[number][0] for span in spans)
        ended = max(span[number][1] for span in spans)
        walls.append((ended - started) / 1e6)
    whole = median(walls)
    return {"ranks": ranks, "whole_ms": whole, "all_ms": walls, "of_ceiling": ranks * floor_ms / whole}


def _receive(pipe: Connection) -> list[tuple[int, int]]:
    if not pipe.poll(PATIENCE_S):
        raise TimeoutError("a rank did not answer")
    spans: list[tuple[int, int]] = pipe.recv()
    return spans


def _rank(stored: Stored, together: Barrier, pipe: Connection, rounds: int) -> None:
    case = open_case(stored)
    spans = []
    for _ in range(rounds + 1):
        together.wait(timeout=PATIENCE_S)
        started = time.monotonic_ns()
        case.restore(pinned=True)
        spans.append((started, time.monotonic_ns()))
    pipe.send(spans)
    case.device.close()
