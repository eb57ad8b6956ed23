"""What other stored documents, an operator and a question say about the one that is judged (evidence-model
§7.1, §7.4, §7.5, §8): passed to the rules as a value, so that judging stays a pure function.

A relation names the receipt it was read from. Who keeps many receipts looks them up by image, release,
digest and path; ``app/core/qualify/neighbours.py`` derives them from a list.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from app.core.qualify.claim import ClaimState
from app.core.qualify.facts import Capability, DocumentFacts
from app.core.qualify.scope import ScopeKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A statement in another document: its SHA-256, the pointer in it and what stood there."""

    document: str
    pointer: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherIdentity:
    """Another document's value for one axis of the judged image."""

    axis: str
    value: str
    read_from: Elsewhere


class PinState(StrEnum):
    """How a pinned digest compares with what is stored under the pinned path (§7.2)."""

    EQUAL = "equal"
    DIFFERS_SAME_COMMIT = "differs, same commit"
    DIFFERS_OTHER_COMMIT = "differs, other commit"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinCheck:
    """One pin of the judged document, by its pointer there; ``found`` is the stored digest."""

    pointer: str
    state: PinState
    found: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A person's word that receipts are meant for qualification (§7.6, row 7).

    It stands in where a document claims nothing; it raises no claim that a document makes, and the rules
    still decide. ``receipts`` are SHA-256 of documents, ``when`` is ISO 8601.
    """

    who: str
    when: str
    reason: str
    receipts: tuple[str, ...]
    capability: Capability = Capability.RESTORE

    def __post_init__(self) -> None:
        for name in ("who", "when", "reason"):
            if not getattr(self, name).strip():
                raise ValueError(f"declaration: expected {name}, found nothing")
        if not self.receipts:
            raise ValueError("declaration: expected the receipts meant, found none")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAbout:
    """The newest claim about one place of the judged document; ``pointer`` is that place, empty for all of
    it."""

    pointer: str
    state: ClaimState
    read_from: Elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Everything beside the document; the default is "nothing else is known".

    Attributes: failures: known failures of the judged image. withdrawals: withdrawals of the judged
    release or manifest digest. identities: other documents' identity of the judged image. registry:
    manifest digests that other documents pair with the judged image, or with a labels-only child of it.
    linked: documents named by path or digest, by the pointer that names them in the judged one.
    superseded_by: a later receipt of the same path, image and schema family, or one that names itself so.
    path_reused: the same path with another image. claims_withdrawn, claims_amended: what happened to the
    claim (§8). claims: what claim documents say of it (profile-contract §18.8). unproven_pulls:
    contradictions about a pull into an empty store. declarations: what operators declared. asked: the scope
    a person asks about.
    """

    failures: tuple[Elsewhere, ...] = ()
    withdrawals: tuple[Elsewhere, ...] = ()
    identities: tuple[OtherIdentity, ...] = ()
    registry: tuple[Elsewhere, ...] = ()
    linked: Mapping[str, DocumentFacts] = field(default_factory=lambda: MappingProxyType({}))
    pins: tuple[PinCheck, ...] = ()
    superseded_by: tuple[Elsewhere, ...] = ()
    path_reused: tuple[Elsewhere, ...] = ()
    claims_withdrawn: tuple[Elsewhere, ...] = ()
    claims_amended: tuple[Elsewhere, ...] = ()
    claims: tuple[ClaimAbout, ...] = ()
    unproven_pulls: tuple[Elsewhere, ...] = ()
    declarations: tuple[Declaration, ...] = ()
    asked: ScopeKey | None = None


ALONE = Surroundings()
