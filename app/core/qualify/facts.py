"""What a document states, frozen: the only thing a rule may read (evidence-model §5, §7, §8, §16).

``DocumentFacts`` holds what is said once (identity of the document, carriers of status words, lifecycle,
pins) and a tuple of ``Case``: one restore, profile, selection or run each, for one capability, with its
own complete subject. A status map or a document with several selections therefore yields one outcome per
case and capability (§7.5). Every value is a ``Fact``: ``Found`` with its pointer and basis, or
``Missing`` with the gap. There is no place for "anything else": what has no field here is not evidence.

Which rule reads what is said at each class. Times and rates stand in ``Timing`` only and are shown, never
judged; the two exceptions of §7.3 (a headline value that is no rank's value, a fence phase above zero)
have fields.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from app.core.qualify.activation_facts import Activation
from app.core.qualify.claim import Claim
from app.core.qualify.gates import (
    Control,
    Counters,
    Drill,
    EmbeddedDigest,
    Fault,
    Oracle,
    PageTailChain,
    Pin,
    RankProof,
    Restart,
    Rollback,
    ScopeProbe,
    Span,
)
from app.core.qualify.subject import ImageMention, LabelsOnlyLink, RegistryPair, Subject
from app.core.qualify.values import UNMAPPED, Basis, Fact, Number


class Kind(StrEnum):
    """Kind of document (§3); ``Ceiling`` says what a kind can carry at most."""

    RESTORE_RECEIPT = "restore-receipt"
    REJECTION_RECEIPT = "rejection-receipt"
    PROPERTY_RECEIPT = "property-receipt"
    """Recovery, isolation, capture, capacity or readiness: one property other than a right restore."""
    SERVING_RECEIPT = "serving-receipt"
    CONSTRUCTION_RECEIPT = "construction-receipt"
    PUBLICATION_RECEIPT = "publication-receipt"
    COMPONENT_RECEIPT = "component-receipt"
    PERFORMANCE_RECORD = "performance-record"
    WITHDRAWAL = "withdrawal"
    DESIGN = "design"
    RELEASE_STATUS = "release-status"
    NO_VERDICT = "no-verdict"
    """Catalogue, profile, selection, lock, contract, preimages, input document … (last row of §3)."""
    UNKNOWN = "unknown"
    """Schema unknown or absent: kept, shown, never counts (``SCHEMA_UNKNOWN``, ``SCHEMA_ABSENT``)."""


class Capability(StrEnum):
    """What a receipt speaks about; each needs its own gates (§5)."""

    RESTORE = "restore"
    RECOVERY = "recovery"
    ISOLATION = "isolation"
    CAPTURE = "capture"
    CAPACITY = "capacity"
    READINESS = "readiness"
    SERVING = "serving"
    CONSTRUCTION = "construction"
    PUBLICATION = "publication"
    COMPONENT = "component"
    SOURCE = "source"
    PERFORMANCE = "performance"
    LIFECYCLE = "lifecycle"
    DESIGN = "design"
    CATALOGUE = "catalogue"
    PROFILE = "profile"
    SELECTION = "selection"
    CONFIGURATION = "configuration"
    ANALYSIS = "analysis"
    HOST = "host"
    EQUIVALENCE = "equivalence"
    SCHEMA = "schema"
    UNKNOWN = "unknown"


class StatusClass(StrEnum):
    """Class of a status word (§2.2); whole strings are compared, unknown words are ``?``."""

    QUALIFIED = "Q"
    IMPLEMENTED = "I"
    RESEARCH = "R"
    UNSUPPORTED = "U"
    NEGATIVE = "N"
    PENDING = "P"
    CHECK = "V"
    POLICY = "policy"
    NONE = "none"
    """A boolean: it may take Q away or deny admission by its level, it declares nothing."""
    UNKNOWN = "?"


class CarrierLevel(StrEnum):
    """Where a status word sits and what it may do (§2.3)."""

    DOCUMENT = "document"
    """In the status column of Appendix B: enters the declared class."""
    CASE = "case"
    """In the status column, for one case only (``/selections/*/status``): enters that case's class."""
    MAP = "map"
    """One key of a status map: declares for ``Carrier.capability`` only, never for the whole."""
    ADMISSION = "admission"
    """``/admission/*``, ``/candidate/*``: false gives ``ADMISSION_DENIED``."""
    FLAG = "flag"
    """A qualification boolean: false takes Q away and declares nothing, true declares nothing."""
    CHECK = "check"
    """``checks_passed``, ``validation_passed``: never raises anything."""
    NESTED = "nested"
    """Of an arm, candidate, component, gate or rank: shown (``NESTED_REJECTION``), never enters a class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """One status word. Read by row 1, row 2 (``GATE_DECLARED_FAILED``), row 3, row 5 (``STATUS_ABSENT``,
    ``STATUS_WORD_UNKNOWN``, ``PENDING_CHECK``) and row 7 of §7.3.

    ``word`` is the string as written (trimmed), or ``true``/``false``. ``capability`` is set for ``MAP``
    keys that speak about one capability. ``key`` is the last step of the pointer.
    """

    pointer: str
    word: str
    status: StatusClass
    level: CarrierLevel
    key: str
    capability: Capability | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing that was tried, for one capability: rules judge case by case.

    ``name`` is stable within the document; ``subject`` is complete (the document's, the case's own axes
    over it).
    """

    name: str
    pointer: str
    capability: Capability
    subject: Subject
    carriers: tuple[Carrier, ...] = ()
    span: Span = field(default_factory=Span)
    ranks: RankProof = field(default_factory=RankProof)
    oracle: Oracle = field(default_factory=Oracle)
    control: Control = field(default_factory=Control)
    rollback: Rollback = field(default_factory=Rollback)
    restart: Restart = field(default_factory=Restart)
    fault: Fault = field(default_factory=Fault)
    drill: Drill = field(default_factory=Drill)
    isolation: tuple[ScopeProbe, ...] = ()
    drain: Counters = field(default_factory=Counters)
    readiness: Counters = field(default_factory=Counters)


class Meaning(StrEnum):
    """What an annotated sentence or a structured field means for a rule (Appendix B.3)."""

    ANSWER_ATTESTED = "answer-attested"
    """The sentence says the restored or served answer was right (``SEMANTIC_ATTESTED_ONLY``)."""
    ORACLE_SUFFIX = "oracle-suffix"
    """The answer was compared by its end only (``ORACLE_NOT_EXACT``)."""
    FAULT_RECOVERED = "fault-recovered"
    KNOWN_FAILURE = "known-failure"
    OPEN_DEFECTS = "open-defects"
    WRITER_OTHER_IMAGE = "writer-other-image"
    IMAGE_NOT_UNIFORM = "image-not-uniform"
    EVIDENCE_OTHER_IMAGE = "evidence-other-image"
    RAW_EVIDENCE_NOT_RETAINED = "raw-evidence-not-retained"
    PENDING_CHECK = "pending-check"
    WAIVED_FAILURE = "waived-failure"
    CONFIG_FAILS_CLOSED = "config-fails-closed"
    CLAIM_WITHDRAWN = "claim-withdrawn"
    CLAIM_AMENDED = "claim-amended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A fact that stands only in a sentence (basis attested, ``phrase`` names the annotation that
    matched) or in a field made for it (basis demonstrated, ``phrase`` empty). Each meaning has the
    finding of the same name.

    ``image`` is set where the remark is about another image than the subject's: a known failure of one's
    own image blocks, one of another image is a lifecycle fact for that image's receipts.
    """

    meaning: Meaning
    pointer: str
    basis: Basis
    text: str
    phrase: str = ""
    image: Fact[str] = UNMAPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A sentence shown to people and added up over receipts (``established``, ``not_established``); never
    judged."""

    text: str
    pointer: str
    establishes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Numbers per rank, physical order (§12): shown, never judged. ``unit`` is ``ns``, ``ms`` or ``s``."""

    pointer: str
    name: str
    unit: str
    ranks: tuple[int, ...]
    values: tuple[Number, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Row 3 (``ADMISSION_DENIED``) and §7.4: ``published`` and ``clean_pull`` false are ``NOT_PUBLISHED``
    and ``CLEAN_PULL_UNPROVEN``/``PENDING_CHECK``."""

    deployable: Fact[bool] = UNMAPPED
    qualified: Fact[bool] = UNMAPPED
    reason: Fact[str] = UNMAPPED
    published: Fact[bool] | Fact[str] = UNMAPPED
    clean_pull: Fact[bool] = UNMAPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """Another artifact must not be used: ``ARTIFACT_WITHDRAWN`` for every receipt with the same release or
    manifest digest (row 1)."""

    manifest_digest: Fact[str]
    reason: Fact[str]
    replacement_release: Fact[str]
    replacement_digest: Fact[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """What the document says about other receipts and artifacts (§7.5, §8)."""

    release: Fact[str] = UNMAPPED
    withdrawal: Withdrawal | None = None
    supersedes_schema: Fact[str] = UNMAPPED
    """``/normalization``: the named schema's receipt of the same artifact is superseded, its claim
    withdrawn."""
    supersedes_reason: Fact[str] = UNMAPPED
    measurements_changed: Fact[bool] = UNMAPPED
    mentions: tuple[ImageMention, ...] = ()
    """Other images: predecessor (excluded), parent (not upgraded), evidence image, rollback target …"""
    labels_only: tuple[LabelsOnlyLink, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFacts:
    """What the declarative table says about the schema: kind, ceiling, validator. Rows 3 to 5 of §7.3."""

    schema: Fact[str]
    kind: Kind
    capability: Capability
    family: str
    ceilings: tuple[str, ...] = ()
    """Ceiling codes of Appendix B.2 and ``SCHEMA_CEILING`` of research and rejected schemas."""
    no_verdict: str = ""
    """``NOT_A_RECEIPT:…``, ``INPUT_DOCUMENT``, ``CATALOGUE_STATEMENT`` …; empty where a verdict is
    possible."""
    sparkcache: bool = True
    """False: LMCache or no external cache (``NOT_SPARKCACHE``)."""
    status_column: tuple[str, ...] = ()
    """Where a document of this schema says its own status; empty where only its cases do."""
    validator: str = ""
    """Name of the schema's own validator (§10), whose errors stand in for a status word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFacts:
    """Everything the rules may know about one document.

    ``sha256`` is over its bytes and is the receipt's key; ``canonical_sha256`` (§11) is a second column.
    ``payloads`` are row 2's embedded digests; ``chain`` and ``activation`` feed the two own validators.
    """

    sha256: str
    canonical_sha256: str
    byte_count: int
    schema: SchemaFacts
    subject: Subject
    carriers: tuple[Carrier, ...] = ()
    cases: tuple[Case, ...] = ()
    admission: Admission = field(default_factory=Admission)
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    registry: tuple[RegistryPair, ...] = ()
    pins: tuple[Pin, ...] = ()
    payloads: tuple[EmbeddedDigest, ...] = ()
    remarks: tuple[Remark, ...] = ()
    statements: tuple[Statement, ...] = ()
    timings: tuple[Timing, ...] = ()
    chain: PageTailChain | None = None
    activation: Activation | None = None
    claim: Claim | None = None
    """What the document says of a claim in another one (``sparkgate-claim/v1``)."""
