"""Headers that every digest covers and that are wrong nevertheless (§8.4, §9.2, §11.2, §20.6)."""

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.core.canonical_json import encode_canonical
from app.core.digest import sha256
from app.core.errors import Stage
from app.core.store.chunk import encode_chunk, encode_positions, part_lengths
from app.core.store.framing import MAX_HEADER_BYTES
from app.core.store.identity import RecordKind
from app.core.store.layout import object_path
from app.core.store.lookup import Depth, LookupOutcome
from app.core.store.manifest import (
    ChunkDescriptor,
    StorageMode,
    encode_flat_manifest,
    encode_legacy_manifest,
)
from app.core.store.snapshot import STREAM_MAGIC, parse_page_layout
from app.core.store.verify import Verification, verify

from .builders import (
    PAGE_IDENTITY,
    ROW_IDENTITY,
    SMALL_LAYOUT,
    put_chunk,
    put_extents,
    put_rows,
)
from .rig import MemoryFiles, StoreVector

CONTEXT = sha256(b"headers")
LAYOUT = parse_page_layout(SMALL_LAYOUT)


def resigned(document: dict[str, Any]) -> bytes:
    covered = {key: value for key, value in document.items() if key != "metadata_sha256"}
    return encode_canonical(covered | {"metadata_sha256": sha256(encode_canonical(covered))})


def redelta(
    vector: StoreVector, change: Callable[[dict[str, Any]], Any], *, tails: bytes | None = None
) -> Verification:
    """A v3 entry's last delta stream with another header, everything around it made right."""
    document = json.loads(vector.memory[vector.document])
    stage = document["delta_stages"][-1]
    raw = vector.memory[str(object_path(stage["delta_sha256"]))]
    (length,) = struct.unpack_from("<I", raw, 6)
    header = json.loads(raw[10 : 10 + length])
    change(header)
    body = encode_canonical(header)
    new = raw[:6] + struct.pack("<I", len(body)) + body + (raw[10 + length :] if tails is None else tails)
    digest = sha256(new)
    vector.memory[str(object_path(digest))] = new
    stage |= {
        "delta_sha256": digest,
        "delta_encoded_bytes": len(new),
        "delta_objects": [{"sha256": digest, "bytes": len(new), "encoded_start": 0, "encoded_end": len(new)}],
    }
    vector.memory[vector.document] = resigned(document)
    return vector.verify()


DELTA_CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "schema": lambda h: h.update(schema="x"),
    "layout": lambda h: h.update(layout_sha256="0" * 64),
    "base digest": lambda h: h.update(base_snapshot_sha256="0" * 64),
    "base counts": lambda h: h.update(base_block_counts=[11, 2, 1]),
    "result counts": lambda h: h.update(result_block_counts=[17, 2, 1]),
    "counts as fractions": lambda h: h.update(result_block_counts=[16.0, 2.0, 1.0]),
    "base boundary": lambda h: h.update(base_boundary_tokens=512),
    "result boundary": lambda h: h.update(result_boundary_tokens=1280),
    "boundary true": lambda h: h.update(base_boundary_tokens=True),
    "reuse too few": lambda h: h.update(reused_pages_by_group=[12, 0]),
    "reuse negative": lambda h: h.update(reused_pages_by_group=[-1, 0, 0]),
    "reuse above base": lambda h: h.update(reused_pages_by_group=[13, 0, 0]),
    "reuse less than the tails": lambda h: h.update(reused_pages_by_group=[11, 0, 0]),
    "tails in another order": lambda h: h["layer_tails"].reverse(),
    "tail missing": lambda h: h["layer_tails"].pop(),
    "tail of another name": lambda h: h["layer_tails"][0].update(name="x"),
    "tail too long": lambda h: h["layer_tails"][0].update(bytes=10**6),
    "tail negative": lambda h: h["layer_tails"][0].update(bytes=-1),
    "tail key": lambda h: h["layer_tails"][0].update(note=1),
    "no tails": lambda h: h.update(layer_tails=[]),
    "key missing": lambda h: h.pop("base_boundary_tokens"),
}


