"""Where things lie inside a rank-local root (store-format §2).

Names are built from validated digests only, so no document can name a path. Opening is the reader's part.
"""

import re
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath
from typing import TypeVar

from app.core.digest import Digest

OBJECTS_FOLDER = PurePosixPath("chunks")
MANIFESTS_FOLDER = PurePosixPath("manifests")
ALIASES_FOLDER = PurePosixPath("prefix-aliases")
SEGMENTS_FOLDER = PurePosixPath("prefix-index")
LOCK_NAME = PurePosixPath(".maintenance.lock")
# Of completed one-shot clears; what is in a marker is not ours to judge (store-format §16).
MARKERS_FOLDER = PurePosixPath(".sparkcache-clear-once")

# store-format §8.1: full-size objects are 64 MiB, no object may be larger.
MAX_OBJECT_BYTES = 64 * 1024 * 1024

_FOLDER_NAME = re.compile(r"[0-9a-f]{64}")
_DOCUMENT_NAME = re.compile(r"([0-9a-f]{64})\.json")

PathType = TypeVar("PathType", bound=PurePath)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DocumentName:
    """The two digests under which a root document is filed."""

    storage_key: Digest
    context_digest: Digest

    @property
    def path(self) -> PurePosixPath:
        """The document's path, relative to the root."""
        return MANIFESTS_FOLDER / self.storage_key / f"{self.context_digest}.json"

    @property
    def alias_path(self) -> PurePosixPath:
        """The path of an alias under the same two digests, relative to the root."""
        return ALIASES_FOLDER / self.storage_key / f"{self.context_digest}.json"


def object_path(digest: Digest) -> PurePosixPath:
    """The path of the object with these bytes, relative to the root."""
    return OBJECTS_FOLDER / f"{digest}.spcc"


def segment_path(digest: Digest, *, storage_key: Digest) -> PurePosixPath:
    """The path of the descriptor segment with these bytes, relative to the root."""
    return SEGMENTS_FOLDER / storage_key / f"{digest}.spix"


def temporary_path(final: PathType, *, token: str) -> PathType:
    """The name a file has until it is complete; readers ignore it.

    Args:
        final: the path it will have.
        token: 32 hexadecimal characters nobody else uses.
    """
    return final.with_name(f".{final.name}.writing-{token}")


def parse_folder_name(name: str) -> Digest | None:
    """The storage key a folder below ``manifests`` stands for, or ``None`` for a foreign name."""
    return Digest(name) if _FOLDER_NAME.fullmatch(name) else None


def parse_document_name(name: str) -> Digest | None:
    """The context digest a file name stands for, or ``None`` for a foreign or temporary name."""
    match = _DOCUMENT_NAME.fullmatch(name)
    return Digest(match[1]) if match else None
