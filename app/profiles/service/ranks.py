"""A rank of a stored profile: what it would be started with, and how far a real one is from that."""

from dataclasses import dataclass

from app.core.canonical_json import encode_canonical
from app.core.errors import CoreError, DocumentError
from app.core.profiles.drift import DriftLine, drift_findings, drift_lines
from app.core.profiles.findings import CheckResult, ProfileFinding, overall
from app.core.profiles.guards import RankCase, rank_findings
from app.core.profiles.observed import observe
from app.core.profiles.plan import RankOrder, RankPlan, plan_object, rank_plan
from app.errors import FieldProblem, Refused
from app.profiles.service.contracts import StoredProfile
from app.profiles.service.documents import refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A real rank beside its plan, and every guard on what it really holds. Nothing of it is kept."""

    lines: tuple[DriftLine, ...]
    findings: tuple[ProfileFinding, ...]

    @property
    def result(self) -> CheckResult:
        return overall(self.findings)


def plan_of(profile: StoredProfile, *, rank: int, image_id: str | None) -> RankPlan:
    """The plan of one rank, on the image that is named or that of the stored image receipt.

    Raises:
        Refused: the profile has no such rank, or the image id another form.
    """
    receipt = profile.image_receipt
    is_receipts = image_id is None or image_id == profile.image_id
    order = RankOrder(
        rank=rank,
        image_id=image_id or profile.image_id,
        image_reference=profile.image_reference if is_receipts else None,
        receipt=receipt.value if receipt is not None and is_receipts else None,
        given={},
    )
    try:
        return rank_plan(profile.effective, contract=profile.contract, order=order)
    except DocumentError as error:
        raise refusal(error) from None
    except CoreError as error:
        pointer = "/" + error.subject.replace(" ", "_")
        part = FieldProblem(pointer=pointer, detail=f"expected {error.expected}, found {error.found}")
        raise Refused(str(error), errors=(part,)) from None


def plan_bytes(profile: StoredProfile, *, rank: int, image_id: str | None) -> bytes:
    """The plan as a document; values of secret names are masked."""
    return encode_canonical(plan_object(plan_of(profile, rank=rank, image_id=image_id)))


def drift_of(profile: StoredProfile, *, raw: bytes, rank: int, image_id: str | None) -> Drift:
    """An environment file or a container inspection beside the plan of its rank.

    Raises:
        Refused: the bytes are neither; the profile has no such rank.
    """
    plan = plan_of(profile, rank=rank, image_id=image_id)
    try:
        observed = observe(raw, name="observed rank", rank=rank)
    except DocumentError as error:
        raise refusal(error) from None
    lines = drift_lines(plan, observed)
    receipt = profile.image_receipt
    case = RankCase(
        contract=profile.contract,
        effective=profile.effective,
        observed=observed,
        receipt=None if receipt is None else receipt.value,
        image_id=plan.image_id,
    )
    return Drift(lines=lines, findings=(*drift_findings(lines, observed=observed), *rank_findings(case)))
