"""Files of one rank-local root, opened safely, read exactly and authenticated (store-format §13.2).

Nothing is ever written, renamed, removed or touched here.
"""

import errno
import os
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import NoReturn, Self

from app.core.canonical_json import MAX_DOCUMENT_BYTES
from app.core.digest import sha256
from app.core.errors import AbsentError, FormatError, IntegrityError, ResourceError, Stage
from app.core.restore.buffers import BufferPool, PooledBuffer
from app.core.restore.plan import MAX_BATCH_OBJECTS, PlannedObject
from app.core.restore.timeline import Clock
from app.core.store.layout import (
    MANIFESTS_FOLDER,
    DocumentName,
    object_path,
    parse_document_name,
    parse_folder_name,
)

# Without following a last link, without waiting for a FIFO's writer, not inherited (store-format §13.2).
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# The machine's shortage, not the store's fault.
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


@dataclass(slots=True, kw_only=True)
class Load:
    """One object on its way into a lent buffer.

    Attributes:
        filled: set when no more bytes will arrive, in success and in failure.
        authentic: resolves when the digest matches, or carries the reason why not.
        work_ns: time a reader spent on it.
    """

    planned: PlannedObject
    buffer: PooledBuffer
    clock: Clock
    filled: threading.Event = field(default_factory=threading.Event)
    authentic: "Future[None]" = field(default_factory=Future)
    work_ns: int = 0

    @property
    def subject(self) -> str:
        """The object, for messages."""
        return f"object {self.planned.index} ({self.planned.descriptor.sha256})"


class BoundedReader:
    """Reads of one root: at most four at once, each into its own lent buffer (restore-contract §2).

    Use as a context manager; leaving waits for reads still running.

    Args:
        root: the rank-local root; a missing one is an empty one (store-format §2).
        readers: wanted concurrency; more than four are not used.
        buffers: where payload goes.
    """

    def __init__(self, root: Path, *, readers: int = MAX_BATCH_OBJECTS, buffers: BufferPool) -> None:
        if readers < 1:
            raise ValueError(f"readers: expected at least 1, found {readers}")
        self.root = root
        self.buffers = buffers
        self.readers = min(readers, MAX_BATCH_OBJECTS)
        self._threads = ThreadPoolExecutor(max_workers=self.readers, thread_name_prefix="object-reader")
        self._count = threading.Lock()
        self._active = 0
        self._peak = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    @property
    def active_reads(self) -> int:
        """Objects open now."""
        with self._count:
            return self._active

    @property
    def peak_reads(self) -> int:
        """The most objects ever open at once."""
        return self._peak

    def read_document(self, name: DocumentName) -> bytes:
        """See the function of this name."""
        return read_document(self.root, name=name)

    def start(self, planned: PlannedObject, *, buffer: PooledBuffer, clock: Clock) -> Load:
        """Begin to read and authenticate one object; objects begin in the order of these calls."""
        load = Load(planned=planned, buffer=buffer, clock=clock)
        load.authentic = self._threads.submit(self.read_load, load)
        return load

    def read_load(self, load: Load) -> None:
        """Read one object exactly and compare its digest; runs on a reader's thread.

        Raises:
            FormatError: stage ``size``: missing, no regular file, another size.
            IntegrityError: stage ``content``: the bytes are not those the descriptor names.
            ResourceError: out of descriptors or memory.
        """
        began = load.clock()
        try:
            with self._counted():
                self.fill(load)
            load.filled.set()
            self._authenticate(load)
        finally:
            load.filled.set()
            load.work_ns = load.clock() - began

    def fill(self, load: Load) -> None:
        """Open one object safely and read exactly its bytes.

        Raises:
            FormatError: stage ``size``: missing, no regular file, another size.
            ResourceError: out of descriptors or memory.
        """
        expected = load.planned.descriptor.byte_count
        path = object_path(load.planned.descriptor.sha256)
        with _open_object(self.root, path=path, subject=load.subject) as descriptor:
            size = os.fstat(descriptor).st_size
            if size != expected:
                raise FormatError(
                    load.subject, expected=f"{expected} bytes", found=f"{size} bytes", stage=Stage.SIZE
                )
            _read_exactly(descriptor, memory=load.buffer.memory, subject=load.subject, stage=Stage.SIZE)

    def _authenticate(self, load: Load) -> None:
        expected = load.planned.descriptor.sha256
        actual = sha256(load.buffer.memory)
        if actual != expected:
            raise IntegrityError(load.subject, expected=expected, found=actual, stage=Stage.CONTENT)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._count:
            self._active += 1
            self._peak = max(self._peak, self._active)
        try:
            yield
        finally:
            with self._count:
                self._active -= 1


