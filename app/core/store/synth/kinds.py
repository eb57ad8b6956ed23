"""Small valid stores of every kind, one root per rank (store-format §7)."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

from app.core.digest import Digest, squeeze
from app.core.store.chunk import owned_positions
from app.core.store.identity import CacheIdentity, PublicationSchema, RecordKind
from app.core.store.layout import MAX_OBJECT_BYTES, DocumentName
from app.core.store.manifest import DeltaVersion
from app.core.store.snapshot import PageLayout
from app.core.store.synth.design import design_layout, minimum_bytes
from app.core.store.synth.flat import check_request
from app.core.store.synth.inputs import (
    CHUNK_TOKENS,
    numbered_names,
    page_identity,
    prompt_digest,
    row_identity,
)
from app.core.store.synth.pages import growing_stream
from app.core.store.writer import (
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

# Every last chunk holds at least a hundred positions, so each of up to 64 ranks owns some.
_ROWS_TOKENS = 612
_TAIL_BASE_TOKENS = 1_380
_TAIL_TOKENS = 1_892
_ALIASED_TOKENS = 5_120
_ROW_BYTES = {RecordKind.TARGET_CKV: 96, RecordKind.SPARSE_INDEXER: 32, RecordKind.MTP_DRAFT_KV: 64}
# How often each delta store extends its base: the third time v2 starts from the bottom again (§11.1).
_EXTENSIONS = {DeltaVersion.V1: 1, DeltaVersion.V2: 3, DeltaVersion.V3: 2}


class StoreKind(StrEnum):
    """What can be made besides a flat snapshot."""

    LEGACY_PAGES = "legacy-pages"
    LEGACY_ROWS = "legacy-rows"
    ROWS_TAIL = "rows-tail"
    ALIAS = "alias"
    PAGE_DELTA_V1 = "page-delta-v1"
    PAGE_DELTA_V2 = "page-delta-v2"
    PAGE_DELTA_V3 = "page-delta-v3"

    @property
    def stores_pages(self) -> bool:
        """Whether it has a page layout."""
        return self is StoreKind.LEGACY_PAGES or self in _DELTAS


_DELTAS = {
    StoreKind.PAGE_DELTA_V1: DeltaVersion.V1,
    StoreKind.PAGE_DELTA_V2: DeltaVersion.V2,
    StoreKind.PAGE_DELTA_V3: DeltaVersion.V3,
}
_PUBLICATIONS = {
    StoreKind.ROWS_TAIL: PublicationSchema.TAIL_COW_V1,
    StoreKind.PAGE_DELTA_V1: PublicationSchema.PAGE_TAIL_COW_V1,
    StoreKind.PAGE_DELTA_V2: PublicationSchema.PAGE_TAIL_COW_V1,
    StoreKind.PAGE_DELTA_V3: PublicationSchema.PAGE_TAIL_COW_V2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesizedEntry:
    """One prefix, stored on every rank.

    Attributes:
        names: by rank, where its document or alias is filed.
    """

    span_tokens: int
    context_digest: Digest
    is_alias: bool
    names: tuple[DocumentName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesizedStore:
    """What was made: one root per rank, ``rank0`` … below ``path``.

    Attributes:
        layout: of the pages; ``None`` for rows.
        identities: by rank; one per rank for all of its entries.
        entries: shortest prefix first, an alias before an exact entry of the same prefix.
    """

    path: Path
    kind: StoreKind
    layout: PageLayout | None
    roots: tuple[Path, ...]
    identities: tuple[CacheIdentity, ...]
    entries: tuple[SynthesizedEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What all ranks of a store have in common; ``layout`` and its span are used where there are pages."""

    path: Path
    kind: StoreKind
    ranks: int
    layout: PageLayout
    span_tokens: int
    seed: int
    object_bytes: int
    new_id: Callable[[], str]

    def identity(self, rank: int) -> CacheIdentity:
        publication = _PUBLICATIONS.get(self.kind)
        if not self.kind.stores_pages:
            return row_identity(ranks=self.ranks, rank=rank, publication=publication)
        return page_identity(self.layout, ranks=self.ranks, rank=rank, publication=publication)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rank:
    """One rank's root."""

    shape: _Shape
    rank: int
    identity: CacheIdentity

    @property
    def root(self) -> Path:
        return self.shape.path / f"rank{self.rank}"

    def context(self, span_tokens: int) -> Digest:
        return prompt_digest(self.identity, span_tokens=span_tokens, seed=self.shape.seed)

    def stream(self, span_tokens: int) -> memoryview:
        shape = self.shape
        return growing_stream(shape.layout, span_tokens=span_tokens, rank=self.rank, seed=shape.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """One entry of one rank."""

    span_tokens: int
    name: DocumentName
    is_alias: bool = False


def synthesize_kind(
    path: Path,
    *,
    kind: StoreKind,
    ranks: int,
    bytes_per_rank: int | None = None,
    object_bytes: int = MAX_OBJECT_BYTES,
    seed: int = 0,
    new_id: Callable[[], str] | None = None,
) -> SynthesizedStore:
    """Write a small store of one kind for each rank, bases included.

    Args:
        path: folder of the ranks' roots; equal content is adopted, different content is never overwritten.
        ranks: tensor-parallel degree, ≥ 1; rows are split over as many.
        bytes_per_rank: length of the shortest page stream, header included; else the least possible.
        object_bytes: size of every object but the last, of flat bases and of deltas v2.
        seed: varies tokens and payload.
        new_id: 32 hexadecimal characters nobody else uses, for temporary names; else from process and count.

    Raises:
        PlanError: the size, the ranks or the object size are too small or too large.
        IntegrityError: something different exists already.
        ResourceError: the file system refused.
    """
    check_request(ranks=ranks, object_bytes=object_bytes)
    layout, span_tokens = design_layout(bytes_per_rank or minimum_bytes())
    shape = _Shape(
        path=path,
        kind=kind,
        ranks=ranks,
        layout=layout,
        span_tokens=span_tokens,
        seed=seed,
        object_bytes=object_bytes,
        new_id=new_id or numbered_names(os.getpid()),
    )
    return _synthesize(shape)


def _synthesize(shape: _Shape) -> SynthesizedStore:
    ranks = [_Rank(shape=shape, rank=rank, identity=shape.identity(rank)) for rank in range(shape.ranks)]
    made = [_MAKERS[shape.kind](rank) for rank in ranks]
    return SynthesizedStore(
        path=shape.path,
        kind=shape.kind,
        layout=shape.layout if shape.kind.stores_pages else None,
        roots=tuple(rank.root for rank in ranks),
        identities=tuple(rank.identity for rank in ranks),
        entries=tuple(_entry(same) for same in zip(*made, strict=True)),
    )


def _entry(made: tuple[_Made, ...]) -> SynthesizedEntry:
    """The same entry of all ranks as one."""
    return SynthesizedEntry(
        span_tokens=made[0].span_tokens,
        context_digest=made[0].name.context_digest,
        is_alias=made[0].is_alias,
        names=tuple(item.name for item in made),
    )


def _legacy_pages(rank: _Rank) -> list[_Made]:
    span_tokens = rank.shape.span_tokens
    stream = rank.stream(span_tokens)
    published = publish_legacy(
        rank.root,
        identity=rank.identity,
        context_digest=rank.context(span_tokens),
        chunks=page_chunks(stream, committed_tokens=span_tokens, chunk_tokens=CHUNK_TOKENS),
        new_id=rank.shape.new_id,
    )
    return [_Made(span_tokens=span_tokens, name=published.name)]


def _legacy_rows(rank: _Rank) -> list[_Made]:
    return [_rows(rank, span_tokens=_ROWS_TOKENS)]


def _rows_tail(rank: _Rank) -> list[_Made]:
    """A base that ends inside a chunk, and an extension that writes that chunk anew."""
    base = _rows(rank, span_tokens=_TAIL_BASE_TOKENS)
    reused = _TAIL_BASE_TOKENS // CHUNK_TOKENS * CHUNK_TOKENS
    published = publish_row_tail(
        rank.root,
        identity=rank.identity,
        context_digest=rank.context(_TAIL_TOKENS),
        base_context_digest=base.name.context_digest,
        tail_chunks=_row_chunks(rank, start=reused, end=_TAIL_TOKENS),
        new_id=rank.shape.new_id,
    )
    return [base, _Made(span_tokens=_TAIL_TOKENS, name=published.name)]


def _aliases(rank: _Rank) -> list[_Made]:
    """An entry of twenty chunks with its default aliases: after sixteen, and at its end."""
    source = _rows(rank, span_tokens=_ALIASED_TOKENS)
    boundaries = alias_boundaries(_ALIASED_TOKENS, chunk_tokens=CHUNK_TOKENS)
    published = publish_aliases(
        rank.root,
        identity=rank.identity,
        source_context_digest=source.name.context_digest,
        context_digests={tokens: rank.context(tokens) for tokens in boundaries},
        new_id=rank.shape.new_id,
    )
    aliases = [
        _Made(span_tokens=tokens, name=name, is_alias=True) for tokens, name in published.names.items()
    ]
    return [*aliases, source]


def _deltas(rank: _Rank) -> list[_Made]:
    """A flat base, and extensions by a chunk each, every one on the one before."""
    version, first = _DELTAS[rank.shape.kind], rank.shape.span_tokens
    spans = [first + CHUNK_TOKENS * number for number in range(_EXTENSIONS[version] + 1)]
    made = [_flat_base(rank)]
    for shorter, longer in pairwise(spans):
        extension = PageExtension(
            version=version,
            identity=rank.identity,
            layout=rank.shape.layout,
            base_context_digest=rank.context(shorter),
            context_digest=rank.context(longer),
            committed_tokens=longer,
            stream=rank.stream(longer),
            object_bytes=rank.shape.object_bytes if version is DeltaVersion.V2 else MAX_OBJECT_BYTES,
        )
        published = publish_page_delta(rank.root, extension=extension, new_id=rank.shape.new_id)
        made.append(_Made(span_tokens=longer, name=published.name))
    return made


_MAKERS: dict[StoreKind, Callable[[_Rank], list[_Made]]] = {
    StoreKind.LEGACY_PAGES: _legacy_pages,
    StoreKind.LEGACY_ROWS: _legacy_rows,
    StoreKind.ROWS_TAIL: _rows_tail,
    StoreKind.ALIAS: _aliases,
    StoreKind.PAGE_DELTA_V1: _deltas,
    StoreKind.PAGE_DELTA_V2: _deltas,
    StoreKind.PAGE_DELTA_V3: _deltas,
}


def _flat_base(rank: _Rank) -> _Made:
    span_tokens, object_bytes = rank.shape.span_tokens, rank.shape.object_bytes
    published = publish_flat(
        rank.root,
        identity=rank.identity,
        context_digest=rank.context(span_tokens),
        committed_tokens=span_tokens,
        object_bytes=object_bytes,
        batches=cut(rank.stream(span_tokens), object_bytes=object_bytes),
        new_id=rank.shape.new_id,
    )
    return _Made(span_tokens=span_tokens, name=published.name)


def _rows(rank: _Rank, *, span_tokens: int) -> _Made:
    published = publish_legacy(
        rank.root,
        identity=rank.identity,
        context_digest=rank.context(span_tokens),
        chunks=_row_chunks(rank, start=0, end=span_tokens),
        new_id=rank.shape.new_id,
    )
    return _Made(span_tokens=span_tokens, name=published.name)


def _row_chunks(rank: _Rank, *, start: int, end: int) -> Iterator[NewChunk]:
    """Chunks whose rows depend on seed, rank, record and place."""
    for first in range(start, end, CHUNK_TOKENS):
        last = min(first + CHUNK_TOKENS, end)
        owned = len(owned_positions(rank.identity, start=first, end=last))
        label = f"sparkgate synthetic rows {rank.shape.seed}/{rank.rank}/{first}-{last}"
        rows = {
            kind: squeeze(f"{label}/{kind}".encode(), byte_count=owned * size)
            for kind, size in _ROW_BYTES.items()
        }
        yield row_chunk(rank.identity, start=first, end=last, rows=rows)
