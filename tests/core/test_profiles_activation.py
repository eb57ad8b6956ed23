"""Activation receipts judged: the 23 vectors of §16 in both columns, and what a receipt of our own must
show (profile-contract §11, §14, §16, §18).
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.core.profiles.activation import (
    ActivationJudgement,
    is_pinned,
    judge_activation,
)
from app.core.profiles.activation_terms import RuleSet
from app.core.profiles.contract import Contract, read_contract
from app.core.profiles.findings import CheckResult
from app.core.profiles.release import ReleaseSelection, read_release_selection
from tests.core.profile_rig import CAPABILITIES, DROP, REAL, activation, contract, dump, put

Json = dict[str, Any]
UPSTREAM, STRICT = RuleSet.UPSTREAM, RuleSet.STRICT
THREE = ("ACT_DCP_UNBOUND", "ACT_NO_EVIDENCE", "ACT_FIXTURE_LIKE")
MADE = read_contract(dump(contract()))
BAKED_SHA256 = "35ff9f0b816d9d75cf660e2f2a828abf7a42ea2c07f8127a539e92650c8c2983"


def first(judgement: ActivationJudgement) -> str | None:
    return judgement.first.code if judgement.first else None


def warned(judgement: ActivationJudgement) -> set[str]:
    return {one.code for one in judgement.warnings}


@pytest.fixture(scope="module")
def real(shared_dir: Path) -> Json:
    """The published receipt."""
    place = shared_dir / REAL / "profiles/evidence/tp4-dcp4-sparkcache-activation-20260911.json"
    if not place.is_file():
        pytest.skip(f"reference data: expected {place}, found none")
    made: Json = json.loads(place.read_bytes())
    return made


@pytest.fixture(scope="module")
def overlay_contract(shared_dir: Path) -> Contract:
    return read_contract((shared_dir / REAL / "profiles/profile-contract.json").read_bytes())


@pytest.fixture(scope="module")
def baked_contract(shared_dir: Path) -> Contract:
    place = shared_dir / "profiles/sparkring/_versions/baked-image020" / REAL.partition("sparkring/")[2]
    return read_contract((place / "profiles/profile-contract.json").read_bytes())


def on_rank(number: int, name: str, value: Any) -> Callable[[Json], Json]:
    return lambda base: put(base, f"/ranks/{number}/{name}", value)


def on(pointer: str, value: Any) -> Callable[[Json], Json]:
    return lambda base: put(base, pointer, value)


def twice(base: Json) -> Json:
    return base | {"ranks": [*base["ranks"], copy.deepcopy(base["ranks"][3])]}


def without_blocks(base: Json) -> Json:
    return put(put(base, "/prefix_reuse", DROP), "/restart_restore", DROP)


def reversed_graphs(base: Json) -> Json:
    return put(base, "/ranks/1/captured_graph_sizes", base["ranks"][1]["captured_graph_sizes"][::-1])


VECTORS: dict[int, tuple[Callable[[Json], Json], str | None, str | None]] = {
    1: (lambda base: base, None, None),
    3: (on("/profile_contract_sha256", BAKED_SHA256), "ACT_CONTRACT_BINDING", "ACT_CONTRACT_BINDING"),
    4: (on("/ranks/3", DROP), "ACT_RANK_SET", "ACT_RANK_SET"),
    5: (twice, None, "ACT_RANK_DUP"),
    6: (on_rank(1, "rank", True), None, "ACT_RANK_SET"),
    7: (on_rank(2, "sircl_collectives", float("nan")), None, "DOC_JSON_INVALID"),
    8: (on_rank(2, "sircl_collectives", True), "ACT_RANK_COUNTER", "ACT_RANK_COUNTER"),
    9: (on_rank(1, "nccl_host_domains", ["primary"]), "ACT_RANK_DOMAINS", "ACT_RANK_DOMAINS"),
    10: (reversed_graphs, "ACT_RANK_GRAPHS", "ACT_RANK_GRAPHS"),
    11: (on_rank(0, "mhc_owner_rows", [8192]), "ACT_RANK_OWNER_ROWS", "ACT_RANK_OWNER_ROWS"),
    12: (on_rank(0, "mhc_owner_rows", [512, 2048]), None, "ROWS_SPLIT"),
    13: (on("/long_prefill_sample_tokens/timeouts", False), None, "ACT_LONG_PREFILL"),
    14: (on("/long_prefill_sample_tokens/prompt_tokens", 32_767), "ACT_LONG_PREFILL", "ACT_LONG_PREFILL"),
    15: (on("/long_prefill_sample_tokens/completed_requests", 1), "ACT_LONG_PREFILL", "ACT_LONG_PREFILL"),
    16: (on("/sparkcache/recoveries_after_fault", 0), "ACT_CACHE_COUNTER", "ACT_CACHE_COUNTER"),
    17: (on("/sparkcache/enabled", False), None, "ACT_CACHE_ENABLED"),
    18: (on("/serving/kv_capacity_tokens", 0), "ACT_KV", "ACT_KV"),
    19: (on("/serving/max_model_len", 262_144), "ACT_SERVING", "ACT_SERVING"),
    20: (on("/profile", "tp4-dcp1-sparkcache"), None, "KV_POOL_WINDOW"),
    21: (on("/profile", "tp4-dcp4"), "ACT_CACHE_NOT_DISABLED", "ACT_CACHE_NOT_DISABLED"),
    22: (without_blocks, None, None),
    23: (on("/prefix_reuse", "37019 of 36352"), None, "ACT_EXTRA_SHAPE"),
}


@pytest.mark.parametrize("number", VECTORS)
def test_vectors(real: Json, overlay_contract: Contract, number: int) -> None:
    """The table of §16: both columns, and pinned or not as an input (§18.6)."""
    mutate, upstream, strict = VECTORS[number]
    raw = json.dumps(mutate(real)).encode()
    assert first(judge_activation(raw, contract=overlay_contract, rules=UPSTREAM)) == upstream
    pinned = judge_activation(raw, contract=overlay_contract, pinned=True)
    assert first(pinned) == strict
    three = set() if number == 7 else set(THREE) - ({"ACT_FIXTURE_LIKE"} if number == 8 else set())
    assert warned(pinned) - {"ACT_EXTRA_SHAPE"} == three
    assert ("ACT_EXTRA_SHAPE" in warned(pinned)) is (number == 22)
    assert pinned.result is (CheckResult.FAIL if strict else CheckResult.PASS)
    alone = judge_activation(raw, contract=overlay_contract)
    assert alone.result is CheckResult.FAIL
    assert first(alone) == (strict or "ACT_DCP_UNBOUND")


def test_vector_2_another_contract(real: Json, baked_contract: Contract) -> None:
    for rules in RuleSet:
        judged = judge_activation(dump(real), contract=baked_contract, rules=rules, pinned=True)
        assert first(judged) == "CT_PROFILE_UNKNOWN"
        assert [one.code for one in judged.findings if one.blocks] == [
            "CT_PROFILE_UNKNOWN",
            "ACT_CONTRACT_BINDING",
        ]
        assert warned(judged) == set()


def test_the_published_receipt_alone(real: Json, overlay_contract: Contract, shared_dir: Path) -> None:
    """Its bytes, its embedded image receipt, its rank table."""
    place = shared_dir / REAL / "profiles/evidence/tp4-dcp4-sparkcache-activation-20260911.json"
    judged = judge_activation(place.read_bytes(), contract=overlay_contract, pinned=True)
    assert judged.sha256 == "d35a111e53fed5074197f2072f512e8a1e4bc02347bc853436b974abe53902ce"
    assert (first(judged), warned(judged)) == (None, set(THREE))
    assert [row.rank for row in judged.ranks] == ["0", "1", "2", "3"]
    assert {row.values["sircl_collectives"] for row in judged.ranks} == {"1"}
    assert real["image"] == json.loads((shared_dir / REAL / "public-image-receipt.json").read_bytes())
    # Once in the list for each rule asked, in the order of §11.2.
    steps = ["CT_PROFILE_UNKNOWN", "IMG_FLAGS", "IMG_BUNDLE_BIND", "IMG_CAPABILITY", "ACT_SCHEMA"]
    steps += ["ACT_CONTRACT_BINDING", "ACT_RANK_SET", "ACT_RANK_DUP", "ACT_RANK_IMAGE", "ACT_SERVING"]
    steps += ["ACT_KV", "KV_POOL_WINDOW", "ACT_LONG_PREFILL", "ACT_CACHE_COUNTER", "ACT_CACHE_ENABLED"]
    order = list(dict.fromkeys(one.code for one in judged.findings))
    assert sorted(steps, key=order.index) == steps


@pytest.mark.parametrize("profile", MADE.profiles)
@pytest.mark.parametrize("rules", RuleSet)
def test_a_sound_receipt_of_every_profile(profile: str, rules: RuleSet) -> None:
    judged = judge_activation(dump(activation(profile)), contract=MADE, rules=rules, pinned=True)
    assert first(judged) is None
    assert judged.result is CheckResult.PASS
    if rules is STRICT:
        assert warned(judged) == {"ACT_DCP_UNBOUND", "ACT_NO_EVIDENCE"}


IMAGE = {
    "/image/schema": ("other", "DOC_SCHEMA_UNKNOWN"),
    "/image/checks_passed": (1, "IMG_FLAGS"),
    "/image/package_checks_passed": (DROP, "IMG_FLAGS"),
    "/image/verification/model_loaded": (True, "IMG_FLAGS"),
    "/image/qualification/tp4": (True, "IMG_FLAGS"),
    "/image/qualification/gpu": (0, "IMG_FLAGS"),
    "/image/platform": ("linux/amd64", "IMG_PLATFORM"),
    "/image/image_id": ("sha256:12", "IMG_ID_FORM"),
    "/image/image_reference": ("registry.example/made:latest", "IMG_ID_FORM"),
    "/image/artifact_lock_sha256": ("ab" * 32, "CT_LOCK_HASH"),
    "/image/sources/vllm_status_lines": (35.0, "CT_SOURCES"),
    "/image/sources/more": ("ab" * 20, "CT_SOURCES"),
    "/image/sources": ([], "CT_SOURCES"),
    "/image/component_receipts/build": (DROP, "CT_RECEIPT_NAMES"),
    "/image/component_receipts/more": ("ab" * 32, "CT_RECEIPT_NAMES"),
    "/image/component_receipts/wheels": ("AB" * 32, "CT_RECEIPT_NAMES"),
    "/image/source_lock_sha256": ("ab", "SL_HASH"),
    "/image/nccl_version": ("2.31.3", "IMG_NCCL"),
    "/image/bundle_manifest_sha256": ("ab" * 32, "IMG_BUNDLE_BIND"),
    "/image": (None, "DOC_SCHEMA_UNKNOWN"),
}


@pytest.mark.parametrize("pointer", IMAGE)
def test_the_embedded_image_receipt(pointer: str) -> None:
    value, code = IMAGE[pointer]
    judged = judge_activation(dump(put(activation(), pointer, value)), contract=MADE, pinned=True)
    assert first(judged) == code
    assert judged.first is not None
    assert judged.first.pointer.startswith("/image")


def test_a_publication_is_no_image_receipt() -> None:
    made = put(activation(), "/image", {"schema": "sparkring-ghcr-publication/v1"})
    assert first(judge_activation(dump(made), contract=MADE)) == "IMG_PUBLICATION_AS_RECEIPT"


def test_an_image_named_by_its_id_alone() -> None:
    made = activation()
    made["image"]["image_reference"] = made["image"]["image_id"]
    assert first(judge_activation(dump(made), contract=MADE, pinned=True)) is None


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/image/runtime_capabilities/sha256", "ab" * 32),
        ("/image/runtime_capabilities/document/checks/loader", "pending"),
        ("/image/runtime_capabilities/document", {}),
        ("/image/runtime_capabilities", DROP),
        ("/image/verification/checked_files", {}),
    ],
)
def test_required_capabilities(pointer: str, value: Any) -> None:
    made = put(activation("tp2-dcp1-sparkcache"), pointer, value)
    judged = judge_activation(dump(made), contract=MADE, pinned=True)
    assert "IMG_CAPABILITY" in {one.code for one in judged.findings if one.blocks}
    other = put(activation("tp2-dcp1"), "/image/runtime_capabilities", DROP)
    applies = judge_activation(dump(other), contract=MADE, pinned=True)
    assert [one.result for one in applies.findings if one.code == "IMG_CAPABILITY"] == ["not_applicable"]


def test_capabilities_beyond_the_required_must_be_implemented_too() -> None:
    """§18.16: every value of ``checks``; the digests fit, and still it fails."""
    made = activation("tp2-dcp1-sparkcache")
    more = {**CAPABILITIES, "checks": {**CAPABILITIES["checks"], "extra": "pending"}}
    import hashlib

    raw = json.dumps(more, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    digest = hashlib.sha256(raw).hexdigest()
    made["image"]["runtime_capabilities"] = {"document": more, "sha256": digest}
    name = "/opt/sparkring/profile-contract/capabilities.json"
    made["image"]["verification"]["checked_files"][name] = digest
    judged = judge_activation(dump(made), contract=MADE, pinned=True)
    assert judged.first is not None
    assert judged.first.pointer.endswith("/checks/extra")


OTHER_IMAGE = "sha256:" + "ab" * 32
STRICT_ONLY: dict[str, tuple[str, Any, str | None, str]] = {
    "a whole number written as a fraction": (
        "/long_prefill_sample_tokens/prompt_tokens",
        37_032.0,
        None,
        "ACT_LONG_PREFILL",
    ),
    "a limit written as a fraction": ("/serving/max_model_len", 1_048_576.0, None, "ACT_SERVING"),
    "a graph size written as a fraction": ("/ranks/0/captured_graph_sizes/0", 4.0, None, "ACT_RANK_GRAPHS"),
    "owner rows as a fraction": ("/ranks/0/mhc_owner_rows", [2048.0], None, "ACT_RANK_OWNER_ROWS"),
    "owner rows twice": ("/ranks/0/mhc_owner_rows", [2048, 2048], None, "ROWS_SPLIT"),
    "a rank as a fraction": ("/ranks/2/rank", 2.0, None, "ACT_RANK_SET"),
    "errors as a fraction": (
        "/long_prefill_sample_tokens/fatal_engine_errors",
        0.0,
        None,
        "ACT_LONG_PREFILL",
    ),
    "a pool just below the window": ("/serving/kv_capacity_tokens", 7_528_410, None, "KV_POOL_WINDOW"),
    "a pool just above the window": ("/serving/kv_capacity_tokens", 9_201_392, None, "KV_POOL_WINDOW"),
    "three times": ("/restart_restore/planned_restart_ms_per_rank", [1, 2, 3], None, "ACT_EXTRA_SHAPE"),
    "a time of zero": ("/restart_restore/fault_recovery_ms_per_rank/1", 0, None, "ACT_EXTRA_SHAPE"),
    "more cached than asked": ("/prefix_reuse/cached_tokens", 37_376, None, "ACT_EXTRA_SHAPE"),
    "no whole blocks": ("/prefix_reuse/cached_tokens", 36_353, None, "ACT_EXTRA_SHAPE"),
    "tokens as text": ("/prefix_reuse/queried_tokens", "37019", None, "ACT_EXTRA_SHAPE"),
    "a third domain": (
        "/ranks/0/nccl_host_domains",
        ["primary", "secondary", "third"],
        "ACT_RANK_DOMAINS",
        "ACT_RANK_DOMAINS",
    ),
    "another image on a rank": ("/ranks/3/image_id", OTHER_IMAGE, "ACT_RANK_IMAGE", "ACT_RANK_IMAGE"),
    "another NCCL": ("/ranks/3/nccl_version", "2.31.1", "ACT_RANK_NCCL", "ACT_RANK_NCCL"),
    "no payload": ("/sparkcache/payload_correctness_passed", 1, "ACT_CACHE_PAYLOAD", "ACT_CACHE_PAYLOAD"),
    "not bounded": ("/long_prefill_sample_tokens/bounded", DROP, "ACT_LONG_PREFILL", "ACT_LONG_PREFILL"),
    "no flag": ("/checks_passed", "true", "ACT_SCHEMA", "ACT_SCHEMA"),
    "no schema": ("/schema", DROP, "ACT_SCHEMA", "ACT_SCHEMA"),
    "another schema": ("/schema", "sparkgate-claim/v1", "ACT_SCHEMA", "ACT_SCHEMA"),
    "no profile": ("/profile", None, "CT_PROFILE_UNKNOWN", "CT_PROFILE_UNKNOWN"),
    "no ranks": ("/ranks", [], "ACT_RANK_SET", "ACT_RANK_SET"),
    "ranks that are none": ("/ranks", [0, 1, 2, 3], "ACT_RANK_SET", "ACT_RANK_SET"),
    "a negative counter": ("/ranks/0/mtp_draft_tokens", -1, "ACT_RANK_COUNTER", "ACT_RANK_COUNTER"),
}  # fmt: skip


@pytest.mark.parametrize("name", STRICT_ONLY)
def test_other_values_in_both_columns(name: str) -> None:
    pointer, value, upstream, strict = STRICT_ONLY[name]
    raw = dump(put(activation(), pointer, value))
    assert first(judge_activation(raw, contract=MADE, rules=UPSTREAM)) == upstream
    assert first(judge_activation(raw, contract=MADE, pinned=True)) == strict


@pytest.mark.parametrize("pool", [7_528_411, 9_201_391])
def test_the_edges_of_the_window_are_inside(pool: int) -> None:
    raw = dump(put(activation(), "/serving/kv_capacity_tokens", pool))
    assert first(judge_activation(raw, contract=MADE, pinned=True)) is None


def test_a_fraction_is_a_number_where_a_number_is_asked() -> None:
    raw = dump(put(activation(), "/ranks/0/sircl_collectives", 0.5))
    for rules in RuleSet:
        assert first(judge_activation(raw, contract=MADE, rules=rules, pinned=True)) is None


def test_without_a_receipted_pool_the_window_is_not_tested() -> None:
    raw = dump(activation("tp2-dcp1-sparkcache"))
    judged = judge_activation(raw, contract=MADE, pinned=True)
    assert [one.result for one in judged.findings if one.code == "KV_POOL_WINDOW"] == ["not_tested"]
    known = judge_activation(raw, contract=MADE, pinned=True, pools={(2, 1): 100})
    assert first(known) == "KV_POOL_WINDOW"


@pytest.mark.parametrize(
    ("pointer", "value", "code"),
    [
        ("/ranks/0/mhc_prefill_rows", 2048, "ACT_RANK_OWNER_ROWS"),
        ("/ranks/0/mhc_prefill_rows", DROP, "ACT_RANK_OWNER_ROWS"),
        ("/ranks/0/mhc_owner_rows", [2048], "ACT_RANK_OWNER_ROWS"),
        ("/ranks/0/continuation_coalesced_groups", 0, "ACT_RANK_COUNTER"),
        ("/ranks/0/managed_b12x_allocations", DROP, "ACT_RANK_COUNTER"),
        ("/ranks/0/rocenante_collectives", DROP, "ACT_RANK_COUNTER"),
    ],
)
def test_two_nodes(pointer: str, value: Any, code: str) -> None:
    raw = dump(put(activation("tp2-dcp1-sparkcache"), pointer, value))
    for rules in RuleSet:
        assert first(judge_activation(raw, contract=MADE, rules=rules, pinned=True)) == code


def test_two_nodes_with_different_steps() -> None:
    made = activation("tp2-dcp1")
    made["ranks"][1] |= {"mhc_prefill_rows": 4096, "mhc_owner_rows": [2048]}
    for rules in RuleSet:
        assert first(judge_activation(dump(made), contract=MADE, rules=rules, pinned=True)) == "ROWS_SPLIT"


def test_two_nodes_without_coalescing() -> None:
    raw = dump(put(activation("tp2-dcp1"), "/ranks/0/continuation_coalesced_groups", 1))
    assert first(judge_activation(raw, contract=MADE, pinned=True)) == "ACT_RANK_COUNTER"
    raw = dump(put(activation("tp2-dcp1"), "/ranks/0/continuation_coalesced_groups", False))
    assert first(judge_activation(raw, contract=MADE, rules=UPSTREAM)) is None
    assert first(judge_activation(raw, contract=MADE, pinned=True)) == "ACT_RANK_COUNTER"


def selection(path: str, sha256: str) -> ReleaseSelection:
    made = {
        "schema": "sparkring-release-selection/v1",
        "id": "made",
        "selection": "made",
        "image": "registry.example/made@sha256:" + "4d" * 32,
        "inputs": [{"path": path, "sha256": sha256}],
    }
    return read_release_selection(dump(made))


@pytest.mark.parametrize(
    ("path", "pinned"),
    [
        ("evidence/tp4-dcp4-sparkcache-activation-20260911.json", True),
        ("evidence/tp4-dcp4-sparkcache.json", True),
        ("evidence/activation.json", True),
        ("evidence/tp4-dcp4-activation.json", False),
        ("evidence/tp4-dcp1-sparkcache-activation.json", False),
    ],
)
def test_what_pins_a_receipt(path: str, pinned: bool) -> None:
    """Its digest; and where the pin names a profile it must be the receipt's."""
    raw = dump(activation())
    judged = judge_activation(raw, contract=MADE)
    chosen = [selection("other.json", "ab" * 32), selection(path, judged.sha256)]
    assert is_pinned(judged, contract=MADE, selections=chosen) is pinned
    assert not is_pinned(judged, contract=MADE, selections=chosen[:1])


def test_the_published_selection_pins_the_published_receipt(
    overlay_contract: Contract, shared_dir: Path
) -> None:
    place = shared_dir / REAL / "profiles/evidence/tp4-dcp4-sparkcache-activation-20260911.json"
    root = shared_dir / "profiles/sparkring/runtime/releases/sparkring-r33-dcp4/release.json"
    judged = judge_activation(place.read_bytes(), contract=overlay_contract)
    chosen = [read_release_selection(root.read_bytes())]
    assert is_pinned(judged, contract=overlay_contract, selections=chosen)
    moved = judge_activation(place.read_bytes() + b" ", contract=overlay_contract)
    assert not is_pinned(moved, contract=overlay_contract, selections=chosen)
