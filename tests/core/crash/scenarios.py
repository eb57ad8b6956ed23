"""Publications to be interrupted, small and the same at every run."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from app.core.canonical_json import encode_canonical
from app.core.digest import sha256, squeeze
from app.core.store.identity import CacheIdentity, RecordKind, parse_identity
from app.core.store.layout import MAX_OBJECT_BYTES as FULL_BYTES
from app.core.store.manifest import DeltaVersion
from app.core.store.snapshot import encode_stream_header, parse_page_layout
from app.core.store.writer import (
    FileCalls,
    PageExtension,
    cut,
    page_chunks,
    publish_aliases,
    publish_flat,
    publish_legacy,
    publish_page_delta,
    publish_row_tail,
    row_chunk,
)

Publish = Callable[[Path, FileCalls, str], None]

OBJECT_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What stands in the root before, and the publication that is interrupted.

    Attributes:
        repairs: the preparation leaves a damaged object behind, which the publication heals.
    """

    publish: Publish
    prepare: Publish | None = None
    repairs: bool = False


def identity_of(**changes: object) -> CacheIdentity:
    """An identity of pages, or what the changes make of it."""
    wire = {
        "target_checkpoint": sha256(b"crash test target"),
        "draft_checkpoint": sha256(b"crash test draft"),
        "quantization_layout": "crash-test-v1",
        "rope_layout": "crash-test-v1",
        "tp_degree": 1,
        "dcp_degree": 1,
        "cp_kv_cache_interleave_size": 1,
        "chunk_tokens": 256,
        "dcp_shard_rank": 0,
        "tp_shard_rank": 0,
        "boundary_hidden_policy": "live_forward",
        "draft_kv_policy": "colocated_target",
        "record_schema": ["target_ckv", "logical_positions"],
    }
    return parse_identity({key: value for key, value in (wire | changes).items() if value is not None})


def tokens_for(tag: str) -> Callable[[], str]:
    """Names for temporary files that no other run uses."""
    numbers = count()
    return lambda: sha256(f"{tag}/{next(numbers)}".encode())[:32]


def flat(root: Path, calls: FileCalls, tag: str, *, context: str = "a", tail: bytes = b"") -> None:
    """Three objects, the last of them short, in two batches."""
    stream = memoryview(squeeze(b"crash test flat", byte_count=2 * OBJECT_BYTES + 77) + tail)
    objects = [stream[at : at + OBJECT_BYTES] for at in range(0, len(stream), OBJECT_BYTES)]
    publish_flat(
        root,
        identity=identity_of(),
        context_digest=sha256(context.encode()),
        committed_tokens=512,
        object_bytes=OBJECT_BYTES,
        batches=[objects[:2], objects[2:]],
        new_id=tokens_for(tag),
        calls=calls,
    )


def flat_beside(root: Path, calls: FileCalls, tag: str) -> None:
    """A second entry that shares two objects with the first."""
    flat(root, calls, tag, context="b", tail=b"other")


def damaged(root: Path, calls: FileCalls, tag: str) -> None:
    """An entry whose every object has lost a bit."""
    flat(root, calls, tag)
    for path in root.glob("chunks/*.spcc"):
        content = path.read_bytes()
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])


def rows(root: Path, calls: FileCalls, tag: str, *, chunk_count: int = 9) -> None:
    """Chunks in more than one batch, the last of them narrow."""
    publish_legacy(
        root,
        identity=ROWS,
        context_digest=sha256(b"rows"),
        chunks=[
            row_chunk(ROWS, start=start, end=end, rows=rows_of(start)) for start, end in spans(0, chunk_count)
        ],
        new_id=tokens_for(tag),
        calls=calls,
    )


def pages(root: Path, calls: FileCalls, tag: str) -> None:
    """A stream cut over two chunks."""
    publish_legacy(
        root,
        identity=identity_of(),
        context_digest=sha256(b"pages"),
        chunks=page_chunks(stream_of(512), committed_tokens=512, chunk_tokens=256),
        new_id=tokens_for(tag),
        calls=calls,
    )


def row_tail(root: Path, calls: FileCalls, tag: str) -> None:
    """Two chunks more, and the narrow one again."""
    publish_row_tail(
        root,
        identity=ROWS,
        context_digest=sha256(b"more rows"),
        base_context_digest=sha256(b"rows"),
        tail_chunks=[
            row_chunk(ROWS, start=start, end=end, rows=rows_of(start + 1)) for start, end in spans(17, 20)
        ],
        new_id=tokens_for(tag),
        calls=calls,
    )


def whole_rows(root: Path, calls: FileCalls, tag: str) -> None:
    """Seventeen whole chunks."""
    publish_legacy(
        root,
        identity=ROWS,
        context_digest=sha256(b"whole rows"),
        chunks=[
            row_chunk(ROWS, start=start, end=start + 256, rows=rows_of(start))
            for start in range(0, 17 * 256, 256)
        ],
        new_id=tokens_for(tag),
        calls=calls,
    )


