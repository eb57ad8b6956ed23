"""Files of one rank-local root, opened safely, read exactly and authenticated (store-format §13.2).

Nothing is ever written, renamed, removed or touched here.
"""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from app.core.digest import sha256
from app.core.errors import IntegrityError, ResourceError, Stage
from app.core.restore.buffers import BufferPool, PooledBuffer
from app.core.restore.plan import MAX_BATCH_OBJECTS, Source
from app.core.restore.timeline import Clock
from app.core.store.files import RootFiles, open_object, read_exactly, read_whole, reason
from app.core.store.layout import (
    MANIFESTS_FOLDER,
    DocumentName,
    parse_document_name,
    parse_folder_name,
)


@dataclass(slots=True, kw_only=True)
class Load:
    """One object on its way into a lent buffer.

    Attributes:
        parts: its content; of a chunk only once it is authentic, of an extent as soon as it is filled.
        readable: set when ``parts`` is final; without parts there was a failure.
        authentic: resolves when the digest matches, or carries the reason why not.
        began_ns: when a reader turned to it, on the caller's clock; ``ended_ns`` when it was done.
    """

    source: Source
    buffer: PooledBuffer
    clock: Clock
    parts: tuple[memoryview, ...] = ()
    readable: threading.Event = field(default_factory=threading.Event)
    authentic: "Future[None]" = field(default_factory=Future)
    began_ns: int | None = None
    ended_ns: int = 0


class RootReader:
    """The documents of one root.

    Args:
        root: the rank-local root; a missing one is an empty one (store-format §2).
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = RootFiles(root)

    def read_document(self, name: DocumentName) -> bytes:
        """See the function of this name."""
        return read_document(self.root, name=name)

    def read_alias(self, name: DocumentName) -> bytes:
        """A prefix alias, whole.

        Raises:
            AbsentError, FormatError, ResourceError: as ``read_document``.
        """
        return read_whole(self.files, name.alias_path, subject=f"prefix alias {name.alias_path}")


class BoundedReader(RootReader):
    """Reads of one root: at most four at once, each into its own lent buffer (restore-contract §2).

    Use as a context manager; leaving waits for reads still running.

    Args:
        root: the rank-local root; a missing one is an empty one (store-format §2).
        readers: wanted concurrency; more than four are not used; None is what suits this machine's cores.
        buffers: where payload goes.
    """

    def __init__(self, root: Path, *, readers: int | None = None, buffers: BufferPool) -> None:
        readers = readers_for(len(os.sched_getaffinity(0))) if readers is None else readers
        if readers < 1:
            raise ValueError(f"readers: expected at least 1, found {readers}")
        super().__init__(root)
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

    def start(self, source: Source, *, buffer: PooledBuffer, clock: Clock) -> Load:
        """Begin to read and authenticate one object; objects begin in the order of these calls."""
        load = Load(source=source, buffer=buffer, clock=clock)
        load.authentic = self._threads.submit(self.read_load, load)
        return load

    def read_load(self, load: Load) -> None:
        """Read one object exactly, compare its digest, open it; runs on a reader's thread.

        Raises:
            FormatError: stage ``size``: missing, no regular file, another size; stage ``header``: no chunk
                as its descriptor says.
            IntegrityError: stage ``content``: the bytes are not those the descriptor names.
            ResourceError: out of descriptors or memory.
        """
        load.began_ns = load.clock()
        source, memory = load.source, load.buffer.memory
        try:
            with self._counted():
                self.fill(load)
            if source.content is None:
                load.parts = (memory,)
                load.readable.set()
            self._authenticate(load)
            if source.content is not None:
                load.parts = source.content.open(memory, subject=source.subject)
        finally:
            load.readable.set()
            load.ended_ns = load.clock()

    def fill(self, load: Load) -> None:
        """Open one object safely and read exactly its bytes.

        Raises:
            FormatError: stage ``size``: missing, no regular file, another size.
            ResourceError: out of descriptors or memory.
        """
        source = load.source
        with open_object(
            self.files,
            source.descriptor.sha256,
            byte_count=source.descriptor.byte_count,
            subject=source.subject,
        ) as file:
            read_exactly(file, memory=load.buffer.memory, subject=source.subject, stage=Stage.SIZE)

    def _authenticate(self, load: Load) -> None:
        expected = load.source.descriptor.sha256
        actual = sha256(load.buffer.memory)
        if actual != expected:
            raise IntegrityError(load.source.subject, expected=expected, found=actual, stage=Stage.CONTENT)

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


def readers_for(cores: int) -> int:
    """How many readers suit so many cores: one for each, two to four (restore-contract §2).

    A batch has as many objects as there are readers, and buffers that are left are read into meanwhile, so
    that no core rests when the others of its batch still read (docs/PERFORMANCE.md). On one core a second
    reader waits for the disk while the first hashes.
    """
    return min(max(cores, 2), MAX_BATCH_OBJECTS)


def read_document(root: Path, *, name: DocumentName) -> bytes:
    """A root document, whole.

    Raises:
        AbsentError: no such file, or no such folder.
        FormatError: a link, a folder, a FIFO, unreadable, over 16 MiB, or cut while it was read.
        ResourceError: out of descriptors or memory.
    """
    return read_whole(RootFiles(root), name.path, subject=f"root document {name.path}")


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
        raise ResourceError(f"folder {folder}", expected="a readable folder", found=reason(error)) from None
