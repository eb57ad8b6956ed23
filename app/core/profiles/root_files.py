"""The files of an unpacked image root or folder, observed: kind, size and digest, in bounded memory.

Reading only, never judging: what an observation means is said in ``overlay.py``. No link is followed to
read a file unless it ends inside the root, and then that is said (profile-contract §18.5). An absolute
link starts at the root, as it does inside the container.
"""

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from app.core.digest import Digest, RunningDigest
from app.core.errors import ResourceError
from app.core.store.folders import shown_path

_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK_BYTES: Final = 1 << 20
_BATCH_FILES: Final = 128
_MOST_LINKS: Final = 40
"""As many as Linux follows in one path (``path_resolution(7)``)."""
READERS: Final = 2


class Seen(StrEnum):
    """What stands under a name."""

    FILE = "file"
    LINKED = "linked"
    """Reached over a link that ends at a file inside the root."""
    LOST_LINK = "lost link"
    """A link that ends outside, nowhere, in a circle, or at no file."""
    MISSING = "missing"
    NO_FILE = "no file"
    """A folder or a special file."""
    UNREADABLE = "unreadable"
    MOVING = "moving"
    """It changed while it was read; nothing can be said of its bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One name and what was there. ``sha256`` is set for ``FILE`` and ``LINKED``; ``detail`` says why
    there is none, or where the link goes."""

    path: str
    seen: Seen
    sha256: Digest | None = None
    byte_count: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadProgress:
    """How far a reading is: files observed, bytes read."""

    files: int
    byte_count: int


def observe_files(
    root: Path,
    paths: Iterable[str],
    *,
    progress: Callable[[ReadProgress], None] | None = None,
    readers: int = READERS,
) -> Iterator[Observed]:
    """Each named file, read to its end, in the order of ``paths``.

    Whatever the number and size of files, a few batches of names and one block of 1 MiB per reader are held.
    Sorted paths are read fastest: folders stay open from one name to the next.

    Args:
        paths: relative, with ``/``, without ``.`` and ``..``.
        progress: told after each batch of 128 files.
        readers: threads; digesting runs beside reading.

    Raises:
        ResourceError: the root itself is no folder that can be opened.
    """
    remaining = iter(paths)
    files = byte_count = 0
    with ThreadPoolExecutor(readers) as pool:
        running: deque[Future[list[Observed]]] = deque()
        while True:
            while len(running) <= 2 * readers and (batch := list(islice(remaining, _BATCH_FILES))):
                running.append(pool.submit(_observe_batch, root, batch))
            if not running:
                return
            done = running.popleft().result()
            yield from done
            files += len(done)
            byte_count += sum(one.byte_count for one in done)
            if progress is not None:
                progress(ReadProgress(files=files, byte_count=byte_count))


def walk_names(root: Path, *, below: str = "", leave_out: frozenset[str] = frozenset()) -> Iterator[Observed]:
    """Every name below a folder of the root that is no folder itself, unread, in no order.

    ``FILE``, ``LOST_LINK`` for any link, ``NO_FILE`` for special files, ``UNREADABLE`` for folders that
    cannot be listed, ``MISSING`` where ``below`` is no folder. What is no UTF-8 in a name stands in it as
    lone surrogates; for people and documents there is ``shown_path``.

    Args:
        leave_out: paths not looked at; of a folder, all that is in it.

    Raises:
        ResourceError: the root itself is no folder that can be opened.
    """
    pending = [below]
    with _Root(root) as opened:
        while pending:
            folder = pending.pop()
            try:
                children = opened.names(folder)
            except OSError as error:
                yield _not_read(folder, error=error)
                continue
            for name, mode, byte_count in children:
                path = f"{folder}/{name}" if folder else name
                if path in leave_out:
                    continue
                if stat.S_ISDIR(mode):
                    pending.append(path)
                else:
                    yield Observed(path=path, seen=_seen_of(mode), byte_count=byte_count)


def read_bounded(root: Path, path: str, *, limit: int) -> bytes | Observed:
    """The bytes of one file, at most ``limit`` + 1 of them, or what stands there instead.

    Raises:
        ResourceError: the root itself is no folder that can be opened.
    """
    with _Root(root) as opened:
        try:
            descriptor = opened.open(path)
        except OSError as error:
            return _not_read(path, error=error)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return Observed(path=path, seen=Seen.NO_FILE, detail="not a regular file")
            blocks: list[bytes] = []
            left = limit + 1
            while left and (block := os.read(descriptor, min(left, _BLOCK_BYTES))):
                blocks.append(block)
                left -= len(block)
            return b"".join(blocks)
        except OSError as error:
            return _not_read(path, error=error)
        finally:
            os.close(descriptor)


def _observe_batch(root: Path, paths: list[str]) -> list[Observed]:
    block = memoryview(bytearray(_BLOCK_BYTES))
    with _Root(root) as opened:
        return [_observe(opened, path, block=block) for path in paths]


def _observe(opened: "_Root", path: str, *, block: memoryview) -> Observed:
    try:
        descriptor = opened.open(path)
    except OSError as error:
        # ELOOP: the name is a link; ENOTDIR: a name on the way is no folder, perhaps a link to one.
        link = opened.first_link(path)
        return _not_read(path, error=error) if link is None else _observe_linked(opened, path, block=block)
    try:
        return _read(opened, path, descriptor=descriptor, block=block)
    finally:
        os.close(descriptor)