@pytest.mark.parametrize("change", DELTA_CHANGES.values(), ids=DELTA_CHANGES.keys())
def test_a_delta_header(entries: dict[str, StoreVector], change: Callable[[dict[str, Any]], Any]) -> None:
    found = redelta(entries["page-delta-v3-1024"].in_memory(), change)
    assert (found.outcome, found.stage) == ("corrupt", Stage.HEADER), found.detail


def test_an_unchanged_delta_header_is_sound(entries: dict[str, StoreVector]) -> None:
    assert redelta(entries["page-delta-v3-1024"].in_memory(), lambda h: h).outcome == "verified"


@pytest.mark.parametrize("tails", [b"", b"x" * 10])
def test_a_delta_stream_of_another_length(entries: dict[str, StoreVector], tails: bytes) -> None:
    found = redelta(entries["page-delta-v3-1024"].in_memory(), lambda h: h, tails=tails)
    assert (found.outcome, found.stage) == ("corrupt", Stage.HEADER)


def test_a_delta_whose_header_leaves_its_first_object(entries: dict[str, StoreVector]) -> None:
    """Extents: refused. Legacy parts end where the rule says, so there it is sound (§20.6, §8.4)."""
    vector = entries["page-delta-v2-768"].in_memory()
    document = json.loads(vector.memory[vector.document])
    stream = b"".join(vector.memory[str(object_path(item["sha256"]))] for item in document["delta_objects"])
    assert isinstance(vector.files, MemoryFiles)
    objects = put_extents(vector.files, stream, object_bytes=512)
    document |= {"delta_object_bytes": 512, "delta_objects": [item.to_wire() for item in objects]}
    vector.memory[vector.document] = resigned(document)
    found = vector.verify()
    assert (found.outcome, found.stage) == ("corrupt", Stage.HEADER)


def ask_stream(stream: bytes, *, object_bytes: int | None = None, blind: bool = False) -> Verification:
    files = MemoryFiles()
    size = object_bytes or max(len(stream), 1)
    raw = encode_flat_manifest(
        identity=PAGE_IDENTITY,
        context_digest=CONTEXT,
        committed_tokens=256,
        object_bytes=size,
        objects=put_extents(files, stream, object_bytes=size),
        snapshot_sha256=sha256(stream),
    )
    files.put_document(raw, identity=PAGE_IDENTITY, context_digest=CONTEXT)
    return verify(files, identity=PAGE_IDENTITY, context_digest=CONTEXT, layout=None if blind else LAYOUT)


@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize(
    "stream",
    [
        b"x",
        STREAM_MAGIC,
        STREAM_MAGIC + struct.pack("<I", 1),
        STREAM_MAGIC + struct.pack("<I", 0) + b"page",
        STREAM_MAGIC + struct.pack("<I", 2) + b"{}" + b"page",
        STREAM_MAGIC + struct.pack("<I", MAX_HEADER_BYTES + 1) + b" " * (MAX_HEADER_BYTES + 9),
        STREAM_MAGIC + struct.pack("<I", 60_000) + b"[" * 60_000 + b"page",
    ],
    ids=["a byte", "magic only", "length only", "empty header", "no keys", "over 1 MiB", "deep"],
)
def test_a_snapshot_stream(stream: bytes, blind: bool) -> None:
    found = ask_stream(stream, blind=blind)
    assert (found.outcome, found.stage) == ("corrupt", Stage.HEADER), found.detail


def ask_chunk(raw: bytes, *, depth: Depth = Depth.FULL) -> Any:
    """A legacy entry of this one chunk."""
    vector = chunk_entry(raw)
    return vector.lookup(depth)


