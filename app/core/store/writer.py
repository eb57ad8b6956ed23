"""Publish a flat snapshot so that it is visible only when it is complete and durable (store-format §12).

Objects go first, in batches of two: written under a temporary name, synced, linked to their final name, their
folder synced. The root document goes last, the same way. A crash leaves objects nobody refers to and
temporary files, never a document without its objects. Nothing that exists is ever replaced.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.core.digest import ByteBuffer, Digest, RunningDigest, sha256
from app.core.errors import IntegrityError, ResourceError
from app.core.store.identity import CacheIdentity
from app.core.store.layout import LOCK_NAME, OBJECTS_FOLDER, DocumentName, object_path, temporary_path
from app.core.store.manifest import ObjectDescriptor, encode_flat_manifest

# Objects written at once, and therefore held in memory (store-format §12).
BATCH_OBJECTS = 2

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_COMPARE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_COMPARE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSnapshot:
    """What was published.

    Attributes:
        manifest_sha256: digest of the root document.
        encoded_bytes: length of the stream over ``objects`` objects.
    """

    name: DocumentName
    manifest_sha256: Digest
    snapshot_sha256: Digest
    encoded_bytes: int
    objects: int


def publish_flat(
    root: Path,
    *,
    identity: CacheIdentity,
    context_digest: Digest,
    committed_tokens: int,
    object_bytes: int,
    batches: Iterable[Sequence[memoryview]],
    new_id: Callable[[], str],
) -> PublishedSnapshot:
    """Publish one rank's snapshot into a root, which is created if it is missing.

    Args:
        root: the rank-local root; its shared lock is held for the whole publication (store-format §14).
        identity: of the rank; with ``context_digest`` it names the entry.
        committed_tokens: span of the prefix.
        object_bytes: size of every object but the last, 1 … 64 MiB.
        batches: the stream cut into objects, at most two at a time; each must stay unchanged until the
            next batch is asked for.
        new_id: a source of 32 hexadecimal characters nobody else uses.

    Raises:
        IntegrityError: other bytes already stand under a name; nothing was overwritten.
        ResourceError: the file system refused (full, read-only, no permission).
    """
    name = DocumentName(storage_key=identity.storage_key, context_digest=context_digest)
    with _reported(root), _locked(root):
        publication = _Publication(root, new_id=new_id)
        publication.store_objects(batches)
        document = encode_flat_manifest(
            identity=identity,
            context_digest=context_digest,
            committed_tokens=committed_tokens,
            object_bytes=object_bytes,
            objects=publication.objects,
            snapshot_sha256=publication.stream.digest(),
        )
        publication.store_document(name, document=document)
    return PublishedSnapshot(
        name=name,
        manifest_sha256=sha256(document),
        snapshot_sha256=publication.stream.digest(),
        encoded_bytes=publication.objects[-1].end,
        objects=len(publication.objects),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    """A file that is written and synced but does not have its name yet; ``temporary`` is None if adopted."""

    temporary: Path | None
    final: Path
    content: ByteBuffer
    digest: Digest

    def link(self) -> None:
        """Give the file its name, or adopt an equal one that was there first."""
        if self.temporary is None:
            return
        try:
            os.link(self.temporary, self.final)
        except FileExistsError:
            _adopt(self.final, digest=self.digest, size=len(self.content))

    def discard(self) -> None:
        """Remove the temporary name."""
        if self.temporary is not None:
            self.temporary.unlink(missing_ok=True)


class _Publication:
    """The files of one publication, in the order of store-format §12."""

    def __init__(self, root: Path, *, new_id: Callable[[], str]) -> None:
        self._root = root
        self._new_id = new_id
        self.stream = RunningDigest()
        self.objects: list[ObjectDescriptor] = []

    def store_objects(self, batches: Iterable[Sequence[memoryview]]) -> None:
        """Write, sync and link every object; one folder sync per batch."""
        self._make_folder(self._root / OBJECTS_FOLDER)
        with ThreadPoolExecutor(max_workers=BATCH_OBJECTS, thread_name_prefix="object-writer") as threads:
            for batch in batches:
                written = [threads.submit(self._write_object, buffer) for buffer in batch]
                for buffer in batch:
                    self.stream.update(buffer)
                self._link_written(written)

    def store_document(self, name: DocumentName, *, document: bytes) -> None:
        """Write, sync and link the root document; from here on the entry is visible."""
        final = self._root / name.path
        self._make_folder(final.parent)
        self._link_all([self._write(final, content=document, digest=sha256(document))])

    def _link_written(self, written: Sequence[Future[_Pending]]) -> None:
        """Link a batch when all of it is written; if one file failed, the others do not stay behind."""
        wait(written)
        try:
            pending = [future.result() for future in written]
        except BaseException:
            for future in written:
                if future.exception() is None:
                    future.result().discard()
            raise
        self._link_all(pending)
        for item in pending:
            self._describe(item)

    def _write_object(self, buffer: memoryview) -> _Pending:
        digest = sha256(buffer)
        return self._write(self._root / object_path(digest), content=buffer, digest=digest)

    def _write(self, final: Path, *, content: ByteBuffer, digest: Digest) -> _Pending:
        if os.path.lexists(final):
            _adopt(final, digest=digest, size=len(content))
            return _Pending(temporary=None, final=final, content=content, digest=digest)
        temporary = temporary_path(final, token=self._new_id())
        _write_synced(temporary, content=content)
        return _Pending(temporary=temporary, final=final, content=content, digest=digest)

    def _link_all(self, pending: Sequence[_Pending]) -> None:
        try:
            for item in pending:
                item.link()
        finally:
            for item in pending:
                item.discard()
        _sync_folder(pending[0].final.parent)

    def _describe(self, item: _Pending) -> None:
        start = self.objects[-1].end if self.objects else 0
        self.objects.append(ObjectDescriptor(sha256=item.digest, start=start, end=start + len(item.content)))

    def _make_folder(self, folder: Path) -> None:
        """Create what is missing one by one, each synced together with its parent."""
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
            _sync_folder(path)
            _sync_folder(path.parent)


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


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """The shared maintenance lock, held for the whole publication (store-format §14)."""
    root.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(root / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _write_synced(path: Path, *, content: ByteBuffer) -> None:
    descriptor = os.open(path, _CREATE_FLAGS, 0o644)
    try:
        view, done = memoryview(content), 0
        while done < len(view):
            done += os.write(descriptor, view[done:])
        os.fsync(descriptor)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _adopt(path: Path, *, digest: Digest, size: int) -> None:
    """Accept a file that already holds exactly these bytes and make sure it is durable."""
    try:
        descriptor = os.open(path, _COMPARE_FLAGS)
    except OSError as error:
        raise IntegrityError(
            str(path), expected=f"nothing, or SHA-256 {digest}", found=str(error.strerror)
        ) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != size:
            raise IntegrityError(
                str(path), expected=f"nothing, or {size} bytes", found=f"{status.st_size} bytes"
            )
        found = _digest_of(descriptor)
        if found != digest:
            raise IntegrityError(
                str(path), expected=f"nothing, or SHA-256 {digest}", found=f"SHA-256 {found}"
            )
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest_of(descriptor: int) -> Digest:
    running = RunningDigest()
    while part := os.read(descriptor, _COMPARE_BYTES):
        running.update(part)
    return running.digest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
