"""The oracle asked on every kind of device: the same answers, and every fault is put in, caught and named."""

from typing import Any

import numpy as np
import pytest

from app.core.oracle.asking import ask_rank
from app.core.oracle.faults import FaultyDevice
from app.core.oracle.judgement import judge_partials
from app.core.oracle.partials import INJECTABLE, SCALE, RankPartials, SemanticFault
from app.core.oracle.question import OracleQuestion
from app.core.oracle.reference_decoder import recomputed_logits, restored_logits
from app.core.oracle.synthesis import SynthesizedOracle
from app.core.restore.buffers import BufferPool
from app.core.restore.report import RankOutcome
from tests.core.oracle_rig import (
    OBJECT_BYTES,
    order_of,
    question_of,
    right_pages,
    synthesize,
)
from tests.core.rig import opened, restore

from .cases import GPU, KINDS, Kind
from .test_restore import SteppedBuffers

RANKS = 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SynthesizedOracle:
    return synthesize(tmp_path_factory.mktemp("oracle"), seed=9, ranks=RANKS)


@pytest.fixture(scope="module")
def healthy(made: SynthesizedOracle) -> list[RankPartials]:
    """What every rank says on the host."""
    return [asked(KINDS[0], made, rank=rank) for rank in range(RANKS)]


def asked(
    kind: Kind, made: SynthesizedOracle, *, rank: int, fault: SemanticFault | None = None
) -> RankPartials:
    with kind(pool_bytes=1 << 22, arena_bytes=OBJECT_BYTES) as real:
        device: Any = real
        if fault is not None:
            device = FaultyDevice(real, fault=fault, question=made.question, rank=rank)
        host = kind is KINDS[0]
        buffers = (
            BufferPool(buffer_bytes=OBJECT_BYTES) if host else SteppedBuffers(real, buffer_bytes=OBJECT_BYTES)
        )
        with opened(made.snapshot.roots[rank], buffers=buffers) as reader:
            result = restore(
                order_of(made, rank=rank), reader=reader, device=device, producer=device.producer()
            )
        assert result.report.outcome is RankOutcome.RESTORED, result.report.problem
        assert result.pages is not None
        device.publish(result.pages)
        partials = ask_rank(device, result.pages, question=made.question, rank=rank)
        device.discard(result.pages)
        assert device.free_bytes == device.pool_bytes
        return partials


def close(one: RankPartials, other: RankPartials) -> bool:
    """Equal but for rounding: a thousandth of a vote, of which a quarter decides."""
    return all(
        abs(logits[word] - others[word]) < SCALE // 1000
        for logits, others in ((one.restored, other.restored), (one.control, other.control))
        for word in logits
    )


def test_every_device_says_what_the_host_says(
    kind: Kind, made: SynthesizedOracle, healthy: list[RankPartials]
) -> None:
    found = [asked(kind, made, rank=rank) for rank in range(RANKS)]
    assert all(close(one, other) for one, other in zip(found, healthy, strict=True))
    assert [one.layers for one in found] == [one.layers for one in healthy]
    judged = judge_partials(made.question, partials=found)
    assert (judged.right, judged.answer.word, judged.control.word) == (True, "red", "blue")


@pytest.mark.parametrize("fault", INJECTABLE)
def test_every_fault_is_caught_and_named_on_every_device(
    kind: Kind, made: SynthesizedOracle, healthy: list[RankPartials], fault: SemanticFault
) -> None:
    found = [healthy[0], asked(kind, made, rank=1, fault=fault)]
    judged = judge_partials(made.question, partials=found)
    assert (judged.right, judged.answer.word) == (False, "spark")
    assert judged.diagnosis is not None
    assert (judged.diagnosis.fault, judged.diagnosis.ranks) == (fault, (1,))


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_numpy_and_cupy_agree_on_a_hundred_seeds(first: int) -> None:
    with GPU(pool_bytes=1 << 22, arena_bytes=OBJECT_BYTES) as device:
        for seed in range(first, first + 25):
            question = question_of(seed, dtype=("float16", "float32")[seed % 2])
            for rank in range(question.ranks):
                compare_modules(device.xp, question=question, rank=rank)


def compare_modules(xp: Any, *, question: OracleQuestion, rank: int) -> None:
    """Right pages, keys of another rank, and the control's tokens."""
    keys, values = right_pages(question, rank=rank)
    other, _ = right_pages(question, rank=(rank + 1) % question.ranks)
    for placed in (keys, other):
        ours = restored_logits(np, question=question, rank=rank, keys=placed, values=values)
        theirs = restored_logits(
            xp, question=question, rank=rank, keys=xp.asarray(placed), values=xp.asarray(values)
        )
        assert all(abs(ours[word] - theirs[word]) < SCALE // 1000 for word in ours)
    ours = recomputed_logits(np, question=question, rank=rank, word=question.control)
    theirs = recomputed_logits(xp, question=question, rank=rank, word=question.control)
    assert all(abs(ours[word] - theirs[word]) < SCALE // 1000 for word in ours)