def read_document(root: Path, *, name: DocumentName) -> bytes:
    """A root document, whole.

    Raises:
        AbsentError: no such file, or no such folder.
        FormatError: a link, a folder, a FIFO, unreadable, over 16 MiB, or cut while it was read.
        ResourceError: out of descriptors or memory.
    """
    subject = f"root document {name.path}"
    with _open_file(root, path=name.path, subject=subject, stage=Stage.METADATA) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > MAX_DOCUMENT_BYTES:
            raise FormatError(subject, expected=f"at most {MAX_DOCUMENT_BYTES} bytes", found=f"{size} bytes")
        raw = bytearray(size)
        _read_exactly(descriptor, memory=memoryview(raw), subject=subject, stage=Stage.METADATA)
        return bytes(raw)


def list_documents(root: Path) -> Iterator[DocumentName]:
    """Every root document's name below a root, by storage key and context; foreign names are passed over.

    Raises:
        ResourceError: a folder cannot be listed. A missing one is an empty one.
    """
    for key, folder in _listed(root / MANIFESTS_FOLDER):
        storage_key = parse_folder_name(key)
        if storage_key is None:
            continue
        for name, _ in _listed(folder):
            context = parse_document_name(name)
            if context is not None:
                yield DocumentName(storage_key=storage_key, context_digest=context)


def _listed(folder: Path) -> list[tuple[str, Path]]:
    try:
        return sorted((path.name, path) for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ResourceError(f"folder {folder}", expected="a readable folder", found=_reason(error)) from None


@contextmanager
def _open_object(root: Path, *, path: PurePosixPath, subject: str) -> Iterator[int]:
    """As ``_open_file``; an object that a document names and nobody has is corrupt, not absent (§13.1)."""
    try:
        with _open_file(root, path=path, subject=subject, stage=Stage.SIZE) as descriptor:
            yield descriptor
    except AbsentError as error:
        raise FormatError(subject, expected=error.expected, found=error.found, stage=Stage.SIZE) from None


@contextmanager
def _open_file(root: Path, *, path: PurePosixPath, subject: str, stage: Stage) -> Iterator[int]:
    try:
        descriptor = _open_quietly(root / path)
    except OSError as error:
        _refuse(error, subject=subject, stage=stage)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FormatError(subject, expected="a regular file", found="another kind of file", stage=stage)
        yield descriptor
    finally:
        os.close(descriptor)


def _open_quietly(path: Path) -> int:
    """Without leaving an access time behind, where the owner of the file allows that."""
    try:
        return os.open(path, _OPEN_FLAGS | os.O_NOATIME)
    except PermissionError:
        return os.open(path, _OPEN_FLAGS)


def _refuse(error: OSError, *, subject: str, stage: Stage) -> NoReturn:
    if error.errno in _SHORTAGES:
        raise ResourceError(subject, expected="to be opened", found=_reason(error)) from None
    if isinstance(error, FileNotFoundError):
        raise AbsentError(subject, expected="a file", found="none", stage=stage) from None
    raise FormatError(
        subject, expected="a readable regular file", found=_reason(error), stage=stage
    ) from None


def _read_exactly(descriptor: int, *, memory: memoryview, subject: str, stage: Stage) -> None:
    done = 0
    while done < len(memory):
        try:
            got = os.preadv(descriptor, [memory[done:]], done)
        except OSError as error:
            raise FormatError(subject, expected="readable bytes", found=_reason(error), stage=stage) from None
        if got == 0:
            raise FormatError(
                subject, expected=f"{len(memory)} bytes", found=f"an end after {done}", stage=stage
            )
        done += got


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