def chunk_entry(raw: bytes) -> StoreVector:
    files = MemoryFiles()
    chunk = ChunkDescriptor(sha256=files.put_object(raw), byte_count=len(raw), start=0, end=256)
    document = encode_legacy_manifest(
        identity=PAGE_IDENTITY, context_digest=CONTEXT, committed_tokens=256, chunks=(chunk,)
    )
    path = files.put_document(document, identity=PAGE_IDENTITY, context_digest=CONTEXT)
    return StoreVector(
        name="chunk",
        files=files,
        root=None,  # type: ignore[arg-type]
        identity=PAGE_IDENTITY,
        layout=LAYOUT,
        mode=None,
        entry={"context_digest": CONTEXT, "manifest": path},
    )


RECORDS = {
    RecordKind.TARGET_CKV: b"stream",
    RecordKind.LOGICAL_POSITIONS: encode_positions(range(256)),
}
WHOLE = encode_chunk(RECORDS, start=0, end=256)


def rechunked(change: Callable[[dict[str, Any]], Any]) -> bytes:
    (length,) = struct.unpack_from("<I", WHOLE, 12)
    header = json.loads(WHOLE[16 : 16 + length])
    change(header)
    body = encode_canonical(header)
    return WHOLE[:12] + struct.pack("<I", len(body)) + body + WHOLE[16 + length :]


CHUNK_CHANGES: dict[str, bytes] = {
    "a byte": b"x",
    "magic only": WHOLE[:8],
    "prefix only": WHOLE[:16],
    "length zero": WHOLE[:12] + bytes(4) + WHOLE[16:],
    "length beyond": WHOLE[:12] + b"\xff" * 4 + WHOLE[16:],
    "header over 1 MiB": WHOLE[:12] + struct.pack("<I", 2**20 + 1) + b" " * (2**20 + 9),
    "abi 2": WHOLE[:8] + b"\2" + WHOLE[9:],
    "header abi": rechunked(lambda h: h.update(format_abi=2)),
    "header abi true": rechunked(lambda h: h.update(format_abi=True)),
    "range": rechunked(lambda h: h.update(logical_end=255)),
    "range true": rechunked(lambda h: h.update(logical_start=False)),
    "no records": rechunked(lambda h: h.update(records=[])),
    "record twice": rechunked(lambda h: h["records"].append(h["records"][0])),
    "record empty": rechunked(lambda h: h["records"][0].update(length=0)),
    "record key": rechunked(lambda h: h["records"][0].update(note=0)),
    "kind null": rechunked(lambda h: h["records"][0].update(kind=None)),
    "gap": rechunked(lambda h: h["records"][1].update(offset=1025)),
    "offset true": rechunked(lambda h: h["records"][0].update(offset=False)),
    "beyond the end": rechunked(lambda h: h["records"][1].update(length=7)),
    "short of the end": rechunked(lambda h: h["records"][1].update(length=5)),
}


@pytest.mark.parametrize("raw", CHUNK_CHANGES.values(), ids=CHUNK_CHANGES.keys())
def test_a_chunk(raw: bytes) -> None:
    answer = ask_chunk(raw)
    assert (answer.outcome, answer.stage) == (LookupOutcome.CORRUPT, Stage.HEADER), answer.detail
    assert ask_chunk(raw, depth=Depth.SIZE).outcome is LookupOutcome.HIT


def test_the_order_of_records_and_extra_kinds_do_not_matter() -> None:
    """What upstream's writer sorts, a reader takes as it comes (§20.4)."""
    raw = encode_chunk(RECORDS | {RecordKind.SPARSE_INDEXER: b"more"}, start=0, end=256)
    assert ask_chunk(raw).outcome is LookupOutcome.HIT
    names = [RecordKind.TARGET_CKV, RecordKind.LOGICAL_POSITIONS]
    offset, entries = 0, []
    for kind in names:
        record = RECORDS[kind]
        entries.append({"kind": kind, "length": len(record), "offset": offset, "sha256": sha256(record)})
        offset += len(record)
    body = encode_canonical(
        {"format_abi": 1, "logical_start": 0, "logical_end": 256, "records": entries}  # type: ignore[dict-item]
    )
    raw = WHOLE[:12] + struct.pack("<I", len(body)) + body + b"".join(RECORDS[kind] for kind in names)
    assert ask_chunk(raw).outcome is LookupOutcome.HIT


