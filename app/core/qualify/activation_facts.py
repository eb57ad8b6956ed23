"""What an activation receipt says, field by field (profile-contract §11.1, §18.7): only forms are read here,
whether the values keep the rules is the rules' business.
"""

from dataclasses import dataclass

from app.core.qualify.values import Fact, Number


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationRank:
    """One element of ``ranks``. The last five fields are those of our own schema; ``loaders`` are the
    counters of either loader, ``allocations`` the first of them that is a number."""

    pointer: str
    rank: Fact[int]
    image: Fact[str]
    nccl_version: Fact[str]
    domains: Fact[tuple[str, ...]]
    graphs: Fact[tuple[int, ...]]
    allocations: Fact[Number]
    loaders: tuple[Fact[Number], ...]
    draft_tokens: Fact[Number]
    sharded_calls: Fact[Number]
    coalesced_groups: Fact[Number]
    collectives: Fact[Number]
    sircl: Fact[Number]
    rocenante: Fact[Number]
    prefill_rows: Fact[int]
    owner_rows: Fact[tuple[int, ...]]
    observed_tp: Fact[int]
    observed_dcp: Fact[int]
    host: Fact[str]
    container: Fact[str]
    started_at: Fact[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedImage:
    """The image receipt inside (§9.3). ``true_flags`` and ``false_flags`` are what must be true and false."""

    schema: Fact[str]
    true_flags: tuple[Fact[bool], ...]
    false_flags: tuple[Fact[bool], ...]
    platform: Fact[str]
    config_id: Fact[str]
    reference: Fact[str]
    artifact_lock: Fact[str]
    components: tuple[Fact[str], ...]
    source_lock: Fact[str]
    nccl_version: Fact[str]
    bundle: Fact[str]
    bundle_checked: Fact[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LongPrefill:
    """The long prefill of the four-node ring (§11.2 step 10)."""

    bounded: Fact[bool]
    prompt_tokens: Fact[int]
    completed_requests: Fact[int]
    timeouts: Fact[int]
    fatal_errors: Fact[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityWindow:
    """What else a host did meanwhile (§18.7)."""

    rank: Fact[int]
    begin: Fact[str]
    end: Fact[str]
    what: Fact[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """Everything the activation rules ask of the document itself (profile-contract §11, §14).

    A length stands for a list whose elements are read one by one; ``evidence_places`` are the fields that
    name evidence in its form, or the entries that do not.
    """

    checks_passed: Fact[bool]
    profile: Fact[str]
    contract_sha256: Fact[str]
    image: Fact[str]
    embedded: EmbeddedImage
    rank_list: Fact[int]
    ranks: tuple[ActivationRank, ...]
    max_model_len: Fact[int]
    correctness_passed: Fact[bool]
    prefill_decode_passed: Fact[bool]
    kv_capacity_tokens: Fact[Number]
    long_prefill: LongPrefill
    cache_enabled: Fact[bool]
    captures: Fact[Number]
    restores: Fact[Number]
    recoveries: Fact[Number]
    payload_correct: Fact[bool]
    reuse: Fact[int]
    queried_tokens: Fact[int]
    cached_tokens: Fact[int]
    restart: Fact[int]
    restart_times: Fact[tuple[Number, ...]]
    recovery_times: Fact[tuple[Number, ...]]
    activity: Fact[int]
    windows: tuple[ActivityWindow, ...]
    evidence: Fact[int]
    evidence_places: tuple[Fact[str], ...]
