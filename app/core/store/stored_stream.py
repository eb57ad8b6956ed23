"""A byte stream that lies in stored files, read once from start to end (store-format §8.4, §9.2, §11.2).

Every file is hashed as it is read and compared with its name when its end is reached, so that what was handed
out is authentic as soon as the next file begins. One block is held at a time.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from app.core.digest import Digest, RunningDigest
from app.core.errors import FormatError, IntegrityError, Stage
from app.core.store.chunk import ChunkRecord, encode_positions, part_lengths
from app.core.store.entry import FileDescriptor
from app.core.store.files import StoredFile, StoreFiles, iterate_blocks, open_object
from app.core.store.identity import CacheIdentity, RecordKind
from app.core.store.manifest import ChunkDescriptor, ObjectDescriptor
from app.core.store.objects import read_chunk_header, require_record_digest, subject_of

_LAST_POSITION = 2**32 - 1
POSITION_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPart:
    """Which bytes of one file belong to the stream.

    Attributes:
        start: first byte of the file that does; ``end`` the one behind the last.
        head_bytes: length of a chunk's header, 0 for an extent.
        head_sha256: digest of that header when it was judged, so that it cannot be another one later.
        record: what a chunk's header says of the bytes.
    """

    descriptor: FileDescriptor
    subject: str
    start: int
    end: int
    head_bytes: int = 0
    head_sha256: Digest | None = None
    record: ChunkRecord | None = None


class StoredStream:
    """The concatenation of ``parts``, given out in order by ``take``.

    Args:
        files: the root.
        parts: in stream order.
        subject: the stream, for messages.

    Attributes:
        byte_count: length of the stream; ``left_bytes`` of what was not taken yet.
    """

    def __init__(self, files: StoreFiles, *, parts: Sequence[StreamPart], subject: str) -> None:
        self.subject = subject
        self.byte_count = sum(part.end - part.start for part in parts)
        self._files = files
        self._blocks = self._iterate(parts)
        self._left_over = memoryview(b"")
        self._running = RunningDigest()
        self.left_bytes = self.byte_count

    def take(self, count: int) -> Iterator[memoryview]:
        """The next ``count`` bytes, a block at a time; each block is overwritten by the next one.

        Raises:
            FormatError: stage ``size``: a file is missing, of another kind or size, or cut while it is read.
            IntegrityError: stage ``content`` or ``header``: a file is not the one that was named or judged.
            ResourceError: out of descriptors or memory.
        """
        wanted = count
        while wanted:
            if not self._left_over:
                self._left_over = self._next_block()
            block = self._left_over[:wanted]
            self._left_over = self._left_over[len(block) :]
            wanted -= len(block)
            self.left_bytes -= len(block)
            self._running.update(block)
            yield block

    def take_bytes(self, count: int) -> bytes:
        """The next ``count`` bytes in one piece; for headers. Raises as ``take``."""
        return b"".join(bytes(block) for block in self.take(count))

    def finish(self) -> Digest:
        """The digest of the whole stream, once all of it was taken; the last file is made sure of.

        Raises:
            FormatError: stage ``header``: bytes are left that nobody wanted.
            IntegrityError: as ``take``.
        """
        if self._left_over or next(self._blocks, None) is not None:
            raise FormatError(self.subject, expected="an end", found="more bytes", stage=Stage.HEADER)
        return self._running.digest()

    def close(self) -> None:
        """Let go of the file that is open."""
        self._blocks.close()

    def _next_block(self) -> memoryview:
        block = next(self._blocks, None)
        if block is None:
            raise FormatError(self.subject, expected="more bytes", found="an end", stage=Stage.HEADER)
        return block

    def _iterate(self, parts: Sequence[StreamPart]) -> Generator[memoryview, None, None]:
        for part in parts:
            yield from _authentic_blocks(self._files, part=part)


def extent_parts(objects: Sequence[ObjectDescriptor]) -> tuple[StreamPart, ...]:
    """Raw extents: every byte of every object belongs to the stream (store-format §8.4)."""
    return tuple(
        StreamPart(descriptor=item, subject=subject_of(item, index=index), start=0, end=item.byte_count)
        for index, item in enumerate(objects)
    )


def chunk_parts(
    files: StoreFiles, *, chunks: Sequence[ChunkDescriptor], identity: CacheIdentity
) -> tuple[StreamPart, ...]:
    """A stream cut over the ``target_ckv`` records of legacy chunks (store-format §9.2, page mode).

    Raises:
        FormatError: stage ``header``: a header that is not the descriptor's, positions other than the chunk's
            plain range, or parts of other lengths than the rule gives; stage ``size`` as ``take``.
    """
    parts = tuple(
        _open_part(files, chunk=chunk, index=index, required=identity.required_records)
        for index, chunk in enumerate(chunks)
    )
    lengths = tuple(part.end - part.start for part in parts)
    wanted = part_lengths(sum(lengths), parts=len(parts))
    for part, found, expected in zip(parts, lengths, wanted, strict=True):
        if found != expected:
            raise FormatError(
                f"{part.subject} record {RecordKind.TARGET_CKV}",
                expected=f"a part of {expected} bytes",
                found=f"{found} bytes",
                stage=Stage.HEADER,
            )
    return parts


def verify_positions(file: StoredFile, *, record: ChunkRecord, positions: range, subject: str) -> None:
    """The ``logical_positions`` record lists exactly these positions (store-format §9.2, §20.4).

    Raises:
        FormatError: stage ``header``: another length or position; stage ``size``: the file ends first.
    """
    subject = f"{subject} record {record.kind}"
    expected = f"{len(positions)} positions from {positions.start} in steps of {positions.step}"
    fitting = record.byte_count == len(positions) * POSITION_BYTES and positions[-1] <= _LAST_POSITION
    if not fitting:
        raise FormatError(subject, expected=expected, found=f"{record.byte_count} bytes", stage=Stage.HEADER)
    at = 0
    for block in iterate_blocks(file, start=record.start, end=record.end, subject=subject, stage=Stage.SIZE):
        count = len(block) // POSITION_BYTES
        if block != encode_positions(positions[at : at + count]):
            raise FormatError(subject, expected=expected, found="others", stage=Stage.HEADER)
        at += count


def _open_part(
    files: StoreFiles, *, chunk: ChunkDescriptor, index: int, required: frozenset[RecordKind]
) -> StreamPart:
    subject = subject_of(chunk, index=index)
    with open_object(files, chunk.sha256, byte_count=chunk.byte_count, subject=subject) as file:
        header = read_chunk_header(file, descriptor=chunk, required=required, subject=subject)
        verify_positions(
            file,
            record=header.record(RecordKind.LOGICAL_POSITIONS),
            positions=range(chunk.start, chunk.end),
            subject=subject,
        )
    record = header.record(RecordKind.TARGET_CKV)
    return StreamPart(
        descriptor=chunk,
        subject=subject,
        start=record.start,
        end=record.end,
        head_bytes=header.payload_start,
        head_sha256=header.sha256,
        record=record,
    )


def _authentic_blocks(files: StoreFiles, *, part: StreamPart) -> Generator[memoryview, None, None]:
    descriptor, subject = part.descriptor, part.subject
    with open_object(files, descriptor.sha256, byte_count=descriptor.byte_count, subject=subject) as file:
        running, content = RunningDigest(), RunningDigest()
        _hash(file, running=running, start=0, end=part.head_bytes, subject=subject)
        _require(running.digest(), wanted=part.head_sha256, subject=f"{subject} header")
        _hash(file, running=running, start=part.head_bytes, end=part.start, subject=subject)
        for block in iterate_blocks(file, start=part.start, end=part.end, subject=subject, stage=Stage.SIZE):
            running.update(block)
            if part.record is not None:
                content.update(block)
            yield block
        _hash(file, running=running, start=part.end, end=file.byte_count, subject=subject)
        _require(running.digest(), wanted=descriptor.sha256, subject=subject)
        if part.record is not None:
            require_record_digest(part.record, found=content.digest(), subject=subject)


def _hash(file: StoredFile, *, running: RunningDigest, start: int, end: int, subject: str) -> None:
    for block in iterate_blocks(file, start=start, end=end, subject=subject, stage=Stage.SIZE):
        running.update(block)


def _require(found: Digest, *, wanted: Digest | None, subject: str) -> None:
    if wanted is not None and found != wanted:
        raise IntegrityError(subject, expected=wanted, found=found, stage=Stage.CONTENT)