@pytest.mark.parametrize(
    "positions",
    [range(1, 257), range(0, 512, 2), range(255), range(257)],
    ids=["shifted", "every other", "one less", "one more"],
)
def test_the_positions_of_a_part_are_its_plain_range(positions: range) -> None:
    records = RECORDS | {RecordKind.LOGICAL_POSITIONS: encode_positions(positions)}
    found = chunk_entry(encode_chunk(records, start=0, end=256)).verify()
    assert (found.outcome, found.stage) == ("corrupt", Stage.HEADER)
    assert "256 positions from 0" in (found.detail or "")


def test_parts_are_cut_by_the_rule(entries: dict[str, StoreVector]) -> None:
    """A byte moved from one part to the next: every digest is right, the rule of §9.2 is not."""
    vector = entries["legacy-pages-chunks"].in_memory()
    assert isinstance(vector.files, MemoryFiles)
    stream = b"".join(
        vector.memory[str(object_path(item["sha256"]))][-size:]
        for item, size in zip(vector.entry["chunks"], part_lengths(10_371, parts=2), strict=True)
    )
    for cut, outcome in ((5_186, "verified"), (5_185, "corrupt")):
        chunks = [
            put_chunk(
                vector.files,
                {
                    RecordKind.TARGET_CKV: part,
                    RecordKind.LOGICAL_POSITIONS: encode_positions(range(start, start + 256)),
                },
                start=start,
                end=start + 256,
            )
            for start, part in ((0, stream[:cut]), (256, stream[cut:]))
        ]
        vector.memory[vector.document] = encode_legacy_manifest(
            identity=vector.identity,
            context_digest=vector.context_digest,
            committed_tokens=512,
            chunks=chunks,
        )
        assert vector.verify().outcome == outcome


def test_rows_of_another_length() -> None:
    """Two bytes a row in one chunk, three in the next."""
    files = MemoryFiles()
    chunks = list(put_rows(files, ROW_IDENTITY, tokens=512))
    positions = range(257, 512, 2)
    records = dict.fromkeys(ROW_IDENTITY.required_records, b"row" * 128)
    records[RecordKind.LOGICAL_POSITIONS] = encode_positions(positions)
    for wrong in (records, records | {RecordKind.TARGET_CKV: b"r" * 255}):
        chunks[1] = put_chunk(files, wrong, start=256, end=512)
        raw = encode_legacy_manifest(
            identity=ROW_IDENTITY, context_digest=CONTEXT, committed_tokens=512, chunks=chunks
        )
        files.put_document(raw, identity=ROW_IDENTITY, context_digest=CONTEXT)
        found = verify(files, identity=ROW_IDENTITY, context_digest=CONTEXT, mode=StorageMode.ROWS)
        assert (found.outcome, found.stage) == ("corrupt", Stage.HEADER)


def test_positions_beyond_32_bits() -> None:
    """A span no position record can describe is refused, not an interpreter error."""
    files = MemoryFiles()
    identity = replace(PAGE_IDENTITY, chunk_tokens=2**33)
    raw = encode_chunk(RECORDS, start=0, end=2**33)
    chunk = ChunkDescriptor(sha256=files.put_object(raw), byte_count=len(raw), start=0, end=2**33)
    document = encode_legacy_manifest(
        identity=identity, context_digest=CONTEXT, committed_tokens=2**33, chunks=(chunk,)
    )
    files.put_document(document, identity=identity, context_digest=CONTEXT)
    found = verify(files, identity=identity, context_digest=CONTEXT, layout=LAYOUT)
    assert (found.outcome, found.stage) == ("corrupt", Stage.HEADER)
