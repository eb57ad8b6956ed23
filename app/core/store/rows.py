"""Row entries to their records, chunk after chunk (store-format §9.2, row mode)."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.core.digest import RunningDigest
from app.core.errors import FormatError, IntegrityError, Stage
from app.core.store.chunk import ChunkHeader, ChunkRecord, owned_positions
from app.core.store.entry import Entry
from app.core.store.files import StoredFile, StoreFiles, iterate_blocks, open_object
from app.core.store.identity import NOT_SHARDED, CacheIdentity, RecordKind
from app.core.store.manifest import ChunkDescriptor
from app.core.store.objects import read_chunk_header, require_record_digest, subject_of
from app.core.store.stored_stream import POSITION_BYTES, verify_positions

# One row per owned position; a boundary's hidden state is no row.
_ROW_KINDS = (RecordKind.TARGET_CKV, RecordKind.SPARSE_INDEXER, RecordKind.MTP_DRAFT_KV)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBlock:
    """Bytes of one record of one chunk.

    Attributes:
        chunk: number of the chunk.
        offset: of the first byte within the record.
        memory: overwritten by the next block; copy what is to be kept.
    """

    chunk: int
    kind: RecordKind
    offset: int
    memory: memoryview


def decode_rows(files: StoreFiles, *, entry: Entry) -> Iterator[RecordBlock]:
    """All records of all chunks in file order; a chunk is authentic as soon as the next one begins.

    Args:
        files: the root.
        entry: a legacy entry, row tail or alias.

    Raises:
        FormatError: stage ``size`` or ``header``: also positions that are not this rank's, or records that
            are no whole rows.
        IntegrityError: stage ``content`` or ``header``.
        ResourceError: out of descriptors or memory.
    """
    row_bytes: dict[RecordKind, int] = {}
    for index, chunk in enumerate(entry.chunks):
        yield from _chunk_blocks(
            files, chunk=chunk, index=index, identity=entry.identity, row_bytes=row_bytes
        )


def why_positions_are_unknown(identity: CacheIdentity) -> str | None:
    """Why rows of this identity can be read but not restored, or ``None`` if they can (§20.4)."""
    size = identity.cp_kv_cache_interleave_size
    if size == 1 or identity.dcp_shard_rank == NOT_SHARDED or identity.dcp_degree == 1:
        return None
    return f"which positions a rank owns is not known for cp_kv_cache_interleave_size {size}"


def _chunk_blocks(
    files: StoreFiles,
    *,
    chunk: ChunkDescriptor,
    index: int,
    identity: CacheIdentity,
    row_bytes: dict[RecordKind, int],
) -> Iterator[RecordBlock]:
    subject = subject_of(chunk, index=index)
    with open_object(files, chunk.sha256, byte_count=chunk.byte_count, subject=subject) as file:
        header = read_chunk_header(
            file, descriptor=chunk, required=identity.required_records, subject=subject
        )
        positions = _verify_owned(file, header=header, chunk=chunk, identity=identity, subject=subject)
        _verify_rows(header, positions=positions, row_bytes=row_bytes, subject=subject)
        running = RunningDigest()
        for block in iterate_blocks(
            file, start=0, end=header.payload_start, subject=subject, stage=Stage.SIZE
        ):
            running.update(block)
        if running.digest() != header.sha256:
            raise IntegrityError(
                f"{subject} header", expected=header.sha256, found="another", stage=Stage.CONTENT
            )
        for record in header.records:
            yield from _record_blocks(file, record=record, index=index, running=running, subject=subject)
        if running.digest() != chunk.sha256:
            raise IntegrityError(subject, expected=chunk.sha256, found=running.digest(), stage=Stage.CONTENT)


def _record_blocks(
    file: StoredFile, *, record: ChunkRecord, index: int, running: RunningDigest, subject: str
) -> Iterator[RecordBlock]:
    content, offset = RunningDigest(), 0
    for block in iterate_blocks(file, start=record.start, end=record.end, subject=subject, stage=Stage.SIZE):
        running.update(block)
        content.update(block)
        yield RecordBlock(chunk=index, kind=record.kind, offset=offset, memory=block)
        offset += len(block)
    require_record_digest(record, found=content.digest(), subject=subject)


def _verify_owned(
    file: StoredFile,
    *,
    header: ChunkHeader,
    chunk: ChunkDescriptor,
    identity: CacheIdentity,
    subject: str,
) -> int:
    """How many positions the chunk has rows of; which ones is checked where the rule is known (§20.4)."""
    record = header.record(RecordKind.LOGICAL_POSITIONS)
    if why_positions_are_unknown(identity) is None:
        positions = owned_positions(identity, start=chunk.start, end=chunk.end)
        verify_positions(file, record=record, positions=positions, subject=subject)
    elif record.byte_count % POSITION_BYTES:
        raise FormatError(
            f"{subject} record {record.kind}",
            expected="whole positions",
            found=f"{record.byte_count} bytes",
            stage=Stage.HEADER,
        )
    return record.byte_count // POSITION_BYTES


def _verify_rows(
    header: ChunkHeader, *, positions: int, row_bytes: dict[RecordKind, int], subject: str
) -> None:
    """A record holds one row per owned position, rows of one kind equally long in all chunks (§9.2)."""
    for record in header.records:
        if record.kind not in _ROW_KINDS:
            continue
        wanted = row_bytes.setdefault(record.kind, record.byte_count // positions)
        if wanted == 0 or record.byte_count != wanted * positions:
            raise FormatError(
                f"{subject} record {record.kind}",
                expected=f"{positions} rows of {wanted} bytes",
                found=f"{record.byte_count} bytes",
                stage=Stage.HEADER,
            )
