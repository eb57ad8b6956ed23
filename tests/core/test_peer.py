"""The released package reads what is written here, and what it writes is read here (§1, §5.4)."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.canonical_json import encode_canonical
from app.core.digest import Digest, sha256, squeeze
from app.core.errors import FormatError
from app.core.store.chunk import encode_positions, owned_positions
from app.core.store.context import context_digest
from app.core.store.files import RootFiles
from app.core.store.identity import CacheIdentity, IdentityForm, RecordKind, parse_identity
from app.core.store.lookup import Depth, LookupOutcome, lookup
from app.core.store.manifest import StorageMode
from app.core.store.snapshot import PageLayout, encode_stream_header, parse_page_layout
from app.core.store.verify import VerifyOutcome, verify
from app.core.store.writer import FileCalls, NewChunk, page_chunks, publish_legacy, row_chunk

REPOSITORY = Path(__file__).parents[2]
RELEASE = "0.1.0a2"
WIRE = {
    "target_checkpoint": sha256(b"peer target"),
    "draft_checkpoint": sha256(b"peer draft"),
    "quantization_layout": "peer-layout-v1",
    "rope_layout": "peer-rope-v1",
    "tp_degree": 2,
    "dcp_degree": 2,
    "chunk_tokens": 256,
    "dcp_shard_rank": 1,
    "tp_shard_rank": 1,
    "boundary_hidden_policy": "live_forward",
    "draft_kv_policy": "separate",
}
ROWS = parse_identity(WIRE, form=IdentityForm.RELEASE_0_1_0A2)
PAGES = parse_identity(
    WIRE
    | {
        "dcp_degree": 1,
        "dcp_shard_rank": 0,
        "draft_kv_policy": "colocated_target",
        "record_schema": ["target_ckv", "logical_positions"],
    },
    form=IdentityForm.RELEASE_0_1_0A2,
)
# The release knows no recurrent groups (store-format §8.5).
LAYOUT = parse_page_layout(
    encode_canonical(
        {
            "groups": [
                {
                    "block_size": 64,
                    "layers": [
                        {"bytes_per_page": 96, "dtype": "torch.uint8", "name": "a", "page_shape": [1, 96]},
                        {"bytes_per_page": 31, "dtype": "torch.uint8", "name": "b", "page_shape": [1, 31]},
                    ],
                    "reuse_policy": "full",
                    "reuse_window_tokens": None,
                },
                {
                    "block_size": 32,
                    "layers": [
                        {"bytes_per_page": 40, "dtype": "torch.uint8", "name": "c", "page_shape": [1, 40]}
                    ],
                    "reuse_policy": "sliding",
                    "reuse_window_tokens": 129,
                },
            ]
        }
    )
)


def ask(what: str, **request: Any) -> dict[str, Any]:
    """One answer of the release, from a process that imports nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.core.peer"],
        input=json.dumps({"do": what} | request),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["version"] == RELEASE
    return answer


def tokens_of(count: int) -> list[int]:
    return [(index * 31 + 7) % 150_000 for index in range(count)]


def context_of(identity: CacheIdentity, *, span_tokens: int) -> Digest:
    """The release salts with the storage key alone (store-format §6.1, v1)."""
    return context_digest(tokens_of(span_tokens), salt=identity.storage_key)


def stream_of(span_tokens: int) -> memoryview:
    counts = LAYOUT.block_counts(span_tokens)
    header = encode_stream_header(LAYOUT.sha256, block_counts=counts)
    payload = squeeze(b"peer pages", byte_count=LAYOUT.payload_bytes(block_counts=counts))
    return memoryview(header + payload)


def rows_of(identity: CacheIdentity, *, start: int, end: int) -> dict[RecordKind, bytes]:
    owned = len(owned_positions(identity, start=start, end=end))
    kinds = identity.required_records - {RecordKind.LOGICAL_POSITIONS}
    return {kind: squeeze(f"peer {kind}/{start}".encode(), byte_count=owned * 5) for kind in kinds}


