"""The lock inside an image: every file it names with its digest (profile-contract §9.2, §18.15)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from app.core.canonical_json import ExactValue
from app.core.digest import Digest
from app.core.errors import FormatError, shown
from app.core.profiles.documents import (
    MAX_LOCK_ENTRIES,
    DocumentKind,
    ProfileDocument,
    read_profile_document,
)
from app.core.profiles.fields import Fields, Problems
from app.core.qualify.pointer import step

SOURCE_LOCK: Final = "opt/sparkring/receipts/source-lock.json"
CHECKED_FOLDER: Final = "opt/sparkring"
CONTRACT_FOLDER: Final = "opt/sparkring/profile-contract"
BAKED_ENTRYPOINT: Final = "opt/sparkring/bin/sparkring-r33"
BAKED_VERIFIER: Final = "opt/sparkring/bin/verify-candidate"
OVERLAY_ENTRYPOINT: Final = "opt/sparkring/bin/sparkring-r33-overlay"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLock:
    """``installed_files`` by path below the image's root, without a leading slash."""

    sha256: Digest
    installed_files: Mapping[str, Digest]


def parse_source_lock(raw: bytes | ProfileDocument, *, subject: str = "source lock") -> SourceLock:
    """Read a lock; keys beside ``installed_files`` are opaque (§9.2).

    Raises:
        ProfileDocumentError: no strict JSON, too large, another schema, no files, a path that is not below
            the root (``DOC_PATH_UNSAFE``), a value that is no digest.
    """
    document = raw
    if isinstance(document, bytes):
        document = read_profile_document(document, subject=subject, kind=DocumentKind.SOURCE_LOCK)
    problems = Problems(subject=subject, sha256=document.sha256)
    listed = Fields.of(document.value, problems=problems).object("installed_files")
    if not listed.value:
        problems.add(listed.at, expected="at least one file", found="none")
    if len(listed.value) > MAX_LOCK_ENTRIES:
        problems.add(
            listed.at,
            expected=f"at most {MAX_LOCK_ENTRIES} entries",
            found=f"{len(listed.value)} entries",
            code="DOC_TOO_LARGE",
        )
        problems.refuse()
    files = digests_by_path(listed, problems=problems)
    problems.refuse()
    return SourceLock(sha256=document.sha256, installed_files=MappingProxyType(files))


def digests_by_path(listed: Fields, *, problems: Problems) -> dict[str, Digest]:
    """The members of an object of digests by relative path; each offence is kept in ``problems``."""
    files: dict[str, Digest] = {}
    for path, value in listed.value.items():
        if not is_below(path):
            problems.add(
                listed.at + step(path),
                expected="a path below the folder, without . and ..",
                found=shown(path),
                code="DOC_PATH_UNSAFE",
            )
        elif (digest := _digest(value)) is None:
            problems.add(
                listed.at + step(path), expected="64 lower-case hexadecimal characters", found=shown(value)
            )
        else:
            files[path] = digest
    return files


def is_below(path: str) -> bool:
    """Whether a relative path names something below its folder and nothing else."""
    if not path or "\0" in path or "\\" in path:
        return False
    return all(part not in ("", ".", "..") for part in path.split("/"))


def is_in(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it."""
    return path == folder or path.startswith(folder + "/")


def _digest(value: ExactValue) -> Digest | None:
    try:
        return Digest.parse(value, subject="digest")
    except FormatError:
        return None
