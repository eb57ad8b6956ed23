"""What lies in the folders of a root: names, kinds and sizes, one at a time, nothing opened but the folder.

A folder may hold any number of names, and any names: none is trusted, none is followed, none is kept here.
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from app.core.digest import Digest
from app.core.errors import FormatError, ResourceError, Stage
from app.core.store.files import SHORTAGES, RootFiles, reason

_LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# What st_blocks counts in, whatever the file system's own block size is (store-format §15.1).
_STORED_UNIT_BYTES = 512

_TEMPORARY_NAME = re.compile(r"\.(.+)\.writing-[0-9a-f]{32}", re.DOTALL)


class FileKind(StrEnum):
    """What stands at a name."""

    FILE = "regular file"
    FOLDER = "folder"
    LINK = "symbolic link"
    FIFO = "FIFO"
    SOCKET = "socket"
    DEVICE = "device"


_KINDS = {
    stat.S_IFREG: FileKind.FILE,
    stat.S_IFDIR: FileKind.FOLDER,
    stat.S_IFLNK: FileKind.LINK,
    stat.S_IFIFO: FileKind.FIFO,
    stat.S_IFSOCK: FileKind.SOCKET,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderItem:
    """One name of a folder.

    Attributes:
        name: as the operating system gives it, undecodable bytes as lone surrogates.
        byte_count: its size; ``stored_bytes`` what it takes on the disk, 512 × ``st_blocks``.
    """

    name: str
    kind: FileKind
    byte_count: int
    stored_bytes: int

    def digest(self, suffix: str) -> Digest | None:
        """The digest the name is made of together with ``suffix``, or ``None`` for any other name (§2)."""
        stem = self.name.removesuffix(suffix)
        return parse_name(stem) if suffix == "" or stem != self.name else None

    @property
    def temporary_of(self) -> str | None:
        """The final name of a file that was being written, ``None`` for any other name (store-format §2)."""
        match = _TEMPORARY_NAME.fullmatch(self.name)
        return match[1] if match else None


def list_folder(files: RootFiles, folder: PurePosixPath) -> Iterator[FolderItem]:
    """All names of a folder, in the order the file system gives them; none, if there is no such folder.

    A name that vanishes meanwhile is left out. The folder's access time stays, where that is allowed.

    Raises:
        FormatError: no folder, a link where none may be, or not readable.
        ResourceError: out of descriptors or memory.
    """
    subject = f"folder {shown_path(folder)}"
    try:
        descriptor = _open(files, folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _refusal(error, subject=subject) from None
    try:
        with os.scandir(descriptor) as found:
            for item in found:
                known = _look_at(item)
                if known is not None:
                    yield known
    except OSError as error:
        raise _refusal(error, subject=subject) from None
    finally:
        os.close(descriptor)


def parse_name(name: str) -> Digest | None:
    """The digest a name is, or ``None``."""
    try:
        return Digest(name)
    except FormatError:
        return None


def shown_path(path: PurePosixPath | str) -> str:
    """A path for people and documents: printable, and no two paths alike.

    Whatever is not printable, and the backslash itself, is written as the escapes of its bytes.
    """
    text = os.fsencode(str(path).replace("\\", "\\\\")).decode("utf-8", "backslashreplace")
    return "".join(item if item.isprintable() else _escape(item) for item in text)


def _escape(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8"))


def _open(files: RootFiles, folder: PurePosixPath) -> int:
    place = files.open_folder(folder)
    try:
        return os.open(".", _LIST_FLAGS | os.O_NOATIME, dir_fd=place)
    except PermissionError:
        return os.open(".", _LIST_FLAGS, dir_fd=place)
    finally:
        os.close(place)


def _look_at(item: os.DirEntry[str]) -> FolderItem | None:
    try:
        status = item.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return FolderItem(
        name=item.name,
        kind=_KINDS.get(stat.S_IFMT(status.st_mode), FileKind.DEVICE),
        byte_count=status.st_size,
        stored_bytes=status.st_blocks * _STORED_UNIT_BYTES,
    )


def _refusal(error: OSError, *, subject: str) -> FormatError | ResourceError:
    if error.errno in SHORTAGES:
        return ResourceError(subject, expected="to be opened", found=reason(error))
    return FormatError(subject, expected="a readable folder", found=reason(error), stage=Stage.METADATA)
