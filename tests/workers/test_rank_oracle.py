"""A rank worker that is asked: its part goes out with *ready*, its faults are those the claim names."""

from pathlib import Path
from typing import Any, cast

import pytest

from app.config import Settings
from app.core.canonical_json import decode_canonical, expect_object
from app.core.oracle.partials import INJECTABLE, parse_partials
from app.core.oracle.synthesis import SynthesizedOracle, synthesize_oracle
from app.core.restore.host_device import HostDevice
from app.core.restore.report import parse_report
from tests.workers.test_rank_restore import PENDING, RETRACT, Script
from workers.control_client import Claimed, ControlClient
from workers.rank_restore import RankWorker

POOL_BYTES = 2_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SynthesizedOracle:
    return synthesize_oracle(tmp_path_factory.mktemp("asked"), ranks=2, object_bytes=65_536)


@pytest.fixture
def device() -> Any:
    with HostDevice("host0", pool_bytes=POOL_BYTES, arena_bytes=65_536) as opened:
        yield opened


def run(made: SynthesizedOracle, device: HostDevice, **claimed: Any) -> Script:
    """One attempt of rank 1 that is told to retract; what it said."""
    snapshot = made.snapshot
    published = snapshot.published[1]
    question = expect_object(decode_canonical(made.question.to_bytes(), subject="oracle"), subject="oracle")
    known: dict[str, Any] = {
        "attempt_id": "a",
        "restore_id": "r",
        "token": 1,
        "lease_s": 0.5,
        "rank": 1,
        "root_path": snapshot.roots[1],
        "storage_key": str(published.name.storage_key),
        "context_digest": str(published.name.context_digest),
        "root_document_sha256": str(published.manifest_sha256),
        "span_tokens": snapshot.span_tokens,
        "layout": expect_object(
            decode_canonical(snapshot.layout.canonical, subject="layout"), subject="layout"
        ),
        "oracle": question,
    }
    script = Script(Claimed(**{**known, **claimed}), decisions=[PENDING, RETRACT])
    worker_of(script, device=device, served=snapshot.path).restore("a")
    return script


def worker_of(script: Script, *, device: HostDevice, served: Path) -> RankWorker:
    settings = Settings.model_validate({"store_roots": (served,), "node": "ring", "device": "host0"})
    return RankWorker(settings, client=cast(ControlClient, script), device=device, generation=1)


def test_its_part_goes_out_with_ready_and_is_timed_after_the_service(
    made: SynthesizedOracle, device: HostDevice
) -> None:
    said = run(made, device).documents["ready"]
    part, report = said["oracle"], parse_report(said["report"])
    assert part["problem"] is None
    assert part["start_ns"] >= report.service_ns
    assert part["duration_ns"] > 0
    partials = parse_partials(part["partials"])
    assert (partials.rank, partials.wrong_pages, partials.finding) == (1, 0, None)
    assert partials.restored["red"] == partials.most
    assert device.free_bytes == POOL_BYTES


def test_who_is_not_asked_says_nothing_of_it(made: SynthesizedOracle, device: HostDevice) -> None:
    assert "oracle" not in run(made, device, oracle=None).documents["ready"]


@pytest.mark.parametrize("fault", INJECTABLE, ids=str)
def test_every_fault_leaves_report_and_hashes_right_and_is_named(
    made: SynthesizedOracle, device: HostDevice, fault: str
) -> None:
    healthy = parse_report(run(made, device).documents["ready"]["report"])
    said = run(made, device, fault=str(fault)).documents["ready"]
    report, partials = parse_report(said["report"]), parse_partials(said["oracle"]["partials"])
    same = ("outcome", "problem", "manifest_sha256", "objects", "bytes", "stream_digest", "statistics")
    assert {name: getattr(report, name) for name in same} == {name: getattr(healthy, name) for name in same}
    assert partials.finding is not None
    assert partials.finding.fault == fault
    assert partials.restored["red"] < partials.most
    assert device.free_bytes == POOL_BYTES


@pytest.mark.parametrize(
    ("claimed", "found"),
    [
        ({"fault": "fire"}, "'fire'"),
        ({"fault": "unknown"}, "'unknown'"),
        ({"fault": "swap-pages", "oracle": None}, "no question"),
        ({"oracle": {"schema": "sparkgate-oracle/v9"}}, "v9"),
    ],
)
def test_what_it_does_not_know_it_does_not_begin(
    made: SynthesizedOracle, device: HostDevice, claimed: dict[str, Any], found: str
) -> None:
    script = run(made, device, **claimed)
    assert "ready" not in script.words
    report = script.documents["failure"]["report"]
    assert report["outcome"] == "failed"
    assert found in report["problem"]["found"]
    assert device.free_bytes == POOL_BYTES


def test_a_question_about_other_pages_is_a_problem_and_no_crash(
    made: SynthesizedOracle, device: HostDevice
) -> None:
    question = expect_object(decode_canonical(made.question.to_bytes(), subject="oracle"), subject="oracle")
    part = run(made, device, oracle={**question, "layout_sha256": "ab" * 32}).documents["ready"]["oracle"]
    assert part["partials"] is None
    assert "layout" in part["problem"]
    assert device.free_bytes == POOL_BYTES