def row_chunks(identity: CacheIdentity, *, span_tokens: int) -> list[NewChunk]:
    spans = [(start, min(start + 256, span_tokens)) for start in range(0, span_tokens, 256)]
    return [
        row_chunk(identity, start=start, end=end, rows=rows_of(identity, start=start, end=end))
        for start, end in spans
    ]


def publish(root: Path, *, identity: CacheIdentity, span_tokens: int, chunks: Any) -> Digest:
    numbers = count()
    context = context_of(identity, span_tokens=span_tokens)
    publish_legacy(
        root,
        identity=identity,
        context_digest=context,
        chunks=chunks,
        new_id=lambda: f"{next(numbers):032x}",
    )
    return context


def ask_read(
    root: Path, *, identity: CacheIdentity, context: Digest, layout: PageLayout | None
) -> dict[str, Any]:
    wire = None if layout is None else json.loads(layout.canonical)
    return ask(
        "read",
        root=str(root),
        identity=identity.to_wire(),
        context=context,
        layout=wire,
        counts=[] if layout is None else list(layout.block_counts(1024)),
    )


def test_the_release_restores_the_pages_that_are_written_here(tmp_path: Path) -> None:
    stream = stream_of(1024)
    context = publish(
        tmp_path,
        identity=PAGES,
        span_tokens=1024,
        chunks=page_chunks(stream, committed_tokens=1024, chunk_tokens=256),
    )
    answer = ask_read(tmp_path, identity=PAGES, context=context, layout=LAYOUT)
    assert answer["reason"] == "hit"
    assert answer["restored"] is True
    assert answer["storage_key"] == PAGES.storage_key
    assert answer["ranges"] == [[0, 256], [256, 512], [512, 768], [768, 1024]]
    assert answer["records"]["target_ckv"] == sha256(stream)
    ours = verify(RootFiles(tmp_path), identity=PAGES, context_digest=context, layout=LAYOUT)
    assert answer["layers"] == {layer.name: layer.sha256 for layer in ours.layers}


@pytest.mark.parametrize("span_tokens", [256, 600, 2304])
def test_the_release_restores_the_rows_that_are_written_here(tmp_path: Path, span_tokens: int) -> None:
    """Also where the last chunk is narrow, and over more than one batch."""
    chunks = row_chunks(ROWS, span_tokens=span_tokens)
    context = publish(tmp_path, identity=ROWS, span_tokens=span_tokens, chunks=chunks)
    answer = ask_read(tmp_path, identity=ROWS, context=context, layout=None)
    assert answer["reason"] == "hit"
    assert answer["ranges"][-1][1] == span_tokens
    assert answer["records"] == {
        kind.value: sha256(b"".join(bytes(chunk.records[kind]) for chunk in chunks))
        for kind in ROWS.required_records
    }


def test_the_release_never_finds_what_is_written_under_the_newer_identity(tmp_path: Path) -> None:
    newer = replace(PAGES, form=IdentityForm.CURRENT)
    stream = stream_of(512)
    context = publish(
        tmp_path,
        identity=newer,
        span_tokens=512,
        chunks=page_chunks(stream, committed_tokens=512, chunk_tokens=256),
    )
    assert ask_read(tmp_path, identity=PAGES, context=context, layout=None)["reason"] == "absent"


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_the_release_finds_the_same_damage_and_a_second_publication_heals_it(tmp_path: Path) -> None:
    chunks = row_chunks(ROWS, span_tokens=600)
    context = publish(tmp_path, identity=ROWS, span_tokens=600, chunks=chunks)
    flipped(sorted(tmp_path.glob("chunks/*"))[0])
    assert ask_read(tmp_path, identity=ROWS, context=context, layout=None)["reason"] == "corrupt"
    publish(tmp_path, identity=ROWS, span_tokens=600, chunks=chunks)
    assert ask_read(tmp_path, identity=ROWS, context=context, layout=None)["restored"] is True


