"""Any chain of page extensions decodes to what was asked to be stored (store-format §11)."""

from collections.abc import Sequence
from itertools import count, pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.digest import Digest, sha256
from app.core.store.files import RootFiles
from app.core.store.manifest import DeltaVersion
from app.core.store.snapshot import PageGroup, PageLayer, PageLayout, ReusePolicy, encode_stream_header
from app.core.store.verify import VerifyOutcome, verify
from app.core.store.writer import (
    PageExtension,
    PublishedDelta,
    cut,
    page_chunks,
    publish_flat,
    publish_legacy,
    publish_page_delta,
)

from .crash.scenarios import FULL_BYTES, PAGES

NUMBERS = count()


def layer(name: str, *, size: int) -> PageLayer:
    return PageLayer(name=name, dtype="torch.uint8", page_shape=(1, size), bytes_per_page=size)


LAYOUT = PageLayout(
    groups=(
        PageGroup(
            block_size=64,
            reuse_policy=ReusePolicy.FULL,
            reuse_window_tokens=None,
            layers=(layer("a", size=100), layer("b", size=37)),
        ),
        PageGroup(
            block_size=64,
            reuse_policy=ReusePolicy.SLIDING,
            reuse_window_tokens=129,
            layers=(layer("c", size=50),),
        ),
    )
)


def new_id() -> str:
    return f"{next(NUMBERS):032x}"


def context_of(span: int) -> Digest:
    return sha256(f"span {span}".encode())


def stream_of(span: int, *, changed: Sequence[tuple[int, int]] = ()) -> memoryview:
    """Pages that depend on layer and number; those in ``changed`` depend on the span too."""
    counts = LAYOUT.block_counts(span)
    parts = [encode_stream_header(LAYOUT.sha256, block_counts=counts)]
    for group, pages in zip(LAYOUT.groups, counts, strict=True):
        for number, item in enumerate(group.layers):
            for page in range(pages):
                salt = span if (number, page) in changed else 0
                seed = f"{item.name}/{page}/{salt}"
                parts.append(Random(seed).randbytes(item.bytes_per_page))
    return memoryview(b"".join(parts))


def publish_base(root: Path, *, version: DeltaVersion, span: int) -> None:
    publish_flat(
        root,
        identity=PAGES[version],
        context_digest=context_of(span),
        committed_tokens=span,
        object_bytes=1000,
        batches=cut(stream_of(span), object_bytes=1000),
        new_id=new_id,
    )


def extend(root: Path, *, version: DeltaVersion, first: int, last: int, stream: memoryview) -> PublishedDelta:
    extension = PageExtension(
        version=version,
        identity=PAGES[version],
        layout=LAYOUT,
        base_context_digest=context_of(first),
        context_digest=context_of(last),
        committed_tokens=last,
        stream=stream,
        object_bytes=FULL_BYTES if version is DeltaVersion.V3 else 1500,
    )
    return publish_page_delta(root, extension=extension, new_id=new_id)


def assert_decodes(root: Path, *, version: DeltaVersion, span: int, stream: memoryview) -> None:
    found = verify(RootFiles(root), identity=PAGES[version], context_digest=context_of(span), layout=LAYOUT)
    assert found.outcome is VerifyOutcome.VERIFIED, found.detail
    assert found.stream_sha256 == sha256(stream)


CHANGES = st.sets(st.tuples(st.integers(0, 1), st.integers(0, 20)), max_size=3)


@given(
    version=st.sampled_from(DeltaVersion),
    steps=st.lists(st.tuples(st.integers(1, 3), CHANGES), min_size=1, max_size=5),
)
@settings(max_examples=40)
def test_any_chain_decodes_to_the_streams_it_was_made_of(
    tmp_path_factory: pytest.TempPathFactory,
    version: DeltaVersion,
    steps: list[tuple[int, set[tuple[int, int]]]],
) -> None:
    root = tmp_path_factory.mktemp("chain")
    publish_base(root, version=version, span=256)
    streams = {256: stream_of(256)}
    for chunks, changed in steps:
        last = max(streams) + 256 * chunks
        streams[last] = stream_of(last, changed=sorted(changed))
    for first, last in pairwise(streams):
        extend(root, version=version, first=first, last=last, stream=streams[last])
    for span, stream in streams.items():
        assert_decodes(root, version=version, span=span, stream=stream)


