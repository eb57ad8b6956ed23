"""``sparkgate profile check --site``: the site is judged with ranks and without."""

from pathlib import Path
from typing import Any

import pytest

from tests.core import profile_folder as made
from tests.core import profile_rig as rig
from tests.core.profile_rig import DROP
from tests.core.test_profiles_cli import answer, codes
from tests.core.test_profiles_release import DIAGNOSTICS, SITE

Json = dict[str, Any]
NAME = "tp4-dcp4-sparkcache"


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    return made.write_folder(tmp_path)


def check(contract: Path, site: object, *more: object) -> tuple[int, Json]:
    """The contract beside a site that is written first."""
    file = contract.parent / "site.json"
    file.write_bytes(rig.dump(site))
    receipt = contract.parents[2] / "receipt.json"
    return answer("check", contract, "--receipt", receipt, "--site", file, *more)


def test_a_good_site_passes_and_is_said_to_have_been_read(contract: Path) -> None:
    status, document = check(contract, SITE, "--profile", NAME)
    assert (status, codes(document)) == (0, set())
    assert {"SITE_FIELDS", "SITE_PROFILE_NOT_ALLOWED"} <= codes(document, "pass")


@pytest.mark.parametrize(
    ("pointer", "value", "code"),
    [
        ("/state_root", DROP, "SITE_FIELDS"),
        ("/unknown", 1, "SITE_FIELDS"),
        ("/management_addresses", ["192.0.2.10"] * 4, "SITE_FIELDS"),
        ("/liveness_output_seconds", True, "SITE_FIELDS"),
        ("/bundle_root", "relative", "SITE_PATH_UNSAFE"),
        ("/runtime_profile", "tp2-dcp1", "SITE_PROFILE_NOT_ALLOWED"),
        ("/nccl_debug", "WARN", "SITE_FIELDS"),
        ("/cache_diagnostics", DIAGNOSTICS | {"trace_reuse": True}, "SITE_DIAG_SHAPE"),
        ("/schema", "other/v1", "DOC_SCHEMA_UNKNOWN"),
    ],
)
def test_a_site_that_is_no_good_one_blocks_without_any_rank(
    contract: Path, pointer: str, value: object, code: str
) -> None:
    status, document = check(contract, rig.put(SITE, pointer, value))
    assert (status, codes(document)) == (1, {code})


@pytest.mark.parametrize("ranks", [False, True])
def test_the_site_of_another_profile_blocks(contract: Path, ranks: bool) -> None:
    file = contract.parent / "r.env"
    file.write_bytes(made.env_text(made.rank_values("tp4-dcp4")))
    rank = ["--rank", f"0={file}"] if ranks else []
    status, document = check(contract, SITE, "--profile", "tp4-dcp4", *rank)
    assert (status, codes(document)) == (1, {"SITE_PROFILE_NOT_ALLOWED"})


@pytest.mark.parametrize(
    ("namespace", "failed"), [(made.NAMESPACE, {"NS_DIAG_ISOLATED"}), ("look-only", set())]
)
def test_a_diagnostic_namespace_is_another_than_the_derived(
    contract: Path, namespace: str, failed: set[str]
) -> None:
    site = rig.put(SITE, "/cache_diagnostics", DIAGNOSTICS | {"namespace": namespace})
    assert codes(check(contract, site, "--profile", NAME)[1]) == failed


def test_what_needs_a_receipt_is_not_tested_without_one(contract: Path) -> None:
    file = contract.parent / "site.json"
    file.write_bytes(rig.dump(rig.put(SITE, "/nccl_debug", "INFO")))
    status, document = answer("check", contract, "--site", file)
    told = [one["detail"] for one in document["findings"] if one["code"] == "SITE_PROFILE_NOT_ALLOWED"]
    assert status == 0
    assert "not given: image receipt, which nccl_debug needs" in told


def test_a_receipt_without_an_image_id_leaves_the_namespace_open(contract: Path) -> None:
    receipt = contract.parents[2] / "receipt.json"
    receipt.write_bytes(rig.dump(made.receipt() | {"image_id": "latest"}))
    file = contract.parent / "r.env"
    file.write_bytes(made.env_text(made.rank_values(NAME)))
    arguments = ["--profile", NAME, "--rank", f"0={file}", "--receipt", receipt]
    status, document = answer("check", contract, *arguments)
    assert (status, codes(document)) == (1, {"IMG_ID_FORM"})
    assert "NS_DERIVED" in codes(document, "not_tested")


@pytest.mark.parametrize("more", [["--available", "0=1"], ["--dynamic-draft"], ["--fixed-draft"]])
def test_what_is_said_of_ranks_needs_ranks(contract: Path, more: list[str]) -> None:
    status, document = answer("check", contract, "--profile", NAME, *more)
    assert status == 2
    assert "--rank" in document["error"]


def test_a_rank_is_given_once(contract: Path) -> None:
    file = contract.parent / "r.env"
    file.write_bytes(made.env_text(made.rank_values(NAME)))
    twice = ["--rank", f"0={file}", "--rank", f"0={file}"]
    assert answer("check", contract, "--profile", NAME, *twice)[0] == 2


@pytest.mark.parametrize(
    ("pointer", "value", "code"),
    [
        ("/profiles/tp4-dcp1/decode_context_parallel_size", 4, "GUARD_DCP_NAME"),
        ("/profiles/tp4-dcp4/sparkcache", True, "GUARD_DCP_NAME"),
        ("/profiles/tp2-dcp1/decode_context_parallel_size", 4, "GUARD_DCP_DIVIDES"),
    ],
)
def test_name_and_degrees_of_an_entry_agree_without_any_rank(
    contract: Path, pointer: str, value: object, code: str
) -> None:
    contract.write_bytes(rig.dump(rig.put(made.contract_document(), pointer, value)))
    status, document = answer("check", contract)
    assert status == 1
    assert code in codes(document)
