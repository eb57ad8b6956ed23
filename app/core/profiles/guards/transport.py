"""Transport, common environment, graphs and concrete values of one rank (profile-contract §5.2 to 5.4)."""

from collections.abc import Iterator
from typing import Final

from app.core.errors import FormatError
from app.core.profiles.budget import number
from app.core.profiles.entry_checks import TP2_HCA, coalescing
from app.core.profiles.findings import CheckResult, ProfileFinding
from app.core.profiles.guards.case import RankCase
from app.core.profiles.secrets import masked
from app.core.profiles.template import is_placeholder

TP4_PYTHON_PATH: Final = "/opt/sparkring/sircl/python"
MAX_GRAPH_VARIABLE: Final = "MAX_CUDAGRAPH_CAPTURE_SIZE"
MOST_GRAPHS: Final = 4_096
# What the entrypoint of the ring demands besides and no published page names (§5.4, §18.14).
UNPUBLISHED_TP4: Final = (
    "the renderer's marker",
    "the in-image transport library",
    "peers, devices, GIDs and control ports 0 and 1",
    "ports of the API, liveness, rendezvous and health",
)


def transport_findings(case: RankCase) -> Iterator[ProfileFinding]:
    """GUARD_TRANSPORT, GUARD_COMMON_ENV, GUARD_GRAPH_DERIVED, GUARD_DFLASH_DYNAMIC, TPL_UNRESOLVED and
    TPL_DUP_KEY of one rank."""
    yield from _keys(case)
    for one in case.effective.common:
        yield case.compared("GUARD_COMMON_ENV", one.key, one.value, detail=one.origin)
    yield from _ring(case) if case.entry.is_tp4 else _pair(case)
    yield from _rank(case)
    yield _graphs(case)
    yield _draft(case)


def derived_graph_sizes(largest: int, *, num_speculative_tokens: int) -> tuple[int, ...]:
    """The sizes the engine derives: multiples of draft tokens and one, up to the largest (§5.3)."""
    stride = num_speculative_tokens + 1
    return tuple(range(stride, min(largest, MOST_GRAPHS * stride) + 1, stride))


def _keys(case: RankCase) -> Iterator[ProfileFinding]:
    for key in case.observed.duplicates:
        yield case.result(
            "TPL_DUP_KEY", CheckResult.FAIL, key=key, expected="every key once", found="twice or more"
        )
    if not case.observed.duplicates:
        yield case.result("TPL_DUP_KEY", CheckResult.PASS)
    unresolved = [key for key, value in case.environment.items() if is_placeholder(value)]
    for key in unresolved:
        yield case.result(
            "TPL_UNRESOLVED",
            CheckResult.FAIL,
            key=key,
            expected="a value without <, > and ${",
            found=masked(key, case.environment[key]),
        )
    if not unresolved:
        yield case.result("TPL_UNRESOLVED", CheckResult.PASS)


def _ring(case: RankCase) -> Iterator[ProfileFinding]:
    code = "GUARD_TRANSPORT"
    on, log_limit = coalescing(case.entry)
    wanted = {
        "SIRCL_ENABLED": "1",
        "VLLM_SPARK_TP4_MODE": "custom",
        "VLLM_SPARK_TP4_VOCAB_MODE": "custom",
        "NCCL_SWITCHLESS_RING_ONLY": "1",
        "PYTHONPATH": TP4_PYTHON_PATH,
        "VLLM_B12X_KDA_PREFILL_COALESCING": on,
        "VLLM_B12X_KDA_PREFILL_COALESCING_LOG_LIMIT": log_limit,
    }
    for key, value in wanted.items():
        yield case.compared(code, key, value)
    for missing in UNPUBLISHED_TP4:
        yield case.untested(code, f"names not published: {missing}")