@given(changed=CHANGES)
def test_reuse_ends_at_the_first_page_that_differs_in_any_layer(
    tmp_path_factory: pytest.TempPathFactory, changed: set[tuple[int, int]]
) -> None:
    """The leading pages of a group that are equal in all of its layers (store-format §11.3)."""
    root = tmp_path_factory.mktemp("reuse")
    publish_base(root, version=DeltaVersion.V2, span=512)
    stream = stream_of(768, changed=sorted(changed))
    made = extend(root, version=DeltaVersion.V2, first=512, last=768, stream=stream)
    full = min([page for _, page in changed if page < 8], default=8)
    sliding = min([page for number, page in changed if number == 0 and page < 2], default=2)
    assert made.reused_pages == (full, sliding)


def test_equal_pages_make_empty_tails(tmp_path: Path) -> None:
    """A span whose groups keep everything still has a delta: a header and nothing else."""
    wide = PageLayout(
        groups=(
            PageGroup(
                block_size=1024,
                reuse_policy=ReusePolicy.FULL,
                reuse_window_tokens=None,
                layers=(layer("a", size=100),),
            ),
        )
    )
    stream = memoryview(encode_stream_header(wide.sha256, block_counts=(1,)) + bytes(100))
    publish_flat(
        tmp_path,
        identity=PAGES[DeltaVersion.V2],
        context_digest=context_of(512),
        committed_tokens=512,
        object_bytes=1000,
        batches=cut(stream, object_bytes=1000),
        new_id=new_id,
    )
    extension = PageExtension(
        version=DeltaVersion.V2,
        identity=PAGES[DeltaVersion.V2],
        layout=wide,
        base_context_digest=context_of(512),
        context_digest=context_of(768),
        committed_tokens=768,
        stream=stream,
    )
    assert publish_page_delta(tmp_path, extension=extension, new_id=new_id).reused_pages == (1,)
    found = verify(
        RootFiles(tmp_path),
        identity=PAGES[DeltaVersion.V2],
        context_digest=context_of(768),
        layout=wide,
    )
    assert found.stream_sha256 == sha256(stream)


@pytest.mark.parametrize("version", DeltaVersion)
def test_a_legacy_entry_of_pages_is_a_base_too(tmp_path: Path, version: DeltaVersion) -> None:
    stream = stream_of(512)
    publish_legacy(
        tmp_path,
        identity=PAGES[version],
        context_digest=context_of(512),
        chunks=page_chunks(stream, committed_tokens=512, chunk_tokens=256),
        new_id=new_id,
    )
    spans = [512, 768, 1024, 1280]
    for first, last in pairwise(spans):
        made = extend(tmp_path, version=version, first=first, last=last, stream=stream_of(last))
    # The third delta of v1 and v2 starts from the bottom, that of v3 where it was asked to.
    assert made.base.committed_tokens == (1024 if version is DeltaVersion.V3 else 512)
    for span in spans:
        assert_decodes(tmp_path, version=version, span=span, stream=stream_of(span))


def test_v1_and_v2_may_stand_on_each_other(tmp_path: Path) -> None:
    publish_base(tmp_path, version=DeltaVersion.V1, span=256)
    extend(tmp_path, version=DeltaVersion.V2, first=256, last=512, stream=stream_of(512))
    extend(tmp_path, version=DeltaVersion.V1, first=512, last=768, stream=stream_of(768))
    made = extend(tmp_path, version=DeltaVersion.V2, first=768, last=1024, stream=stream_of(1024))
    assert made.base.committed_tokens == 256
    for span in (512, 768, 1024):
        assert_decodes(tmp_path, version=DeltaVersion.V2, span=span, stream=stream_of(span))
