"""Receipts made from what ranks left behind: complete ones pass every rule, each field names its line, and
what no line shows stays absent (profile-contract §11.3, §14, §18.7).
"""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli import cli
from app.core.profiles.activation import judge_activation
from app.core.profiles.contract import read_contract
from app.core.profiles.documents import DocumentKind
from app.core.profiles.findings import CheckResult
from app.core.profiles.kinds import read_any
from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.findings import Outcome
from app.core.qualify.verdict import judge_document
from tests.core.profile_rig import contract, dump, sha
from tests.core.profile_runs import SECRET, inspection, log, name_of, write_run

Json = dict[str, Any]
MADE = read_contract(dump(contract()))


def run_collect(folder: Path, run: Path, profile: str = "tp4-dcp4-sparkcache", *more: str) -> Result:
    asked = ["profile", "collect", str(run), "--contract", str(folder / "contract.json")]
    asked += ["--image", str(folder / "image.json"), "--profile", profile, "--out", str(folder / "out")]
    return CliRunner().invoke(cli, [*asked, "--json", *more])


def collected(folder: Path, run: Path, profile: str = "tp4-dcp4-sparkcache") -> tuple[Json, Json, Json]:
    """What the command says, the receipt and the record."""
    result = run_collect(folder, run, profile)
    assert result.exit_code in (0, 1), result.output
    said = json.loads(result.stdout)
    receipt, record = (
        json.loads((folder / "out" / f"{one}.json").read_bytes()) for one in ("activation", "performance")
    )
    return said, receipt, record


@pytest.mark.parametrize(
    ("tp", "dcp", "cache"), [(4, 4, True), (4, 4, False), (4, 1, True), (2, 1, True), (2, 1, False)]
)
def test_a_complete_run_makes_a_receipt_that_passes(tmp_path: Path, tp: int, dcp: int, cache: bool) -> None:
    run, profile = write_run(tmp_path, tp=tp, dcp=dcp, cache=cache), name_of(tp, dcp, cache)
    said, receipt, record = collected(tmp_path, run, profile)
    assert (said["absent"], said["first_blocking"], said["complete"]) == ([], None, True)
    raw = (tmp_path / "out/activation.json").read_bytes()
    judged = judge_activation(raw, contract=MADE)
    assert judged.result is CheckResult.PASS
    assert judged.warnings == ()
    assert said["activation"]["sha256"] == sha(raw) == judged.sha256
    assert receipt["checks_passed"] is True
    assert [one["rank"] for one in receipt["ranks"]] == list(range(tp))
    assert {(one["observed_tp"], one["observed_dcp"]) for one in receipt["ranks"]} == {(tp, dcp)}
    assert record["absent_from_receipt"] == []
    assert record["lines_of_other_ranks"] == tp


def test_values_are_those_of_the_lines(tmp_path: Path) -> None:
    _, receipt, _ = collected(tmp_path, write_run(tmp_path))
    second = receipt["ranks"][1]
    assert second["mtp_draft_tokens"] == 21
    assert second["sircl_collectives"] == 360
    assert (second["mhc_owner_rows"], second["mhc_sharded_prefill_calls"]) == ([2048], 2)
    assert second["nccl_host_domains"] == ["primary", "secondary"]
    assert second["container_id"] == "01" * 32
    assert second["started_at"] == "2026-09-11T18:00:00.123456789Z"
    assert receipt["serving"]["kv_capacity_tokens"] == 8_364_901
    assert receipt["restart_restore"]["planned_restart_ms_per_rank"] == [50.6, 51.6, 52.6, 53.6]
    assert receipt["prefix_reuse"] == {"queried_tokens": 37_019, "cached_tokens": 36_352}
    assert receipt["long_prefill_sample_tokens"] == {
        "bounded": True,
        "prompt_tokens": 37_032,
        "completed_requests": 2,
        "timeouts": 0,
        "fatal_engine_errors": 0,
    }


def test_both_documents_are_known_to_profiles_and_to_evidence(tmp_path: Path) -> None:
    """They can be imported; a record of times admits nothing, a receipt of ours alone is no restore receipt
    that qualifies."""
    collected(tmp_path, write_run(tmp_path))
    kinds = {"activation": DocumentKind.ACTIVATION, "performance": DocumentKind.PERFORMANCE_RECORD}
    for name, kind in kinds.items():
        raw = (tmp_path / "out" / f"{name}.json").read_bytes()
        assert read_any(raw).kind is kind
        (verdict, *_) = judge_document(document_facts(read_document(raw)))
        told = {one.code for one in verdict.findings}
        assert verdict.outcome in (Outcome.RESEARCH_ONLY, Outcome.INCOMPLETE)
        assert ("PERFORMANCE_ONLY" in told) is (name == "performance")
        assert "SCHEMA_UNKNOWN" not in told
        assert "NO_EVIDENCE_DIGESTS" not in told