def _pair(case: RankCase) -> Iterator[ProfileFinding]:
    code = "GUARD_TRANSPORT"
    on, log_limit = coalescing(case.entry)
    wanted = {
        "NCCL_IB_HCA": TP2_HCA,
        "B12X_ROCE_PAIR_PATHS": "2",
        "PYTHONPATH": "",
        "SPARKRING_TRANSPORT_PROFILE": case.entry.transport,
        "SPARKRING_TRANSPORT_MANIFEST_SHA256": case.entry.transport_manifest_sha256 or "",
        "VLLM_B12X_KDA_PREFILL_COALESCING": on,
        "VLLM_B12X_KDA_PREFILL_COALESCING_LOG_LIMIT": log_limit,
    }
    for key, value in wanted.items():
        yield case.compared(code, key, value)
    yield _concrete(case, "B12X_ROCE_PEER_HCA_MAP")


def _rank(case: RankCase) -> Iterator[ProfileFinding]:
    nodes = case.entry.node_count
    yield case.compared("GUARD_TRANSPORT", "NODE_COUNT", str(nodes))
    rank = case.observed.rank
    permitted = [str(rank)] if rank is not None else [str(one) for one in range(nodes)]
    found = case.environment.get("NODE_RANK")
    in_range = rank is None or 0 <= rank < nodes
    yield case.result(
        "GUARD_TRANSPORT",
        CheckResult.PASS if found in permitted and in_range else CheckResult.FAIL,
        key="NODE_RANK",
        expected=" or ".join(permitted) if in_range else f"a rank below {nodes}",
        found=found if found is not None else "nothing",
    )
    yield _concrete(case, "MASTER_ADDR")
    if case.entry.is_tp4:
        yield _concrete(case, "NCCL_IB_HCA")


def _concrete(case: RankCase, key: str) -> ProfileFinding:
    """A value only a renderer can know: there, and no placeholder."""
    found = case.environment.get(key)
    holds = bool(found) and not is_placeholder(found or "")
    return case.result(
        "GUARD_TRANSPORT",
        CheckResult.PASS if holds else CheckResult.FAIL,
        key=key,
        expected="a concrete value",
        found=found if found is not None else "nothing",
    )


def _graphs(case: RankCase) -> ProfileFinding:
    code = "GUARD_GRAPH_DERIVED"
    wanted = case.entry.cudagraph_capture_sizes
    if not case.entry.is_tp4:
        detail = (
            "the rule for two nodes is not published: its lists hold 1 and 2, which the rule does not yield"
        )
        return case.result(code, CheckResult.INDETERMINATE, key=MAX_GRAPH_VARIABLE, detail=detail)
    try:
        largest = number(case.environment, MAX_GRAPH_VARIABLE)
    except FormatError as error:
        return case.result(
            code, CheckResult.FAIL, key=MAX_GRAPH_VARIABLE, expected=error.expected, found=error.found
        )
    tokens = case.contract.model.num_speculative_tokens
    derived = derived_graph_sizes(largest, num_speculative_tokens=tokens)
    return case.result(
        code,
        CheckResult.PASS if derived == wanted else CheckResult.FAIL,
        key=MAX_GRAPH_VARIABLE,
        detail=f"multiples of {tokens + 1} up to {largest}",
        expected=",".join(map(str, wanted)),
        found=_listed(derived),
    )


def _listed(sizes: tuple[int, ...]) -> str:
    more = f",… ({len(sizes)} sizes)" if len(sizes) > 64 else ""
    return ",".join(map(str, sizes[:64])) + more


def _draft(case: RankCase) -> ProfileFinding:
    """#254: a draft depth that changes while running, together with TP4 and DCP4."""
    entry = case.entry
    if (entry.tensor_parallel_size, entry.decode_context_parallel_size) != (4, 4):
        return case.skipped("GUARD_DFLASH_DYNAMIC", "not TP4 with DCP4")
    if case.has_dynamic_draft is None:
        return case.untested(
            "GUARD_DFLASH_DYNAMIC", "name not published: variable of the dynamic draft depth"
        )
    return case.result(
        "GUARD_DFLASH_DYNAMIC",
        CheckResult.FAIL if case.has_dynamic_draft else CheckResult.PASS,
        detail="operator-supplied",
        expected="a fixed draft depth at TP4 with DCP4",
        found="a dynamic one" if case.has_dynamic_draft else "a fixed one",
    )
