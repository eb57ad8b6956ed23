"""Guards on every arm: each one with the value that makes it fail, cache-on as cache-off."""

from typing import Any

import pytest

from app.core.profiles.findings import CheckResult, ProfileFinding, blocking
from app.core.profiles.guards import rank_findings
from app.core.profiles.guards.transport import derived_graph_sizes
from app.core.profiles.observed import observe
from tests.core import profile_folder as made
from tests.core import profile_rig as rig

Json = dict[str, Any]
RING_CACHE = "tp4-dcp4-sparkcache"
ARMS = list(made.template_values())
TP4_ARMS = [name for name in ARMS if name.startswith("tp4")]
CACHE_ARMS = [name for name in ARMS if name.endswith("sparkcache")]


def failing(profile: str, changes: Json, **more: Any) -> list[tuple[str, str]]:
    values = made.rank_values(profile)
    for key, value in changes.items():
        if value is None:
            del values[key]
        else:
            values[key] = value
    found = rank_findings(made.case(profile, values, **more))
    return [(one.code, one.pointer) for one in blocking(found)]


def of(findings: tuple[ProfileFinding, ...], code: str) -> list[ProfileFinding]:
    return [one for one in findings if one.code == code]


@pytest.mark.parametrize("profile", ARMS)
def test_a_good_rank_passes_on_every_arm(profile: str) -> None:
    assert failing(profile, {}) == []


@pytest.mark.parametrize("profile", TP4_ARMS)
@pytest.mark.parametrize("value", ["1", "4", "2", "04", "", " 4", None])
def test_another_dcp_than_the_profiles_fails_on_every_arm(profile: str, value: str | None) -> None:
    own = made.rank_values(profile)["DECODE_CONTEXT_PARALLEL_SIZE"]
    found = failing(profile, {"DECODE_CONTEXT_PARALLEL_SIZE": value})
    expected = [] if value == own else [("GUARD_DCP_NAME", "/DECODE_CONTEXT_PARALLEL_SIZE")]
    assert [one for one in found if one[0] == "GUARD_DCP_NAME"] == expected


@pytest.mark.parametrize("value", ["four", "4 ", "", "3", "8", "0", "-4", "4.0"])
def test_what_a_rank_holds_must_divide_whatever_the_contract_says(value: str) -> None:
    found = failing(RING_CACHE, {"DECODE_CONTEXT_PARALLEL_SIZE": value})
    assert ("GUARD_DCP_DIVIDES", "/DECODE_CONTEXT_PARALLEL_SIZE") in found


@pytest.mark.parametrize("profile", ARMS)
def test_a_rank_without_a_dcp_is_told_what_the_launcher_would_take(profile: str) -> None:
    values = made.rank_values(profile)
    del values["DECODE_CONTEXT_PARALLEL_SIZE"]
    told = [one for one in rank_findings(made.case(profile, values)) if one.blocks]
    assert [(one.code, one.found, one.detail) for one in told] == [
        ("GUARD_DCP_NAME", "nothing", "missing: the launcher would take 4")
    ]


@pytest.mark.parametrize("profile", TP4_ARMS)
def test_another_tp_or_name_fails(profile: str) -> None:
    assert ("GUARD_DCP_NAME", "/TENSOR_PARALLEL_SIZE") in failing(profile, {"TENSOR_PARALLEL_SIZE": "2"})
    changed = failing(profile, {"SOURCE_IMAGE_PROFILE": "tp2-dcp1"})
    assert ("GUARD_DCP_NAME", "/SOURCE_IMAGE_PROFILE") in changed


@pytest.mark.parametrize(("field", "value"), [("decode_context_parallel_size", 1), ("sparkcache", True)])
def test_a_name_that_says_something_else_than_its_entry_fails(field: str, value: object) -> None:
    document = made.contract_document()
    document["profiles"]["tp4-dcp4"][field] = value
    case = made.case("tp4-dcp4")
    contract = made.contract(document)
    bent = type(case)(
        contract=contract,
        effective=type(case.effective)(
            contract_sha256=contract.sha256,
            entry=contract.profiles["tp4-dcp4"],
            values=case.effective.values,
            common=case.effective.common,
            findings=(),
            missing=(),
        ),
        observed=case.observed,
    )
    first = of(rank_findings(bent), "GUARD_DCP_NAME")[0]
    assert (first.result, first.expected) == (CheckResult.FAIL, "TP 4, DCP 4, cache off")


