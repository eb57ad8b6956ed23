"""Publish entries of every kind: objects first, root document last (store-format §12)."""

from app.core.store.writer.aliases import MAX_ALIASES, PublishedAliases, alias_boundaries, publish_aliases
from app.core.store.writer.calls import SYSTEM_CALLS, FileCalls
from app.core.store.writer.chunks import BATCH_CHUNKS, NewChunk, page_chunks, row_chunk
from app.core.store.writer.extents import BATCH_OBJECTS, cut, fill
from app.core.store.writer.flat import PublishedSnapshot, publish_flat
from app.core.store.writer.legacy import PublishedChunks, publish_legacy
from app.core.store.writer.page_delta import PageExtension, PublishedDelta, publish_page_delta
from app.core.store.writer.row_tail import publish_row_tail

__all__ = [
    "BATCH_CHUNKS",
    "BATCH_OBJECTS",
    "MAX_ALIASES",
    "SYSTEM_CALLS",
    "FileCalls",
    "NewChunk",
    "PageExtension",
    "PublishedAliases",
    "PublishedChunks",
    "PublishedDelta",
    "PublishedSnapshot",
    "alias_boundaries",
    "cut",
    "fill",
    "page_chunks",
    "publish_aliases",
    "publish_flat",
    "publish_legacy",
    "publish_page_delta",
    "publish_row_tail",
    "row_chunk",
]