def aliases(root: Path, calls: FileCalls, tag: str) -> None:
    """Two shorter prefixes and the whole one; each is an entry as soon as it has its name."""
    publish_aliases(
        root,
        identity=ROWS,
        source_context_digest=sha256(b"whole rows"),
        context_digests={256 * count: sha256(f"alias {count}".encode()) for count in (3, 16, 17)},
        new_id=tokens_for(tag),
        calls=calls,
    )


def delta(root: Path, calls: FileCalls, tag: str, *, version: DeltaVersion, first: int, last: int) -> None:
    """A flat snapshot's pages and 256 tokens more."""
    publish_page_delta(
        root,
        extension=PageExtension(
            version=version,
            identity=PAGES[version],
            layout=LAYOUT,
            base_context_digest=sha256(f"span {first}".encode()),
            context_digest=sha256(f"span {last}".encode()),
            committed_tokens=last,
            stream=stream_of(last),
            object_bytes=FULL_BYTES if version is DeltaVersion.V3 else 1024,
        ),
        new_id=tokens_for(tag),
        calls=calls,
    )


def delta_base(root: Path, calls: FileCalls, tag: str, *, version: DeltaVersion) -> None:
    """A flat snapshot of 512 tokens."""
    publish_flat(
        root,
        identity=PAGES[version],
        context_digest=sha256(b"span 512"),
        committed_tokens=512,
        object_bytes=4096,
        batches=cut(stream_of(512), object_bytes=4096),
        new_id=tokens_for(tag),
        calls=calls,
    )


def spans(first: int, last: int) -> list[tuple[int, int]]:
    """The tokens of chunks ``first … last``, the last one 100 tokens wide."""
    whole = [(index * 256, index * 256 + 256) for index in range(first, last - 1)]
    return [*whole, (last * 256 - 256, last * 256 - 156)]


def rows_of(seed: int) -> dict[RecordKind, bytes]:
    """A few bytes for each record kind; how many per position is no matter of the store's."""
    kinds = ROWS.required_records - {RecordKind.LOGICAL_POSITIONS}
    return {kind: squeeze(f"{kind}/{seed}".encode(), byte_count=40) for kind in kinds}


def stream_of(span_tokens: int) -> memoryview:
    """Pages that stay the same when the span grows, and one that does not."""
    counts = LAYOUT.block_counts(span_tokens)
    header = encode_stream_header(LAYOUT.sha256, block_counts=counts)
    kept = squeeze(b"kept pages", byte_count=100_000)[: counts[0] * 300]
    return memoryview(header + kept + squeeze(f"state {span_tokens}".encode(), byte_count=500))


ROWS = identity_of(record_schema=None, publication_schema="tail-cow-v1")
PAGES = {
    DeltaVersion.V1: identity_of(publication_schema="page-tail-cow-v1"),
    DeltaVersion.V2: identity_of(publication_schema="page-tail-cow-v1"),
    DeltaVersion.V3: identity_of(publication_schema="page-tail-cow-v2"),
}
LAYOUT = parse_page_layout(
    encode_canonical(
        {
            "groups": [
                {
                    "block_size": 64,
                    "layers": [
                        {
                            "bytes_per_page": 300,
                            "dtype": "torch.uint8",
                            "name": "full",
                            "page_shape": [1, 300],
                        }
                    ],
                    "reuse_policy": "full",
                    "reuse_window_tokens": None,
                },
                {
                    "block_size": 256,
                    "layers": [
                        {
                            "bytes_per_page": 500,
                            "dtype": "torch.uint8",
                            "name": "state",
                            "page_shape": [1, 500],
                        }
                    ],
                    "reuse_policy": "recurrent_align",
                    "reuse_window_tokens": None,
                },
            ]
        }
    )
)


def stacked(root: Path, calls: FileCalls, tag: str) -> None:
    """A flat snapshot and one delta of v3."""
    delta_base(root, calls, f"{tag}/base", version=DeltaVersion.V3)
    delta(root, calls, tag, version=DeltaVersion.V3, first=512, last=768)


SCENARIOS = {
    "flat": Scenario(publish=flat),
    "flat-beside": Scenario(publish=flat_beside, prepare=flat),
    "repair": Scenario(publish=flat, prepare=damaged, repairs=True),
    "legacy-rows": Scenario(publish=rows),
    "legacy-pages": Scenario(publish=pages),
    "row-tail": Scenario(publish=row_tail, prepare=partial(rows, chunk_count=18)),
    "aliases": Scenario(publish=aliases, prepare=whole_rows),
    "delta-v1": Scenario(
        publish=partial(delta, version=DeltaVersion.V1, first=512, last=768),
        prepare=partial(delta_base, version=DeltaVersion.V1),
    ),
    "delta-v2": Scenario(
        publish=partial(delta, version=DeltaVersion.V2, first=512, last=768),
        prepare=partial(delta_base, version=DeltaVersion.V2),
    ),
    "delta-v3-second-stage": Scenario(
        publish=partial(delta, version=DeltaVersion.V3, first=768, last=1024), prepare=stacked
    ),
}