@pytest.mark.parametrize(
    ("command", "result"),
    [
        (["serve", "--decode-context-parallel-size", "4"], CheckResult.PASS),
        (["serve", "--decode-context-parallel-size=4"], CheckResult.PASS),
        (["serve", "-dcp", "1"], CheckResult.FAIL),
        (["serve", "-dcp", "4", "-dcp", "1"], CheckResult.FAIL),
        (["serve", "--decode-context-parallel-size"], CheckResult.FAIL),
        (["serve"], CheckResult.NOT_TESTED),
    ],
)
def test_the_command_says_the_same_dcp(command: list[str], result: CheckResult) -> None:
    document = made.inspection(made.rank_values(RING_CACHE), command=command)
    seen = observe(rig.dump(document), name="rank0.json", rank=0)
    found = of(rank_findings(made.case(RING_CACHE, observed=seen)), "GUARD_DCP_NAME")
    told = [one for one in found if "decode-context" in one.detail]
    assert [one.result for one in told] == [result]


@pytest.mark.parametrize(("dcp", "tp"), [("3", "4"), ("8", "4"), ("4", "2"), ("0", "4")])
def test_a_dcp_that_does_not_divide_fails(dcp: str, tp: str) -> None:
    changes = {"DECODE_CONTEXT_PARALLEL_SIZE": dcp, "TENSOR_PARALLEL_SIZE": tp}
    assert ("GUARD_DCP_DIVIDES", "/DECODE_CONTEXT_PARALLEL_SIZE") in failing(RING_CACHE, changes)


@pytest.mark.parametrize(
    ("interleave", "passes"), [("4", True), ("64", True), ("1", False), ("12", False), ("x", False)]
)
def test_the_interleave_of_the_command_fits(interleave: str, passes: bool) -> None:
    command = ["serve", f"--dcp-kv-cache-interleave-size={interleave}"]
    document = made.inspection(made.rank_values(RING_CACHE), command=command)
    seen = observe(rig.dump(document), name="rank0.json", rank=0)
    found = of(rank_findings(made.case(RING_CACHE, observed=seen)), "GUARD_DCP_DIVIDES")
    assert found[-1].result is (CheckResult.PASS if passes else CheckResult.FAIL)


@pytest.mark.parametrize("profile", CACHE_ARMS)
@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"SPARKCACHE_ENABLED": "0"}, "/SPARKCACHE_ENABLED"),
        ({"SPARKCACHE_ENABLED": None}, "/SPARKCACHE_ENABLED"),
        ({"SPARKCACHE_ACCESS_MODE": "restore-only"}, "/SPARKCACHE_ACCESS_MODE"),
        ({"SPARKCACHE_ASYNC_PAGE_CAPTURE": "0"}, "/SPARKCACHE_ACCESS_MODE"),
        (
            {"SPARKCACHE_ASYNC_PAGE_CAPTURE": "0", "SPARKCACHE_ACCESS_MODE": "restore-only"},
            "/SPARKCACHE_ACCESS_MODE",
        ),
    ],
)
def test_a_cache_arm_is_the_normal_one(profile: str, changes: Json, pointer: str) -> None:
    assert ("GUARD_CACHE_MODE", pointer) in failing(profile, changes)


def test_the_diagnostic_arm_needs_the_sites_order_and_its_own_namespace() -> None:
    changes = {
        "SPARKCACHE_ASYNC_PAGE_CAPTURE": "0",
        "SPARKCACHE_ACCESS_MODE": "restore-only",
        "SPARKCACHE_CACHE_NAMESPACE": "look-only",
    }
    assert failing(RING_CACHE, changes, diagnostic_namespace="look-only") == []
    assert ("NS_DERIVED", "/SPARKCACHE_CACHE_NAMESPACE") in failing(
        RING_CACHE, changes, diagnostic_namespace="another"
    )
    derived = changes | {"SPARKCACHE_CACHE_NAMESPACE": made.NAMESPACE}
    assert ("NS_DIAG_ISOLATED", "/SPARKCACHE_CACHE_NAMESPACE") in failing(
        RING_CACHE, derived, diagnostic_namespace=made.NAMESPACE
    )


