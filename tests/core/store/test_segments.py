"""Chains of descriptor segments, walked from the last one, never further than they may go (§10.2, §20.3)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.core.digest import Digest, sha256
from app.core.errors import Stage
from app.core.store.identity import CacheIdentity, PublicationSchema
from app.core.store.layout import DocumentName, segment_path
from app.core.store.lookup import Depth, LookupAnswer, LookupOutcome, lookup
from app.core.store.manifest import (
    ChunkDescriptor,
    StorageMode,
    encode_alias,
    encode_row_tail,
    encode_segment,
)

from .builders import ROW_IDENTITY
from .rig import MemoryFiles

CONTEXT = sha256(b"chain")
COUNT = 40
TAIL_IDENTITY = replace(ROW_IDENTITY, publication_schema=PublicationSchema.TAIL_COW_V1)
CHUNKS = tuple(
    ChunkDescriptor(sha256=sha256(b"%d" % index), byte_count=9, start=256 * index, end=256 * (index + 1))
    for index in range(COUNT + 1)
)

Change = Callable[[int, dict[str, Any]], dict[str, Any]]


def keep(place: int, values: dict[str, Any]) -> dict[str, Any]:
    return values


def put_segments(files: MemoryFiles, identity: CacheIdentity, change: Change = keep) -> Digest:
    """Three segments over forty chunks, each changed as wanted before it is named."""
    parent: Digest | None = None
    for place in range(3):
        values = change(
            place,
            {
                "storage_key": identity.storage_key,
                "parent_sha256": parent,
                "first_chunk_index": 16 * place,
                "chunks": CHUNKS[16 * place : min(16 * place + 16, COUNT)],
            },
        )
        raw = encode_segment(**values)
        parent = sha256(raw)
        files.contents[str(segment_path(parent, storage_key=identity.storage_key))] = raw
    assert parent is not None
    return parent


def ask_alias(files: MemoryFiles, tail: Digest, *, count: int = COUNT) -> LookupAnswer:
    raw = encode_alias(
        identity=ROW_IDENTITY,
        context_digest=CONTEXT,
        committed_tokens=256 * count,
        chunk_count=count,
        tail_segment_sha256=tail,
        source_manifest_sha256=sha256(b"source"),
    )
    name = DocumentName(storage_key=ROW_IDENTITY.storage_key, context_digest=CONTEXT)
    files.contents[str(name.alias_path)] = raw
    return ask(files, ROW_IDENTITY)


def ask_tail(files: MemoryFiles, tail: Digest) -> LookupAnswer:
    raw = encode_row_tail(
        identity=TAIL_IDENTITY,
        context_digest=CONTEXT,
        committed_tokens=256 * (COUNT + 1),
        base_context_digest=sha256(b"base"),
        base_manifest_sha256=sha256(b"base file"),
        base_committed_tokens=256 * COUNT,
        reused_tokens=256 * COUNT,
        base_tail_segment_sha256=tail,
        tail_chunks=CHUNKS[COUNT:],
    )
    files.put_document(raw, identity=TAIL_IDENTITY, context_digest=CONTEXT)
    return ask(files, TAIL_IDENTITY)


def ask(files: MemoryFiles, identity: CacheIdentity) -> LookupAnswer:
    return lookup(
        files, identity=identity, context_digest=CONTEXT, depth=Depth.METADATA, mode=StorageMode.ROWS
    )


def test_a_sound_chain() -> None:
    files = MemoryFiles()
    for answer, chunks in (
        (ask_alias(files, put_segments(files, ROW_IDENTITY)), CHUNKS[:COUNT]),
        (ask_tail(files, put_segments(files, TAIL_IDENTITY)), CHUNKS),
    ):
        assert answer.outcome is LookupOutcome.HIT
        assert answer.entry is not None
        assert answer.entry.chunks == chunks


def test_surplus_descriptors_of_the_last_segment_are_ignored() -> None:
    files = MemoryFiles()
    answer = ask_alias(files, put_segments(files, ROW_IDENTITY), count=COUNT - 3)
    assert answer.outcome is LookupOutcome.HIT
    assert answer.entry is not None
    assert answer.entry.chunks == CHUNKS[: COUNT - 3]


def at(place: int, **changes: Any) -> Change:
    return lambda number, values: values | changes if number == place else values


BAD = {
    "index of another place": at(1, first_chunk_index=17),
    "index of the first": at(2, first_chunk_index=0),
    "first with a parent": at(0, parent_sha256=sha256(b"x")),
    "middle without a parent": at(1, parent_sha256=None),
    "last without a parent": at(2, parent_sha256=None),
    "middle too short": at(1, chunks=CHUNKS[16:31]),
    "last too short": at(2, chunks=CHUNKS[32:39]),
    "another storage key": at(1, storage_key=sha256(b"key")),
    "chunks of another place": at(1, chunks=CHUNKS[0:16]),
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD.keys())
def test_a_broken_chain_is_corrupt_whoever_asks(change: Change) -> None:
    files = MemoryFiles()
    for answer in (
        ask_alias(files, put_segments(files, ROW_IDENTITY, change)),
        ask_tail(files, put_segments(files, TAIL_IDENTITY, change)),
    ):
        assert (answer.outcome, answer.stage) == (LookupOutcome.CORRUPT, Stage.METADATA)


def test_a_surplus_parent_is_never_opened() -> None:
    files = MemoryFiles()
    tail = put_segments(files, ROW_IDENTITY, at(0, parent_sha256=sha256(b"x")))
    ask_alias(files, tail)
    assert not any(path.endswith(f"{sha256(b'x')}.spix") for path in files.opened)


def test_a_chain_is_never_longer_than_its_chunks_need() -> None:
    files = MemoryFiles()
    ask_alias(files, put_segments(files, ROW_IDENTITY), count=16)
    assert sum(path.startswith("prefix-index") for path in files.opened) == 1


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_missing_segment(place: int) -> None:
    """Below an alias it is a miss, below a tail it is damage."""
    for identity, question, outcome in (
        (ROW_IDENTITY, ask_alias, LookupOutcome.ABSENT),
        (TAIL_IDENTITY, ask_tail, LookupOutcome.CORRUPT),
    ):
        files = MemoryFiles()
        tail = put_segments(files, identity)
        del files.contents[[path for path in files.contents if "prefix-index" in path][place]]
        answer = question(files, tail)
        assert (answer.outcome, answer.stage) == (outcome, Stage.METADATA)


def test_a_segment_that_is_not_the_one_named() -> None:
    files = MemoryFiles()
    tail = put_segments(files, ROW_IDENTITY)
    path = str(segment_path(tail, storage_key=ROW_IDENTITY.storage_key))
    files.contents[path] += b"\n"
    answer = ask_alias(files, tail)
    assert (answer.outcome, answer.stage) == (LookupOutcome.CORRUPT, Stage.METADATA)
