"""A page entry's streams made sure of without a layout: nothing is cut or put together (§8.4, §11.2).

Headers are judged by themselves and against each other and the root document, every tail and every stream
against its digest. What only a layout can say stays open: page sizes, counts of a span, a delta's result.
"""

from app.core.digest import Digest, RunningDigest
from app.core.errors import FormatError, Stage, shown
from app.core.store.delta_stream import verify_delta_header
from app.core.store.entry import Entry
from app.core.store.files import StoreFiles
from app.core.store.manifest import (
    DeltaStage,
    ExtentPayload,
    FlatSnapshotManifest,
    LegacyManifest,
    PageDeltaManifest,
    PageRoot,
    chain_of,
    terminal_base_of,
)
from app.core.store.page_streams import open_base, open_stage, page_root, require_digest
from app.core.store.snapshot import (
    STREAM_PREFIX_BYTES,
    StreamHeader,
    parse_stream_header,
    parse_stream_prefix,
)
from app.core.store.stored_stream import StoredStream


def authenticate_streams(files: StoreFiles, *, entry: Entry) -> Digest | None:
    """Read every stream of a page entry to its end.

    Returns:
        The digest of the entry's encoded stream; ``None`` for a delta, whose result was not put together.

    Raises:
        FormatError, IntegrityError: corrupt, at any stage.
        ResourceError: out of descriptors or memory.
    """
    root = page_root(entry)
    found = _authenticate_base(files, base=terminal_base_of(root), root=root)
    if not isinstance(root, PageDeltaManifest):
        return found
    for index, stage in enumerate(chain_of(root)):
        found = _authenticate_stage(files, stage=stage, root=root, before=found, index=index)
    return None


def _authenticate_base(
    files: StoreFiles, *, base: FlatSnapshotManifest | LegacyManifest, root: PageRoot
) -> Digest:
    stream = open_base(files, base=base)
    try:
        reach = base.objects[0].byte_count if isinstance(base, FlatSnapshotManifest) else stream.byte_count
        header = _take_header(stream, reach=reach)
        _verify_header(header, root=root)
        for _ in stream.take(stream.left_bytes):
            pass
        found = stream.finish()
    finally:
        stream.close()
    if isinstance(base, FlatSnapshotManifest):
        require_digest(found, wanted=base.snapshot_sha256, subject="stream")
    return found


def _take_header(stream: StoredStream, *, reach: int) -> StreamHeader:
    """Behind the header there is a page byte in the same object (store-format §8.4)."""
    available = reach - STREAM_PREFIX_BYTES - 1
    if available < 1:
        raise FormatError(stream.subject, expected="a header", found=f"{reach} bytes", stage=Stage.HEADER)
    length = parse_stream_prefix(stream.take_bytes(STREAM_PREFIX_BYTES), available=available)
    return parse_stream_header(stream.take_bytes(length))


def _verify_header(header: StreamHeader, *, root: PageRoot) -> None:
    """A delta's document says which layout and counts its base has (store-format §11.1)."""
    if not isinstance(root, PageDeltaManifest):
        return
    wanted = (root.layout_sha256, chain_of(root)[0].base.block_counts)
    if (header.layout_sha256, header.block_counts) != wanted:
        raise FormatError(
            "stream header",
            expected=shown(wanted),
            found=shown((header.layout_sha256, header.block_counts)),
            stage=Stage.HEADER,
        )


def _authenticate_stage(
    files: StoreFiles, *, stage: DeltaStage, root: PageDeltaManifest, before: Digest, index: int
) -> Digest:
    """One delta stream to its end; returns the digest that the next stage must be based on."""
    subject = f"delta stream {index}"
    stream, header = open_stage(files, stage=stage, identity=root.identity, subject=subject)
    try:
        verify_delta_header(
            header, stage=stage, layout_sha256=root.layout_sha256, base_sha256=before, subject=subject
        )
        for tail in header.tails:
            running = RunningDigest()
            for block in stream.take(tail.byte_count):
                running.update(block)
            require_digest(running.digest(), wanted=tail.sha256, subject=f"{subject} tail of {tail.name}")
        found = stream.finish()
    finally:
        stream.close()
    stated = stage.payload.sha256 if isinstance(stage.payload, ExtentPayload) else None
    require_digest(found, wanted=stated, subject=subject)
    return header.result_snapshot_sha256