def test_each_fact_names_the_line_it_came_from(tmp_path: Path) -> None:
    """Digest, file, number, rank and time of the very line; nothing without one."""
    run = write_run(tmp_path)
    _, receipt, record = collected(tmp_path, run)
    checked = 0
    for entries in receipt["evidence"].values():
        for one in entries:
            raw = (run / one["file"]).read_bytes()
            line = raw.split(b"\n")[one["line"] - 1]
            whole = one["file"].endswith(".inspect.json")
            assert one["sha256"] == sha(raw if whole else line)
            if one["file"].startswith("rank"):
                assert one["file"].startswith(f"rank{one['rank']}.")
            if one["file"].endswith(".log"):
                assert line.decode().startswith(one["at"])
            checked += 1
    assert checked > 100
    fields = {
        f"/ranks/{i}/{name}" for i, rank in enumerate(receipt["ranks"]) for name in rank if name != "rank"
    }
    assert fields <= receipt["evidence"].keys()
    listed = {(one["file"], one["sha256"], one["bytes"]) for one in record["sources"]}
    files = {path for path in run.iterdir() if path.name != "activity.json"}
    assert listed == {(path.name, sha(path.read_bytes()), path.stat().st_size) for path in files}


def test_no_secret_and_no_host_name_is_copied(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    for rank in range(4):
        (run / f"rank{rank}.env").write_text(f"API_KEY={SECRET}\nDECODE_CONTEXT_PARALLEL_SIZE={SECRET}\n")
    result = run_collect(tmp_path, run)
    made = [path.read_text() for path in (tmp_path / "out").iterdir()]
    for text in (*made, result.output):
        assert SECRET not in text
        assert "spark-0" not in text


ABSENT: dict[str, tuple[str, str, str]] = {
    "engine config": ("start", "/ranks/2/observed_dcp", "no line with decode_context_parallel_size"),
    "NCCL": ("nccl", "/ranks/2/nccl_version", "no line with nccl_version"),
    "loader": ("loader", "/ranks/2/instanttensor_allocations", "no terminal record of the loader"),
    "end of capture": ("capture", "/ranks/2/captured_graph_sizes", "no line about the end of the capture"),
    "mHC": ("mhc 0", "/ranks/2/mhc_owner_rows", "no record of a full step"),
    "one status": ("status 0", "/ranks/2/sircl_collectives", "one sight only"),
    "captures": ("captured", "/sparkcache/capture_jobs_completed", "on every rank"),
    "payload": ("payload", "/sparkcache/payload_correctness_passed", "on every rank"),
    "times": ("restored", "/restart_restore/planned_restart_ms_per_rank", "on every rank"),
}


@pytest.mark.parametrize("name", ABSENT)
def test_what_no_line_shows_stays_absent_and_is_named(tmp_path: Path, name: str) -> None:
    line, pointer, reason = ABSENT[name]
    run = write_run(tmp_path)
    (run / "rank2.log").write_bytes(log(2, changes={line: ""}))
    said, receipt, record = collected(tmp_path, run)
    absent = {one["pointer"]: one["reason"] for one in said["absent"]}
    assert reason in absent[pointer]
    assert record["absent_from_receipt"] == said["absent"]
    place: Any = receipt
    for one in pointer.strip("/").split("/"):
        place = place[int(one)] if isinstance(place, list) else place.get(one)
    assert place is None
    assert pointer not in receipt["evidence"]
    assert said["complete"] is False
    assert said["result"] == ("pass" if name == "times" and not said["first_blocking"] else "fail")


@pytest.mark.parametrize("name", ["inspect.json", "pci", "log"])
def test_missing_files_of_a_rank(tmp_path: Path, name: str) -> None:
    run = write_run(tmp_path)
    (run / f"rank1.{name}").unlink()
    said, receipt, _ = collected(tmp_path, run)
    assert any(one["pointer"].startswith("/ranks/1/") for one in said["absent"])
    assert receipt["checks_passed"] is False
    assert said["first_blocking"] is not None


def test_ambiguous_lines_are_no_fact(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    with (run / "rank3.log").open("ab") as stream:
        stream.write(b"rank=3 decode_context_parallel_size=1\nrank=3 kv_capacity_tokens=8,000,000\n")
    said, receipt, _ = collected(tmp_path, run)
    absent = {one["pointer"]: one["reason"] for one in said["absent"]}
    assert absent["/ranks/3/observed_dcp"] == "ambiguous: 4, 1"
    assert absent["/serving/kv_capacity_tokens"] == "ambiguous: 8364901, 8000000"
    assert "observed_dcp" not in receipt["ranks"][3]


def test_an_environment_that_says_otherwise_is_a_conflict(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    (run / "rank0.env").write_text("TENSOR_PARALLEL_SIZE=4\nSOURCE_IMAGE_PROFILE=tp4-dcp4-sparkcache\n")
    said, receipt, _ = collected(tmp_path, run)
    told = [one for one in said["findings"] if one["code"] == "GUARD_DCP_NAME" and one["result"] == "fail"]
    assert [(one["detail"], one["rank"], one["expected"]) for one in told] == [
        ("DECODE_CONTEXT_PARALLEL_SIZE", 0, "4")
    ]
    assert receipt["checks_passed"] is False


def test_errors_of_the_engine_count(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    with (run / "rank1.log").open("ab") as stream:
        stream.write(b"rank=1 ERROR sample_tokens timed out\nrank=1 EngineDeadError: gone\n")
    said, receipt, _ = collected(tmp_path, run)
    block = receipt["long_prefill_sample_tokens"]
    assert (block["timeouts"], block["fatal_engine_errors"]) == (1, 1)
    assert said["first_blocking"] in ("ACT_LONG_PREFILL", "ACT_SCHEMA")


def test_a_cache_that_is_off_must_be_shown_off(tmp_path: Path) -> None:
    run = write_run(tmp_path, cache=False)
    with (run / "rank1.log").open("ab") as stream:
        stream.write(b"rank=1 capture_jobs_completed=1\n")
    said, _, _ = collected(tmp_path, run, "tp4-dcp4")
    assert [one["pointer"] for one in said["absent"]] == ["/sparkcache/enabled"]


def test_nothing_is_written_over(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    assert run_collect(tmp_path, run).exit_code == 0
    before = (tmp_path / "out/activation.json").read_bytes()
    again = run_collect(tmp_path, run)
    assert again.exit_code == 2
    assert "no such file yet" in again.output
    assert (tmp_path / "out/activation.json").read_bytes() == before


def test_files_named_one_by_one(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    asked = ["profile", "collect", "--contract", str(tmp_path / "contract.json")]
    asked += ["--image", str(tmp_path / "image.json"), "--profile", "tp4-dcp4-sparkcache"]
    for rank in range(4):
        for option, name in (("--log", "log"), ("--inspect", "inspect.json"), ("--pci", "pci")):
            asked += [option, f"{rank}={run / f'rank{rank}.{name}'}"]
    asked += ["--requests", str(run / "requests.jsonl"), "--activity", str(run / "activity.json")]
    result = CliRunner().invoke(cli, [*asked, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "pass:" in result.output


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--profile", "tp9"], "tp4-dcp4-sparkcache"),
        (["--log", "rank0.log"], "RANK=FILE"),
        (["--log", "0=none.log"], "none.log"),
        (["--requests", "none.jsonl"], "none.jsonl"),
    ],
)
def test_what_cannot_be_used_is_told(tmp_path: Path, more: list[str], told: str) -> None:
    result = run_collect(tmp_path, write_run(tmp_path), "tp4-dcp4-sparkcache", *more)
    assert result.exit_code == 2
    assert told in result.output


def test_an_empty_folder_has_no_ranks(tmp_path: Path) -> None:
    write_run(tmp_path)
    (tmp_path / "empty").mkdir()
    assert run_collect(tmp_path, tmp_path / "empty").exit_code == 2


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("rank1.inspect.json", b"{}", "DOC_SCHEMA_UNKNOWN"),
        ("rank1.inspect.json", dump([inspection(1), inspection(2)]), "DOC_FIELD"),
        ("rank1.pci", b"rocep1s0f0\n", "DOC_FIELD"),
        ("rank1.pci", b"a 0000:01:00.0\na 0002:01:00.0\n", "DOC_FIELD"),
        ("rank1.env", b"no assignment\n", "TPL_SYNTAX"),
        ("requests.jsonl", b"{}\n", "DOC_FIELD"),
        ("requests.jsonl", b"{\n", "DOC_JSON_INVALID"),
    ],
)
def test_sources_that_are_none_are_refused(tmp_path: Path, name: str, content: bytes, code: str) -> None:
    run = write_run(tmp_path)
    (run / name).write_bytes(content)
    result = run_collect(tmp_path, run)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["first_blocking"] == code
    assert not (tmp_path / "out").exists()
