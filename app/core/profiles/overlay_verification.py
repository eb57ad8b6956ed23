"""What the image's own verifier said when it ran without mounts (profile-contract §9.3, §10.1, §10.4)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from app.core.digest import Digest
from app.core.profiles.documents import DocumentKind, ProfileDocument, read_profile_document
from app.core.profiles.fields import Fields, Problems
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.source_lock import SourceLock


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """``sparkring-r33-candidate-verification/v1``: the lock it read and the files it hashed, by absolute
    path."""

    sha256: Digest
    source_lock_sha256: Digest
    checked_files: Mapping[str, Digest]


def parse_verification(
    raw: bytes | ProfileDocument, *, subject: str = "candidate verification"
) -> Verification:
    """Read the verifier's output.

    Raises:
        ProfileDocumentError: no strict JSON, another schema, no digest of the lock, no files.
    """
    document = raw
    if isinstance(document, bytes):
        document = read_profile_document(document, subject=subject, kind=DocumentKind.VERIFICATION)
    problems = Problems(subject=subject, sha256=document.sha256)
    top = Fields.of(document.value, problems=problems)
    files = top.object("checked_files")
    read = Verification(
        sha256=document.sha256,
        source_lock_sha256=top.digest("source_lock_sha256"),
        checked_files=MappingProxyType({path: files.digest(path) for path in files.value}),
    )
    problems.refuse()
    return read


def verification_findings(
    verification: Verification | None, *, lock: SourceLock | None
) -> Iterator[ProfileFinding]:
    """The verifier ran on this image: it read the same lock and found the same files."""
    code = "SL_VERIFY_MISSING"
    if verification is None:
        yield finding(
            code, CheckResult.FAIL, expected="the output of the image's verifier, run without mounts"
        )
        return
    if lock is None:
        yield finding(code, CheckResult.NOT_TESTED, detail="the source lock")
        return
    locked = {f"/{path}": digest for path, digest in lock.installed_files.items()}
    differing = [path for path, digest in locked.items() if verification.checked_files.get(path) != digest]
    same_lock = verification.source_lock_sha256 == lock.sha256
    yield finding(
        code,
        CheckResult.PASS if same_lock and not differing else CheckResult.FAIL,
        pointer="/checked_files" if same_lock else "/source_lock_sha256",
        detail=f"{len(differing)} of {len(locked)} locked files differ or were not checked",
        expected=lock.sha256,
        found=verification.source_lock_sha256,
        document_sha256=verification.sha256,
    )
