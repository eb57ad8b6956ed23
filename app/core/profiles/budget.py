"""Rows, key-value budget, pool window and cache buffers of one rank (profile-contract §8).

Arithmetic over configured numbers. The capacity of the pool in tokens is a reading from the engine's log
and is never computed: the same bytes gave another number under another draft model (§8.2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from app.core.canonical_json import ExactValue, JsonObject
from app.core.errors import FormatError, shown
from app.core.profiles.codes import Severity
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.profile_entry import ProfileEntry
from app.core.qualify.activation_bounds import POOL_WINDOW_PERCENT, RECEIPTED_POOL, pool_window

MEMORY_FLOOR_BYTES: Final = 96 * 2**30
MOST_RESTORE_LANES: Final = 8
ARENAS_PER_LANE: Final = 2
RESTORE_MODES: Final = ("read-write", "restore-only")


def split_rows(rows: int, *, tensor_parallel_size: int) -> int:
    """Owner rows of one rank: split over the tensor-parallel group, and not again over DCP (§8.1).

    Raises: FormatError: the rows cannot be split evenly.
    """
    if rows <= 0 or tensor_parallel_size <= 0 or rows % tensor_parallel_size:
        expected = f"a positive multiple of the tensor-parallel degree {tensor_parallel_size}"
        raise FormatError("prefill rows", expected=expected, found=shown(rows))
    return rows // tensor_parallel_size


def rows_finding(
    owner_rows: ExactValue,
    *,
    rows: int,
    tensor_parallel_size: int,
    pointer: str = "",
    rank: int | None = None,
) -> ProfileFinding:
    """ROWS_SPLIT: the list of owner rows is exactly the split of full steps of ``rows``."""
    expected = [split_rows(rows, tensor_parallel_size=tensor_parallel_size)]
    holds = isinstance(owner_rows, list) and owner_rows == expected and type(owner_rows[0]) is int
    return finding(
        "ROWS_SPLIT",
        CheckResult.PASS if holds else CheckResult.FAIL,
        pointer=pointer,
        detail=f"{rows} rows over TP {tensor_parallel_size}, not over DCP",
        expected=shown(expected),
        found=shown(owner_rows),
        rank=rank,
    )


def pool_finding(
    pool: int | Decimal,
    *,
    tensor_parallel_size: int,
    decode_context_parallel_size: int,
    blocks: bool = False,
    receipted: Mapping[tuple[int, int], int] = RECEIPTED_POOL,
    pointer: str = "",
) -> ProfileFinding:
    """KV_POOL_WINDOW: the engine's figure is within 10 % of the receipted one of the same TP and DCP.

    Args: pool: tokens, as the engine logged them. blocks: whether a miss blocks, as it must where the
    receipt does not bind DCP itself (§15). receipted: pools by TP and DCP; without one, not tested.
    """
    severity = Severity.BLOCKS if blocks else Severity.WARNS
    centre = receipted.get((tensor_parallel_size, decode_context_parallel_size))
    degrees = f"TP {tensor_parallel_size}, DCP {decode_context_parallel_size}"
    if centre is None:
        detail = f"no receipted pool for {degrees}"
        return finding(
            "KV_POOL_WINDOW",
            CheckResult.NOT_TESTED,
            severity=severity,
            pointer=pointer,
            detail=detail,
            found=shown(pool),
        )
    least, most = pool_window(centre)
    return finding(
        "KV_POOL_WINDOW",
        CheckResult.PASS if least <= pool <= most else CheckResult.FAIL,
        severity=severity,
        pointer=pointer,
        detail=f"± {POOL_WINDOW_PERCENT} % around the receipted {centre} of {degrees}",
        expected=f"{least} to {most} tokens",
        found=str(pool),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferPlan:
    """Configured, not measured: what the cache's buffers and the pool take of one rank (§8.3), in bytes."""

    access_mode: str
    async_page_capture: bool
    dcp_degree: int
    rank_count: int
    requested_restore_lanes_per_rank: int
    restore_lanes_per_rank: int
    capture_slots_per_rank: int
    restore_payload_bytes_per_rank: int
    capture_payload_bytes_per_rank: int
    buffer_budget_bytes_per_rank: int | None
    kv_cache_bytes_per_rank: int

    @property
    def payload_bytes_per_rank(self) -> int:
        """Restore and capture buffers together."""
        return self.restore_payload_bytes_per_rank + self.capture_payload_bytes_per_rank

    @property
    def is_within_budget(self) -> bool:
        """Whether the buffers fit; no budget is no limit."""
        budget = self.buffer_budget_bytes_per_rank
        return budget is None or self.payload_bytes_per_rank <= budget


def buffer_plan(environment: Mapping[str, str], entry: ProfileEntry) -> BufferPlan:
    """The plan of one rank from its variables; all of it zero where the cache is off.

    Raises: FormatError: a variable that is needed is absent or no number.
    """
    on = entry.sparkcache
    access = environment.get("SPARKCACHE_ACCESS_MODE", "") if on else ""
    capture = on and environment.get("SPARKCACHE_ASYNC_PAGE_CAPTURE") == "1"
    requested = number(environment, "SPARKCACHE_LOAD_THREADS") if on else 0
    lanes = min(MOST_RESTORE_LANES, requested) if access in RESTORE_MODES else 0
    slots = number(environment, "SPARKCACHE_ASYNC_CAPTURE_SLOT_COUNT") if capture else 0
    arena = number(environment, "SPARKCACHE_CUDA_ARENA_BYTES") if lanes else 0
    slot = number(environment, "SPARKCACHE_ASYNC_CAPTURE_SLOT_BYTES") if capture else 0
    budget = number(environment, "SPARKCACHE_BUFFER_BUDGET_BYTES") if on else 0
    return BufferPlan(
        access_mode=access,
        async_page_capture=capture,
        dcp_degree=entry.decode_context_parallel_size,
        rank_count=entry.node_count,
        requested_restore_lanes_per_rank=requested,
        restore_lanes_per_rank=lanes,
        capture_slots_per_rank=slots,
        restore_payload_bytes_per_rank=lanes * ARENAS_PER_LANE * arena,
        capture_payload_bytes_per_rank=slots * slot,
        buffer_budget_bytes_per_rank=budget or None,
        kv_cache_bytes_per_rank=entry.kv_cache_memory_bytes,
    )