def _observe_linked(opened: "_Root", path: str, *, block: memoryview) -> Observed:
    try:
        place = opened.resolve(path)
        descriptor = opened.open(place)
    except (OSError, _LostError) as error:
        told = str(error) if isinstance(error, _LostError) else _reason(error)
        return Observed(path=path, seen=Seen.LOST_LINK, detail=told)
    try:
        read = _read(opened, place, descriptor=descriptor, block=block)
    finally:
        os.close(descriptor)
    if read.seen is Seen.NO_FILE:
        return Observed(
            path=path, seen=Seen.LOST_LINK, detail=f"ends at {shown_path(place)}, which is no file"
        )
    seen = Seen.LINKED if read.seen is Seen.FILE else read.seen
    return Observed(
        path=path,
        seen=seen,
        sha256=read.sha256,
        byte_count=read.byte_count,
        detail=f"a link to {shown_path(place)}",
    )


def _read(opened: "_Root", path: str, *, descriptor: int, block: memoryview) -> Observed:
    """Digest an open file; its size, time and inode must be the same before, after and under its name."""
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            return Observed(path=path, seen=Seen.NO_FILE, detail="not a regular file")
        digest, byte_count = RunningDigest(), 0
        while got := os.readv(descriptor, [block]):
            digest.update(block[:got])
            byte_count += got
        after, named = os.fstat(descriptor), opened.stat(path)
    except OSError as error:
        return _not_read(path, error=error)
    if not _same(before, after) or not _same(before, named) or byte_count != before.st_size:
        return Observed(
            path=path, seen=Seen.MOVING, byte_count=byte_count, detail="changed while it was read"
        )
    return Observed(path=path, seen=Seen.FILE, sha256=digest.digest(), byte_count=byte_count)


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino, one.st_dev) == (
        other.st_size,
        other.st_mtime_ns,
        other.st_ctime_ns,
        other.st_ino,
        other.st_dev,
    )


def _not_read(path: str, *, error: OSError) -> Observed:
    missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    seen = Seen.MISSING if missing else Seen.UNREADABLE
    return Observed(path=path, seen=seen, detail=_reason(error))


def _seen_of(mode: int) -> Seen:
    if stat.S_ISREG(mode):
        return Seen.FILE
    return Seen.LOST_LINK if stat.S_ISLNK(mode) else Seen.NO_FILE


def _look_at(entry: os.DirEntry[str]) -> tuple[str, int, int] | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return entry.name, status.st_mode, status.st_size


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


class _LostError(Exception):
    """A link that does not end at a place inside the root; the text says how."""


class _Root:
    """One root, with the folders of the last name kept open, none of them reached over a link."""

    def __init__(self, root: Path) -> None:
        try:
            self._top = os.open(root, _FOLDER_FLAGS & ~os.O_NOFOLLOW)
        except OSError as error:
            raise ResourceError(
                str(root), expected="a folder that can be opened", found=_reason(error)
            ) from None
        self._names: list[str] = []
        self._descriptors: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._leave(0)
        os.close(self._top)

    def open(self, path: str) -> int:
        """The file of a path without any link in it.

        Raises:
            OSError: missing, a link anywhere on the way, or not to be opened.
        """
        *folders, name = path.split("/")
        return os.open(name, _FILE_FLAGS, dir_fd=self._enter(folders))

    def stat(self, path: str) -> os.stat_result:
        """What stands under a name now; a link is not followed.

        Raises:
            OSError: it is gone.
        """
        *folders, name = path.split("/")
        return os.stat(name, dir_fd=self._enter(folders), follow_symlinks=False)

    def names(self, folder: str) -> list[tuple[str, int, int]]:
        """Names, modes and sizes in a folder; what vanishes meanwhile is left out.

        Raises:
            OSError: missing, a link on the way, no folder, or not to be listed.
        """
        inside = self._enter(folder.split("/") if folder else [])
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=inside)
        try:
            with os.scandir(descriptor) as entries:
                return [known for one in entries if (known := _look_at(one)) is not None]
        finally:
            os.close(descriptor)

    def first_link(self, path: str) -> str | None:
        """The shortest part of a path that is a link."""
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            head = "/".join(parts[:count])
            try:
                if stat.S_ISLNK(self.stat(head).st_mode):
                    return head
            except OSError:
                return None
        return None

    def resolve(self, path: str) -> str:
        """Where a path ends when links are followed inside the root.

        Raises:
            _LostError: it leaves the root, goes in a circle, or ends nowhere.
        """
        pending, place, links = path.split("/")[::-1], list[str](), 0
        while pending:
            name = pending.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if not place:
                    raise _LostError("a link out of the root")
                place.pop()
                continue
            target = self._link("/".join([*place, name]))
            if target is None:
                place.append(name)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise _LostError("links in a circle")
            if target.startswith("/"):
                place.clear()
            pending.extend(target.split("/")[::-1])
        if not place:
            raise _LostError("a link to the root itself")
        return "/".join(place)

    def _link(self, path: str) -> str | None:
        """The target of a link; none for anything else.

        Raises:
            _LostError: nothing stands there.
        """
        *folders, name = path.split("/")
        try:
            folder = self._enter(folders)
            if not stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                return None
            return os.readlink(name, dir_fd=folder)
        except OSError as error:
            raise _LostError(f"a link that ends at {shown_path(path)}: {_reason(error)}") from None

    def _enter(self, folders: list[str]) -> int:
        shared = 0
        while shared < min(len(folders), len(self._names)) and folders[shared] == self._names[shared]:
            shared += 1
        self._leave(shared)
        for name in folders[shared:]:
            inside = self._descriptors[-1] if self._descriptors else self._top
            self._descriptors.append(os.open(name, _FOLDER_FLAGS, dir_fd=inside))
            self._names.append(name)
        return self._descriptors[-1] if self._descriptors else self._top

    def _leave(self, depth: int) -> None:
        while len(self._descriptors) > depth:
            os.close(self._descriptors.pop())
            self._names.pop()
