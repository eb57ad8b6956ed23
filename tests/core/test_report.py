"""Time that no phase claims is shown; a report is believed only if it adds up; all ranks or nothing."""

import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from app.core.canonical_json import decode_canonical, encode_canonical
from app.core.digest import sha256
from app.core.errors import FormatError, Stage
from app.core.restore.conditions import CacheMode, CacheState, Conditions
from app.core.restore.device import LayerDigest, PageSet, PlacementStats, Producer
from app.core.restore.host_device import HostDevice
from app.core.restore.report import (
    Problem,
    ProblemCode,
    RankOutcome,
    RankReport,
    ReaderWork,
    RestoreOutcome,
    StreamDigestState,
    combine,
    parse_report,
)
from app.core.restore.timeline import Interval, Phase, Timeline
from app.core.store.snapshot import PageLayout

from .rig import FakeClock, Vector, opened, restore

REPORT = RankReport(
    outcome=RankOutcome.RESTORED,
    problem=None,
    manifest_sha256=sha256(b"document"),
    objects=2,
    bytes=100,
    intervals_ns=(
        Interval(phase=Phase.MANIFEST_LOOKUP, start_ns=5, end_ns=10),
        Interval(phase=Phase.HOST_COPY, start_ns=10, end_ns=12),
        Interval(phase=Phase.HOST_COPY, start_ns=20, end_ns=25),
    ),
    service_ns=30,
    reader_work=(
        ReaderWork(object=sha256(b"0"), start_ns=2, end_ns=12, bytes=60),
        ReaderWork(object=sha256(b"1"), start_ns=5, end_ns=30, bytes=40),
    ),
    readers=4,
    stream_digest=StreamDigestState.RECOMPUTED,
    submissions=2,
    statistics=PlacementStats(
        source_bytes=100,
        slabs_submitted=2,
        scatter_kernel_launches=2,
        slot_uploads=1,
        destination_table_uploads=1,
        staged_host_to_device_bytes=0,
        device_error=0,
    ),
    layers=(LayerDigest(name="a", pages=2, bytes=50, sha256=sha256(b"a")),),
    conditions=Conditions(
        cache=CacheState(mode=CacheMode.WARM, resident_bytes=4096, object_bytes=8192), cores=2
    ),
)
FAILURE = replace(
    REPORT,
    outcome=RankOutcome.CORRUPT,
    problem=Problem(
        code=ProblemCode.INTEGRITY,
        subject="object 4",
        stage=Stage.CONTENT,
        expected="a",
        found="b",
        detail="c",
    ),
    stream_digest=StreamDigestState.NOT_REACHED,
    statistics=None,
    layers=(),
)


def test_time_between_two_phases_is_unattributed() -> None:
    clock = FakeClock()
    timeline = Timeline(clock)
    with timeline.phase(Phase.PLANNING):
        clock.pass_ms(3)
    clock.pass_ms(50)
    with timeline.phase(Phase.HOST_COPY):
        clock.pass_ms(4)
    report = replace(REPORT, intervals_ns=timeline.intervals, service_ns=timeline.elapsed_ns())
    assert report.unattributed_ns == 50_000_000
    assert report.phases_ns == {Phase.PLANNING: 3_000_000, Phase.HOST_COPY: 4_000_000}


def test_a_sleep_between_two_phases_of_a_restore_is_unattributed(vectors: dict[str, Vector]) -> None:
    """The progress callback runs between phases; what it costs belongs to none of them."""
    vector = vectors["flat-v2-single"]
    clock = FakeClock()
    with vector.device() as device, opened(vector.root) as reader:
        quick = restore(vector.order(), reader=reader, device=device, clock=clock)
        assert quick.pages is not None
        device.discard(quick.pages)
        slow = restore(
            vector.order(), reader=reader, device=device, clock=clock, progress=lambda step: clock.pass_ms(50)
        ).report
    assert quick.report.unattributed_ns == 0
    assert slow.unattributed_ns == 50_000_000
    assert slow.service_ns == 50_000_000


