"""Pages put together from any chain of spans, whatever each one keeps of the one before (§8.4, §9.2, §11)."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.digest import sha256
from app.core.store import files as files_module
from app.core.store.decode import PageDecoding
from app.core.store.entry import find_entry
from app.core.store.identity import CacheIdentity
from app.core.store.manifest import DeltaVersion, StorageMode, encode_legacy_manifest
from app.core.store.snapshot import PageLayout, parse_page_layout
from app.core.store.verify import VerifyOutcome, verify

from .builders import (
    ROW_IDENTITY,
    SMALL_LAYOUT,
    Span,
    layouts,
    put_page_entry,
    put_rows,
    span_chains,
    stream_of,
)
from .rig import MemoryFiles, StoreVector

LONGEST = {DeltaVersion.V1: 3, DeltaVersion.V2: 3, DeltaVersion.V3: 7}


def pages_of(files: MemoryFiles, identity: CacheIdentity, span: Span, layout: PageLayout) -> dict[str, bytes]:
    """Decode by hand, so that every block's place is looked at."""
    entry = find_entry(files, identity=identity, context_digest=span.context_digest)
    decoding = PageDecoding(files, entry=entry, layout=layout)
    pages = {layer.name: b"" for layer in decoding.layers}
    for block in decoding.blocks():
        assert block.offset == len(pages[block.layer.name])
        pages[block.layer.name] += bytes(block.memory)
    assert decoding.stream_sha256 == sha256(stream_of(layout, span))
    assert files.open_now == 0
    return pages


@pytest.mark.parametrize("version", list(DeltaVersion))
@given(data=st.data())
@settings(max_examples=60)
def test_every_chain_gives_its_pages(version: DeltaVersion, data: st.DataObject) -> None:
    layout = data.draw(layouts())
    spans = data.draw(span_chains(layout, longest=LONGEST[version]))
    flat = data.draw(st.booleans())
    files, identity = put_page_entry(
        spans, layout=layout, version=version, flat=flat, object_bytes=data.draw(st.integers(2048, 4096))
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files_module, "BLOCK_BYTES", data.draw(st.sampled_from([8, 64, 256 * 1024])))
        assert pages_of(files, identity, spans[-1], layout) == spans[-1].pages
        found = verify(files, identity=identity, context_digest=spans[-1].context_digest, layout=layout)
    assert found.outcome is VerifyOutcome.VERIFIED
    assert {layer.name: layer.sha256 for layer in found.layers} == {
        name: sha256(content) for name, content in spans[-1].pages.items()
    }
    blind = verify(files, identity=identity, context_digest=spans[-1].context_digest)
    assert blind.outcome is VerifyOutcome.VERIFIED


@given(data=st.data())
@settings(max_examples=40)
def test_an_intermediate_span_is_made_sure_of_too(data: st.DataObject) -> None:
    """A page that a later stage replaces is still part of what the stage before it promised."""
    layout = data.draw(layouts())
    spans = data.draw(span_chains(layout, longest=4).filter(lambda chain: len(chain) > 2))
    name = layout.groups[0].layers[0].name
    wrong = spans[1].pages[name][:-1] + bytes([spans[1].pages[name][-1] ^ 1])
    lie = replace(spans[1], pages=spans[1].pages | {name: wrong})
    files, identity = put_page_entry([spans[0], lie, *spans[2:]], layout=layout, version=DeltaVersion.V3)
    found = verify(files, identity=identity, context_digest=spans[-1].context_digest, layout=layout)
    if found.outcome is VerifyOutcome.VERIFIED:
        # The lie was consistent: nothing of the wrong page was promised by anybody.
        assert spans[2].reused[0] < layout.block_counts(spans[1].tokens)[0]
    else:
        assert found.stage == "stream"


def test_many_stages_in_bounded_depth() -> None:
    """Two hundred stages: no recursion, every file closed again."""
    layout = parse_page_layout(SMALL_LAYOUT)
    pages, spans = b"", []
    for number in range(1, 201):
        pages += bytes([number % 251]) * 4
        spans.append(
            Span(tokens=256 * number, pages={"a": pages}, reused=(number - 1,) if number > 1 else (0,))
        )
    files, identity = put_page_entry(spans, layout=layout, version=DeltaVersion.V3)
    assert pages_of(files, identity, spans[-1], layout) == {"a": pages}


def test_abandoned_half_way_nothing_stays_open(entries: dict[str, StoreVector]) -> None:
    vector = entries["page-delta-v2-1024"].in_memory()
    assert isinstance(vector.files, MemoryFiles)
    assert vector.layout is not None
    entry = find_entry(vector.files, identity=vector.identity, context_digest=vector.context_digest)
    blocks = PageDecoding(vector.files, entry=entry, layout=vector.layout).blocks()
    next(blocks)
    assert vector.files.open_now > 0
    blocks.close()  # type: ignore[attr-defined]
    assert vector.files.open_now == 0


def row_entry(identity: CacheIdentity, *, tokens: int, owner: CacheIdentity | None = None) -> MemoryFiles:
    files = MemoryFiles()
    raw = encode_legacy_manifest(
        identity=identity,
        context_digest=sha256(b"rows"),
        committed_tokens=tokens,
        chunks=put_rows(files, owner or identity, tokens=tokens),
    )
    files.put_document(raw, identity=identity, context_digest=sha256(b"rows"))
    return files


@pytest.mark.parametrize("rank", [-1, 0, 1])
@pytest.mark.parametrize("tokens", [256, 600, 1024])
def test_rows_of_any_rank(rank: int, tokens: int) -> None:
    identity = replace(ROW_IDENTITY, dcp_shard_rank=rank)
    files = row_entry(identity, tokens=tokens)
    found = verify(files, identity=identity, context_digest=sha256(b"rows"), mode=StorageMode.ROWS)
    assert found.detail is None
    assert {record.kind for record in found.records} == identity.required_records


def test_the_rows_of_another_rank() -> None:
    owner = replace(ROW_IDENTITY, dcp_shard_rank=0)
    files = row_entry(ROW_IDENTITY, tokens=512, owner=owner)
    found = verify(files, identity=ROW_IDENTITY, context_digest=sha256(b"rows"))
    assert (found.outcome, found.stage) == ("corrupt", "header")
    assert "128 positions from 1 in steps of 2" in (found.detail or "")


def test_an_interleaved_rank_is_readable_and_not_restorable() -> None:
    identity = replace(ROW_IDENTITY, cp_kv_cache_interleave_size=4)
    found = verify(row_entry(identity, tokens=512), identity=identity, context_digest=sha256(b"rows"))
    assert found.outcome is VerifyOutcome.VERIFIED
    assert "cp_kv_cache_interleave_size 4" in (found.note or "")
