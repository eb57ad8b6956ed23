"""TP × DCP × cache: status and recommendation as two columns, and the evidence behind each
(profile-contract §3.2, §18.10).

A status is what a document says, never what follows from numbers; every word of a column names the document
it came from.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.core.canonical_json import JsonObject
from app.core.digest import Digest
from app.core.profiles.contract import Contract
from app.core.profiles.findings import CheckResult
from app.core.profiles.profile_entry import ProfileEntry
from app.core.profiles.release import CatalogEntry, Publication, ReleaseSelection


class Status(StrEnum):
    """How far a profile has come (§18.10)."""

    QUALIFIED = "qualified"
    IMPLEMENTED = "implemented"
    RESEARCH_ONLY = "research-only"
    UNSUPPORTED = "unsupported"


class Recommendation(StrEnum):
    """Whether it should be chosen; says nothing of its status (§18.10)."""

    PREFERRED = "preferred"
    AVAILABLE = "available"
    RETIRED = "retired"


_STATUSES: Final[Mapping[str, Status]] = {status.value: status for status in Status}
# The catalog's own words.
_RECOMMENDATIONS: Final[Mapping[str, Recommendation]] = {
    "recommended": Recommendation.PREFERRED,
    "preferred": Recommendation.PREFERRED,
    "alternative": Recommendation.AVAILABLE,
    "available": Recommendation.AVAILABLE,
    "retired": Recommendation.RETIRED,
}


class EvidenceKind(StrEnum):
    """Which document a statement was read from."""

    CONTRACT = "contract"
    CATALOG = "catalog"
    PUBLICATION = "publication"
    RELEASE_SELECTION = "release_selection"
    ACTIVATION = "activation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One statement about a profile; ``says`` is for people."""

    kind: EvidenceKind
    sha256: Digest
    pointer: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationEvidence:
    """An activation receipt as far as the matrix needs it; ``result`` is its judgement, none if unjudged."""

    sha256: Digest
    profile: str
    contract_sha256: str
    result: CheckResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The documents beside the contracts."""

    catalog: Sequence[CatalogEntry] = ()
    publications: Sequence[Publication] = ()
    selections: Sequence[ReleaseSelection] = ()
    activations: Sequence[ActivationEvidence] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One cell of the matrix.

    Attributes:
        profile: none where the contract holds no profile of these degrees.
        recommendation: none where no document recommends or retires it.
        status_evidence, recommendation_evidence: what the two words were read from.
        evidence: whatever else speaks of the profile.
    """

    contract_sha256: Digest
    profile: str | None
    tensor_parallel_size: int
    decode_context_parallel_size: int
    sparkcache: bool
    status: Status
    status_evidence: Evidence
    recommendation: Recommendation | None
    recommendation_evidence: Evidence | None
    evidence: tuple[Evidence, ...]


def matrix_rows(contract: Contract, *, around: Around) -> tuple[MatrixRow, ...]:
    """Every TP × DCP × cache of one contract, by TP, DCP and cache; combinations without a profile are
    ``unsupported``."""
    rows = [_row(contract, entry, around) for entry in contract.profiles.values()]
    rows += _gaps(contract, rows)
    return tuple(
        sorted(
            rows,
            key=lambda row: (
                row.tensor_parallel_size,
                row.decode_context_parallel_size,
                row.sparkcache,
                row.profile or "",
            ),
        )
    )


def matrix_object(rows: Sequence[MatrixRow]) -> JsonObject:
    """The rows as JSON."""
    return {"rows": [_row_object(row) for row in rows]}


def _row(contract: Contract, entry: ProfileEntry, around: Around) -> MatrixRow:
    own = Evidence(
        kind=EvidenceKind.CONTRACT,
        sha256=contract.sha256,
        pointer="/status",
        says=f"the contract as a whole is {contract.status}",
    )
    listed = [one for one in around.catalog if _speaks_of(one, entry, contract, around)]
    status, status_evidence = Status.RESEARCH_ONLY, own
    recommendation, recommended_by = None, None
    for one in listed:
        if one.status in _STATUSES:
            status, status_evidence = _STATUSES[one.status], _catalog(one, "/status", one.status)
        if one.recommendation in _RECOMMENDATIONS:
            recommendation = _RECOMMENDATIONS[one.recommendation]
            recommended_by = _catalog(one, "/recommendation", one.recommendation)
    return MatrixRow(
        contract_sha256=contract.sha256,
        profile=entry.name,
        tensor_parallel_size=entry.tensor_parallel_size,
        decode_context_parallel_size=entry.decode_context_parallel_size,
        sparkcache=entry.sparkcache,
        status=status,
        status_evidence=status_evidence,
        recommendation=recommendation,
        recommendation_evidence=recommended_by,
        evidence=tuple(_evidence(contract, entry, listed, around)),
    )


