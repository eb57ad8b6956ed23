"""From the vectors' inputs, every store of the vectors comes out byte for byte (vectors/README.md)."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.core.canonical_json import encode_canonical
from app.core.digest import Digest
from app.core.store.identity import CacheIdentity, form_of, parse_identity
from app.core.store.manifest import DeltaVersion
from app.core.store.snapshot import PageLayout, parse_page_layout
from app.core.store.writer import (
    PageExtension,
    alias_boundaries,
    cut,
    page_chunks,
    publish_aliases,
    publish_flat,
    publish_legacy,
    publish_page_delta,
    publish_row_tail,
)

from .vector_inputs import digest_of, growing_stream, page_stream, row_chunks

FULL_BYTES = 64 * 1024 * 1024
VERSIONS = {
    "page-delta-v1": DeltaVersion.V1,
    "page-delta-v2": DeltaVersion.V2,
    "page-delta-v3": DeltaVersion.V3,
}
# Of the flat base and of the deltas, lowered where the vectors' makers lowered them.
OBJECT_BYTES = {
    "page-delta-v1": (4099, FULL_BYTES),
    "page-delta-v2": (4099, 2053),
    "page-delta-v3": (FULL_BYTES, FULL_BYTES),
}
ROW_BYTES = {"target_ckv": 3, "sparse_indexer": 1, "mtp_draft_kv": 2}


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the index says of every entry, and a root to write to."""

    entries: dict[str, dict[str, Any]]
    layouts: dict[str, PageLayout]
    root: Path
    new_id: Callable[[], str]

    def identity(self, name: str) -> CacheIdentity:
        """The identity of an entry, in its own form."""
        wire = self.entries[name]["identity"]
        return parse_identity(wire, form=form_of(wire))

    def context(self, name: str, *, span_tokens: int | None = None) -> Digest:
        """The context digest of an entry, made from tokens and salt, or that of a shorter prefix."""
        return digest_of(self.entries[name], span_tokens=span_tokens)

    def layout(self, name: str) -> PageLayout:
        """The layout of an entry's pages."""
        return self.layouts[self.entries[name]["layout"]]

    def growing(self, name: str, *, label: str) -> memoryview:
        """The stream of an entry whose pages grow from span to span."""
        entry = self.entries[name]
        return growing_stream(
            self.layout(name), label=label, counts=entry["block_counts"], span=entry["span_tokens"]
        )

    def publish_flat(self, name: str, stream: memoryview, *, object_bytes: int) -> None:
        """One flat snapshot."""
        publish_flat(
            self.root,
            identity=self.identity(name),
            context_digest=self.context(name),
            committed_tokens=self.entries[name]["span_tokens"],
            object_bytes=object_bytes,
            batches=cut(stream, object_bytes=object_bytes),
            new_id=self.new_id,
        )

    def publish_rows(self, name: str, *, label: str) -> None:
        """One legacy entry of rows."""
        identity = self.identity(name)
        end = self.entries[name]["span_tokens"]
        chunks = row_chunks(identity, label=label, start=0, end=end, row_bytes=ROW_BYTES)
        publish_legacy(
            self.root,
            identity=identity,
            context_digest=self.context(name),
            chunks=chunks,
            new_id=self.new_id,
        )


def flat_of_a_rank(inputs: Inputs, store: str) -> None:
    name = store.replace("/", "-")
    entry = inputs.entries[name]
    stream = page_stream(inputs.layout(name), label=store, counts=entry["block_counts"])
    inputs.publish_flat(name, stream, object_bytes=8191)


def flat_single(inputs: Inputs, store: str) -> None:
    entry = inputs.entries[store]
    stream = page_stream(inputs.layout(store), label=store, counts=entry["block_counts"])
    inputs.publish_flat(store, stream, object_bytes=FULL_BYTES)


def legacy_pages(inputs: Inputs, store: str) -> None:
    entry = inputs.entries[store]
    stream = page_stream(inputs.layout(store), label=store, counts=entry["block_counts"])
    publish_legacy(
        inputs.root,
        identity=inputs.identity(store),
        context_digest=inputs.context(store),
        chunks=page_chunks(stream, committed_tokens=entry["span_tokens"], chunk_tokens=256),
        new_id=inputs.new_id,
    )


