"""What makes no valid entry is not published, and nothing that stands is touched (store-format §9 – §12)."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from app.core.digest import Digest, sha256
from app.core.errors import (
    AbsentError,
    FormatError,
    IncompatibleError,
    IntegrityError,
    PlanError,
    StoreError,
)
from app.core.store.identity import CacheIdentity, RecordKind
from app.core.store.layout import DocumentName
from app.core.store.manifest import DeltaVersion
from app.core.store.writer import (
    MAX_ALIASES,
    NewChunk,
    PageExtension,
    alias_boundaries,
    cut,
    page_chunks,
    publish_aliases,
    publish_flat,
    publish_legacy,
    publish_page_delta,
    publish_row_tail,
    row_chunk,
)

from .crash.scenarios import FULL_BYTES, LAYOUT, PAGES, ROWS, identity_of, rows_of, stream_of

V1, V2, V3 = DeltaVersion


NUMBERS = count()


def new_id() -> str:
    return f"{next(NUMBERS):032x}"


def chunks_of(*spans: tuple[int, int], identity: CacheIdentity = ROWS) -> list[NewChunk]:
    return [row_chunk(identity, start=start, end=end, rows=rows_of(start)) for start, end in spans]


def rows(root: Path, *spans: tuple[int, int], identity: CacheIdentity = ROWS) -> Digest:
    context = sha256(b"rows")
    chunks = chunks_of(*spans, identity=identity)
    publish_legacy(root, identity=identity, context_digest=context, chunks=chunks, new_id=new_id)
    return context


def tail(root: Path, *spans: tuple[int, int], identity: CacheIdentity = ROWS, base: str = "rows") -> None:
    publish_row_tail(
        root,
        identity=identity,
        context_digest=sha256(b"tail"),
        base_context_digest=sha256(base.encode()),
        tail_chunks=chunks_of(*spans, identity=identity),
        new_id=new_id,
    )


def flat(root: Path, *, span_tokens: int = 512, version: DeltaVersion = V2) -> None:
    publish_flat(
        root,
        identity=PAGES[version],
        context_digest=sha256(f"span {span_tokens}".encode()),
        committed_tokens=span_tokens,
        object_bytes=4096,
        batches=cut(stream_of(span_tokens), object_bytes=4096),
        new_id=new_id,
    )


def extend(root: Path, first: int = 512, last: int = 768, **changes: Any) -> Any:
    version = changes.get("version", V2)
    values: dict[str, Any] = {
        "version": version,
        "identity": PAGES[version],
        "layout": LAYOUT,
        "base_context_digest": sha256(f"span {first}".encode()),
        "context_digest": sha256(f"span {last}".encode()),
        "committed_tokens": last,
        "stream": stream_of(last),
        "object_bytes": FULL_BYTES if version is V3 else 1024,
    }
    return publish_page_delta(root, extension=PageExtension(**(values | changes)), new_id=new_id)


def aliases(root: Path, *tokens: int, identity: CacheIdentity = ROWS) -> None:
    publish_aliases(
        root,
        identity=identity,
        source_context_digest=sha256(b"rows"),
        context_digests={span: sha256(f"alias {span}".encode()) for span in tokens},
        new_id=new_id,
    )


def refused(
    root: Path, publish: Callable[[], object], *, error: type[Exception], match: str | None = None
) -> None:
    """The publication raises, and the documents are those from before."""
    before = documents(root)
    with pytest.raises(error, match=match):
        publish()
    assert documents(root) == before
    assert not list(root.rglob(".*.writing-*"))


def documents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*.json")}


@pytest.mark.parametrize(
    "spans",
    [
        [],
        [(256, 512)],
        [(0, 256), (512, 768)],
        [(0, 256), (0, 256)],
        [(0, 200), (200, 400)],
        [(0, 300)],
    ],
    ids=["none", "not from the start", "a gap", "twice", "a narrow one first", "too wide"],
)
def test_chunks_that_make_no_entry(tmp_path: Path, spans: list[tuple[int, int]]) -> None:
    refused(tmp_path, lambda: rows(tmp_path, *spans), error=FormatError)


@pytest.mark.parametrize("records", [{}, {"target_ckv": b""}], ids=["missing", "empty"])
def test_a_chunk_without_a_required_record(tmp_path: Path, records: dict[str, bytes]) -> None:
    chunk = NewChunk(start=0, end=256, records={RecordKind(kind): value for kind, value in records.items()})
    refused(
        tmp_path,
        lambda: publish_legacy(
            tmp_path, identity=ROWS, context_digest=sha256(b"rows"), chunks=[chunk], new_id=new_id
        ),
        error=FormatError,
        match="logical_positions",
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"committed_tokens": 500},
        {"committed_tokens": 0},
        {"object_bytes": 4095},
        {"object_bytes": FULL_BYTES + 1},
        {"identity": ROWS},
        {"batches": []},
    ],
)
def test_a_flat_snapshot_that_a_reader_would_refuse(tmp_path: Path, changes: dict[str, Any]) -> None:
    values: dict[str, Any] = {
        "identity": PAGES[V2],
        "context_digest": sha256(b"flat"),
        "committed_tokens": 512,
        "object_bytes": 4096,
        "batches": cut(memoryview(bytes(9000)), object_bytes=4096),
        "new_id": new_id,
    }
    refused(tmp_path, lambda: publish_flat(tmp_path, **(values | changes)), error=StoreError)


def test_a_base_that_is_not_there(tmp_path: Path) -> None:
    refused(tmp_path, lambda: tail(tmp_path, (0, 256)), error=AbsentError)
    refused(tmp_path, lambda: extend(tmp_path), error=AbsentError)
    refused(tmp_path, lambda: aliases(tmp_path, 256), error=AbsentError)


def objects_lost(root: Path) -> None:
    shutil.rmtree(root / "chunks")


def objects_flipped(root: Path) -> None:
    for path in root.glob("chunks/*"):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def document_emptied(root: Path) -> None:
    for path in root.glob("manifests/*/*"):
        path.write_bytes(b"")


@pytest.mark.parametrize("damage", [objects_lost, objects_flipped, document_emptied])
def test_a_base_that_is_corrupt(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    rows(tmp_path, (0, 256), (256, 300))
    flat(tmp_path)
    damage(tmp_path)
    refused(tmp_path, lambda: tail(tmp_path, (256, 512)), error=StoreError)
    refused(tmp_path, lambda: extend(tmp_path), error=StoreError)


@pytest.mark.parametrize(
    "spans",
    [[], [(512, 768)], [(0, 256)], [(256, 300)], [(256, 512), (600, 856)]],
    ids=["none", "a gap", "what is reused", "not longer", "a gap within"],
)
def test_a_row_tail_that_does_not_extend_its_base(tmp_path: Path, spans: list[tuple[int, int]]) -> None:
    rows(tmp_path, (0, 256), (256, 300))
    refused(tmp_path, lambda: tail(tmp_path, *spans), error=FormatError)


def test_a_row_tail_of_an_identity_that_is_published_otherwise(tmp_path: Path) -> None:
    plain = replace(ROWS, publication_schema=None)
    rows(tmp_path, (0, 256), identity=plain)
    refused(tmp_path, lambda: tail(tmp_path, (256, 512), identity=plain), error=IncompatibleError)


def test_a_row_tail_on_less_than_a_chunk_reuses_nothing(tmp_path: Path) -> None:
    rows(tmp_path, (0, 100))
    tail(tmp_path, (0, 256))
    assert not (tmp_path / "prefix-index").exists()


def test_a_row_tail_extends_a_row_tail(tmp_path: Path) -> None:
    rows(tmp_path, (0, 256), (256, 300))
    tail(tmp_path, (256, 512), (512, 600))
    publish_row_tail(
        tmp_path,
        identity=ROWS,
        context_digest=sha256(b"longest"),
        base_context_digest=sha256(b"tail"),
        tail_chunks=chunks_of((512, 768)),
        new_id=new_id,
    )
    assert len(list(tmp_path.rglob("*.spix"))) == 2


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ((), "1 … 64, found 0"),
        ((100,), "ends of chunks"),
        ((768,), "ends of chunks"),
        (range(256, 256 * 66, 256), "1 … 64, found 65"),
    ],
    ids=["none", "inside a chunk", "beyond the end", "too many"],
)
def test_aliases_that_cannot_be(tmp_path: Path, tokens: tuple[int, ...], said: str) -> None:
    rows(tmp_path, (0, 256), (256, 512))
    refused(tmp_path, lambda: aliases(tmp_path, *tokens), error=PlanError, match=said)


def test_no_aliases_of_a_narrow_end_or_of_pages(tmp_path: Path) -> None:
    rows(tmp_path, (0, 256), (256, 300))
    refused(tmp_path, lambda: aliases(tmp_path, 256), error=PlanError, match="rows in whole chunks")
    publish_legacy(
        tmp_path,
        identity=identity_of(),
        context_digest=sha256(b"rows"),
        chunks=page_chunks(stream_of(512), committed_tokens=512, chunk_tokens=256),
        new_id=new_id,
    )
    refused(tmp_path, lambda: aliases(tmp_path, 256, identity=identity_of()), error=PlanError)


def test_another_alias_at_a_name_is_left_alone(tmp_path: Path) -> None:
    rows(tmp_path, (0, 256), (256, 512))
    context = sha256(b"alias 256")
    name = DocumentName(storage_key=ROWS.storage_key, context_digest=context)
    (tmp_path / name.alias_path).parent.mkdir(parents=True)
    (tmp_path / name.alias_path).write_bytes(b"{}")
    refused(tmp_path, lambda: aliases(tmp_path, 256), error=IntegrityError, match="found 2 bytes")


def test_aliases_by_default_are_sparse_and_at_most_64() -> None:
    assert alias_boundaries(256, chunk_tokens=256) == (256,)
    assert alias_boundaries(4096, chunk_tokens=256) == (4096,)
    assert alias_boundaries(4096 + 256, chunk_tokens=256) == (4096, 4352)
    many = alias_boundaries(4096 * 100, chunk_tokens=256)
    assert len(many) == MAX_ALIASES
    assert many[0] == 4096 * 37
    assert many[-1] == 4096 * 100


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"stream": stream_of(1024)}, FormatError),
        ({"stream": stream_of(768)[:-1]}, FormatError),
        ({"committed_tokens": 700}, FormatError),
        ({"committed_tokens": 512, "stream": stream_of(512)}, FormatError),
        ({"identity": PAGES[V3]}, AbsentError),
        ({"version": V3, "identity": PAGES[V2]}, IncompatibleError),
        ({"object_bytes": 400}, PlanError),
        ({"object_bytes": FULL_BYTES + 1}, FormatError),
    ],
    ids=[
        "another span's pages",
        "a byte short",
        "not in chunks",
        "not longer",
        "another identity",
        "another version",
        "header over two objects",
        "objects too large",
    ],
)
def test_page_extensions_that_cannot_be(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception]
) -> None:
    flat(tmp_path)
    refused(tmp_path, lambda: extend(tmp_path, **changes), error=error)


def test_v3_has_full_objects_only(tmp_path: Path) -> None:
    flat(tmp_path, version=V3)
    refused(tmp_path, lambda: extend(tmp_path, version=V3, object_bytes=1024), error=FormatError)


def test_another_document_at_an_extensions_name_is_left_alone(tmp_path: Path) -> None:
    flat(tmp_path)
    flat(tmp_path, span_tokens=768)
    refused(tmp_path, lambda: extend(tmp_path), error=IntegrityError)