def _speaks_of(one: CatalogEntry, entry: ProfileEntry, contract: Contract, around: Around) -> bool:
    """A catalog names a contract by path; its release selection pins the one it means. Without that
    selection it speaks of every contract that holds the profile."""
    if one.profile != entry.name:
        return False
    parts = one.release_path.split("/")
    chosen = [selection for selection in around.selections if selection.name in parts]
    return not chosen or any(selection.pins(contract.sha256) is not None for selection in chosen)


def _catalog(one: CatalogEntry, pointer: str, word: str) -> Evidence:
    says = f"deployment {one.name}: {word}"
    return Evidence(kind=EvidenceKind.CATALOG, sha256=one.sha256, pointer=pointer, says=says)


def _evidence(
    contract: Contract, entry: ProfileEntry, listed: Sequence[CatalogEntry], around: Around
) -> Iterator[Evidence]:
    for one in listed:
        if one.evidence_scope:
            yield _catalog(one, "/evidence_scope", one.evidence_scope)
    for selection in around.selections:
        pin = selection.pins(contract.sha256)
        if pin is not None:
            yield Evidence(
                kind=EvidenceKind.RELEASE_SELECTION,
                sha256=selection.sha256,
                pointer=pin.pointer,
                says=f"release {selection.name} pins this contract",
            )
    for publication in around.publications:
        for told in publication.qualification:
            if told.profile == entry.name:
                yield Evidence(
                    kind=EvidenceKind.PUBLICATION,
                    sha256=publication.sha256,
                    pointer=told.pointer,
                    says=f"{told.status}, record {told.record_sha256}; a pointer, not evidence",
                )
    for receipt in around.activations:
        if receipt.profile == entry.name and receipt.contract_sha256 == contract.sha256:
            judged = receipt.result.value if receipt.result is not None else "not judged"
            yield Evidence(
                kind=EvidenceKind.ACTIVATION,
                sha256=receipt.sha256,
                pointer="/profile",
                says=f"activation receipt: {judged}",
            )


def _gaps(contract: Contract, rows: Sequence[MatrixRow]) -> list[MatrixRow]:
    held = {(r.tensor_parallel_size, r.decode_context_parallel_size, r.sparkcache) for r in rows}
    degrees = {(tp, dcp) for tp, _, _ in held for _, dcp, _ in held}
    absent = [
        (tp, dcp, cache) for tp, dcp in degrees for cache in (False, True) if (tp, dcp, cache) not in held
    ]
    return [_gap(contract, tp, dcp, sparkcache=cache) for tp, dcp, cache in absent]


def _gap(contract: Contract, tp: int, dcp: int, *, sparkcache: bool) -> MatrixRow:
    reason = "no profile of these degrees" if tp % dcp == 0 else f"DCP {dcp} does not divide TP {tp}"
    return MatrixRow(
        contract_sha256=contract.sha256,
        profile=None,
        tensor_parallel_size=tp,
        decode_context_parallel_size=dcp,
        sparkcache=sparkcache,
        status=Status.UNSUPPORTED,
        status_evidence=Evidence(
            kind=EvidenceKind.CONTRACT, sha256=contract.sha256, pointer="/profiles", says=reason
        ),
        recommendation=None,
        recommendation_evidence=None,
        evidence=(),
    )


def _row_object(row: MatrixRow) -> JsonObject:
    recommended = row.recommendation_evidence
    return {
        "contract_sha256": row.contract_sha256,
        "profile": row.profile,
        "tensor_parallel_size": row.tensor_parallel_size,
        "decode_context_parallel_size": row.decode_context_parallel_size,
        "sparkcache": row.sparkcache,
        "status": row.status.value,
        "status_evidence": _evidence_object(row.status_evidence),
        "recommendation": row.recommendation.value if row.recommendation is not None else None,
        "recommendation_evidence": _evidence_object(recommended) if recommended is not None else None,
        "evidence": [_evidence_object(one) for one in row.evidence],
    }


def _evidence_object(one: Evidence) -> JsonObject:
    return {"kind": one.kind.value, "sha256": one.sha256, "pointer": one.pointer, "says": one.says}
