"""The whole trip in the core: a store from the command line, ranks restored and asked, a receipt judged."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli import cli
from app.core.digest import Digest
from app.core.oracle.judgement import OracleJudgement, judge_partials
from app.core.oracle.partials import INJECTABLE, SemanticFault
from app.core.oracle.question import parse_question, require_question_fits
from app.core.oracle.synthesis import SynthesizedOracle, least_bytes, synthesize_oracle
from app.core.qualify.own_receipt import (
    Asked,
    ControlAnswer,
    FinishedRank,
    FinishedRestore,
    InjectedFault,
    RestoredAnswer,
    RestoredSnapshot,
    restore_receipt,
)
from app.core.store.snapshot import parse_page_layout

from .oracle_rig import OBJECT_BYTES, RANKS, asked, synthesize
from .test_own_receipt import runtime


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SynthesizedOracle:
    return synthesize(tmp_path_factory.mktemp("trip"), seed=13)


def synth(path: Path, *options: object) -> Result:
    return CliRunner().invoke(cli, ["store", "synth", str(path), "--oracle", *map(str, options)])


def test_a_store_and_its_question_from_the_command_line(tmp_path: Path) -> None:
    options = ("--tp", 3, "--seed", 4, "--object-bytes", OBJECT_BYTES)
    result = synth(tmp_path, *options, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    question = parse_question((tmp_path / "oracle.json").read_bytes())
    layout = parse_page_layout((tmp_path / "layout.json").read_bytes())
    assert document["oracle"] == str(tmp_path / "oracle.json")
    assert (document["question_sha256"], document["expected"]) == (question.sha256, "red")
    assert document["bytes_per_rank"] == least_bytes()
    require_question_fits(
        question,
        context_digest=Digest(document["context_digest"]),
        layout=layout,
        ranks=3,
        span_tokens=document["span_tokens"],
    )
    again = synth(tmp_path, *options, "--json")
    assert (again.exit_code, json.loads(again.stdout)) == (0, document)
    assert "question_sha256" in synth(tmp_path, *options).stdout
    other = synth(tmp_path, *options[:2], "--seed", 5)
    assert other.exit_code != 0
    assert parse_question((tmp_path / "oracle.json").read_bytes()) == question


def test_any_size_is_met_exactly_and_what_makes_no_oracle_is_refused(tmp_path: Path) -> None:
    size = least_bytes() + 12_345
    result = synth(tmp_path / "a", "--tp", 1, "--bytes", size, "--json")
    assert json.loads(result.stdout)["bytes_per_rank"] == size
    wrong_kind = synth(tmp_path / "b", "--kind", "alias")
    assert wrong_kind.exit_code != 0
    assert "--oracle: expected a flat snapshot, found --kind alias" in wrong_kind.output
    too_small = synth(tmp_path / "b", "--bytes", 1000)
    assert too_small.exit_code != 0
    assert f"expected at least {least_bytes()}, found 1000" in too_small.output
    negative = synth(tmp_path / "b", "--seed", -1)
    assert negative.exit_code != 0
    assert "seed: expected 0 … 2^63 - 1, found -1" in negative.output
    assert not (tmp_path / "b").exists()


def test_a_seed_makes_other_pages_and_the_same_seed_the_same(tmp_path: Path) -> None:
    first = synthesize_oracle(tmp_path / "a", ranks=2, seed=1)
    again = synthesize_oracle(tmp_path / "b", ranks=2, seed=1)
    other = synthesize_oracle(tmp_path / "c", ranks=2, seed=2)
    assert first.question == again.question != other.question
    assert first.snapshot.published == again.snapshot.published
    digests = {one.snapshot_sha256 for made in (first, other) for one in made.snapshot.published}
    assert len(digests) == 4


def test_a_healthy_restore_is_evidence_for_every_gate(made: SynthesizedOracle, tmp_path: Path) -> None:
    verdict = judged(made, tmp_path)
    assert verdict["outcome"] == "incomplete"
    assert blocking(verdict) == {"STATUS_ABSENT"}
    gates = {one["gate"]: one["state"] for one in verdict["gates"]}
    assert {gates[name] for name in ("structural", "semantic", "control")} == {"demonstrated"}


@pytest.mark.parametrize("fault", INJECTABLE)
def test_every_hash_right_and_rejected_for_its_answer(
    made: SynthesizedOracle, tmp_path: Path, fault: SemanticFault
) -> None:
    """Also where nobody says that the fault was put in on purpose."""
    verdict = judged(made, tmp_path, fault=fault)
    assert verdict["outcome"] == "rejected"
    assert "SEMANTIC_ORACLE_MISMATCH" in blocking(verdict)
    found = {one["code"] for one in verdict["findings"]}
    assert {"STRUCTURE_VERIFIED", "CONTROL_PASSED"} <= found
    gates = {one["gate"]: one["state"] for one in verdict["gates"]}
    assert (gates["structural"], gates["semantic"], gates["control"]) == (
        "demonstrated",
        "failed",
        "demonstrated",
    )
    drill = judged(made, tmp_path, fault=fault, is_drill=True)
    assert drill["outcome"] == "rejected"
    assert "INJECTED_FAULT" in {one["code"] for one in drill["findings"]}


def judged(
    made: SynthesizedOracle, folder: Path, *, fault: SemanticFault | None = None, is_drill: bool = False
) -> dict[str, Any]:
    """What the rules make of a restore whose rank 2 has a fault, if one is named."""
    path = folder / "receipt.json"
    path.write_bytes(receipt(made, fault=fault, is_drill=is_drill))
    result = CliRunner().invoke(cli, ["receipt", "judge", str(path), "--json"])
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def receipt(made: SynthesizedOracle, *, fault: SemanticFault | None, is_drill: bool) -> bytes:
    ranks = []
    for rank in range(RANKS):
        partials, result, _ = asked(made, rank=rank, fault=fault if rank == 2 else None)
        ranks.append(
            FinishedRank(
                rank=rank,
                runtime=runtime(),
                report=result.report,
                context_digest=made.question.context_digest,
                end_to_end_ns=1,
                partials=partials,
            )
        )
    found = judge_partials(
        made.question, partials=[one.partials for one in ranks if one.partials is not None]
    )
    return restore_receipt(finished(made, ranks=ranks, found=found, fault=fault if is_drill else None))


def finished(
    made: SynthesizedOracle,
    *,
    ranks: list[FinishedRank],
    found: OracleJudgement,
    fault: SemanticFault | None,
) -> FinishedRestore:
    diagnosis = found.diagnosis
    question = found.question_sha256
    return FinishedRestore(
        restore_id="r",
        decision_epoch=1,
        decided_at_ns=1,
        purpose="qualification",
        snapshot=RestoredSnapshot(
            root="/cache",
            identity=made.snapshot.identities[0],
            context_digest=made.question.context_digest,
            span_tokens=made.question.span_tokens,
            publication_schema="snapshot-v1",
            manifest_schema="sparkcache-page-snapshot-manifest/v2",
        ),
        ranks=ranks,
        answer=RestoredAnswer(
            prompt_sha256=found.prompt_sha256,
            prompt_tokens=found.prompt_tokens,
            expected=found.expected,
            observed=found.answer.word.encode(),
            finish_reason="stop",
        ),
        control=ControlAnswer(
            prompt_sha256=found.control_prompt_sha256,
            prompt_tokens=found.prompt_tokens,
            expected=found.expected_control,
            observed=found.control.word.encode(),
        ),
        asked=Asked(question_sha256=question)
        if diagnosis is None
        else Asked(
            question_sha256=question,
            fault=diagnosis.fault.value,
            ranks=diagnosis.ranks,
            detail=diagnosis.detail,
        ),
        injected_fault=None if fault is None else InjectedFault(name=fault.value, rank=2),
    )


def blocking(verdict: dict[str, Any]) -> set[str]:
    return {one["code"] for one in verdict["findings"] if one["blocks"]}