@pytest.mark.parametrize("profile", [name for name in ARMS if name not in CACHE_ARMS])
@pytest.mark.parametrize(
    "changes", [{"SPARKCACHE_ENABLED": "1"}, {"SPARKCACHE_ENABLED": ""}, {"SPARKCACHE_ENABLED": None}]
)
def test_an_arm_without_a_cache_has_it_off(profile: str, changes: Json) -> None:
    assert failing(profile, changes) == [("GUARD_CACHE_MODE", "/SPARKCACHE_ENABLED")]


def test_an_arm_without_a_cache_captures_nothing_and_has_no_namespace() -> None:
    changes = {"SPARKCACHE_ASYNC_PAGE_CAPTURE": "1", "SPARKCACHE_CACHE_NAMESPACE": "stray"}
    assert failing("tp4-dcp4", changes) == [
        ("GUARD_CACHE_MODE", "/SPARKCACHE_ASYNC_PAGE_CAPTURE"),
        ("NS_DERIVED", "/SPARKCACHE_CACHE_NAMESPACE"),
    ]


@pytest.mark.parametrize("profile", ARMS)
@pytest.mark.parametrize("key", ["KV_CACHE_MEMORY_BYTES", "MAX_MODEL_LEN"])
@pytest.mark.parametrize("value", ["1", "", None])
def test_pool_and_limit_are_held_on_every_arm(profile: str, key: str, value: str | None) -> None:
    assert ("GUARD_CAPACITY", f"/{key}") in failing(profile, {key: value})


def test_auto_is_the_launchers_pool() -> None:
    assert failing(RING_CACHE, {"KV_CACHE_MEMORY_BYTES": "auto"}) == []


BOUNDED = sorted(
    set(made.CACHE)
    - {
        *("SPARKCACHE_ACCESS_MODE", "SPARKCACHE_ASYNC_PAGE_CAPTURE"),
        *("SPARKCACHE_SHARED_PREFIX_LEASE_TTL_SECONDS", "SPARKCACHE_CACHE_NAMESPACE"),
    }
)


@pytest.mark.parametrize("profile", CACHE_ARMS)
@pytest.mark.parametrize("key", BOUNDED)
def test_every_bounded_capacity_is_held(profile: str, key: str) -> None:
    assert ("GUARD_CAPACITY", f"/{key}") in failing(profile, {key: "1"})
    assert ("GUARD_CAPACITY", f"/{key}") in failing(profile, {key: None})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("SPARKCACHE_LOW_WATERMARK_BYTES", "8589934593"),
        ("SPARKCACHE_MIN_SPAN_TOKENS", "65537"),
        ("SPARKCACHE_SHARED_PREFIX_LEASE_TTL_SECONDS", "0"),
        ("SPARKCACHE_SHARED_PREFIX_LEASE_TTL_SECONDS", "301"),
        ("SPARKCACHE_SHARED_PREFIX_LEASE_TTL_SECONDS", "-5"),
        ("SPARKCACHE_SHARED_PREFIX_LEASE_TTL_SECONDS", "1.5"),
        ("SPARKCACHE_CACHE_NAMESPACE", "../up"),
    ],
)
def test_limits_between_capacities(key: str, value: str) -> None:
    found = failing(RING_CACHE, {key: value})
    assert ("GUARD_CAPACITY", f"/{key}") in found


@pytest.mark.parametrize(("low", "passes"), [("5", True), ("6", False)])
@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ("SPARKCACHE_LOW_WATERMARK_BYTES", "SPARKCACHE_MAX_BYTES"),
        ("SPARKCACHE_MIN_SPAN_TOKENS", "SPARKCACHE_MAX_SPAN_TOKENS"),
    ],
)
def test_a_lower_bound_is_at_most_the_upper_one(lower: str, upper: str, low: str, passes: bool) -> None:
    values = made.rank_values(RING_CACHE) | {lower: low, upper: "5"}
    found = of(rank_findings(made.case(RING_CACHE, values)), "GUARD_CAPACITY")
    told = [one.result is CheckResult.PASS for one in found if one.expected == f"at most {upper} = 5"]
    assert told == [passes]


