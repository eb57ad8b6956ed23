"""References of a contract, resolved inside the allowed folder only (profile-contract §2.2, §18.1).

Nothing is read here: whoever reads hands in a ``Lookup``. A command line looks below two folders, a server
among its stored documents by digest.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from app.core.digest import Digest
from app.core.errors import shown
from app.core.profiles.documents import ProfileDocumentError, refusal

OWN_FOLDER: Final = "profiles"
"""Stands for the contract's own folder, whatever it is called: ``..`` leads to its parent and no further."""
_MOST_CHARACTERS: Final = 1024


class Base(StrEnum):
    """What a path is relative to once it is resolved."""

    CONTRACT = "contract"
    """The parent of the contract's own folder: the widest a contract may reach (§18.1)."""
    ASSETS = "assets"
    """The asset root: ``runtime/`` in the repository, ``/opt/sparkring/runtime`` in the image (§3.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One file a document names.

    Attributes:
        path: normalised, relative to the base, without ``.``, ``..`` and empty parts.
        written: as the document has it.
        sha256: its pinned digest, if it is pinned.
        pointer: where the document names it.
    """

    base: Base
    path: str
    written: str
    pointer: str
    sha256: Digest | None = None


Lookup: TypeAlias = Callable[[Reference], bytes | None]
"""The bytes of a reference; none where nothing is there. May raise ``ProfileDocumentError`` with
DOC_PATH_UNSAFE (a link on the way) or DOC_TOO_LARGE."""


def resolve(written: str, *, base: Base, folder: str = "", pointer: str = "") -> str:
    """The normalised path of a reference below its base.

    Args: written: as it stands in the document. folder: the folder of the document below the base, for the
    contract the name of its own folder. pointer: where it stands.

    Raises: ProfileDocumentError: DOC_PATH_UNSAFE: absolute, empty, with NUL, backslash or an empty part, or
    leading out of the base.
    """
    parts = [part for part in folder.split("/") if part]
    allowed = len(written) <= _MOST_CHARACTERS and not written.startswith("/")
    if not written or not allowed or "\0" in written or "\\" in written:
        raise unsafe(written, base=base, pointer=pointer)
    if written.rpartition("/")[2] in (".", ".."):
        raise unsafe(written, base=base, pointer=pointer, found=f"{shown(written)}, a folder")
    for part in written.split("/"):
        if part == "" or (part == ".." and not parts):
            raise unsafe(written, base=base, pointer=pointer)
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    if not parts:
        raise unsafe(written, base=base, pointer=pointer)
    return "/".join(parts)


def unsafe(written: str, *, base: Base, pointer: str, found: str = "") -> ProfileDocumentError:
    """The refusal of a reference that leads elsewhere."""
    return refusal(
        f"reference {shown(written)}",
        code="DOC_PATH_UNSAFE",
        expected=f"a path that stays inside the {base.value} folder, without links",
        found=found or shown(written),
        pointer=pointer,
    )
