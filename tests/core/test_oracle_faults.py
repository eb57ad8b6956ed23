"""Faults that leave every hash right: each makes the answer wrong, and each is called by its name."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.core.errors import DeviceError, IncompatibleError, PlanError
from app.core.oracle.asking import ask_rank
from app.core.oracle.faults import FaultyDevice, require_injectable
from app.core.oracle.judgement import judge_partials
from app.core.oracle.partials import INJECTABLE, RankPartials, SemanticFault
from app.core.oracle.synthesis import SynthesizedOracle, synthesize_oracle
from app.core.restore.device import LayerDigest, PageSet, PageState
from app.core.restore.host_device import HostDevice
from app.core.restore.host_placement import HostProducer
from app.core.restore.report import RankReport

from .oracle_rig import (
    OBJECT_BYTES,
    RANKS,
    asked,
    device_of,
    order_of,
    question_of,
    restored,
    synthesize,
)
from .rig import opened, restore

DETAILS = {
    SemanticFault.SWAP_PAGES: "blocks 2 and 6 hold each other's pages",
    SemanticFault.SLOTS_OFF_BY_ONE: "8 of 8 blocks hold the pages of the block before them",
    SemanticFault.FOREIGN_SLOTS: "8 of 8 blocks hold the pages of rank {other}",
    SemanticFault.SKIPPED_FENCE: "2 of 8 blocks were overwritten with byte 0x00",
    SemanticFault.STALE_BATCH: "blocks 4 to 5 hold what was there before",
    SemanticFault.STALE_GENERATION: "8 of 8 blocks hold generation 0 of this context instead of 1",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SynthesizedOracle:
    return synthesize(tmp_path_factory.mktemp("oracle"))


@pytest.fixture(scope="module")
def healthy(
    made: SynthesizedOracle,
) -> list[tuple[RankPartials, RankReport, tuple[LayerDigest, ...]]]:
    every = [asked(made, rank=rank) for rank in range(RANKS)]
    return [(partials, result.report, layers) for partials, result, layers in every]


Healthy = list[tuple[RankPartials, RankReport, tuple[LayerDigest, ...]]]


def untimed(report: RankReport) -> RankReport:
    return replace(report, intervals_ns=(), reader_work=())


def test_right_pages_give_the_right_answer(made: SynthesizedOracle, healthy: Healthy) -> None:
    judged = judge_partials(made.question, partials=[partials for partials, _, _ in healthy])
    assert (judged.answer.word, judged.control.word) == ("red", "blue")
    assert (judged.right, judged.control_right, judged.diagnosis) == (True, True, None)
    for rank, (partials, _, layers) in enumerate(healthy):
        by_name = {layer.name: layer for layer in layers}
        assert partials.rank == rank
        assert partials.restored["red"] == partials.most
        for layer in partials.layers:
            assert layer.found_sha256 == layer.expected_sha256 == by_name[layer.name].sha256
            assert (layer.pages, layer.wrong) == (8, 0)


@pytest.mark.parametrize("rank", range(RANKS))
@pytest.mark.parametrize("fault", INJECTABLE)
def test_each_fault_is_structurally_perfect_semantically_wrong_and_named(
    made: SynthesizedOracle, healthy: Healthy, fault: SemanticFault, rank: int
) -> None:
    partials, result, layers = asked(made, rank=rank, fault=fault)
    right, report, right_layers = healthy[rank]
    # Nothing but times is another in the rank's report: objects, digests, counters, bytes.
    assert untimed(result.report) == untimed(report)
    assert layers != right_layers
    every = [one for one, _, _ in healthy]
    every[rank] = partials
    judged = judge_partials(made.question, partials=every)
    assert judged.answer.word == "spark"
    assert (judged.right, judged.control_right) == (False, True)
    assert judged.diagnosis is not None
    assert (judged.diagnosis.fault, judged.diagnosis.ranks) == (fault, (rank,))
    detail = DETAILS[fault].format(other=(rank + 1) % RANKS)
    assert judged.diagnosis.detail == f"rank {rank}: {detail}"
    assert partials.control == right.control


@pytest.mark.parametrize("fault", INJECTABLE)
def test_a_faulted_set_is_discarded_like_any_other_and_the_device_is_whole_again(
    made: SynthesizedOracle, fault: SemanticFault
) -> None:
    with device_of(made) as device:
        faulty = FaultyDevice(device, fault=fault, question=made.question, rank=1)
        result = restored(made, rank=1, device=faulty)
        assert result.pages is not None
        assert device.state(result.pages) is PageState.PRIVATE
        faulty.publish(result.pages)
        assert device.state(result.pages) is PageState.PUBLISHED
        faulty.discard(result.pages)
        assert faulty.free_bytes == faulty.pool_bytes
        again = restored(made, rank=1, device=device)
        assert again.pages is not None
        assert ask_rank(device, again.pages, question=made.question, rank=1).wrong_pages == 0


def test_a_skipped_fence_lets_earlier_writes_come_late(made: SynthesizedOracle) -> None:
    """What was queued before the restore runs after it, and only with the fault."""
    order = order_of(made, rank=0)
    for fault, expected in (
        (None, ["write", "restored"]),
        (SemanticFault.SKIPPED_FENCE, ["restored", "write"]),
    ):
        steps: list[str] = []
        producer = HostProducer()
        producer.queue(lambda steps=steps: steps.append("write"))

        class Watched(HostDevice):
            def begin(self, *arguments: object, steps: list[str] = steps, **options: object) -> object:  # type: ignore[override]
                steps.append("restored")
                return super().begin(*arguments, **options)  # type: ignore[arg-type]

        with Watched("host0", pool_bytes=1 << 20, arena_bytes=OBJECT_BYTES) as real:
            device = (
                real if fault is None else FaultyDevice(real, fault=fault, question=made.question, rank=0)
            )
            with opened(made.snapshot.roots[0]) as reader:
                restore(order, reader=reader, device=device, producer=producer)
        assert steps[:2] == expected


def test_a_fault_that_cannot_be_put_in_is_refused_before_anything_runs(made: SynthesizedOracle) -> None:
    alone = question_of(1, ranks=1)
    first = replace(made.question, generation=0)
    with pytest.raises(PlanError, match=r"fault: expected one of swap-pages, .*found unknown"):
        require_injectable(SemanticFault.UNKNOWN, question=made.question, rank=0)
    with pytest.raises(PlanError, match="fault swap-pages: expected a rank 0 … 3, found 4"):
        require_injectable(SemanticFault.SWAP_PAGES, question=made.question, rank=4)
    with pytest.raises(PlanError, match="fault foreign-slots: expected at least two ranks"):
        require_injectable(SemanticFault.FOREIGN_SLOTS, question=alone, rank=0)
    with device_of(made) as device, pytest.raises(PlanError, match="fault stale-generation"):
        FaultyDevice(device, fault=SemanticFault.STALE_GENERATION, question=first, rank=0)


def test_a_rank_is_not_asked_about_another_layout_or_pages_that_are_gone(
    made: SynthesizedOracle, tmp_path: Path
) -> None:
    other = synthesize_oracle(tmp_path, ranks=RANKS, bytes_per_rank=400_000).question
    with device_of(made) as device:
        pages = restored(made, rank=0, device=device).pages
        assert pages is not None
        with pytest.raises(IncompatibleError, match=r"oracle question\.layout_sha256"):
            ask_rank(device, pages, question=other, rank=0)
        device.discard(pages)
        with pytest.raises(DeviceError, match="discarded"):
            ask_rank(device, pages, question=made.question, rank=0)


def test_a_question_of_another_rank_finds_foreign_pages(made: SynthesizedOracle) -> None:
    """A rank that restored the shard of another one, every byte of it authentic."""
    with device_of(made) as device:
        pages: PageSet | None = restored(made, rank=2, device=device).pages
        assert pages is not None
        partials = ask_rank(device, pages, question=made.question, rank=1)
    assert partials.finding is not None
    assert partials.finding.fault is SemanticFault.FOREIGN_SLOTS
    assert partials.finding.detail == "8 of 8 blocks hold the pages of rank 2"
