"""What it costs a rank to be asked the oracle's question, on the host device: ``make bench BENCH=oracle``.

Processor time beside wall time: on a machine that is not at rest only the first says what the work is. As in
a rank worker, linear algebra runs on one thread.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from app.core.oracle.diagnosis import check_pages
from app.core.oracle.judgement import judge_partials
from app.core.oracle.pages import OraclePages
from app.core.oracle.partials import RankPartials
from app.core.oracle.question import OracleQuestion
from app.core.oracle.reference_decoder import most_votes, recomputed_logits, restored_logits
from app.core.oracle.synthesis import least_bytes, oracle_layers, pose_question
from app.core.store.synth.design import design_layout
from tests.bench.machine import describe_machine

# The smallest oracle store, ones of 4,096 and 16,384 tokens, and that of the demo.
SIZES = (least_bytes(), 5_000_000, 40_000_000, 813_068_464)
RANKS = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    figures = {"machine": describe_machine(), "rounds": options.rounds, "spans": []}
    sys.stdout.write(f"  tokens part         CPU ms  wall ms   medians of {options.rounds}\n")
    for size in SIZES:
        figures["spans"].append(measure_span(size, rounds=options.rounds))
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1))
    return 0


def measure_span(byte_count: int, *, rounds: int) -> dict[str, Any]:
    """Every part of asking one rank of a store of this size."""
    layout, span_tokens = design_layout(byte_count, beside=oracle_layers())
    question = pose_question(layout, span_tokens=span_tokens, ranks=RANKS, seed=0)
    made = OraclePages(question, rank=0)
    keys, values = (
        made.oracle_pages(name, first=0, last=question.lines)
        for name in (question.key_layer, question.value_layer)
    )
    parts: dict[str, Callable[[], object]] = {
        "answer": lambda: restored_logits(np, question=question, rank=0, keys=keys, values=values),
        "control": lambda: recomputed_logits(np, question=question, rank=0, word=question.control),
        "pages": lambda: check_pages(question, rank=0, keys=keys, values=values),
        "judge": lambda: judge_partials(question, partials=perfect(question)),
    }
    measured: dict[str, Any] = {"span_tokens": span_tokens, "lines": question.lines}
    for name, work in parts.items():
        cpu_ms, wall_ms = median_ms(work, rounds=rounds)
        measured[name] = {"cpu_ms": cpu_ms, "wall_ms": wall_ms}
        sys.stdout.write(f"{span_tokens:>8} {name:<10} {cpu_ms:>8.1f} {wall_ms:>8.1f}\n")
        sys.stdout.flush()
    return measured


def perfect(question: OracleQuestion) -> list[RankPartials]:
    """What right ranks say, without asking them: the control plane's share is adding up."""
    most = most_votes(question)
    right = {word: most if word == question.expected else 0 for word in question.words}
    return [
        RankPartials(
            question_sha256=question.sha256,
            rank=rank,
            restored=right,
            control=right,
            most=most,
            layers=(),
            wrong_pages=0,
            finding=None,
        )
        for rank in range(question.ranks)
    ]


def median_ms(work: Callable[[], object], *, rounds: int) -> tuple[float, float]:
    """Processor and wall time in ms, each the median of its own."""
    taken: list[tuple[float, float]] = []
    for _ in range(rounds):
        cpu_ns, wall_ns = time.process_time_ns(), time.monotonic_ns()
        work()
        taken.append(((time.process_time_ns() - cpu_ns) / 1e6, (time.monotonic_ns() - wall_ns) / 1e6))
    return statistics.median(cpu for cpu, _ in taken), statistics.median(wall for _, wall in taken)


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        # Read when NumPy is imported, so this process starts anew with it.
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.bench.oracle", *sys.argv[1:]],
            {**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
    sys.exit(main())
