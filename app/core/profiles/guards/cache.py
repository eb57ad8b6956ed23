"""The cache's arm, capacities, native libraries and lease contract of one rank (profile-contract §5.2, §5.3).

Upstream holds capacities on the arms with a cache only; here pool and limit are held on every arm (gap G-11).
"""

from collections.abc import Iterator
from typing import Final

from app.core.errors import FormatError
from app.core.profiles.budget import buffer_finding, memory_finding, number
from app.core.profiles.findings import CheckResult, ProfileFinding
from app.core.profiles.guards.case import RankCase
from app.core.profiles.guards.native import native_findings
from app.core.profiles.namespace import SAFE_NAME, derive_namespace, derived_finding, isolated_finding

NAMESPACE_VARIABLE: Final = "SPARKCACHE_CACHE_NAMESPACE"
TTL_VARIABLE: Final = "SPARKCACHE_SHARED_PREFIX_LEASE_TTL_SECONDS"
CAPTURE_VARIABLE: Final = "SPARKCACHE_ASYNC_PAGE_CAPTURE"
ACCESS_VARIABLE: Final = "SPARKCACHE_ACCESS_MODE"
KV_VARIABLE: Final = "KV_CACHE_MEMORY_BYTES"
KV_AUTO_BYTES: Final = 25_769_803_776
"""What the launcher takes for ``auto`` (§5.3)."""
MAX_TTL_SECONDS: Final = 300
NORMAL: Final = ("1", "read-write")
DIAGNOSTIC: Final = ("0", "restore-only")
# All cache values of §4.2 but the lease's time to live, the arm itself and the namespace.
BOUNDED: Final = (
    "SPARKCACHE_ASYNC_CAPTURE_SLOT_BYTES",
    "SPARKCACHE_ASYNC_CAPTURE_SLOT_COUNT",
    "SPARKCACHE_LOAD_THREADS",
    "SPARKCACHE_MAX_PENDING_RESTORES",
    "SPARKCACHE_CUDA_RESTORE_IO_WORKERS",
    "SPARKCACHE_CUDA_ARENA_BYTES",
    "SPARKCACHE_BUFFER_BUDGET_BYTES",
    "SPARKCACHE_MAX_BYTES",
    "SPARKCACHE_LOW_WATERMARK_BYTES",
    "SPARKCACHE_MIN_SPAN_TOKENS",
    "SPARKCACHE_MAX_SPAN_TOKENS",
    "SPARKCACHE_PUBLICATION_SCHEMA",
)


def cache_findings(case: RankCase) -> Iterator[ProfileFinding]:
    """GUARD_CACHE_MODE, GUARD_CAPACITY, GUARD_NATIVE, GUARD_LEASE, MEM_BUDGET, MEM_GATE, NS_DERIVED and
    NS_DIAG_ISOLATED of one rank."""
    yield from _mode(case) if case.entry.sparkcache else _off(case)
    yield from _capacity(case)
    yield from _native(case)
    yield buffer_finding(case.environment, case.entry, rank=case.observed.rank)
    yield memory_finding(case.available_bytes, floor_bytes=case.memory_floor_bytes, rank=case.observed.rank)
    yield from _namespace(case)


def _off(case: RankCase) -> Iterator[ProfileFinding]:
    yield case.compared("GUARD_CACHE_MODE", "SPARKCACHE_ENABLED", "0", detail="a profile without a cache")
    if case.environment.get(CAPTURE_VARIABLE, "0") != "0":
        yield case.compared("GUARD_CACHE_MODE", CAPTURE_VARIABLE, "0", detail="a profile without a cache")


def _mode(case: RankCase) -> Iterator[ProfileFinding]:
    yield case.compared("GUARD_CACHE_MODE", "SPARKCACHE_ENABLED", "1", detail="a cache profile")
    pair = (case.environment.get(CAPTURE_VARIABLE), case.environment.get(ACCESS_VARIABLE))
    permitted = NORMAL if case.diagnostic_namespace is None else DIAGNOSTIC
    yield case.result(
        "GUARD_CACHE_MODE",
        CheckResult.PASS if pair == permitted else CheckResult.FAIL,
        key=ACCESS_VARIABLE,
        detail="normal start" if permitted == NORMAL else "diagnostic start",
        expected=f"capture {permitted[0]} with {permitted[1]}",
        found=f"capture {pair[0] or 'unset'} with {pair[1] or 'unset'}",
    )
    if permitted == DIAGNOSTIC:
        yield case.untested(
            "GUARD_CACHE_MODE", "names not published: variables of reuse tracing and clear-once"
        )


