"""What of an object's bytes a restore uses, judged once the bytes are authentic (store-format §8.4, §9.2)."""

from dataclasses import dataclass
from typing import Protocol

from app.core.digest import sha256
from app.core.errors import FormatError, Stage
from app.core.store.chunk import ChunkHeader, owned_positions
from app.core.store.identity import CacheIdentity, RecordKind
from app.core.store.manifest import ChunkDescriptor
from app.core.store.objects import read_chunk_header, require_record_digest
from app.core.store.stored_stream import verify_positions


class Content(Protocol):
    """How an object that is more than content is opened."""

    def open(self, memory: memoryview, *, subject: str) -> tuple[memoryview, ...]:
        """The parts of an authentic object that are used.

        Raises:
            FormatError: stage ``header``: the object is not what its descriptor says.
            IntegrityError: stage ``header``: a record's digest is another one.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamChunk:
    """A chunk whose ``target_ckv`` record is a part of a page stream (store-format §9.2, page mode)."""

    descriptor: ChunkDescriptor
    identity: CacheIdentity

    def open(self, memory: memoryview, *, subject: str) -> tuple[memoryview, ...]:
        """See ``Content``."""
        positions = range(self.descriptor.start, self.descriptor.end)
        header = _open_chunk(
            memory,
            descriptor=self.descriptor,
            identity=self.identity,
            positions=positions,
            subject=subject,
        )
        return _records(memory, header=header, kinds=(RecordKind.TARGET_CKV,))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChunk:
    """A chunk of rows, one record per kind; the parts are in the order of ``kinds`` (§9.2, row mode)."""

    descriptor: ChunkDescriptor
    identity: CacheIdentity
    kinds: tuple[RecordKind, ...]

    @property
    def rows(self) -> int:
        """Positions of the chunk that this rank has rows of."""
        start, end = self.descriptor.start, self.descriptor.end
        return len(owned_positions(self.identity, start=start, end=end))

    def open(self, memory: memoryview, *, subject: str) -> tuple[memoryview, ...]:
        """See ``Content``."""
        start, end = self.descriptor.start, self.descriptor.end
        header = _open_chunk(
            memory,
            descriptor=self.descriptor,
            identity=self.identity,
            positions=owned_positions(self.identity, start=start, end=end),
            subject=subject,
        )
        return _records(memory, header=header, kinds=self.kinds)


def require_part_bytes(
    parts: tuple[memoryview, ...], *, wanted: tuple[int, ...], subject: str
) -> tuple[memoryview, ...]:
    """The parts have the lengths the entry's geometry gives them (store-format §9.2).

    Raises:
        FormatError: stage ``header``: another length.
    """
    found = tuple(len(part) for part in parts)
    if found != wanted:
        raise FormatError(
            subject,
            expected=f"records of {', '.join(map(str, wanted))} bytes",
            found=", ".join(map(str, found)),
            stage=Stage.HEADER,
        )
    return parts


@dataclass(frozen=True, slots=True)
class _MemoryFile:
    """Authentic bytes, for the judges that read files."""

    memory: memoryview

    @property
    def byte_count(self) -> int:
        return len(self.memory)

    def read_at(self, offset: int, *, memory: memoryview) -> int:
        block = self.memory[offset : offset + len(memory)]
        memory[: len(block)] = block
        return len(block)


def _open_chunk(
    memory: memoryview,
    *,
    descriptor: ChunkDescriptor,
    identity: CacheIdentity,
    positions: range,
    subject: str,
) -> ChunkHeader:
    file = _MemoryFile(memory)
    header = read_chunk_header(
        file, descriptor=descriptor, required=identity.required_records, subject=subject
    )
    listed = header.record(RecordKind.LOGICAL_POSITIONS)
    verify_positions(file, record=listed, positions=positions, subject=subject)
    for record in header.records:
        found = sha256(memory[record.start : record.end])
        require_record_digest(record, found=found, subject=subject)
    return header


def _records(
    memory: memoryview, *, header: ChunkHeader, kinds: tuple[RecordKind, ...]
) -> tuple[memoryview, ...]:
    records = (header.record(kind) for kind in kinds)
    return tuple(memory[record.start : record.end] for record in records)
