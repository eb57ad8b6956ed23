"""Two contracts, or what two profiles come to, line by line."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.core.profiles.diff import Diff, diff_contracts, diff_profiles
from app.errors import FieldProblem, Refused
from app.profiles.service.contracts import get_contract, get_profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A stored contract, or a profile of one."""

    contract: str
    profile: str | None


def difference(session: Session, left: Side, right: Side) -> Diff:
    """What differs; values of secret names are masked.

    Raises:
        NotFound: a contract is not stored, or has no such profile.
        Refused: one side names a profile and the other none.
    """
    if left.profile is None and right.profile is None:
        contracts = [get_contract(session, sha256=side.contract) for side in (left, right)]
        return diff_contracts(*contracts)
    if left.profile is None or right.profile is None:
        name = "left_profile" if left.profile is None else "right_profile"
        detail = f"{name}: expected a profile, as on the other side, found none"
        raise Refused(detail, errors=(FieldProblem(pointer=f"/{name}", detail=detail),))
    one = get_profile(session, contract_sha256=left.contract, name=left.profile)
    other = get_profile(session, contract_sha256=right.contract, name=right.profile)
    return diff_profiles(one.effective, other.effective)
