"""Whatever the layout, object size and slots: the pool ends up as the formula of the format says (§8.7)."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.digest import Digest, sha256, squeeze
from app.core.restore.buffers import BufferPool
from app.core.restore.execute import RankOrder
from app.core.restore.host_device import HostDevice
from app.core.restore.host_pool import FILL_BYTE
from app.core.restore.page_slots import FixedPool
from app.core.restore.reader import BoundedReader
from app.core.restore.report import RankOutcome
from app.core.store.identity import parse_identity
from app.core.store.snapshot import PageGroup, PageLayer, PageLayout, ReusePolicy, encode_stream_header
from app.core.store.writer import publish_flat

from .rig import restore
from .test_identity import WIRE

POOL_PAGES = 12
SPAN_TOKENS = 256
IDENTITY = parse_identity(WIRE | {"record_schema": ["target_ckv", "logical_positions"]})


@st.composite
def layouts(draw: st.DrawFn) -> PageLayout:
    sizes = draw(st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=3), min_size=1, max_size=3))
    names = iter("abcdefghi")
    groups = []
    for group_sizes in sizes:
        policy = draw(st.sampled_from(ReusePolicy))
        layers = tuple(
            PageLayer(name=next(names), dtype="torch.uint8", page_shape=(1, size), bytes_per_page=size)
            for size in group_sizes
        )
        window = 65 if policy is ReusePolicy.SLIDING else None
        groups.append(
            PageGroup(block_size=32, reuse_policy=policy, reuse_window_tokens=window, layers=layers)
        )
    return PageLayout(groups=tuple(groups))


def naive_pools(
    layout: PageLayout, *, payload: bytes, slots: Sequence[Sequence[int]], strides: Sequence[int]
) -> list[Digest]:
    """§8.7, one byte after the other."""
    pools, at, number = [], 0, 0
    for group, group_slots in zip(layout.groups, slots, strict=True):
        for layer in group.layers:
            pool = bytearray([FILL_BYTE]) * (POOL_PAGES * strides[number])
            for slot in group_slots:
                for byte in range(layer.bytes_per_page):
                    pool[slot * strides[number] + byte] = payload[at]
                    at += 1
            pools.append(sha256(pool))
            number += 1
    assert at == len(payload)
    return pools


@settings(max_examples=40)
@given(st.data())
def test_every_pool_is_the_formulas(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    counts = layout.block_counts(SPAN_TOKENS)
    slots = tuple(tuple(data.draw(st.permutations(range(1, POOL_PAGES)))[:count]) for count in counts)
    layers = [layer for group in layout.groups for layer in group.layers]
    strides = tuple(layer.bytes_per_page + data.draw(st.integers(0, 5)) for layer in layers)
    header = encode_stream_header(layout.sha256, block_counts=counts)
    payload = squeeze(layout.canonical, byte_count=layout.payload_bytes(block_counts=counts))
    object_bytes = data.draw(st.integers(len(header) + 1, len(header) + len(payload) + 10))
    count = data.draw(st.integers(1, 4))
    fixed = FixedPool(pages=POOL_PAGES, page_stride_bytes=strides, group_slots=slots)
    with TemporaryDirectory() as folder:
        order = publish(Path(folder), layout=layout, stream=header + payload, object_bytes=object_bytes)
        buffers = BufferPool(buffer_bytes=object_bytes, count=count)
        with (
            BoundedReader(Path(folder), readers=data.draw(st.integers(1, 5)), buffers=buffers) as reader,
            HostDevice("host0", pool_bytes=1 << 20, arena_bytes=object_bytes, fixed_pool=fixed) as device,
        ):
            restored = restore(order, reader=reader, device=device)
            assert restored.report.problem is None
            found = list(device.pool_digests(layout))
    assert found == naive_pools(layout, payload=payload, slots=slots, strides=strides)
    assert buffers.held_buffers == 0


def publish(root: Path, *, layout: PageLayout, stream: bytes, object_bytes: int) -> RankOrder:
    context = sha256(b"context")
    view = memoryview(stream)
    numbers = iter(range(100_000))
    publish_flat(
        root,
        identity=IDENTITY,
        context_digest=context,
        committed_tokens=SPAN_TOKENS,
        object_bytes=object_bytes,
        batches=[[view[at : at + object_bytes]] for at in range(0, len(view), object_bytes)],
        new_id=lambda: f"{next(numbers):032x}",
    )
    return RankOrder(
        identity=IDENTITY, storage_key=IDENTITY.storage_key, context_digest=context, layout=layout
    )


def test_an_arena_smaller_than_an_object_is_refused(tmp_path: Path) -> None:
    layer = PageLayer(name="a", dtype="torch.uint8", page_shape=(1, 40), bytes_per_page=40)
    group = PageGroup(block_size=32, reuse_policy=ReusePolicy.FULL, reuse_window_tokens=None, layers=(layer,))
    layout = PageLayout(groups=(group,))
    counts = layout.block_counts(SPAN_TOKENS)
    stream = encode_stream_header(layout.sha256, block_counts=counts) + bytes(320)
    order = publish(tmp_path, layout=layout, stream=stream, object_bytes=300)
    with (
        BoundedReader(tmp_path, buffers=BufferPool(buffer_bytes=300)) as reader,
        HostDevice("host0", pool_bytes=4096, arena_bytes=299) as device,
    ):
        report = restore(order, reader=reader, device=device).report
    assert report.outcome is RankOutcome.FAILED
    assert report.problem is not None
    assert report.problem.expected == "at most 299 bytes, what an arena and a buffer take"


def test_equal_objects_are_stored_once_and_placed_each_time(tmp_path: Path) -> None:
    """Identical extents share a file (§8.2): here the second half of the objects."""
    layer = PageLayer(name="a", dtype="torch.uint8", page_shape=(1, 200), bytes_per_page=200)
    group = PageGroup(block_size=32, reuse_policy=ReusePolicy.FULL, reuse_window_tokens=None, layers=(layer,))
    layout = PageLayout(groups=(group,))
    counts = layout.block_counts(SPAN_TOKENS)
    stream = encode_stream_header(layout.sha256, block_counts=counts) + bytes(1600)
    order = publish(tmp_path, layout=layout, stream=stream, object_bytes=300)
    assert len(list(tmp_path.glob("chunks/*"))) < -(-len(stream) // 300)
    with (
        BoundedReader(tmp_path, buffers=BufferPool(buffer_bytes=300)) as reader,
        HostDevice("host0", pool_bytes=4096, arena_bytes=300) as device,
    ):
        restored = restore(order, reader=reader, device=device)
        assert restored.pages is not None
        assert device.digest(restored.pages)[0].sha256 == sha256(bytes(1600))
