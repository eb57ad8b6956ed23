"""Rows that can be read but not restored say why; rows that do not fit together are corrupt (§20.4)."""

from dataclasses import replace
from typing import Any

import pytest

from app.core.errors import FormatError, PlanError
from app.core.restore.plan import RestoreLimits
from app.core.restore.row_plan import RowPlan, plan_rows
from app.core.store.entry import Entry
from app.core.store.identity import BoundaryHiddenPolicy, RecordKind
from app.core.store.manifest import LegacyManifest, parse_manifest

from .rig import Vector


@pytest.fixture
def entry(entries: dict[str, Vector]) -> Entry:
    vector = entries["legacy-rows-partial"]
    raw = (vector.root / vector.entry["manifest"]).read_bytes()
    document = parse_manifest(raw, identity=None, context_digest=vector.order().context_digest)
    assert isinstance(document, LegacyManifest)
    return Entry(document=document, chunks=document.chunks)


def with_identity(entry: Entry, **changes: Any) -> Entry:
    document = replace(entry.document, identity=replace(entry.identity, **changes))
    return replace(entry, document=document)


def test_another_interleave_size_is_readable_but_not_restorable(entry: Entry) -> None:
    with pytest.raises(PlanError, match="not known for cp_kv_cache_interleave_size 2"):
        plan_rows(with_identity(entry, cp_kv_cache_interleave_size=2))


def test_where_nothing_is_sharded_the_interleave_size_says_nothing(entry: Entry) -> None:
    plan_rows(with_identity(entry, cp_kv_cache_interleave_size=2, dcp_degree=1, dcp_shard_rank=0))


def test_a_boundarys_hidden_state_is_no_row(entry: Entry) -> None:
    with pytest.raises(PlanError, match="boundary_hidden, readable but not restorable"):
        plan_rows(with_identity(entry, boundary_hidden_policy=BoundaryHiddenPolicy.PERSISTED))


def test_a_chunk_larger_than_a_buffer(entry: Entry) -> None:
    with pytest.raises(PlanError, match=r"chunk 0 .*what a buffer takes"):
        plan_rows(entry, limits=RestoreLimits(object_bytes=10))


def test_an_entry_over_the_operators_limit(entry: Entry) -> None:
    with pytest.raises(FormatError, match="operator's limit of 10 bytes"):
        plan_rows(entry, limits=RestoreLimits(snapshot_bytes=10))


def planned(entry: Entry, *, sizes: tuple[int, ...]) -> RowPlan:
    plan = plan_rows(entry)
    plan.head.parts.append(sizes)
    return plan


def test_rows_go_to_a_destination_per_kind_in_chunk_order(entry: Entry) -> None:
    """600 tokens of which every second is this rank's: 128, 128 and 44 rows."""
    plan = planned(entry, sizes=(128 * 4, 128 * 2, 128 * 1, 128 * 3))
    assert plan.kinds == (
        RecordKind.LOGICAL_POSITIONS,
        RecordKind.MTP_DRAFT_KV,
        RecordKind.SPARSE_INDEXER,
        RecordKind.TARGET_CKV,
    )
    assert plan.chunk_rows == (128, 128, 44)
    schedule = plan.schedule(held=(), digested=())
    assert schedule.block_counts == (300,)
    assert [(layer.name, layer.bytes_per_page) for layer in schedule.layers] == [
        ("logical_positions", 4),
        ("mtp_draft_kv", 2),
        ("sparse_indexer", 1),
        ("target_ckv", 3),
    ]
    (batch,) = schedule.batches
    spans = [(span.destination, span.destination_offset, span.byte_count) for span in batch[0].spans]
    assert spans[:5] == [(0, 0, 512), (1, 0, 256), (2, 0, 128), (3, 0, 384), (0, 512, 512)]
    assert schedule.payload_bytes == schedule.source_bytes == 300 * 10


@pytest.mark.parametrize("sizes", [(512, 256, 128, 383), (512, 256, 0, 384)])
def test_records_that_are_no_whole_rows(entry: Entry, sizes: tuple[int, ...]) -> None:
    with pytest.raises(FormatError, match="128 whole rows"):
        planned(entry, sizes=sizes).schedule(held=(), digested=())
