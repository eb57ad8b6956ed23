"""``sparkgate profile`` on local files: what it prints, how it ends, and what it never reads or writes."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import cli
from tests.core import profile_folder as made
from tests.core import profile_rig as rig
from tests.core.test_profiles_release import SELECTION, SITE

Json = dict[str, Any]
NAME = "tp4-dcp4-sparkcache"


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    return made.write_folder(tmp_path)


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["profile", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code, result.output


def answer(*arguments: object) -> tuple[int, Json]:
    status, output = run(*arguments, "--json")
    document: Json = json.loads(output)
    return status, document


def codes(document: Json, result: str = "fail") -> set[str]:
    return {one["code"] for one in document["findings"] if one["result"] == result}


def test_check_of_a_whole_folder(contract: Path) -> None:
    folder = contract.parents[2]
    around = ["--assets", folder / "assets", "--receipt", folder / "receipt.json"]
    status, document = answer("check", contract, *around)
    assert (status, document["result"], document["first_blocking"]) == (0, "pass", None)
    assert document["contract_sha256"] == rig.sha(contract.read_bytes())
    assert codes(document) == set()
    assert codes(document, "not_tested") == {"DOC_UNPINNED"}
    status, output = run("check", contract, *around)
    assert status == 0
    assert output.endswith("not_applicable, 1 not_tested\n")


def test_a_release_selection_pins_or_warns(contract: Path, tmp_path: Path) -> None:
    file = tmp_path / "release.json"
    file.write_bytes(rig.dump(rig.put(SELECTION, "/inputs/0/sha256", rig.sha(contract.read_bytes()))))
    status, document = answer("check", contract, "--selection", file, "--receipt", tmp_path / "receipt.json")
    told = {one["detail"]: one["result"] for one in document["findings"] if one["code"] == "DOC_UNPINNED"}
    assert (status, told) == (0, {"profile contract": "pass", "image receipt": "fail"})


def test_what_is_not_given_is_not_tested(contract: Path) -> None:
    status, document = answer("check", contract)
    assert status == 0
    assert codes(document, "not_tested") == {"CT_PINS_HASH", "IMG_FLAGS", "DOC_UNPINNED"}


def test_a_bent_template_fails_with_its_key(contract: Path) -> None:
    file = contract.parent / "tp4-dcp1.env.example"
    file.write_text(file.read_text().replace("SIRCL_ENABLED=1", "SIRCL_ENABLED=0"))
    status, document = answer("check", contract, "--profile", "tp4-dcp1")
    assert (status, document["first_blocking"]) == (1, "TPL_VALUE")
    assert "/SIRCL_ENABLED" in run("check", contract)[1]


@pytest.mark.parametrize("kind", ["template", "folder", "lock"])
def test_no_link_is_followed(contract: Path, tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(rig.ARTIFACT_LOCK)
    image = contract.parents[1] / "image"
    if kind == "template":
        target = contract.parent / "tp4-dcp1.env.example"
        target.replace(outside / "t")
        target.symlink_to(outside / "t")
    elif kind == "folder":
        image.rename(outside / "image")
        image.symlink_to(outside / "image")
    else:
        (image / "artifact-lock.json").unlink()
        (image / "artifact-lock.json").symlink_to(outside / "x")
    status, document = answer("check", contract)
    assert (status, codes(document)) == (1, {"DOC_PATH_UNSAFE"})


@pytest.mark.parametrize("make", ["fifo", "folder"])
def test_what_is_no_file_is_refused_and_waited_for_by_nobody(contract: Path, make: str) -> None:
    lock = contract.parents[1] / "image/artifact-lock.json"
    lock.unlink()
    if make == "fifo":
        os.mkfifo(lock)
    else:
        lock.mkdir()
    status, document = answer("check", contract)
    assert (status, codes(document)) == (1, {"DOC_PATH_UNSAFE"})


def test_a_reference_that_leads_out_is_refused(contract: Path) -> None:
    contract.write_bytes(
        rig.dump(rig.put(made.contract_document(), "/image/artifact_lock", "../../../etc/passwd"))
    )
    status, document = answer("check", contract)
    assert (status, document["first_blocking"]) == (1, "DOC_PATH_UNSAFE")
    assert document["findings"][0]["pointer"] == "/image/artifact_lock"


def test_a_document_of_100_megabytes_is_not_read(contract: Path) -> None:
    with contract.open("wb") as stream:
        stream.truncate(100_000_000)
    status, document = answer("check", contract)
    assert (status, document["first_blocking"]) == (1, "DOC_TOO_LARGE")


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"schema": "x"}', b"\xff"])
def test_what_is_no_contract_ends_in_its_code(contract: Path, raw: bytes) -> None:
    contract.write_bytes(raw)
    status, document = answer("check", contract)
    assert status == 1
    assert document["first_blocking"] in {"DOC_JSON_INVALID", "DOC_SCHEMA_UNKNOWN"}
    assert run("check", contract)[0] == 1


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    status, document = answer("check", tmp_path / "none.json")
    assert status == 2
    assert "expected a file to read" in document["error"]


def test_guards_of_ranks(contract: Path, tmp_path: Path) -> None:
    options: list[object] = []
    for number in range(4):
        file = tmp_path / f"rank{number}.env"
        file.write_bytes(made.env_text(made.rank_values(NAME, rank=number)))
        options += ["--rank", f"{number}={file}"]
    receipt = ["--receipt", tmp_path / "receipt.json"]
    status, document = answer("check", contract, "--profile", NAME, *options, *receipt)
    assert (status, document["result"]) == (0, "pass")
    bent = made.rank_values(NAME, rank=2) | {"DECODE_CONTEXT_PARALLEL_SIZE": "1"}
    (tmp_path / "rank2.env").write_bytes(made.env_text(bent))
    status, document = answer("check", contract, "--profile", NAME, *options, *receipt)
    failed = [one for one in document["findings"] if one["result"] == "fail"]
    assert status == 1
    assert [(one["code"], one["rank"], one["expected"], one["found"]) for one in failed] == [
        ("GUARD_DCP_NAME", 2, "4", "1")
    ]


@pytest.mark.parametrize(
    ("options", "failed"),
    [
        (["--available", "0=1"], {"MEM_GATE"}),
        (["--available", "0=103079215104"], set()),
        (["--available", "0=5", "--floor", "5"], set()),
        (["--available", "1=1"], set()),
    ],
)
def test_the_memory_gate(contract: Path, tmp_path: Path, options: list[str], failed: set[str]) -> None:
    (tmp_path / "r.env").write_bytes(made.env_text(made.rank_values(NAME)))
    receipt = ["--receipt", tmp_path / "receipt.json"]
    arguments = ["--profile", NAME, "--rank", f"0={tmp_path / 'r.env'}", *options, *receipt]
    assert codes(answer("check", contract, *arguments)[1]) == failed
    assert answer("check", contract, *arguments, "--available", "x")[0] == 2


def test_a_contract_folder_of_another_name(contract: Path) -> None:
    moved = contract.parent.rename(contract.parents[1] / "profile-contract") / contract.name
    (moved.parents[1] / "profiles").mkdir()
    status, document = answer("check", moved)
    assert (status, codes(document)) == (0, set())
    lock = [one for one in document["findings"] if one["code"] == "CT_LOCK_HASH"]
    assert [one["result"] for one in lock] == ["pass"]


@pytest.mark.parametrize("option", ["x=rank.env", "rank.env", "99999=rank.env"])
def test_a_rank_is_a_number_and_a_file(contract: Path, option: str) -> None:
    assert answer("check", contract, "--profile", NAME, "--rank", option)[0] == 2


def test_ranks_need_a_profile(contract: Path, tmp_path: Path) -> None:
    (tmp_path / "r.env").write_bytes(b"A=1\n")
    status, document = answer("check", contract, "--rank", f"0={tmp_path / 'r.env'}")
    assert status == 2
    assert "--profile" in document["error"]


def test_effective_values_with_their_origin(contract: Path) -> None:
    status, document = answer("effective", contract, NAME)
    value = next(one for one in document["values"] if one["key"] == "DECODE_CONTEXT_PARALLEL_SIZE")
    assert status == 0
    assert (value["value"], value["source"]) == ("4", "parent_template")
    assert "SIRCL_ENABLED=1  parent_template tp4-dcp4.env.example" in run("effective", contract, NAME)[1]
    status, document = answer("effective", contract, "nobody")
    assert (status, document["first_blocking"]) == (1, "CT_PROFILE_UNKNOWN")


def test_diff(contract: Path, tmp_path: Path) -> None:
    assert answer("diff", contract, contract)[0] == 0
    other = tmp_path / "other.json"
    other.write_bytes(rig.dump(rig.put(made.contract_document(), "/model/max_model_len", 5)))
    status, document = answer("diff", contract, other)
    assert (status, [one["pointer"] for one in document["lines"]]) == (1, ["/model/max_model_len"])
    status, output = run("diff", contract, contract, "--profile", "tp4-dcp1,tp4-dcp4")
    assert status == 1
    assert "~ /environment/DECODE_CONTEXT_PARALLEL_SIZE  1 → 4" in output


def plan_options(tmp_path: Path) -> list[object]:
    site = tmp_path / "site.json"
    site.write_bytes(rig.dump(SITE))
    return ["--site", site, "--receipt", tmp_path / "receipt.json", "--set", "NCCL_IB_HCA==a:1,b:1,c:1,d:1"]


def test_a_plan_is_printed_and_written_once(contract: Path, tmp_path: Path) -> None:
    options = [*plan_options(tmp_path), "--rank", 2]
    status, document = answer("plan", contract, NAME, *options)
    assert (status, document["schema"], document["execution_authorized"]) == (
        0,
        "sparkgate-rank-plan/v1",
        False,
    )
    assert codes(document) == {"REN_NOT_AUTHORIZED"}
    output = tmp_path / "out"
    assert run("plan", contract, NAME, *options, "--output", output)[0] == 0
    assert sorted(one.name for one in output.iterdir()) == ["rank2-plan.json", "rank2.env"]
    status, document = answer("plan", contract, NAME, *options, "--output", output)
    assert (status, document["first_blocking"]) == (1, "REN_OUTPUT_EXISTS")


def test_an_open_placeholder_keeps_a_plan_from_passing(contract: Path) -> None:
    status, document = answer("plan", contract, NAME)
    assert status == 1
    assert "TPL_UNRESOLVED" in codes(document)


def test_drift_against_what_was_planned(contract: Path, tmp_path: Path) -> None:
    options = [*plan_options(tmp_path), "--rank", 2]
    run("plan", contract, NAME, *options, "--output", tmp_path / "out")
    rendered = tmp_path / "out/rank2.env"
    status, document = answer("drift", contract, NAME, rendered, *options)
    assert (status, codes(document)) == (0, set())
    rendered.write_text(
        rendered.read_text().replace("SIRCL_ENABLED=1", "SIRCL_ENABLED=0") + "HF_TOKEN=hush\n"
    )
    status, output = run("drift", contract, NAME, rendered, *options)
    assert status == 1
    assert "environment SIRCL_ENABLED  planned 1, real 0" in output
    assert "HF_TOKEN" in output
    assert "hush" not in output


def test_nothing_a_terminal_would_obey_is_printed(contract: Path, tmp_path: Path) -> None:
    document = made.inspection(made.rank_values(NAME) | {"TITLE": "\x1b]0;owned\x07", "A\x1b[2J": "1"})
    (tmp_path / "rank.json").write_bytes(rig.dump(document))
    _, output = run("drift", contract, NAME, tmp_path / "rank.json", *plan_options(tmp_path))
    assert "owned" in output
    assert "\x1b" not in output
    other = tmp_path / "other.json"
    other.write_bytes(rig.dump(rig.put(made.contract_document(), "/profiles/tp4-dcp4/lifecycle", "\x1b[2J")))
    assert "\x1b" not in run("diff", contract, other)[1]
    assert "\x1b" not in run("effective", contract, "\x1b[2J")[1]
    assert "\x1b" not in run("namespace", "\x1b[2J", "a")[1]


def test_namespaces(tmp_path: Path) -> None:
    assert run("namespace", made.IMAGE_ID, NAME) == (0, f"{made.NAMESPACE}\n")
    assert answer("namespace", "latest", NAME)[0] == 2
    assert answer("namespace")[0] == 2
    one = {"name": "a", "host": "h", "namespace": "n", "image_id": made.IMAGE_ID, "model_revision": "r"}
    one |= {"tensor_parallel_size": 4, "decode_context_parallel_size": 4}
    file = tmp_path / "deployments.json"
    file.write_bytes(rig.dump({"deployments": [one, one | {"name": "b", "decode_context_parallel_size": 1}]}))
    status, document = answer("namespace", "--deployments", file)
    assert (status, codes(document)) == (1, {"NS_DCP_COLLISION"})
    file.write_bytes(b'{"deployments": 1}')
    assert answer("namespace", "--deployments", file)[0] == 1
    file.write_bytes(b"{")
    assert answer("namespace", "--deployments", file)[0] == 1


def test_a_publication_is_no_receipt(contract: Path, tmp_path: Path) -> None:
    file = tmp_path / "publication.json"
    file.write_bytes(b'{"schema": "sparkring-ghcr-publication/v1"}')
    status, document = answer("check", contract, "--receipt", file)
    assert (status, document["first_blocking"]) == (1, "IMG_PUBLICATION_AS_RECEIPT")
