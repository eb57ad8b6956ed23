"""The legacy chunk file ``SPCKV001``: a header that lists records, then the records (store-format §9.2)."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from app.core.canonical_json import (
    JsonObject,
    JsonValue,
    decode_canonical,
    encode_canonical,
    expect_int,
    expect_list,
    expect_object,
)
from app.core.digest import ByteBuffer, Digest, sha256
from app.core.errors import FormatError, Stage, shown
from app.core.store.framing import judged_in_header, verify_header_length
from app.core.store.identity import NOT_SHARDED, CacheIdentity, RecordKind
from app.core.store.manifest import FORMAT_ABI, ChunkDescriptor

CHUNK_MAGIC = b"SPCKV001"
CHUNK_PREFIX_BYTES = 16

_PREFIX = struct.Struct("<8sII")
_HEADER_KEYS = frozenset({"format_abi", "logical_start", "logical_end", "records"})
_RECORD_KEYS = frozenset({"kind", "length", "offset", "sha256"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRecord:
    """One record: file bytes ``start … end``, header included in the count."""

    kind: RecordKind
    start: int
    end: int
    sha256: Digest

    @property
    def byte_count(self) -> int:
        """Length of the record."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkHeader:
    """A chunk's header that passed every check of §9.2.

    Attributes:
        records: in file order, without gap, up to the end of the file.
        payload_start: first byte behind the header.
        sha256: digest of the file's bytes up to there.
    """

    records: tuple[ChunkRecord, ...]
    payload_start: int
    sha256: Digest

    def record(self, kind: RecordKind) -> ChunkRecord:
        """The record of a required kind; there is exactly one (store-format §9.2)."""
        return next(record for record in self.records if record.kind is kind)


def parse_chunk_prefix(prefix: bytes, *, file_bytes: int, subject: str) -> int:
    """Read a chunk's first 16 bytes.

    Args:
        prefix: those bytes, or fewer if the file is shorter.
        file_bytes: size of the whole file.
        subject: the chunk, for messages.

    Returns:
        The length of the header that follows.

    Raises:
        FormatError: stage ``header``: another magic or ABI, or an impossible header length.
    """
    if len(prefix) < CHUNK_PREFIX_BYTES or prefix[: len(CHUNK_MAGIC)] != CHUNK_MAGIC:
        raise FormatError(
            f"{subject} magic", expected=shown(CHUNK_MAGIC), found=shown(prefix[:8]), stage=Stage.HEADER
        )
    _, abi, length = _PREFIX.unpack(prefix)
    if abi != FORMAT_ABI:
        raise FormatError(f"{subject} ABI", expected=str(FORMAT_ABI), found=str(abi), stage=Stage.HEADER)
    verify_header_length(length, available=file_bytes - CHUNK_PREFIX_BYTES, subject=f"{subject} header")
    return int(length)


def parse_chunk_header(
    body: bytes, *, descriptor: ChunkDescriptor, required: frozenset[RecordKind], subject: str
) -> ChunkHeader:
    """Judge the header of an authentic chunk (store-format §9.2).

    Args:
        body: the JSON behind the first 16 bytes.
        descriptor: what the root document says of the chunk.
        required: record kinds the identity demands.
        subject: the chunk, for messages.

    Raises:
        FormatError: stage ``header``: not canonical, other keys, another ABI or range, a record that is
            unknown, twice, empty, out of place or missing, or bytes no record claims.
    """
    with judged_in_header():
        header = expect_object(
            decode_canonical(body, subject=subject, stage=Stage.HEADER), subject=subject, keys=_HEADER_KEYS
        )
        # Step 1: ABI and range are the descriptor's.
        for key, wanted in (
            ("format_abi", FORMAT_ABI),
            ("logical_start", descriptor.start),
            ("logical_end", descriptor.end),
        ):
            expect_int(header[key], subject=f"{subject}.{key}", minimum=wanted, maximum=wanted)
        # Step 2: records, one behind the other.
        payload_start = CHUNK_PREFIX_BYTES + len(body)
        records = _parse_records(header["records"], start=payload_start, subject=f"{subject}.records")
        # Step 3: nothing missing, nothing twice, nothing left over.
        _verify_kinds(records, required=required, subject=subject)
        if records[-1].end != descriptor.byte_count:
            raise FormatError(
                subject,
                expected=f"records up to byte {descriptor.byte_count}",
                found=f"records up to byte {records[-1].end}",
            )
    head = _PREFIX.pack(CHUNK_MAGIC, FORMAT_ABI, len(body)) + body
    return ChunkHeader(records=records, payload_start=payload_start, sha256=sha256(head))


