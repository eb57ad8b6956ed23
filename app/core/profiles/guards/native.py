"""Native libraries and lease contract of the cache: contract against image receipt (profile-contract §2.4).

The variables that carry them into a container are not published; those checks are made nowhere and say so.
"""

from collections.abc import Iterator

from app.core.canonical_json import ExactValue
from app.core.digest import Digest
from app.core.profiles.contract import Contract
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.profile_entry import ProfileEntry


def native_findings(
    contract: Contract,
    entry: ProfileEntry,
    *,
    receipt: ExactValue,
    rank: int | None = None,
    document_sha256: Digest | None = None,
) -> Iterator[ProfileFinding]:
    """GUARD_NATIVE and GUARD_LEASE as far as contract and receipt show them.

    Args: receipt: the image receipt as a JSON value, of whatever shape; none where it is not given.
    document_sha256: of the document the findings are about.
    """
    if not entry.sparkcache:
        yield finding(
            "GUARD_NATIVE",
            CheckResult.NOT_APPLICABLE,
            detail="no cache",
            rank=rank,
            document_sha256=document_sha256,
        )
        return
    native = contract.sparkcache_native
    expected: tuple[tuple[str, str, str | None], ...] = (
        ("GUARD_NATIVE", native.placement_path, native.placement_sha256),
        ("GUARD_NATIVE", native.snapshot_path, native.snapshot_sha256),
        ("GUARD_LEASE", native.lease_contract, None),
    )
    for code, path, digest in expected:
        found = _checked_file(receipt, path)
        result = CheckResult.PASS if isinstance(found, str) and digest in (None, found) else CheckResult.FAIL
        yield finding(
            code,
            CheckResult.NOT_TESTED if receipt is None else result,
            detail=f"{path} in the image receipt"
            if receipt is not None
            else f"not given: receipt with {path}",
            expected=digest or "any digest",
            found=found if isinstance(found, str) else "nothing",
            rank=rank,
            document_sha256=document_sha256,
        )


def _checked_file(receipt: ExactValue, path: str) -> ExactValue:
    """What the receipt says of a file inside the image; null where it says nothing."""
    verification = receipt.get("verification") if isinstance(receipt, dict) else None
    files = verification.get("checked_files") if isinstance(verification, dict) else None
    return files.get(path) if isinstance(files, dict) else None
