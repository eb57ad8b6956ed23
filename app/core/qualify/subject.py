"""What a receipt is about: image, source, model, topology, workload (evidence-model §7.1, §9).

The scope key of a verdict is image + source + model target and draft + TP + DCP + publication schema +
manifest schema; qualification holds for one scope key and never transfers. The identity gate reads
``Subject`` and nothing else: ``IDENTITY_INCOMPLETE:<axis>``, ``IDENTITY_ALIAS_ONLY``,
``TOPOLOGY_UNBOUND:<axis>``, ``IMAGE_NOT_UNIFORM``, ``UNCOMMITTED_SOURCE``, ``IDENTITY_CONFLICT``,
``DIGEST_MALFORMED`` (a ``Missing`` with gap ``malformed``).
"""

from dataclasses import dataclass, field
from enum import StrEnum

from app.core.qualify.values import UNMAPPED, Fact, Found, Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """A model by repository and revision, by digests (config, index, weights, cache identity,
    checkpoint), or only by an alias: a served name, profile id or cache namespace."""

    repository: Fact[str] = UNMAPPED
    revision: Fact[str] = UNMAPPED
    digests: tuple[Found[str], ...] = ()
    unreadable: tuple[Missing, ...] = ()
    """Where a digest should stand and something stands that can be none."""
    alias: Fact[str] = UNMAPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceIdentity:
    """The cache engine's source: commit and tree (40 digits), source digest (64, §11.4). ``wheel_sha256``
    stands in for the source of compositions built from a wheel."""

    commit: Fact[str] = UNMAPPED
    tree: Fact[str] = UNMAPPED
    sha256: Fact[str] = UNMAPPED
    wheel_sha256: Fact[str] = UNMAPPED
    uncommitted: Fact[bool] = UNMAPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Parallel degrees; a text such as ``TP4/DCP1`` counts for both axes it names."""

    tp: Fact[int] = UNMAPPED
    dcp: Fact[int] = UNMAPPED
    pp: Fact[int] = UNMAPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What was stored and how. ``publication_schema`` is the effective one, which scopes compare; operators
    may have configured it under another name (``tail-cow-v1`` for ``page-tail-cow-v1`` on page layouts)."""

    publication_schema: Fact[str] = UNMAPPED
    configured_schema: Fact[str] = UNMAPPED
    manifest_schema: Fact[str] = UNMAPPED
    storage_mode: Fact[str] = UNMAPPED
    kv_dtype: Fact[str] = UNMAPPED
    speculation: Fact[str] | Fact[int] = UNMAPPED
    cache_enabled: Fact[bool] = UNMAPPED
    """Whether the persistent cache was on at all (``NO_CACHE_EVIDENCE`` of a serving record)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankImage:
    """What one rank ran: the image, and in our own receipts the source digest of the engine that restored.
    Ranks that differ in either are ``IMAGE_NOT_UNIFORM``."""

    rank: Fact[int]
    image: Fact[str]
    source_sha256: Fact[str] = UNMAPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Two places of one document give one axis different values (``IDENTITY_CONFLICT`` inside a receipt)."""

    axis: str
    values: tuple[Found[str] | Found[int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """``image`` is the config id (``sha256:`` + 64 digits); ``rank_images`` only where ranks name theirs."""

    image: Fact[str] = UNMAPPED
    rank_images: tuple[RankImage, ...] = ()
    same_on_every_rank: Fact[bool] = UNMAPPED
    manifest_digest: Fact[str] = UNMAPPED
    source: SourceIdentity = field(default_factory=SourceIdentity)
    builder_commit: Fact[str] = UNMAPPED
    """Commit of the image builder: two of them for one image are
    ``IDENTITY_CONFLICT_WARN:sparkring_commit``."""
    target: ModelIdentity = field(default_factory=ModelIdentity)
    draft: ModelIdentity = field(default_factory=ModelIdentity)
    topology: Topology = field(default_factory=Topology)
    workload: Workload = field(default_factory=Workload)
    disagreements: tuple[Disagreement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryPair:
    """A registry manifest digest beside the config id it serves (Appendix B.2, last paragraph); the two
    stand in one document, so ``deployable`` (§7.4) may use it for any receipt of that config id."""

    manifest_digest: Found[str]
    image: Found[str]


class ImageRole(StrEnum):
    """Why another image is named."""

    PREDECESSOR = "predecessor"
    """Its evidence is excluded (``PREDECESSOR_EVIDENCE_EXCLUDED``)."""
    PARENT = "parent"
    """Not upgraded by this receipt (``PARENT_NOT_UPGRADED``)."""
    EVIDENCE = "evidence"
    """The evidence was taken on it; unequal to the subject is ``EVIDENCE_OTHER_IMAGE``."""
    ROLLBACK = "rollback"
    RETAINED = "retained"
    FAILED = "failed"
    PUBLISHED_CHILD = "published-child"
    TESTED = "tested"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMention:
    """Another image, by config id or registry reference as written."""

    role: ImageRole
    image: Fact[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsOnlyLink:
    """The one link of §7.1: ``child`` is ``runtime`` with labels changed only, when both equalities are
    recorded true. Without them it is a mention and transfers nothing."""

    runtime: Fact[str]
    child: Fact[str]
    layers_equal: Fact[bool]
    configuration_equal: Fact[bool]
