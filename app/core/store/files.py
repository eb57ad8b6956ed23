"""Files of one rank-local root, opened safely and read exactly (store-format §13.2).

``StoreFiles`` is all that judging code knows of a file system, so that it can be asked about files which
shrink, vanish or lie. ``RootFiles`` is the real thing. Nothing is ever written, renamed, removed or touched.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NoReturn, Protocol

from app.core.canonical_json import MAX_DOCUMENT_BYTES
from app.core.digest import Digest
from app.core.errors import AbsentError, FormatError, ResourceError, Stage
from app.core.store.layout import OBJECTS_FOLDER, object_path

# What is held of a file at once.
BLOCK_BYTES = 256 * 1024

# Without following a last link, without waiting for a FIFO's writer, not inherited (store-format §13.2).
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
# The machine's shortage, not the store's fault.
SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class MissingObjectError(FormatError):
    """An object that a document names and nobody has; below an alias that is a miss (store-format §10.3)."""


class StoredFile(Protocol):
    """A regular file, open for reading."""

    @property
    def byte_count(self) -> int:
        """Its size when it was opened."""

    def read_at(self, offset: int, *, memory: memoryview) -> int:
        """Fill ``memory`` from ``offset`` on; returns how many bytes came, 0 at the end.

        Raises:
            OSError: the medium failed.
        """


class StoreFiles(Protocol):
    """The files of one root, by their path relative to it."""

    def open(self, path: PurePosixPath, *, subject: str, stage: Stage) -> AbstractContextManager[StoredFile]:
        """Open a regular file that lies inside the root.

        Args:
            path: built from validated digests.
            subject: what it is, for messages.
            stage: the lookup stage a refusal belongs to.

        Raises:
            AbsentError: no such file, or no such folder.
            FormatError: a link, a folder, a FIFO, a device, or unreadable.
            ResourceError: out of descriptors or memory.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """A file of the operating system; closed by whoever opened it."""

    descriptor: int
    byte_count: int

    def read_at(self, offset: int, *, memory: memoryview) -> int:
        """See ``StoredFile``."""
        return os.preadv(self.descriptor, [memory], offset)


@dataclass(frozen=True, slots=True)
class RootFiles:
    """The files below ``root``; a missing root is an empty one (store-format §2).

    No link inside the root is followed, except ``chunks`` itself, which an operator may have put elsewhere.
    """

    root: Path

    @contextmanager
    def open(self, path: PurePosixPath, *, subject: str, stage: Stage) -> Iterator[OpenFile]:
        """See ``StoreFiles``."""
        try:
            descriptor = self._open_inside(path)
        except OSError as error:
            _refuse(error, subject=subject, stage=stage)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FormatError(
                    subject, expected="a regular file", found="another kind of file", stage=stage
                )
            yield OpenFile(descriptor=descriptor, byte_count=status.st_size)
        finally:
            os.close(descriptor)

    def open_folder(self, path: PurePosixPath) -> int:
        """A descriptor of a folder inside the root, good for names relative to it; the caller closes it.

        Raises:
            OSError: missing, a link, no folder, or not to be entered.
        """
        folder = os.open(self.root, _FOLDER_FLAGS)
        try:
            for depth, name in enumerate(path.parts):
                follow = 0 if (depth, name) == (0, OBJECTS_FOLDER.name) else os.O_NOFOLLOW
                inner = os.open(name, _FOLDER_FLAGS | follow, dir_fd=folder)
                os.close(folder)
                folder = inner
        except OSError:
            os.close(folder)
            raise
        return folder

    def _open_inside(self, path: PurePosixPath) -> int:
        folder = self.open_folder(path.parent)
        try:
            return _open_quietly(path.name, folder=folder)
        finally:
            os.close(folder)


def read_whole(
    files: StoreFiles, path: PurePosixPath, *, subject: str, maximum: int = MAX_DOCUMENT_BYTES
) -> bytes:
    """A document, alias or segment, whole.

    Raises:
        AbsentError: no such file, or no such folder.
        FormatError: stage ``metadata``: no regular file, over ``maximum``, or cut while it was read.
        ResourceError: out of descriptors or memory.
    """
    with files.open(path, subject=subject, stage=Stage.METADATA) as file:
        if file.byte_count > maximum:
            raise FormatError(subject, expected=f"at most {maximum} bytes", found=f"{file.byte_count} bytes")
        raw = bytearray(file.byte_count)
        read_exactly(file, memory=memoryview(raw), subject=subject, stage=Stage.METADATA)
        return bytes(raw)


@contextmanager
def open_object(files: StoreFiles, digest: Digest, *, byte_count: int, subject: str) -> Iterator[StoredFile]:
    """Open the object with these bytes; one that a document names and nobody has is corrupt (§13.1).

    Raises:
        FormatError: stage ``size``: missing, no regular file, or not of exactly ``byte_count`` bytes.
        ResourceError: out of descriptors or memory.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(files.open(object_path(digest), subject=subject, stage=Stage.SIZE))
        except AbsentError as error:
            raise MissingObjectError(
                subject, expected=error.expected, found=error.found, stage=Stage.SIZE
            ) from None
        if file.byte_count != byte_count:
            raise FormatError(
                subject,
                expected=f"{byte_count} bytes",
                found=f"{file.byte_count} bytes",
                stage=Stage.SIZE,
            )
        yield file


def read_exactly(
    file: StoredFile, *, memory: memoryview, subject: str, stage: Stage, offset: int = 0
) -> None:
    """Fill ``memory`` from ``offset`` on.

    Raises:
        FormatError: the file ends first, or cannot be read.
    """
    done = 0
    while done < len(memory):
        try:
            got = file.read_at(offset + done, memory=memory[done:])
        except OSError as error:
            raise FormatError(subject, expected="readable bytes", found=reason(error), stage=stage) from None
        if got == 0:
            raise FormatError(
                subject,
                expected=f"{offset + len(memory)} bytes",
                found=f"an end after {offset + done}",
                stage=stage,
            )
        done += got


def iterate_blocks(
    file: StoredFile, *, start: int, end: int, subject: str, stage: Stage
) -> Iterator[memoryview]:
    """The bytes ``start … end`` a block at a time; each block is overwritten by the next one.

    Raises:
        FormatError: the file ends first, or cannot be read.
    """
    memory = memoryview(bytearray(min(BLOCK_BYTES, end - start)))
    for offset in range(start, end, BLOCK_BYTES):
        block = memory[: min(BLOCK_BYTES, end - offset)]
        read_exactly(file, memory=block, subject=subject, stage=stage, offset=offset)
        yield block


def reason(error: OSError) -> str:
    """What the operating system says, without path and number."""
    return error.strerror or type(error).__name__


def _open_quietly(name: str, *, folder: int) -> int:
    """Without leaving an access time behind, where the owner of the file allows that."""
    try:
        return os.open(name, _FILE_FLAGS | os.O_NOATIME, dir_fd=folder)
    except PermissionError:
        return os.open(name, _FILE_FLAGS, dir_fd=folder)


def _refuse(error: OSError, *, subject: str, stage: Stage) -> NoReturn:
    if error.errno in SHORTAGES:
        raise ResourceError(subject, expected="to be opened", found=reason(error)) from None
    if isinstance(error, FileNotFoundError):
        raise AbsentError(subject, expected="a file", found="none", stage=stage) from None
    raise FormatError(subject, expected="a readable regular file", found=reason(error), stage=stage) from None