def encode_chunk(records: Mapping[RecordKind, ByteBuffer], *, start: int, end: int) -> bytes:
    """A chunk file of tokens ``start … end``, records sorted by kind as upstream's writer does (§9.2)."""
    entries: list[JsonValue] = []
    offset = 0
    for kind in sorted(records):
        payload = memoryview(records[kind])
        entry: JsonObject = {
            "kind": kind,
            "length": payload.nbytes,
            "offset": offset,
            "sha256": sha256(payload),
        }
        entries.append(entry)
        offset += payload.nbytes
    header: JsonObject = {
        "format_abi": FORMAT_ABI,
        "logical_start": start,
        "logical_end": end,
        "records": entries,
    }
    body = encode_canonical(header)
    prefix = _PREFIX.pack(CHUNK_MAGIC, FORMAT_ABI, len(body))
    return b"".join((prefix, body, *(records[kind] for kind in sorted(records))))


def encode_positions(positions: range) -> bytes:
    """The ``logical_positions`` record over these token positions, u32le each (store-format §9.2)."""
    return struct.pack(f"<{len(positions)}I", *positions)


def owned_positions(identity: CacheIdentity, *, start: int, end: int) -> range:
    """The positions of ``start … end`` whose rows this rank holds: p mod dcp_degree = r (store-format §9.2).

    The rule is known for an interleave size of 1 only (§20.4); the caller sees to that.
    """
    rank, degree = identity.dcp_shard_rank, identity.dcp_degree
    if rank == NOT_SHARDED:
        return range(start, end)
    return range(start + (rank - start) % degree, end, degree)


def part_lengths(stream_bytes: int, *, parts: int) -> tuple[int, ...]:
    """How a page stream is cut over legacy chunks: ⌊L/n⌋ bytes each, the first L mod n one more (§9.2)."""
    least, longer = divmod(stream_bytes, parts)
    return tuple(least + 1 if index < longer else least for index in range(parts))


def _parse_records(value: JsonValue, *, start: int, subject: str) -> tuple[ChunkRecord, ...]:
    records: list[ChunkRecord] = []
    at = start
    for index, item in enumerate(expect_list(value, subject=subject, maximum=len(RecordKind))):
        record = _parse_record(item, payload_start=start, at=at, subject=f"{subject}[{index}]")
        records.append(record)
        at = record.end
    return tuple(records)


def _parse_record(value: JsonValue, *, payload_start: int, at: int, subject: str) -> ChunkRecord:
    wire = expect_object(value, subject=subject, keys=_RECORD_KEYS)
    kind = next((kind for kind in RecordKind if kind.value == wire["kind"]), None)
    if kind is None:
        raise FormatError(f"{subject}.kind", expected="a record kind", found=shown(wire["kind"]))
    offset = at - payload_start
    expect_int(wire["offset"], subject=f"{subject}.offset", minimum=offset, maximum=offset)
    length = expect_int(wire["length"], subject=f"{subject}.length", minimum=1)
    digest = Digest.parse(wire["sha256"], subject=f"{subject}.sha256")
    return ChunkRecord(kind=kind, start=at, end=at + length, sha256=digest)


def _verify_kinds(records: tuple[ChunkRecord, ...], *, required: frozenset[RecordKind], subject: str) -> None:
    kinds = [record.kind for record in records]
    if len(set(kinds)) != len(kinds) or not required.issubset(kinds):
        raise FormatError(
            f"{subject}.records",
            expected=f"each kind once, among them {', '.join(sorted(required))}",
            found=", ".join(kinds),
        )