def _capacity(case: RankCase) -> Iterator[ProfileFinding]:
    code = "GUARD_CAPACITY"
    expected = str(case.entry.kv_cache_memory_bytes)
    if case.environment.get(KV_VARIABLE) == "auto" and case.entry.kv_cache_memory_bytes == KV_AUTO_BYTES:
        yield case.result(code, CheckResult.PASS, key=KV_VARIABLE, expected=expected, found="auto")
    else:
        yield case.compared(code, KV_VARIABLE, expected)
    yield case.compared(code, "MAX_MODEL_LEN", str(case.contract.model.max_model_len))
    if not case.entry.sparkcache:
        return
    values = case.effective.template_values
    for key in BOUNDED:
        if key in values:
            yield case.compared(code, key, values[key], detail="value of the profile's template")
        else:
            yield case.untested(code, f"not in the given templates: {key}")
    yield _ordered(case, "SPARKCACHE_LOW_WATERMARK_BYTES", "SPARKCACHE_MAX_BYTES")
    yield _ordered(case, "SPARKCACHE_MIN_SPAN_TOKENS", "SPARKCACHE_MAX_SPAN_TOKENS")
    yield _time_to_live(case)


def _ordered(case: RankCase, lower: str, upper: str) -> ProfileFinding:
    try:
        least, most = number(case.environment, lower), number(case.environment, upper)
    except FormatError as error:
        return _unreadable(case, error)
    return case.result(
        "GUARD_CAPACITY",
        CheckResult.PASS if least <= most else CheckResult.FAIL,
        key=lower,
        expected=f"at most {upper} = {most}",
        found=str(least),
    )


def _time_to_live(case: RankCase) -> ProfileFinding:
    try:
        seconds = number(case.environment, TTL_VARIABLE)
    except FormatError as error:
        return _unreadable(case, error)
    return case.result(
        "GUARD_CAPACITY",
        CheckResult.PASS if 1 <= seconds <= MAX_TTL_SECONDS else CheckResult.FAIL,
        key=TTL_VARIABLE,
        expected=f"1 to {MAX_TTL_SECONDS} s",
        found=f"{seconds} s",
    )


def _unreadable(case: RankCase, error: FormatError) -> ProfileFinding:
    return case.result(
        "GUARD_CAPACITY", CheckResult.FAIL, key=error.subject, expected=error.expected, found=error.found
    )


def _native(case: RankCase) -> Iterator[ProfileFinding]:
    yield from native_findings(
        case.contract,
        case.entry,
        receipt=case.receipt,
        rank=case.observed.rank,
        document_sha256=case.observed.sha256,
    )
    if case.entry.sparkcache:
        yield case.untested("GUARD_NATIVE", "names not published: variables of the six native values")
        yield case.untested("GUARD_LEASE", "name not published: variable of the lease contract")
    else:
        missing = "name not published: variable of the lease contract, which must be unset"
        yield case.untested("GUARD_LEASE", missing)


def _namespace(case: RankCase) -> Iterator[ProfileFinding]:
    found = case.environment.get(NAMESPACE_VARIABLE)
    rank = case.observed.rank
    diagnostic = case.diagnostic_namespace
    if found and SAFE_NAME.fullmatch(found) is None:
        yield case.result(
            "GUARD_CAPACITY",
            CheckResult.FAIL,
            key=NAMESPACE_VARIABLE,
            expected=f"text of the form {SAFE_NAME.pattern}",
            found=found,
        )
    if diagnostic is None or not case.entry.sparkcache:
        yield derived_finding(case.entry, image_id=case.image_id, found=found, rank=rank)
        return
    yield case.compared(
        "NS_DERIVED", NAMESPACE_VARIABLE, diagnostic, detail="the site's diagnostic namespace"
    )
    if case.image_id is None:
        yield case.untested("NS_DIAG_ISOLATED", "not given: image id")
    else:
        derived = derive_namespace(case.image_id, case.entry.name)
        yield isolated_finding(
            derived=derived, diagnostic=found or diagnostic, pointer=f"/{NAMESPACE_VARIABLE}"
        )