def legacy_rows(inputs: Inputs, store: str) -> None:
    inputs.publish_rows("legacy-rows", label="legacy-rows")
    inputs.publish_rows("legacy-rows-partial", label="legacy-rows/partial")
    spans = alias_boundaries(5120, chunk_tokens=256)
    assert spans == (4096, 5120)
    publish_aliases(
        inputs.root,
        identity=inputs.identity("legacy-rows"),
        source_context_digest=inputs.context("legacy-rows"),
        context_digests={span: inputs.context("legacy-rows", span_tokens=span) for span in spans},
        new_id=inputs.new_id,
    )


def rows_tail(inputs: Inputs, store: str) -> None:
    inputs.publish_rows("rows-tail-cow-base", label="rows-tail-cow/base")
    identity = inputs.identity("rows-tail-cow-tail")
    publish_row_tail(
        inputs.root,
        identity=identity,
        context_digest=inputs.context("rows-tail-cow-tail"),
        base_context_digest=inputs.context("rows-tail-cow-base"),
        tail_chunks=row_chunks(
            identity, label="rows-tail-cow/tail", start=1280, end=1800, row_bytes=ROW_BYTES
        ),
        new_id=inputs.new_id,
    )


def page_deltas(inputs: Inputs, store: str) -> None:
    """The first span flat, every longer one on the span before it; v2 re-bases its third extension."""
    version = VERSIONS[store]
    names = [name for name in inputs.entries if name.startswith(f"{store}-")]
    flat_bytes, delta_bytes = OBJECT_BYTES[store]
    inputs.publish_flat(names[0], inputs.growing(names[0], label=store), object_bytes=flat_bytes)
    for shorter, longer in itertools.pairwise(names):
        publish_page_delta(
            inputs.root,
            extension=PageExtension(
                version=version,
                identity=inputs.identity(longer),
                layout=inputs.layout(longer),
                base_context_digest=inputs.context(shorter),
                context_digest=inputs.context(longer),
                committed_tokens=inputs.entries[longer]["span_tokens"],
                stream=inputs.growing(longer, label=store),
                object_bytes=delta_bytes,
            ),
            new_id=inputs.new_id,
        )


STORES: dict[str, Callable[[Inputs, str], None]] = {
    "flat-v2-tp4/rank0": flat_of_a_rank,
    "flat-v2-tp4/rank1": flat_of_a_rank,
    "flat-v2-tp4/rank2": flat_of_a_rank,
    "flat-v2-tp4/rank3": flat_of_a_rank,
    "flat-v2-single": flat_single,
    "legacy-pages-chunks": legacy_pages,
    "release-0.1.0a2-chunks": legacy_pages,
    "legacy-rows": legacy_rows,
    "rows-tail-cow": rows_tail,
    "page-delta-v1": page_deltas,
    "page-delta-v2": page_deltas,
    "page-delta-v3": page_deltas,
}


@pytest.fixture
def inputs(shared_dir: Path, tmp_path: Path) -> Inputs:
    """The index of the vectors."""
    index = json.loads((shared_dir / "vectors" / "index.json").read_bytes())
    numbers = itertools.count()
    return Inputs(
        entries={entry["id"]: entry for entry in index["entries"]},
        layouts={
            name: parse_page_layout(encode_canonical(item["layout"]))
            for name, item in index["layouts"].items()
        },
        root=tmp_path / "root",
        new_id=lambda: f"{next(numbers):032x}",
    )


@pytest.mark.parametrize("store", STORES)
def test_a_whole_store_comes_out_byte_for_byte(inputs: Inputs, shared_dir: Path, store: str) -> None:
    STORES[store](inputs, store)
    written = files_below(inputs.root)
    assert written.pop(".maintenance.lock") == b""
    stored = files_below(shared_dir / "vectors" / store)
    assert written.keys() == stored.keys()
    assert written == stored


def test_every_store_of_the_vectors_is_written(inputs: Inputs) -> None:
    assert STORES.keys() == {entry["root"] for entry in inputs.entries.values()}


def files_below(root: Path) -> dict[str, bytes]:
    """Every file of a root by its path."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
