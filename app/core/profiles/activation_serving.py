"""Rules about what a whole deployment showed: limit, pool, long prefill, cache, and what stands beside
(profile-contract §11.2 steps 8 to 11, §14 G-4 to G-9).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from app.core.canonical_json import ExactValue
from app.core.profiles.activation_terms import ActivationReceipt, Member, Terms, is_finite, is_number
from app.core.profiles.budget import pool_finding
from app.core.profiles.codes import Severity
from app.core.profiles.contract import Contract
from app.core.profiles.findings import CheckResult, ProfileFinding
from app.core.profiles.profile_entry import ProfileEntry
from app.core.qualify.activation_bounds import LONG_PROMPT_TOKENS, LONG_REQUESTS, REUSED_BLOCK_TOKENS

_LONG: Final = "long_prefill_sample_tokens"
_CACHE_COUNTERS: Final = ("capture_jobs_completed", "restores_completed", "recoveries_after_fault")


def serving_findings(
    receipt: ActivationReceipt, *, contract: Contract, terms: Terms
) -> Iterator[ProfileFinding]:
    """Step 8."""
    member, wanted = receipt.member("serving", "max_model_len"), contract.model.max_model_len
    yield terms.say("ACT_SERVING", terms.equal(member.value, wanted), member, expected=wanted)
    for name in ("prefill_decode_passed", "correctness_passed"):
        member = receipt.member("serving", name)
        yield terms.say("ACT_SERVING", member.value is True, member, expected="true")


def pool_findings(
    receipt: ActivationReceipt,
    *,
    entry: ProfileEntry,
    terms: Terms,
    pools: Mapping[tuple[int, int], int],
    binds_degrees: bool,
) -> Iterator[ProfileFinding]:
    """Step 9. Strictly also the window, which blocks where nothing in the receipt binds DCP (§14 G-1)."""
    member = receipt.member("serving", "kv_capacity_tokens")
    good = terms.positive(member.value)
    yield terms.say("ACT_KV", good, member, expected="a number above 0")
    if terms.strict and good and is_number(member.value):
        yield pool_finding(
            member.value,
            tensor_parallel_size=entry.tensor_parallel_size,
            decode_context_parallel_size=entry.decode_context_parallel_size,
            blocks=not binds_degrees,
            receipted=pools,
            pointer=member.pointer,
        )


def long_prefill_findings(
    receipt: ActivationReceipt, *, entry: ProfileEntry, terms: Terms
) -> Iterator[ProfileFinding]:
    """Step 10, of the four-node ring only."""
    code = "ACT_LONG_PREFILL"
    if not entry.is_tp4:
        yield terms.without(code, CheckResult.NOT_APPLICABLE, detail="asked of TP4 only")
        return
    member = receipt.member(_LONG, "bounded")
    yield terms.say(code, member.value is True, member, expected="true")
    for name, minimum in (("prompt_tokens", LONG_PROMPT_TOKENS), ("completed_requests", LONG_REQUESTS)):
        member = receipt.member(_LONG, name)
        good = terms.at_least(member.value, minimum)
        yield terms.say(code, good, member, expected=f"an integer ≥ {minimum}")
    for name in ("timeouts", "fatal_engine_errors"):
        member = receipt.member(_LONG, name)
        yield terms.say(code, terms.equal(member.value, 0), member, expected="0")


def cache_findings(
    receipt: ActivationReceipt, *, entry: ProfileEntry, terms: Terms
) -> Iterator[ProfileFinding]:
    """Step 11: what a profile with the cache must show, and that one without it did not use it."""
    enabled = receipt.member("sparkcache", "enabled")
    if not entry.sparkcache:
        yield terms.say("ACT_CACHE_NOT_DISABLED", enabled.value is False, enabled, expected="false")
        return
    for name in _CACHE_COUNTERS:
        member = receipt.member("sparkcache", name)
        yield terms.say(
            "ACT_CACHE_COUNTER", terms.positive(member.value), member, expected="a number above 0"
        )
    member = receipt.member("sparkcache", "payload_correctness_passed")
    yield terms.say("ACT_CACHE_PAYLOAD", member.value is True, member, expected="true")
    if terms.strict:
        yield terms.say("ACT_CACHE_ENABLED", enabled.value is True, enabled, expected="true")


def extra_findings(
    receipt: ActivationReceipt, *, entry: ProfileEntry, terms: Terms
) -> Iterator[ProfileFinding]:
    """Reuse and restore blocks: absent warns, malformed blocks (§14 G-6)."""
    if not receipt.has("prefix_reuse"):
        yield _absent("prefix_reuse", terms=terms)
    else:
        yield from _reuse(receipt, terms=terms)
    if receipt.has("restart_restore"):
        yield from _restart(receipt, entry=entry, terms=terms)
    elif entry.sparkcache:
        yield _absent("restart_restore", terms=terms)
    else:
        yield terms.without(
            "ACT_EXTRA_SHAPE",
            CheckResult.NOT_APPLICABLE,
            detail="no cache, no restore",
            pointer="/restart_restore",
        )


def _absent(name: str, *, terms: Terms) -> ProfileFinding:
    member = Member(pointer=f"/{name}", value=None)
    return terms.say("ACT_EXTRA_SHAPE", False, member, expected="the block", severity=Severity.WARNS)


def _reuse(receipt: ActivationReceipt, *, terms: Terms) -> Iterator[ProfileFinding]:
    code, block = "ACT_EXTRA_SHAPE", receipt.member("prefix_reuse")
    if not isinstance(block.value, dict):
        yield terms.say(code, False, block, expected="an object")
        return
    queried, cached = (receipt.member("prefix_reuse", name) for name in ("queried_tokens", "cached_tokens"))
    for member in (queried, cached):
        good = type(member.value) is int and member.value >= 0
        yield terms.say(code, good, member, expected="an integer ≥ 0")
    if type(queried.value) is int and type(cached.value) is int:
        fits = cached.value <= queried.value and cached.value % REUSED_BLOCK_TOKENS == 0
        expected = f"a multiple of {REUSED_BLOCK_TOKENS}, at most {queried.value}"
        yield terms.say(code, fits, cached, expected=expected)


def _restart(receipt: ActivationReceipt, *, entry: ProfileEntry, terms: Terms) -> Iterator[ProfileFinding]:
    code, block = "ACT_EXTRA_SHAPE", receipt.member("restart_restore")
    if not isinstance(block.value, dict):
        yield terms.say(code, False, block, expected="an object")
        return
    for name in ("planned_restart_ms_per_rank", "fault_recovery_ms_per_rank"):
        member = receipt.member("restart_restore", name)
        good = _are_times(member.value, count=entry.node_count)
        yield terms.say(code, good, member, expected=f"{entry.node_count} numbers above 0")


def _are_times(value: ExactValue, *, count: int) -> bool:
    if not isinstance(value, list) or len(value) != count:
        return False
    return all(is_number(one) and is_finite(one) and one > 0 for one in value)