def test_pages_written_by_the_release_are_read_here_and_are_the_same_bytes(tmp_path: Path) -> None:
    stream = stream_of(1024)
    counts = LAYOUT.block_counts(1024)
    at = len(encode_stream_header(LAYOUT.sha256, block_counts=counts))
    layers = {}
    for group, pages in zip(LAYOUT.groups, counts, strict=True):
        for layer in group.layers:
            layers[layer.name] = bytes(stream[at : at + pages * layer.bytes_per_page]).hex()
            at += pages * layer.bytes_per_page
    positions = [(start, start + 256) for start in range(0, 1024, 256)]
    answer = ask(
        "write",
        root=str(tmp_path / "theirs"),
        identity=PAGES.to_wire(),
        tokens=tokens_of(1024),
        chunks=[
            (start, end, {"logical_positions": encode_positions(range(start, end)).hex()})
            for start, end in positions
        ],
        layout=json.loads(LAYOUT.canonical),
        counts=list(counts),
        layers=layers,
    )
    found = verify(
        RootFiles(tmp_path / "theirs"), identity=PAGES, context_digest=answer["context"], layout=LAYOUT
    )
    assert found.outcome is VerifyOutcome.VERIFIED, found.detail
    assert found.stream_sha256 == sha256(stream)
    context = publish(
        tmp_path / "ours",
        identity=PAGES,
        span_tokens=1024,
        chunks=page_chunks(stream, committed_tokens=1024, chunk_tokens=256),
    )
    assert context == answer["context"]
    assert files_below(tmp_path / "ours") == files_below(tmp_path / "theirs")


@settings(max_examples=6)
@given(span_tokens=st.integers(2, 1100).filter(lambda tokens: tokens % 256 != 1))
def test_rows_written_by_the_release_are_read_here_and_are_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, span_tokens: int
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    chunks = row_chunks(ROWS, span_tokens=span_tokens)
    answer = ask(
        "write",
        root=str(folder / "theirs"),
        identity=ROWS.to_wire(),
        tokens=tokens_of(span_tokens),
        chunks=[
            (chunk.start, chunk.end, {kind: bytes(record).hex() for kind, record in chunk.records.items()})
            for chunk in chunks
        ],
        layout=None,
        counts=[],
        layers={},
    )
    found = lookup(
        RootFiles(folder / "theirs"),
        identity=ROWS,
        context_digest=answer["context"],
        depth=Depth.FULL,
        mode=StorageMode.ROWS,
    )
    assert found.outcome is LookupOutcome.HIT, found.detail
    assert found.sha256 == answer["manifest_sha256"]
    publish(folder / "ours", identity=ROWS, span_tokens=span_tokens, chunks=chunks)
    assert files_below(folder / "ours") == files_below(folder / "theirs")


def test_maintenance_of_the_release_keeps_away_from_a_publication(tmp_path: Path) -> None:
    """Between the first object and the document everything is an orphan to it (store-format §14, §15)."""
    answers: list[dict[str, Any]] = []

    def asked_meanwhile(source: Path, target: Path) -> None:
        os.link(source, target)
        if target.suffix == ".spcc" and not answers:
            answers.append(ask("maintain", root=str(tmp_path)))

    numbers = count()
    publish_legacy(
        tmp_path,
        identity=ROWS,
        context_digest=context_of(ROWS, span_tokens=600),
        chunks=row_chunks(ROWS, span_tokens=600),
        new_id=lambda: f"{next(numbers):032x}",
        calls=FileCalls(link=asked_meanwhile),
    )
    assert [(answer["busy"], answer["orphans"]) for answer in answers] == [(True, 0)]
    after = ask("maintain", root=str(tmp_path))
    assert (after["busy"], after["orphans"]) == (False, 0)
    context = context_of(ROWS, span_tokens=600)
    assert ask_read(tmp_path, identity=ROWS, context=context, layout=None)["restored"] is True


def test_a_chunk_without_a_row_of_this_rank_is_refused_here_too(tmp_path: Path) -> None:
    """The last position of 257 is the other rank's; the release has no empty records either."""
    with pytest.raises(FormatError, match="tokens 256 … 257: expected bytes for"):
        publish(tmp_path, identity=ROWS, span_tokens=257, chunks=row_chunks(ROWS, span_tokens=257))
    assert not list(tmp_path.rglob("*.json"))


def files_below(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
