"""The files of one publication, in the order that makes a crash harmless (store-format §12, §14).

Each file is written under a temporary name, synced, linked to its final name, and its folder synced. What
already stands under a name is adopted if it is equal, replaced if only its own content can have been meant
(the name is the digest of the content), and otherwise left alone: the publication is refused.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from app.core.digest import ByteBuffer, Digest, RunningDigest, sha256
from app.core.errors import IntegrityError, ResourceError
from app.core.store.layout import LOCK_NAME, OBJECTS_FOLDER, object_path, temporary_path
from app.core.store.writer.calls import FileCalls

# Temporary files written at once, and the largest batch (store-format §12.3).
WRITER_THREADS = 8

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_COMPARE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_MODE = 0o644
_COMPARE_BYTES = 1024 * 1024
# A name left behind by a process that had the same number is passed over.
_NAME_TRIES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file to be published.

    Attributes:
        path: its final path, relative to the root.
        content_named: the name is the digest of the content, so a different content is damage.
    """

    path: PurePosixPath
    content: ByteBuffer
    digest: Digest
    content_named: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A file that is written and synced but does not have its name yet; ``temporary`` is None if adopted."""

    file: NewFile
    temporary: Path | None


class Publication:
    """Writes batches of files into a root whose lock is held; made by ``publishing``."""

    def __init__(
        self, root: Path, *, new_id: Callable[[], str], calls: FileCalls, threads: ThreadPoolExecutor
    ) -> None:
        self._root = root
        self._new_id = new_id
        self._calls = calls
        self._threads = threads
        self._folders: set[PurePosixPath] = set()

    def store_objects(
        self, buffers: Sequence[ByteBuffer], *, meanwhile: Callable[[], None] | None = None
    ) -> tuple[Digest, ...]:
        """Publish one batch of objects and sync their folder once.

        Args:
            buffers: the objects; unchanged until this returns.
            meanwhile: work of the calling thread while others write.

        Returns:
            The objects' digests, which are their names.

        Raises:
            IntegrityError: something that is no file stands at an object's name.
        """
        self.make_folder(OBJECTS_FOLDER)
        started = [self._threads.submit(self._write_object, buffer) for buffer in buffers]
        if meanwhile is not None:
            meanwhile()
        written = self._all_written(started)
        self._finish(written)
        return tuple(item.file.digest for item in written)

    def store(self, files: Sequence[NewFile]) -> None:
        """Publish one batch of files of one folder: write and sync all, link all, sync the folder.

        Raises:
            IntegrityError: other bytes stand at a name that content does not give; nothing was replaced.
        """
        self.make_folder(files[0].path.parent)
        self._finish(self._all_written([self._threads.submit(self._write, file) for file in files]))

    def store_all(self, files: Sequence[NewFile]) -> None:
        """Publish any number of small files of one folder, a batch at a time; raises as ``store``."""
        for first in range(0, len(files), WRITER_THREADS):
            self.store(files[first : first + WRITER_THREADS])

    def store_document(self, path: PurePosixPath, *, document: bytes) -> None:
        """Publish a root document or an alias; from here on its entry is visible.

        Raises:
            IntegrityError: another document stands there; it was left alone.
        """
        self.store([NewFile(path=path, content=document, digest=sha256(document), content_named=False)])

    def make_folder(self, folder: PurePosixPath) -> None:
        """Create a folder of the root durably, unless this publication has done so."""
        if folder not in self._folders:
            make_folder(self._root / folder, calls=self._calls)
            self._folders.add(folder)

    def _finish(self, written: Sequence[_Written]) -> None:
        """Name a batch of written files and sync their folder."""
        try:
            for item in written:
                self._link(item)
        finally:
            self._discard(written)
        _sync_folder((self._root / written[0].file.path).parent, calls=self._calls)

    def _all_written(self, started: Sequence[Future[_Written]]) -> list[_Written]:
        """Wait for a whole batch; if one file failed, the others do not stay behind."""
        wait(started)
        try:
            return [future.result() for future in started]
        except BaseException:
            self._discard([future.result() for future in started if future.exception() is None])
            raise

    def _write_object(self, buffer: ByteBuffer) -> _Written:
        digest = sha256(buffer)
        file = NewFile(path=object_path(digest), content=buffer, digest=digest, content_named=True)
        return self._write(file)

    def _write(self, file: NewFile) -> _Written:
        final = self._root / file.path
        if self._calls.exists(final) and self._adopt(file):
            return _Written(file=file, temporary=None)
        temporary, descriptor = self._create_temporary(final)
        try:
            _write_synced(descriptor, content=file.content, calls=self._calls)
        except BaseException:
            with suppress(OSError):
                self._calls.unlink(temporary)
            raise
        return _Written(file=file, temporary=temporary)

    def _create_temporary(self, final: Path) -> tuple[Path, int]:
        for left in reversed(range(_NAME_TRIES)):
            temporary = temporary_path(final, token=self._new_id())
            try:
                return temporary, self._calls.open(temporary, _CREATE_FLAGS, _FILE_MODE)
            except FileExistsError:
                if not left:
                    raise
        raise RuntimeError("unreachable: the last try returns or raises")

    def _link(self, item: _Written) -> None:
        """Give a file its name; an equal one that was there first is adopted, a damaged one replaced."""
        if item.temporary is None:
            return
        final = self._root / item.file.path
        try:
            self._calls.link(item.temporary, final)
        except FileExistsError:
            if not self._adopt(item.file):
                self._calls.replace(item.temporary, final)

    def _discard(self, written: Sequence[_Written]) -> None:
        for item in written:
            if item.temporary is not None:
                with suppress(FileNotFoundError):
                    self._calls.unlink(item.temporary)

    def _adopt(self, file: NewFile) -> bool:
        """Whether the file at the name holds exactly these bytes; then it is made durable.

        ``False`` asks for its replacement: a regular file that differs from the digest it is named by.
        """
        final = self._root / file.path
        try:
            descriptor = self._calls.open(final, _COMPARE_FLAGS, 0)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise _conflict(final, file=file, found=str(error.strerror)) from None
            raise
        try:
            found = _difference(descriptor, file=file, calls=self._calls)
            if found is None:
                self._calls.fsync(descriptor)
            elif not (file.content_named and found.replaceable):
                raise _conflict(final, file=file, found=found.text)
        finally:
            self._calls.close(descriptor)
        return found is None


@contextmanager
def publishing(root: Path, *, new_id: Callable[[], str], calls: FileCalls) -> Iterator[Publication]:
    """Create the root if it is missing and hold its shared lock for one publication (store-format §14).

    Blocks while maintenance holds the lock exclusively. The lock belongs to this opening of the lock file,
    so it also keeps out maintenance in another thread of this process.

    Raises:
        ResourceError: the file system refused (full, read-only, no permission).
    """
    with _reported(root):
        make_folder(root, calls=calls)
        descriptor = calls.open(root / LOCK_NAME, _LOCK_FLAGS, _FILE_MODE)
        try:
            calls.flock(descriptor, fcntl.LOCK_SH)
            with ThreadPoolExecutor(WRITER_THREADS, thread_name_prefix="store-writer") as threads:
                yield Publication(root, new_id=new_id, calls=calls, threads=threads)
        finally:
            calls.close(descriptor)


def make_folder(folder: Path, *, calls: FileCalls) -> None:
    """Create what is missing one by one, each synced together with its parent (store-format §12.2).

    The deepest folder that exists may have been made by a writer that died before its parent was synced, so
    its entry is synced again.
    """
    missing: list[Path] = []
    while not calls.exists(folder):
        missing.append(folder)
        folder = folder.parent
    with suppress(PermissionError):
        _sync_folder(folder.parent, calls=calls)
    for path in reversed(missing):
        with suppress(FileExistsError):
            calls.mkdir(path)
        _sync_folder(path, calls=calls)
        _sync_folder(path.parent, calls=calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    """How an existing file differs; only a regular file may be replaced."""

    text: str
    replaceable: bool


def _write_synced(descriptor: int, *, content: ByteBuffer, calls: FileCalls) -> None:
    view, done = memoryview(content), 0
    try:
        while done < len(view):
            done += calls.write(descriptor, view[done:])
        calls.fsync(descriptor)
    finally:
        calls.close(descriptor)


def _difference(descriptor: int, *, file: NewFile, calls: FileCalls) -> _Difference | None:
    status = calls.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return _Difference(text="something that is no regular file", replaceable=False)
    if status.st_size != len(file.content):
        return _Difference(text=f"{status.st_size} bytes", replaceable=True)
    running = RunningDigest()
    # One byte more than there should be, so that a file that grows meanwhile differs and has an end.
    left = status.st_size + 1
    while left and (part := calls.read(descriptor, min(left, _COMPARE_BYTES))):
        running.update(part)
        left -= len(part)
    if running.digest() != file.digest:
        return _Difference(text=f"SHA-256 {running.digest()}", replaceable=True)
    return None


def _conflict(path: Path, *, file: NewFile, found: str) -> IntegrityError:
    expected = f"nothing, or {len(file.content)} bytes with SHA-256 {file.digest}"
    return IntegrityError(str(path), expected=expected, found=found)


def _sync_folder(folder: Path, *, calls: FileCalls) -> None:
    descriptor = calls.open(folder, _FOLDER_FLAGS, 0)
    try:
        calls.fsync(descriptor)
    finally:
        calls.close(descriptor)


@contextmanager
def _reported(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResourceError(
            f"store root {root}",
            expected="a writable folder with room",
            found=f"{error.strerror}: {error.filename}",
        ) from None