@pytest.mark.parametrize("seconds", ["1", "299", "300"])
def test_a_shorter_lease_is_no_offence(seconds: str) -> None:
    assert failing(RING_CACHE, {"SPARKCACHE_SHARED_PREFIX_LEASE_TTL_SECONDS": seconds}) == []


def test_buffers_over_their_budget_fail() -> None:
    found = failing(RING_CACHE, {"SPARKCACHE_ASYNC_CAPTURE_SLOT_COUNT": "3"})
    assert ("MEM_BUDGET", "/SPARKCACHE_BUFFER_BUDGET_BYTES") in found


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/opt/sparkring/lib/placement.so", "GUARD_NATIVE"),
        ("/opt/sparkring/lib/snapshot.so", "GUARD_NATIVE"),
        ("/opt/sparkring/contracts/lease.json", "GUARD_LEASE"),
    ],
)
def test_native_libraries_and_lease_are_those_of_the_receipt(path: str, code: str) -> None:
    receipt = made.receipt()
    del receipt["verification"]["checked_files"][path]
    assert failing(RING_CACHE, {}, receipt=receipt) == [(code, "")]
    if code == "GUARD_NATIVE":
        receipt["verification"]["checked_files"][path] = "ff" * 32
        assert failing(RING_CACHE, {}, receipt=receipt) == [(code, "")]


@pytest.mark.parametrize(
    "receipt", [None, [], {}, {"verification": 1}, {"verification": {"checked_files": []}}]
)
def test_a_receipt_of_any_shape_raises_nothing(receipt: Any) -> None:
    codes = {code for code, _ in failing(RING_CACHE, {}, receipt=receipt)}
    assert codes <= {"GUARD_NATIVE", "GUARD_LEASE"}


@pytest.mark.parametrize("profile", ARMS)
@pytest.mark.parametrize("key", sorted(made.COMMON))
def test_the_common_environment_is_held_on_every_arm(profile: str, key: str) -> None:
    assert ("GUARD_COMMON_ENV", f"/{key}") in failing(profile, {key: "other"})
    assert ("GUARD_COMMON_ENV", f"/{key}") in failing(profile, {key: None})


RING = {
    *("SIRCL_ENABLED", "VLLM_SPARK_TP4_MODE", "VLLM_SPARK_TP4_VOCAB_MODE", "NCCL_SWITCHLESS_RING_ONLY"),
    *("PYTHONPATH", "VLLM_B12X_KDA_PREFILL_COALESCING", "VLLM_B12X_KDA_PREFILL_COALESCING_LOG_LIMIT"),
    *("NODE_COUNT", "NODE_RANK", "MASTER_ADDR", "NCCL_IB_HCA"),
}
PAIR = {
    *("NCCL_IB_HCA", "B12X_ROCE_PAIR_PATHS", "SPARKRING_TRANSPORT_PROFILE", "PYTHONPATH"),
    *("SPARKRING_TRANSPORT_MANIFEST_SHA256", "B12X_ROCE_PEER_HCA_MAP", "MASTER_ADDR"),
}


@pytest.mark.parametrize(
    ("profile", "key"),
    [(profile, key) for profile in ("tp4-dcp4", RING_CACHE) for key in sorted(RING)]
    + [("tp2-dcp1", key) for key in sorted(PAIR)],
)
def test_transport_is_held(profile: str, key: str) -> None:
    assert ("GUARD_TRANSPORT", f"/{key}") in failing(profile, {key: None})


@pytest.mark.parametrize(("rank", "written"), [(0, "1"), (1, "0"), (4, "4"), (None, "4"), (0, "00")])
def test_a_rank_is_the_one_it_should_be(rank: int | None, written: str) -> None:
    values = made.rank_values(RING_CACHE) | {"NODE_RANK": written}
    case = made.case(RING_CACHE, observed=made.observed(values, rank=rank))
    assert ("GUARD_TRANSPORT", "/NODE_RANK") in [(o.code, o.pointer) for o in blocking(rank_findings(case))]


