"""What one case says about each gate (evidence-model §5, Appendix B): ranks, oracle, control, rollback,
restart, fault, isolation, drain, readiness. Only statements; the states of the gates are the rules'
business.
"""

from dataclasses import dataclass
from enum import StrEnum

from app.core.qualify.values import UNMAPPED, Basis, Fact, Found, Number


class PinForm(StrEnum):
    """What a pinned digest covers."""

    RAW = "raw-bytes"
    CANONICAL = "canonical-json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A digest of another document or file (``PIN_MISMATCH``, ``PIN_OTHER_COMMIT``,
    ``PIN_TARGET_ABSENT``).

    ``path`` is the target's path in the repository, ``sibling`` its name in the folder of this document;
    both empty where only a name or nothing is known: such a pin proves retention, not a link.
    """

    pointer: str
    sha256: Fact[str]
    name: str
    path: str = ""
    sibling: str = ""
    form: PinForm = PinForm.RAW


class RankForm(StrEnum):
    """How a case proves its ranks (Appendix B, rank column), strongest first."""

    RECORDS = "records"
    """A record per rank with an outcome or a token count."""
    VECTOR = "vector"
    """A vector or rank map of full length; it counts by its length, its values are timing."""
    LIST = "list"
    """A list of rank numbers."""
    SUMMARY = "summary"
    """One value or a range for all ranks (``RANK_SUMMARY_ONLY``)."""
    ATTESTED = "attested"
    """A boolean or a count."""
    NONE = "none"
    """Nothing at all is said per rank (``NO_RANK_RESTORE_PROOF``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedDigest:
    """A canonical digest (§11) that covers a part of its own document; unequal is
    ``PAYLOAD_DIGEST_MISMATCH``."""

    declared: Fact[str]
    computed: Fact[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecord:
    """One rank's own record. Structural gate (rank set, outcome, equal digest, span, bytes, objects:
    ``RANK_MISSING``, ``RANK_DIVERGENCE``, ``PARTIAL_RANK_FAILURE``), placement gate (``fence_ms`` > 0)."""

    pointer: str
    rank: Fact[int]
    outcome: Fact[str] = UNMAPPED
    """``verified`` or ``recompute`` upstream, ``restored`` and the others of ``RankOutcome`` in our own."""
    restored_tokens: Fact[int] = UNMAPPED
    byte_count: Fact[int] = UNMAPPED
    object_count: Fact[int] = UNMAPPED
    restore_count: Fact[int] = UNMAPPED
    context_prefix: Fact[str] = UNMAPPED
    """The context digest in full or its first 12 digits; resolves inside this receipt only."""
    new_process: Fact[bool] = UNMAPPED
    fence_ms: Fact[Number] = UNMAPPED
    payload: EmbeddedDigest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankVector:
    """A list or rank map with one number per rank; rules read ``ranks`` (its length), never ``values``
    unless ``must_be_equal`` (bytes per rank: unequal is ``RANK_DIVERGENCE``)."""

    pointer: str
    ranks: tuple[int, ...]
    values: tuple[Number, ...]
    must_be_equal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A headline number that must be one of a vector's values, else ``RANK_VALUE_UNBOUND`` (blocking) or,
    where upstream's validator does not bind it, ``COMMIT_MS_UNBOUND`` (warning)."""

    value: Fact[Number]
    vector: str
    blocking: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RankProof:
    """Everything a case says per rank. ``form`` is the strongest form present."""

    form: RankForm = RankForm.NONE
    records: tuple[RankRecord, ...] = ()
    vectors: tuple[RankVector, ...] = ()
    listed: tuple[Found[tuple[int, ...]], ...] = ()
    summaries: tuple[str, ...] = ()
    """Pointers of single values and ranges that speak for all ranks."""
    counted: Fact[int] = UNMAPPED
    all_verified: Fact[bool] = UNMAPPED
    headlines: tuple[Headline, ...] = ()


class OracleForm(StrEnum):
    """How a case proves its answer (Appendix B, oracle column)."""

    EXPECTED_AND_OBSERVED = "expected-and-observed"
    SELF_CONSISTENT = "self-consistent"
    ATTESTED = "attested"
    EXPECTED_ONLY = "expected-only"
    """What was expected is recorded, nothing about what came (``SEMANTIC_MISSING``)."""
    NONE = "none"


class Agreement(StrEnum):
    """The comparison a writer made; only ``EXACT`` can qualify (``ORACLE_NOT_EXACT``,
    ``ORACLE_CONTAINS``)."""

    EXACT = "exact"
    CONTAINS = "contains"
    SUFFIX = "suffix"
    UNSTATED = "unstated"


class AnswerOf(StrEnum):
    """Which request the answer belongs to: the semantic gate of restore takes ``RESTORED`` only."""

    RESTORED = "restored-request"
    OTHER = "other-request"
    """A canary or short request beside the restore (``CANARY_UNRELATED``)."""
    SERVED = "served-request"
    """No restore involved; counts for serving, readiness and recovery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two answers and the writer's flag. Semantic gate and control: expected ≠ observed after strip and
    lower is ``SEMANTIC_ORACLE_MISMATCH``, flag ≠ comparison ``SEMANTIC_CONTRADICTION``;
    ``response_sha256`` is re-checked against ``observed`` (§5, ``RESPONSE_DIGEST_UNEXPLAINED``)."""

    pointer: str
    expected: Fact[str] = UNMAPPED
    observed: Fact[str] = UNMAPPED
    flag: Fact[bool] = UNMAPPED
    response_sha256: Fact[str] = UNMAPPED
    prompt_sha256: Fact[str] = UNMAPPED
    finish_reason: Fact[str] = UNMAPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class Attestation:
    """A boolean, a count, a word or an annotated sentence about an answer; its text as written.

    A boolean says what it is, a count above zero and a word of class V say yes, a word of class N says
    no. Any other word, and a count of zero, attests nothing and is not listed.
    """

    pointer: str
    says: bool
    text: str
    count: int | None = None
    """How many answers were right, where the record counts them: so many must be there, if any is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """The semantic gate's input. ``basis`` is the grade a pass would have (``evidence_grade``).

    ``form`` is the strongest form for which something is there, not the one the schema could have; an
    oracle whose answers are all missing has form ``none`` or ``expected-only`` (``SEMANTIC_MISSING``). A
    comparison may still lack one side: then that comparison is missing. ``attested`` that says no is
    ``SEMANTIC_ORACLE_MISMATCH``. ``elsewhere`` names a pinned document whose cases hold the comparisons
    (split-page, composition) and, where this case has none, the ranks: the caller joins it by digest or
    path, which raises form and basis to that document's.
    """

    form: OracleForm = OracleForm.NONE
    basis: Basis | None = None
    agreement: Agreement = Agreement.UNSTATED
    answers: AnswerOf = AnswerOf.RESTORED
    comparisons: tuple[Comparison, ...] = ()
    attested: tuple[Attestation, ...] = ()
    unsaid: tuple[str, ...] = ()
    """Where an attestation of the schema should stand and nothing does: a hole in what is attested."""
    published: Comparison | None = None
    """The answer given before the restore, where it is recorded: its digest must equal the restored
    one's."""
    inconclusive: Fact[str] = UNMAPPED
    """Why no answer can be compared although the request ran: cut by length, ``semantic_match`` null, a
    text comparison the record itself does not call a gate (``SEMANTIC_INCONCLUSIVE``)."""
    elsewhere: Pin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One token changed, recomputed on the same image (``CONTROL_PASSED``, ``_FAILED``, ``_MISSING``)."""

    comparison: Comparison | None = None
    relationship: Fact[str] = UNMAPPED
    restored_count: Fact[int] = UNMAPPED
    """Cold control: requests that restored although the scheduler did not know the inventory yet."""
    recomputed_count: Fact[int] = UNMAPPED
    """Cold control: requests that recomputed safely (``RECOVERED_BY_RECOMPUTE``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """The image to go back to (``ROLLBACK_PASSED``, ``ROLLBACK_NAMED``, ``ROLLBACK_RECHECK_PENDING``)."""

    image: Fact[str] = UNMAPPED
    recomputed: Fact[bool] = UNMAPPED
    comparison: Comparison | None = None
    recheck: Fact[str] = UNMAPPED
    live_tested: Fact[bool] = UNMAPPED


class RestartKind(StrEnum):
    """Three different values of the restart gate, and what is left open."""

    PROCESS = "process"
    CONTAINER = "container"
    HOST = "host"
    ENGINE = "engine"
    UNSTATED = "unstated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Processes replaced between publication and restore (``RESTART_NOT_TESTED``)."""

    kind: RestartKind = RestartKind.UNSTATED
    happened: Fact[bool] = UNMAPPED
    """A boolean of the record, or true (attested) where the record has a block or sentence about it."""
    image_unchanged: Fact[bool] = UNMAPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault put in or met (``FAULT_RECOVERED``, ``CORRUPTION_NOT_REJECTED``,
    ``RECOVERED_BY_RECOMPUTE``)."""

    kind: Fact[str] = UNMAPPED
    rank: Fact[int] = UNMAPPED
    rejected: Fact[bool] = UNMAPPED
    """Whether corrupt content was refused; true (attested) where ``reason`` is a sentence that says so."""
    reason: Fact[str] = UNMAPPED
    recoveries: Fact[int] = UNMAPPED
    recovered: Fact[bool] = UNMAPPED
    recovery: Fact[str] = UNMAPPED
    """How the state came back, in the record's words."""
    rescheduled: Fact[int] = UNMAPPED
    engine_error: Fact[bool] = UNMAPPED
    fallback_tokens: Fact[int] = UNMAPPED
    fallback_expected: Fact[int] = UNMAPPED
    comparison: Comparison | None = None
    attested: tuple[Attestation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """A fault put in on purpose by whoever ran the case: whatever it shows, it is no evidence for or
    against what ran (``INJECTED_FAULT``). ``noted`` is there as soon as anything stands where a fault would
    be named."""

    noted: Fact[bool] = UNMAPPED
    fault: Fact[str] = UNMAPPED
    rank: Fact[int] = UNMAPPED


class ScopeExpectation(StrEnum):
    """What a probe of an isolation run must show (Appendix B.1), by the name of the probe."""

    NOTHING = "nothing"
    """Another scope or an empty store: 0 tokens on every rank; more is ``SCOPE_LEAK``."""
    EVERY_RANK = "every-rank"
    """The own scope: more than 0 tokens on every rank."""
    LAST_NOTHING = "last-nothing"
    """Several requests, the last of another scope: its value must be 0."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeProbe:
    """One probe of an isolation run: cached tokens per request, restored tokens per rank."""

    pointer: str
    name: str
    expects: ScopeExpectation
    cached_tokens: tuple[Fact[int], ...]
    worker_totals: tuple[RankRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Numbers that must all be zero (capture after the drain, events after readiness)."""

    zero: tuple[Fact[Number], ...] = ()
    observed: Fact[Number] = UNMAPPED
    """That there was anything to observe: restored prefix tokens, cycles run, more than 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What was restored; bounds ``established`` (context reached), never a gate. API ``cached_tokens``
    alone is not evidence of a restore."""

    context_digest: Fact[str] = UNMAPPED
    prompt_sha256: Fact[str] = UNMAPPED
    prompt_tokens: Fact[int] = UNMAPPED
    restored_tokens: Fact[int] = UNMAPPED
    cached_tokens: Fact[int] = UNMAPPED
    concurrency: Fact[int] = UNMAPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainDelta:
    """One delta of a page-tail receipt, for the chain rules of its validator (§10)."""

    pointer: str
    context_digest: Fact[str]
    manifest_schema: Fact[str]
    base_context_digest: Fact[str]
    base_committed_tokens: Fact[int]
    committed_tokens: Fact[int]
    base_snapshot_bytes: Fact[int]
    delta_encoded_bytes: Fact[int]
    result_snapshot_bytes: Fact[int]
    result_snapshot_sha256: Fact[str]
    commit_ms: Fact[Number]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTailChain:
    """Input of the page-tail validator (§10): chain, result and flags; vectors and answers are in the
    case."""

    runner: Fact[str]
    base_context_digest: Fact[str]
    base_committed_tokens: Fact[int]
    base_snapshot_bytes: Fact[int]
    deltas: tuple[ChainDelta, ...]
    result_context_digest: Fact[str]
    result_committed_tokens: Fact[int]
    result_snapshot_sha256: Fact[str]
    unique_bytes: Fact[int]
    logical_bytes: Fact[int]
    lookup_reason: Fact[str]
    byte_exact_restores: Fact[bool]
    complete_snapshot_equal: Fact[bool]
    corruption_rejected: Fact[bool]
