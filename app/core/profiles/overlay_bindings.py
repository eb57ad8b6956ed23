"""What ties a mounted contract to the image, and the ranks to each other (profile-contract §10.2, §10.4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

from app.core.canonical_json import JsonObject
from app.core.digest import Digest
from app.core.profiles.contract import Contract, read_contract, references
from app.core.profiles.documents import ProfileDocumentError
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.references import Base, Reference
from app.core.profiles.source_lock import CHECKED_FOLDER, SourceLock

RANKS: Final = 4
"""Of the ring whose overlay this is (§1)."""
_IN_IMAGE: Final = {Base.CONTRACT: CHECKED_FOLDER, Base.ASSETS: f"{CHECKED_FOLDER}/runtime"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayIdentity:
    """The four digests that must be equal on every rank; none where there was no such file."""

    contract: Digest | None
    validator: Digest | None
    entrypoint: Digest | None
    source_lock: Digest | None

    def to_object(self) -> JsonObject:
        """As JSON."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def binding_findings(
    contract_raw: bytes | None, *, identity: OverlayIdentity, lock: SourceLock | None
) -> Iterator[ProfileFinding]:
    """The lock and pins the contract names are those inside the image: a contract for another image fails.

    Args: contract_raw: the overlay's contract; its digest must be the one that was seen with the others.
    """
    if contract_raw is None or lock is None:
        what = "the overlay's contract" if contract_raw is None else "the source lock"
        yield finding("CT_LOCK_HASH", CheckResult.NOT_TESTED, detail=what)
        return
    try:
        contract = read_contract(contract_raw, subject="contract of the overlay")
    except ProfileDocumentError as error:
        yield from error.findings
        return
    if contract.sha256 != identity.contract:
        yield finding(
            "DOC_HASH_MISMATCH",
            CheckResult.FAIL,
            detail="the contract changed while the overlay was read",
            expected=identity.contract or "a file",
            found=contract.sha256,
        )
    yield from (_bound(one, contract=contract, lock=lock) for one in _pinned(contract))


def rank_findings(
    identity: OverlayIdentity, *, others: Sequence[OverlayIdentity], ranks: int = RANKS
) -> Iterator[ProfileFinding]:
    """All ranks report the same four digests."""
    for one in fields(OverlayIdentity):
        mine = getattr(identity, one.name)
        theirs = [getattr(other, one.name) for other in others]
        differing = [value for value in theirs if value != mine]
        if differing:
            yield finding(
                "OV_RANKS_DIFFER",
                CheckResult.FAIL,
                pointer=f"/identity/{one.name}",
                expected=mine or "none",
                found=differing[0] or "none",
                detail=f"{len(differing)} of {len(theirs)} other ranks",
            )
    if len(others) + 1 < ranks:
        yield finding(
            "OV_RANKS_DIFFER",
            CheckResult.NOT_TESTED,
            detail=f"the checks of {ranks - 1 - len(others)} more ranks",
        )
    elif all(other == identity for other in others):
        yield finding("OV_RANKS_DIFFER", CheckResult.PASS, detail=f"{ranks} ranks")


def _pinned(contract: Contract) -> list[Reference]:
    """Each pinned file once; profiles share their pins."""
    pinned = [one for one in references(contract) if one.sha256 is not None]
    return list({(one.base, one.path, one.sha256): one for one in pinned}.values())


def _bound(reference: Reference, *, contract: Contract, lock: SourceLock) -> ProfileFinding:
    path = f"{_IN_IMAGE[reference.base]}/{reference.path}"
    code = "CT_LOCK_HASH" if reference.base is Base.CONTRACT else "CT_PINS_HASH"
    baked = lock.installed_files.get(path)
    if baked is None:
        return finding(
            code, CheckResult.NOT_TESTED, pointer=reference.pointer, detail=f"{path} in the source lock"
        )
    return finding(
        code,
        CheckResult.PASS if baked == reference.sha256 else CheckResult.FAIL,
        pointer=reference.pointer,
        detail=f"/{path}",
        expected=reference.sha256 or "",
        found=baked,
        document_sha256=contract.sha256,
    )
