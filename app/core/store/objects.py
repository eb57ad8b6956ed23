"""Stored objects made sure of: their type and size, their bytes, a chunk's inside (store-format §13.1)."""

from collections.abc import Iterable

from app.core.digest import Digest, RunningDigest
from app.core.errors import IntegrityError, Stage
from app.core.store.chunk import (
    CHUNK_PREFIX_BYTES,
    ChunkHeader,
    ChunkRecord,
    parse_chunk_header,
    parse_chunk_prefix,
)
from app.core.store.entry import FileDescriptor
from app.core.store.files import StoredFile, StoreFiles, iterate_blocks, open_object, read_exactly
from app.core.store.identity import RecordKind
from app.core.store.manifest import ChunkDescriptor


def verify_sizes(files: StoreFiles, *, descriptors: Iterable[FileDescriptor]) -> None:
    """Every object exists, is a regular file and has its declared size: the level *size*.

    Raises:
        FormatError: stage ``size``; ``MissingObjectError`` where there is no such file.
        ResourceError: out of descriptors or memory.
    """
    seen: set[tuple[Digest, int]] = set()
    for index, descriptor in enumerate(descriptors):
        known = (descriptor.sha256, descriptor.byte_count)
        if known in seen:
            continue
        seen.add(known)
        with open_object(
            files,
            descriptor.sha256,
            byte_count=descriptor.byte_count,
            subject=subject_of(descriptor, index=index),
        ):
            pass


def verify_contents(
    files: StoreFiles, *, descriptors: Iterable[FileDescriptor], required: frozenset[RecordKind]
) -> None:
    """Every object holds the bytes its name says, and every chunk what its header says: the level *full*.

    A file named by many descriptors is read once.

    Args:
        files: the root.
        descriptors: in the order they are judged in.
        required: record kinds a chunk must contain.

    Raises:
        FormatError: stage ``size`` or, inside a chunk, ``header``.
        IntegrityError: stage ``content`` or, inside a chunk, ``header``.
        ResourceError: out of descriptors or memory.
    """
    seen: set[tuple[Digest, int]] = set()
    for index, descriptor in enumerate(descriptors):
        subject = subject_of(descriptor, index=index)
        known = (descriptor.sha256, descriptor.byte_count)
        is_chunk = isinstance(descriptor, ChunkDescriptor)
        if known in seen and not is_chunk:
            continue
        with open_object(files, descriptor.sha256, byte_count=descriptor.byte_count, subject=subject) as file:
            if known not in seen:
                _verify_digest(file, digest=descriptor.sha256, subject=subject)
            if isinstance(descriptor, ChunkDescriptor):
                _verify_chunk(file, descriptor=descriptor, required=required, subject=subject)
        seen.add(known)


def read_chunk_header(
    file: StoredFile, *, descriptor: ChunkDescriptor, required: frozenset[RecordKind], subject: str
) -> ChunkHeader:
    """The header of an open chunk, judged (store-format §9.2).

    Raises:
        FormatError: stage ``header``, or ``size`` where the file ends first.
    """
    prefix = bytearray(min(CHUNK_PREFIX_BYTES, file.byte_count))
    read_exactly(file, memory=memoryview(prefix), subject=subject, stage=Stage.SIZE)
    length = parse_chunk_prefix(bytes(prefix), file_bytes=file.byte_count, subject=subject)
    body = bytearray(length)
    read_exactly(file, memory=memoryview(body), subject=subject, stage=Stage.SIZE, offset=CHUNK_PREFIX_BYTES)
    return parse_chunk_header(bytes(body), descriptor=descriptor, required=required, subject=subject)


def subject_of(descriptor: FileDescriptor, *, index: int) -> str:
    """An object or chunk, for messages."""
    word = "chunk" if isinstance(descriptor, ChunkDescriptor) else "object"
    return f"{word} {index} ({descriptor.sha256})"


def require_record_digest(record: ChunkRecord, *, found: Digest, subject: str) -> None:
    """Compare a record's bytes with the digest its chunk's header states (store-format §17).

    Raises:
        IntegrityError: stage ``header``.
    """
    if found != record.sha256:
        raise IntegrityError(
            f"{subject} record {record.kind}", expected=record.sha256, found=found, stage=Stage.HEADER
        )


def _verify_digest(file: StoredFile, *, digest: Digest, subject: str) -> None:
    found = _digest_of(file, start=0, end=file.byte_count, subject=subject)
    if found != digest:
        raise IntegrityError(subject, expected=digest, found=found, stage=Stage.CONTENT)


def _verify_chunk(
    file: StoredFile, *, descriptor: ChunkDescriptor, required: frozenset[RecordKind], subject: str
) -> None:
    header = read_chunk_header(file, descriptor=descriptor, required=required, subject=subject)
    for record in header.records:
        found = _digest_of(file, start=record.start, end=record.end, subject=subject)
        require_record_digest(record, found=found, subject=subject)


def _digest_of(file: StoredFile, *, start: int, end: int, subject: str) -> Digest:
    running = RunningDigest()
    for block in iterate_blocks(file, start=start, end=end, subject=subject, stage=Stage.SIZE):
        running.update(block)
    return running.digest()