def test_what_is_not_published_is_never_passed() -> None:
    untested = [one for one in rank_findings(made.case(RING_CACHE)) if one.result is CheckResult.NOT_TESTED]
    told = [one.detail for one in untested if "published" in one.detail]
    assert len(told) == 8
    assert any("dynamic draft depth" in one for one in told)
    assert any("lease contract" in one for one in told)


def test_unresolved_values_are_named_one_by_one() -> None:
    changes = {"MASTER_ADDR": "<head>", "EXTRA": "${HOME}", "SPARKCACHE_CACHE_NAMESPACE": "<ns>"}
    found = failing(RING_CACHE, changes)
    assert [pointer for code, pointer in found if code == "TPL_UNRESOLVED"] == [
        "/MASTER_ADDR",
        "/SPARKCACHE_CACHE_NAMESPACE",
        "/EXTRA",
    ]


def test_a_variable_twice_in_a_container_is_named() -> None:
    document = made.inspection(made.rank_values("tp4-dcp4"))
    document["Config"]["Env"].append("SPARKCACHE_ENABLED=0")
    seen = observe(rig.dump(document), name="rank0.json", rank=0)
    found = blocking(rank_findings(made.case("tp4-dcp4", observed=seen)))
    assert [(one.code, one.pointer) for one in found] == [("TPL_DUP_KEY", "/SPARKCACHE_ENABLED")]


@pytest.mark.parametrize("profile", TP4_ARMS)
@pytest.mark.parametrize("largest", ["60", "68", "", None, "x"])
def test_graphs_are_those_the_engine_derives(profile: str, largest: str | None) -> None:
    found = failing(profile, {"MAX_CUDAGRAPH_CAPTURE_SIZE": largest})
    assert ("GUARD_GRAPH_DERIVED", "/MAX_CUDAGRAPH_CAPTURE_SIZE") in found


def test_derived_graph_sizes() -> None:
    assert derived_graph_sizes(64, num_speculative_tokens=3) == tuple(range(4, 65, 4))
    assert derived_graph_sizes(10**18, num_speculative_tokens=3)[-1] == 4096 * 4


def test_graphs_of_two_nodes_are_left_open() -> None:
    found = of(rank_findings(made.case("tp2-dcp1")), "GUARD_GRAPH_DERIVED")
    assert [one.result for one in found] == [CheckResult.INDETERMINATE]


@pytest.mark.parametrize(
    ("profile", "said", "result"),
    [
        (RING_CACHE, True, CheckResult.FAIL),
        ("tp4-dcp4", True, CheckResult.FAIL),
        (RING_CACHE, False, CheckResult.PASS),
        (RING_CACHE, None, CheckResult.NOT_TESTED),
        ("tp4-dcp1", True, CheckResult.NOT_APPLICABLE),
        ("tp2-dcp1", True, CheckResult.NOT_APPLICABLE),
    ],
)
def test_a_dynamic_draft_depth_at_tp4_dcp4_fails(
    profile: str, said: bool | None, result: CheckResult
) -> None:
    found = of(rank_findings(made.case(profile, has_dynamic_draft=said)), "GUARD_DFLASH_DYNAMIC")
    assert [one.result for one in found] == [result]


def test_memory_below_the_floor_fails() -> None:
    code = ("MEM_GATE", "")
    assert code in failing("tp4-dcp4", {}, available_bytes=96 * 2**30 - 1)
    assert code not in failing("tp4-dcp4", {}, available_bytes=7, memory_floor_bytes=7)
    assert code not in failing("tp4-dcp4", {}, available_bytes=96 * 2**30)


def test_no_secret_of_a_rank_is_in_a_finding() -> None:
    values = made.rank_values(RING_CACHE) | {"HF_TOKEN": "<hush>", "SERVER_API_KEY": "${hush}"}
    found = rank_findings(made.case(RING_CACHE, values))
    assert "hush" not in str(found)
    assert {one.pointer for one in found if one.code == "TPL_UNRESOLVED"} == {"/HF_TOKEN", "/SERVER_API_KEY"}