def buffer_plan_object(plan: BufferPlan) -> JsonObject:
    """The plan with the keys of §8.3."""
    payload, ranks = plan.payload_bytes_per_rank, plan.rank_count
    return {
        "status": "configured",
        "basis": "configured capacities, not measured",
        "access_mode": plan.access_mode,
        "async_page_capture": plan.async_page_capture,
        "dcp_degree": plan.dcp_degree,
        "rank_count": ranks,
        "requested_restore_lanes_per_rank": plan.requested_restore_lanes_per_rank,
        "restore_lanes_per_rank": plan.restore_lanes_per_rank,
        "arenas_per_restore_lane": ARENAS_PER_LANE,
        "capture_slots_per_rank": plan.capture_slots_per_rank,
        "restore_payload_bytes_per_rank": plan.restore_payload_bytes_per_rank,
        "capture_payload_bytes_per_rank": plan.capture_payload_bytes_per_rank,
        "sparkcache_payload_bytes_per_rank": payload,
        "sparkcache_payload_bytes_all_ranks": payload * ranks,
        "buffer_budget_bytes_per_rank": plan.buffer_budget_bytes_per_rank,
        "within_buffer_budget": plan.is_within_budget,
        "kv_cache_bytes_per_rank": plan.kv_cache_bytes_per_rank,
        "kv_and_payload_bytes_per_rank": plan.kv_cache_bytes_per_rank + payload,
        "kv_and_payload_bytes_all_ranks": (plan.kv_cache_bytes_per_rank + payload) * ranks,
        "excluded": list(_EXCLUDED),
    }


def buffer_finding(
    environment: Mapping[str, str], entry: ProfileEntry, *, rank: int | None = None
) -> ProfileFinding:
    """MEM_BUDGET: the configured buffers fit the configured budget."""
    pointer = "/SPARKCACHE_BUFFER_BUDGET_BYTES"
    if not entry.sparkcache:
        return finding(
            "MEM_BUDGET", CheckResult.NOT_APPLICABLE, pointer=pointer, detail="no cache", rank=rank
        )
    try:
        plan = buffer_plan(environment, entry)
    except FormatError as error:
        return finding(
            "MEM_BUDGET",
            CheckResult.INDETERMINATE,
            pointer=f"/{error.subject}",
            detail="the plan cannot be computed",
            expected=error.expected,
            found=error.found,
            rank=rank,
        )
    budget = plan.buffer_budget_bytes_per_rank
    return finding(
        "MEM_BUDGET",
        CheckResult.PASS if plan.is_within_budget else CheckResult.FAIL,
        pointer=pointer,
        detail="configured, not measured",
        expected="no limit" if budget is None else f"at most {budget} bytes",
        found=f"{plan.payload_bytes_per_rank} bytes",
        rank=rank,
    )


def memory_finding(
    available_bytes: int | None, *, floor_bytes: int = MEMORY_FLOOR_BYTES, rank: int | None = None
) -> ProfileFinding:
    """MEM_GATE: a host has at least the operator's floor free, by default 96 GiB (§18.16)."""
    if available_bytes is None:
        return finding("MEM_GATE", CheckResult.NOT_TESTED, detail="not given: available memory", rank=rank)
    return finding(
        "MEM_GATE",
        CheckResult.PASS if available_bytes >= floor_bytes else CheckResult.FAIL,
        expected=f"at least {floor_bytes} bytes",
        found=f"{available_bytes} bytes",
        rank=rank,
    )


def number(environment: Mapping[str, str], key: str) -> int:
    """A variable as a non-negative integer, digits only.

    Raises: FormatError: absent, or something else; the subject is the variable's name.
    """
    text = environment.get(key)
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 19:
        found = "nothing" if text is None else shown(text)
        raise FormatError(key, expected="a number of up to 19 digits", found=found)
    return int(text)


def budget_object(entry: ProfileEntry, *, step_rows: Sequence[int]) -> JsonObject:
    """Rows and per-rank pool bytes of a profile; the pool in tokens is the receipted reading or null."""
    tp, dcp = entry.tensor_parallel_size, entry.decode_context_parallel_size
    receipted = RECEIPTED_POOL.get((tp, dcp))
    return {
        "rows": [
            {"rows": rows, "owner_rows_per_rank": split_rows(rows, tensor_parallel_size=tp)}
            for rows in step_rows
        ],
        "kv_cache_bytes_per_rank": entry.kv_cache_memory_bytes,
        "kv_cache_bytes_all_ranks": entry.kv_cache_memory_bytes * entry.node_count,
        "receipted_pool_tokens": receipted,
        "pool_window_tokens": list(pool_window(receipted)) if receipted is not None else None,
    }


_EXCLUDED: Final = (
    "weights",
    "CUDA control arrays",
    "Python and read buffers",
    "shared-base retention",
    "transport",
    "compile workspaces",
    "allocator overhead",
)
