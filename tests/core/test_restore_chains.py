"""Any chain of page deltas, any arena, any buffers: the pages are those of the whole stream (§9, §14)."""

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.digest import sha256
from app.core.restore.buffers import BufferPool
from app.core.restore.execute import RankOrder
from app.core.restore.host_device import HostDevice
from app.core.restore.reader import BoundedReader
from app.core.restore.report import RankReport, StreamDigestState
from app.core.store.layout import DocumentName
from app.core.store.manifest import DeltaVersion
from app.core.store.snapshot import encode_stream_header, layer_spans
from app.core.store.writer import page_chunks, publish_legacy

from .crash.scenarios import PAGES
from .rig import restore
from .test_writer_deltas import CHANGES, LAYOUT, context_of, extend, new_id, publish_base, stream_of

ROOM_BYTES = 64 * 1024


def publish_legacy_base(root: Path, *, version: DeltaVersion, span: int) -> None:
    chunks = page_chunks(stream_of(span), committed_tokens=span, chunk_tokens=256)
    publish_legacy(
        root, identity=PAGES[version], context_digest=context_of(span), chunks=chunks, new_id=new_id
    )


def assert_restores(
    root: Path,
    *,
    version: DeltaVersion,
    span: int,
    stream: memoryview,
    arena_bytes: int = ROOM_BYTES,
    buffers: int = 4,
    readers: int = 4,
    pinned: bool = False,
) -> RankReport:
    """Restore, and compare every layer with its range of the stream; buffers come back."""
    identity = PAGES[version]
    name = DocumentName(storage_key=identity.storage_key, context_digest=context_of(span))
    order = RankOrder(
        identity=identity,
        storage_key=name.storage_key,
        context_digest=name.context_digest,
        layout=LAYOUT,
        manifest_sha256=sha256((root / name.path).read_bytes()),
        stream_pinned=pinned,
    )
    pool = BufferPool(buffer_bytes=ROOM_BYTES, count=buffers)
    with (
        BoundedReader(root, readers=readers, buffers=pool) as reader,
        HostDevice("host0", pool_bytes=1 << 20, arena_bytes=arena_bytes) as device,
    ):
        restored = restore(order, reader=reader, device=device)
        assert restored.report.problem is None
        assert restored.pages is not None
        found = [layer.sha256 for layer in device.digest(restored.pages)]
    counts = LAYOUT.block_counts(span)
    header = encode_stream_header(LAYOUT.sha256, block_counts=counts)
    layers = layer_spans(LAYOUT, block_counts=counts, header_bytes=len(header))
    assert found == [sha256(stream[layer.start : layer.end]) for layer in layers]
    assert pool.held_buffers == 0
    return restored.report


@given(
    version=st.sampled_from(DeltaVersion),
    legacy=st.booleans(),
    steps=st.lists(st.tuples(st.integers(1, 2), CHANGES), min_size=1, max_size=6),
    arena_bytes=st.integers(20, 3000),
    buffers=st.integers(1, 4),
    readers=st.integers(1, 4),
    pinned=st.booleans(),
)
@settings(max_examples=40)
def test_any_chain_restores_to_the_streams_it_was_made_of(
    version: DeltaVersion,
    legacy: bool,
    steps: list[tuple[int, set[tuple[int, int]]]],
    arena_bytes: int,
    buffers: int,
    readers: int,
    pinned: bool,
) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        (publish_legacy_base if legacy else publish_base)(root, version=version, span=512)
        streams = {512: stream_of(512)}
        for chunks, changed in steps:
            last = max(streams) + 256 * chunks
            streams[last] = stream_of(last, changed=sorted(changed))
        for first, last in pairwise(streams):
            extend(root, version=version, first=first, last=last, stream=streams[last])
        for span, stream in streams.items():
            # A flat snapshot's objects go through an arena whole (§2).
            least = 1 if legacy or span > 512 else 1000
            assert_restores(
                root,
                version=version,
                span=span,
                stream=stream,
                arena_bytes=max(arena_bytes, least),
                buffers=buffers,
                readers=readers,
                pinned=pinned,
            )


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """Six stages of v3 over a flat base of several objects: more streams than buffers."""
    spans = range(256, 256 * 8, 256)
    publish_base(tmp_path, version=DeltaVersion.V3, span=256)
    for first, last in pairwise(spans):
        extend(tmp_path, version=DeltaVersion.V3, first=first, last=last, stream=stream_of(last))
    return tmp_path


def test_more_stages_than_buffers_are_read_again_only_between_submissions(chain: Path) -> None:
    stream = stream_of(1792)
    whole = assert_restores(chain, version=DeltaVersion.V3, span=1792, stream=stream)
    assert whole.submissions == 1
    read = [work.object for work in whole.reader_work]
    # Seven heads, of which three stay; four are read again for the one submission.
    assert len(read) - len(set(read)) == 4
    assert whole.stream_digest is StreamDigestState.RECOMPUTED
    cut = assert_restores(chain, version=DeltaVersion.V3, span=1792, stream=stream, arena_bytes=500)
    assert cut.submissions > 5
    assert cut.bytes == whole.bytes


def test_base_objects_that_no_span_needs_are_not_read(tmp_path: Path) -> None:
    """A delta that replaces every page: of its flat base only object 0 is read, for its header (§9)."""
    publish_base(tmp_path, version=DeltaVersion.V2, span=512)
    stream = stream_of(768, changed=[(0, 0)])
    made = extend(tmp_path, version=DeltaVersion.V2, first=512, last=768, stream=stream)
    assert made.reused_pages == (0, 0)
    report = assert_restores(tmp_path, version=DeltaVersion.V2, span=768, stream=stream)
    objects = {path.stem for path in tmp_path.glob("chunks/*")}
    assert len({work.object for work in report.reader_work}) < len(objects)
