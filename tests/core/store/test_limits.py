"""Documents made to be long, deep or large are refused in bounded time (store-format §19)."""

import json
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.core.canonical_json import encode_canonical
from app.core.digest import RunningDigest, sha256
from app.core.store.files import StoredFile
from app.core.store.layout import MAX_OBJECT_BYTES, object_path
from app.core.store.lookup import LookupAnswer, LookupOutcome
from app.core.store.manifest import ObjectDescriptor, encode_flat_manifest
from app.core.store.snapshot import encode_stream_header, parse_page_layout
from app.core.store.verify import VerifyOutcome, verify

from .builders import PAGE_IDENTITY, SMALL_LAYOUT
from .rig import MemoryFiles, StoreVector

KINDS = {
    "flat-v2-tp4-rank0": "snapshot_objects",
    "legacy-pages-chunks": "chunks",
    "rows-tail-cow-tail": "tail_chunks",
    "page-delta-v1-768": "delta_chunks",
    "page-delta-v2-768": "delta_objects",
    "page-delta-v3-1024": "delta_stages",
}
ALL = [*KINDS, "legacy-rows-alias-4096"]


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


def ask(vector: StoreVector, raw: bytes) -> LookupAnswer:
    vector.memory[vector.document] = raw
    return vector.lookup()


def signed(document: dict[str, Any]) -> bytes:
    covered = {key: value for key, value in document.items() if key != "metadata_sha256"}
    if covered == document:
        return encode_canonical(document)
    return encode_canonical(covered | {"metadata_sha256": sha256(encode_canonical(covered))})


@pytest.mark.parametrize("count", [65_537, 100_000])
@pytest.mark.parametrize("name", KINDS)
def test_more_descriptors_than_anyone_needs(entries: dict[str, StoreVector], name: str, count: int) -> None:
    vector = entries[name].in_memory()
    document = json.loads(vector.memory[vector.document])
    key = KINDS[name]
    if name == "page-delta-v3-1024":
        document[key][0]["delta_objects"] *= count
    else:
        document[key] = document[key][:1] * count
    with at_most(10):
        assert ask(vector, signed(document)).outcome is LookupOutcome.CORRUPT


def test_as_many_descriptors_as_allowed(entries: dict[str, StoreVector]) -> None:
    """65 536 times the same object of one byte: it is opened once per depth, not 65 536 times."""
    vector = entries["flat-v2-tp4-rank0"].in_memory()
    document = json.loads(vector.memory[vector.document])
    digest, count = sha256(b"x"), 65_536
    vector.memory[str(object_path(digest))] = b"x"
    document |= {
        "snapshot_objects": [
            {"sha256": digest, "bytes": 1, "encoded_start": at, "encoded_end": at + 1} for at in range(count)
        ],
        "snapshot_object_bytes": 1,
        "snapshot_encoded_bytes": count,
    }
    assert isinstance(vector.files, MemoryFiles)
    with at_most(10):
        assert ask(vector, signed(document)).outcome is LookupOutcome.HIT
        assert len(vector.files.opened) == 3
        found = vector.verify()
    assert (found.outcome, found.stage) == (VerifyOutcome.CORRUPT, "header")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"[" * 17 + b"]" * 17,
        b'{"committed_tokens":1' + b"0" * 5_000 + b"}",
        b'{"committed_tokens":1e' + b"9" * 5_000 + b"}",
        b"-" * 1_000_000,
        b'"' + b"\\" * 1_000_001 + b'"',
        b" " * (16 * 1024 * 1024 + 1),
    ],
    ids=["lists", "objects", "just too deep", "digits", "exponent", "minus", "escapes", "16 MiB"],
)
def test_texts_made_to_hurt(entries: dict[str, StoreVector], name: str, raw: bytes) -> None:
    with at_most(5):
        assert ask(entries[name].in_memory(), raw).outcome is LookupOutcome.CORRUPT


@pytest.mark.parametrize("name", ALL)
def test_a_number_of_5000_digits_in_every_place(entries: dict[str, StoreVector], name: str) -> None:
    vector = entries[name].in_memory()
    whole = vector.memory[vector.document]
    for key in [key for key, value in json.loads(whole).items() if type(value) is int]:
        text = f'"{key}":'.encode()
        changed = whole.replace(text, text + b"9" * 5_000)
        assert ask(vector, changed).outcome is LookupOutcome.CORRUPT


@dataclass(slots=True)
class Zeros:
    """A file of nothing but zeros behind its first bytes, made up as it is read."""

    head: bytes
    byte_count: int

    def read_at(self, offset: int, *, memory: memoryview) -> int:
        size = min(len(memory), self.byte_count - offset)
        memory[:size] = bytes(size)
        part = self.head[offset : offset + size]
        memory[: len(part)] = part
        return size


@dataclass(slots=True)
class MadeUpFiles(MemoryFiles):
    made_up: dict[str, Zeros] = field(default_factory=dict)

    def file(self, path: str, content: bytes) -> StoredFile:
        return self.made_up.get(path) or super(MadeUpFiles, self).file(path, content)


def test_verifying_holds_no_more_than_blocks() -> None:
    """Three objects of 64 MiB, of which no more than a few blocks are ever there."""
    layout = parse_page_layout(SMALL_LAYOUT.replace(b":4,", b":50000000,").replace(b"[4]", b"[50000000]"))
    tokens, size = 256 * 4, MAX_OBJECT_BYTES
    head = encode_stream_header(layout.sha256, block_counts=layout.block_counts(tokens))
    total = len(head) + layout.payload_bytes(block_counts=layout.block_counts(tokens))
    sizes = [size, size, total - 2 * size]
    zeros = bytes(1024 * 1024)
    files, objects, stream = MadeUpFiles(), [], RunningDigest()
    for index, length in enumerate(sizes):
        running, start = RunningDigest(), head if index == 0 else b""
        left = length - len(start)
        for part in (start, *[zeros] * (left // len(zeros)), zeros[: left % len(zeros)]):
            running.update(part)
            stream.update(part)
        path = str(object_path(running.digest()))
        files.contents[path], files.made_up[path] = b"", Zeros(start, length)
        at = index * size
        objects.append(ObjectDescriptor(sha256=running.digest(), start=at, end=at + length))
    context = sha256(b"zeros")
    raw = encode_flat_manifest(
        identity=PAGE_IDENTITY,
        context_digest=context,
        committed_tokens=tokens,
        object_bytes=size,
        objects=objects,
        snapshot_sha256=stream.digest(),
    )
    files.put_document(raw, identity=PAGE_IDENTITY, context_digest=context)
    tracemalloc.start()
    try:
        found = verify(files, identity=PAGE_IDENTITY, context_digest=context, layout=layout)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.outcome is VerifyOutcome.VERIFIED
    assert found.layers[0].byte_count == 4 * 50_000_000
    assert peak < 4 * 1024 * 1024
