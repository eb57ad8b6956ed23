"""Digests an overlay's files are held against: registered lists and release selections (profile-contract
§9.5, §10.4, §18.15).

Names are relative to the folder that holds ``profiles`` and ``image``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from app.core.digest import Digest
from app.core.profiles.documents import DocumentKind, ProfileDocument, read_profile_document
from app.core.profiles.fields import Fields, Problems
from app.core.profiles.release import ReleaseSelection
from app.core.profiles.source_lock import digests_by_path

ANCHORS_SCHEMA: Final = "sparkgate-overlay-anchors/v1"
OVERLAY_CONTRACT: Final = "profiles/profile-contract.json"
OVERLAY_VALIDATOR: Final = "profiles/verify_profile.py"
OVERLAY_ENTRYPOINT_FILE: Final = "image/entrypoint.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """Digests by file; ``sha256`` is the document they come from."""

    sha256: Digest
    files: Mapping[str, Digest]
    is_selection: bool = False


def parse_anchors(raw: bytes | ProfileDocument, *, subject: str = "anchors") -> Anchors:
    """Read a registered list of digests.

    Raises:
        ProfileDocumentError: no strict JSON, another schema, a path that is not below the folder, a value
            that is no digest.
    """
    document = raw
    if isinstance(document, bytes):
        document = read_profile_document(document, subject=subject, kind=DocumentKind.ANCHORS)
    problems = Problems(subject=subject, sha256=document.sha256)
    fields = Fields.of(document.value, problems=problems)
    fields.only(("schema", "files"))
    files = digests_by_path(fields.object("files"), problems=problems)
    problems.refuse()
    return Anchors(sha256=document.sha256, files=MappingProxyType(files))


def selection_anchors(selection: ReleaseSelection) -> Anchors:
    """The overlay files a release selection pins: those in ``…/profiles/`` and ``…/image/``."""
    pinned = {one.path: one.sha256 for one in selection.inputs}
    root = _overlay_root(pinned)
    files = {
        path.removeprefix(root): digest
        for path, digest in pinned.items()
        if root and path.startswith((root + "profiles/", root + "image/"))
    }
    return Anchors(sha256=selection.sha256, files=MappingProxyType(files), is_selection=True)


def _overlay_root(pinned: Mapping[str, Digest]) -> str:
    """The folder in which the selection's contract stands, with its slash; empty where it pins none."""
    for path in pinned:
        if path.endswith("/" + OVERLAY_CONTRACT):
            return path.removesuffix(OVERLAY_CONTRACT)
    return ""
