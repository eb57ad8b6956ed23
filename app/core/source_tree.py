"""The files of a source tree on disk, read and digested; nothing is followed and nothing is written."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.core.digest import Digest
from app.core.errors import CoreError, FormatError, ResourceError
from app.core.source_identity import (
    SourceContent,
    is_excluded,
    is_excluded_folder,
    parse_path,
    source_tree_digest,
)

READ_BYTES: Final = 1 << 20
NO_LINK: Final = "a file: no link is part of a source tree"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTree:
    """What was digested.

    Attributes:
        bytes: of all files as they are on disk.
    """

    sha256: Digest
    files: int
    bytes: int


def digest_folder(
    root: Path, *, only: Iterable[str] = (), progress: Callable[[str, int], None] | None = None
) -> SourceTree:
    """The source-tree digest of a folder (evidence-model §11.4).

    Args:
        only: folders directly or deeper below the root; nothing else is read. None: all of it.
        progress: told each file's path and size when it has been read.

    Raises:
        FormatError: a symbolic link, a special file, a name that is not UTF-8; not a folder.
        ResourceError: something cannot be read, or changes while it is.
    """
    named: list[tuple[str, Digest]] = []
    byte_count = 0
    for found in walk_sources(root, only=only):
        if isinstance(found, CoreError):
            raise found
        content = SourceContent()
        size = 0
        for chunk in read_source(root, path=found):
            content.update(chunk)
            size += len(chunk)
        named.append((found, content.digest()))
        byte_count += size
        if progress is not None:
            progress(found, size)
    return SourceTree(sha256=source_tree_digest(named), files=len(named), bytes=byte_count)


def walk_sources(root: Path, *, only: Iterable[str] = ()) -> Iterator[str | CoreError]:
    """Every source file below a folder, in no order, and in its place what keeps a name from being one.

    Raises:
        FormatError: the root, or a folder of `only`, is not a folder.
    """
    starts = [parse_path(os.fsencode(name)) for name in only] or [""]
    for start in starts:
        if not stat.S_ISDIR(_kind(root / start, path=start or str(root))):
            raise FormatError(start or str(root), expected="a folder", found="something else")
    pending = [os.fsencode(start) for start in starts]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(os.fsencode(root), folder)) as entries:  # noqa: PTH118  # bytes
                children = [(entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in entries]
        except OSError as error:
            yield _unreadable(os.fsdecode(folder) or str(root), error=error)
            continue
        for name, mode in children:
            path = folder + b"/" + name if folder else name
            if not stat.S_ISDIR(mode):
                yield from _one(path, mode=mode)
            elif not is_excluded_folder(os.fsdecode(name)):
                pending.append(path)


def _one(path: bytes, *, mode: int) -> Iterator[str | CoreError]:
    try:
        text = parse_path(path)
        # Before the kind is looked at: `.git` may be a link, and whatever is compiled is no source.
        if not is_excluded(text):
            check_kind(text, mode=mode)
            yield text
    except FormatError as error:
        yield error


def check_kind(path: str, *, mode: int) -> None:
    """Raise unless a file of this mode may stand in a source tree.

    Raises:
        FormatError: a symbolic link or a special file.
    """
    if stat.S_ISLNK(mode):
        raise FormatError(path, expected=NO_LINK, found="a symbolic link")
    if not stat.S_ISREG(mode):
        raise FormatError(path, expected="a file", found=_KINDS.get(stat.S_IFMT(mode), "a special file"))


_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def _kind(place: Path, *, path: str) -> int:
    try:
        return place.lstat().st_mode
    except OSError as error:
        raise _unreadable(path, error=error) from None


def read_source(root: Path, *, path: str) -> Iterator[bytes]:
    """The bytes of one file as they are on disk, in chunks.

    Raises:
        FormatError: a symbolic link or a special file.
        ResourceError: it cannot be read, or changed while it was.
    """
    # Not blocking: what has become a pipe since it was listed must not hold us.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    check_kind(path, mode=_kind(root / path, path=path))
    try:
        descriptor = os.open(root / path, flags)
    except OSError as error:
        raise _unreadable(path, error=error) from None
    try:
        before = os.fstat(descriptor)
        check_kind(path, mode=before.st_mode)
        while chunk := os.read(descriptor, READ_BYTES):
            yield chunk
        after = os.fstat(descriptor)
    except OSError as error:
        raise _unreadable(path, error=error) from None
    finally:
        os.close(descriptor)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise ResourceError(path, expected="a file that stays as it is while it is read", found="a change")


def _unreadable(path: str, *, error: OSError) -> ResourceError:
    return ResourceError(path, expected="to be readable", found=error.strerror or str(error))