def test_a_slow_fence_belongs_to_its_phase(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-single"]
    clock = FakeClock()

    class Slow(HostDevice):
        def fence(self, pages: PageSet, *, producer: Producer) -> None:
            clock.pass_ms(7)
            super().fence(pages, producer=producer)

        def reserve(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> PageSet:
            clock.pass_ms(9)
            return super().reserve(layout, block_counts=block_counts)

    with vector.device(Slow) as device, opened(vector.root) as reader:
        report = restore(vector.order(), reader=reader, device=device, clock=clock).report
    assert report.phases_ns[Phase.PRIOR_DEVICE_WORK] == 7_000_000
    assert report.phases_ns[Phase.RESERVATION] == 9_000_000
    assert report.unattributed_ns == 0


def test_phases_do_not_nest() -> None:
    timeline = Timeline(FakeClock())
    inside = pytest.raises(RuntimeError, match="host_copy begins inside phase planning")
    with timeline.phase(Phase.PLANNING), inside:
        timeline.enter(Phase.HOST_COPY)
    with timeline.phase(Phase.HOST_COPY):
        pass


def test_a_phase_that_raises_is_closed() -> None:
    clock = FakeClock()
    timeline = Timeline(clock)
    with suppress(ZeroDivisionError), timeline.phase(Phase.PLANNING):
        clock.pass_ms(1)
        raise ZeroDivisionError
    assert [(i.start_ns, i.end_ns) for i in timeline.intervals] == [(0, 1_000_000)]


def test_a_clock_that_steps_back_never_makes_time_negative() -> None:
    clock = FakeClock()
    timeline = Timeline(clock)
    with timeline.phase(Phase.PLANNING):
        clock.pass_ms(5)
    clock.pass_ms(-20)
    with timeline.phase(Phase.HOST_COPY):
        clock.pass_ms(1)
    report = replace(REPORT, intervals_ns=timeline.intervals, service_ns=timeline.elapsed_ns())
    assert report.unattributed_ns == 0
    assert report.service_ns == 5_000_000
    assert parse_report(report.to_document()) == report


@pytest.mark.parametrize("report", [REPORT, FAILURE])
def test_a_document_and_its_report_are_one(report: RankReport) -> None:
    document = report.to_document()
    assert parse_report(decode_canonical(encode_canonical(document), subject="report")) == report
    assert document["unattributed_ns"] == 18
    assert document["phases_ns"] == {"manifest_lookup": 5, "host_copy": 7}
    assert document["reader_work_ns"] == 35
    assert document["bytes_per_second"] == {"manifest_lookup": 20 * 10**9, "host_copy": 100 * 10**9 // 7}


TAMPERED: dict[str, Callable[[Any], object]] = {
    "schema": lambda d: d.update(schema="other"),
    "key missing": lambda d: d.pop("readers"),
    "key additional": lambda d: d.update(note=1),
    "outcome unknown": lambda d: d.update(outcome="great"),
    "outcome without problem": lambda d: d.update(outcome="corrupt"),
    "restored with a problem": lambda d: d.update(problem=FAILURE.to_document()["problem"]),
    "restored without statistics": lambda d: d.update(statistics=None),
    "restored without stream digest": lambda d: d.update(stream_digest="not_reached"),
    "negative objects": lambda d: d.update(objects=-1),
    "boolean bytes": lambda d: d.update(bytes=True),
    "fraction": lambda d: d.update(service_ns=30.0),
    "over 63 bits": lambda d: d.update(bytes=2**63),
    "intervals not a list": lambda d: d.update(intervals_ns={}),
    "intervals overlap": lambda d: d["intervals_ns"][1].update(start_ns=9),
    "intervals reversed": lambda d: d["intervals_ns"].reverse(),
    "interval ends before it starts": lambda d: d["intervals_ns"][0].update(end_ns=4),
    "interval after the service": lambda d: d["intervals_ns"][2].update(end_ns=31),
    "phase unknown": lambda d: d["intervals_ns"][0].update(phase="tea"),
    "phase sum": lambda d: d["phases_ns"].update(host_copy=8),
    "phase sum missing": lambda d: d["phases_ns"].pop("host_copy"),
    "phase sum of nothing": lambda d: d["phases_ns"].update(planning=0),
    "unattributed smaller": lambda d: d.update(unattributed_ns=17),
    "unattributed negative": lambda d: d.update(unattributed_ns=-1),
    "service longer": lambda d: d.update(service_ns=31),
    "reader work after the service": lambda d: d["reader_work"][1].update(end_ns=31),
    "reader work that ends before it starts": lambda d: d["reader_work"][0].update(end_ns=1),
    "reader work sum": lambda d: d.update(reader_work_ns=34),
    "reader work of no object": lambda d: d["reader_work"][0].update(object="x"),
    "rate": lambda d: d["bytes_per_second"].update(host_copy=1),
    "rate missing": lambda d: d["bytes_per_second"].pop("host_copy"),
    "rate as a fraction": lambda d: d.update(unattributed_ns=18.0),
    "cache mode unknown": lambda d: d["conditions"]["cache"].update(mode="tepid"),
    "more resident than there is": lambda d: d["conditions"]["cache"].update(resident_bytes=8193),
    "no core": lambda d: d["conditions"].update(cores=0),
    "statistics key": lambda d: d["statistics"].pop("slot_uploads"),
    "layer digest": lambda d: d["layers"][0].update(sha256="x"),
    "manifest digest": lambda d: d.update(manifest_sha256="x"),
}


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED.keys())
def test_a_report_that_does_not_add_up(change: Callable[[Any], object]) -> None:
    document = copy.deepcopy(REPORT.to_document())
    change(document)
    with pytest.raises(FormatError, match=r"^rank report"):
        parse_report(document)


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_a_report_that_is_none(value: Any) -> None:
    with pytest.raises(FormatError):
        parse_report(value)


@pytest.mark.parametrize(
    ("outcomes", "whole"),
    [
        ("restored restored", "restored"),
        ("restored lost", "incomplete"),
        ("", "incomplete"),
        ("lost lost", "incomplete"),
        ("restored corrupt", "corrupt"),
        ("corrupt", "corrupt"),
        ("absent corrupt", "corrupt"),
        ("corrupt lost cancelled cancelled", "corrupt"),
        ("restored absent", "incomplete"),
        ("absent cancelled", "incomplete"),
        ("incompatible restored", "incomplete"),
        ("incompatible failed", "incomplete"),
        ("failed absent", "incomplete"),
        ("lost failed", "incomplete"),
        ("lost cancelled", "incomplete"),
        ("restored failed", "failed"),
        ("failed cancelled", "failed"),
        ("cancelled restored", "failed"),
        ("cancelled cancelled", "failed"),
    ],
)
def test_all_ranks_or_nothing(outcomes: str, whole: str) -> None:
    ends = [None if name == "lost" else RankOutcome(name) for name in outcomes.split()]
    assert combine(ends) is RestoreOutcome(whole)
