"""Every good entry is a hit at every depth and decodes to the digests the vectors list."""

import pytest

from app.core.store.lookup import Depth, LookupOutcome
from app.core.store.manifest import StorageMode
from app.core.store.verify import VerifyOutcome

from .rig import ENTRY_NAMES, StoreVector, content_of


def test_no_entry_is_left_out(entries: dict[str, StoreVector]) -> None:
    assert sorted(entries) == sorted(ENTRY_NAMES)
    assert len(entries) == 21


@pytest.mark.parametrize("depth", list(Depth))
@pytest.mark.parametrize("name", ENTRY_NAMES)
def test_a_hit_with_kind_and_digest(entries: dict[str, StoreVector], name: str, depth: Depth) -> None:
    vector = entries[name]
    answer = vector.lookup(depth)
    assert answer.problem is None
    assert answer.outcome is LookupOutcome.HIT
    assert answer.kind == vector.entry["root_kind"]
    assert answer.sha256 == vector.entry.get("lookup_manifest_sha256", vector.entry.get("manifest_sha256"))
    assert answer.entry is not None
    assert answer.entry.committed_tokens == vector.entry["span_tokens"]


@pytest.mark.parametrize("name", ENTRY_NAMES)
def test_decodes_to_its_digests(entries: dict[str, StoreVector], name: str) -> None:
    vector = entries[name]
    found = vector.verify()
    assert found.detail is None
    assert found.outcome is VerifyOutcome.VERIFIED
    if "layers" in vector.entry:
        listed = vector.entry["layers"]
        assert content_of(found) == {layer["name"]: layer["sha256"] for layer in listed}
        assert [layer.pages for layer in found.layers] == [layer["pages"] for layer in listed]
        assert found.stream_sha256 == vector.entry["stream_sha256"]
    else:
        assert content_of(found) == vector.entry["records_sha256"]
        assert found.note is None


@pytest.mark.parametrize("name", [name for name in ENTRY_NAMES if "rows" not in name])
def test_without_a_layout_streams_are_made_sure_of(entries: dict[str, StoreVector], name: str) -> None:
    vector = entries[name]
    found = vector.verify(layout=None)
    assert found.outcome is VerifyOutcome.VERIFIED
    assert found.layers == ()
    assert found.note is not None
    is_delta = vector.entry["root_kind"] == "page_delta"
    assert found.stream_sha256 == (None if is_delta else vector.entry["stream_sha256"])


def test_the_release_is_found_in_its_own_form_only(entries: dict[str, StoreVector]) -> None:
    vector = entries["release-0.1.0a2-chunks"]
    other = entries["legacy-pages-chunks"].identity
    assert vector.lookup(identity=other).outcome is LookupOutcome.ABSENT
    assert vector.lookup().outcome is LookupOutcome.HIT


def test_an_alias_is_no_hit_outside_row_mode(entries: dict[str, StoreVector]) -> None:
    vector = entries["legacy-rows-alias-4096"]
    for mode in (None, StorageMode.PAGES):
        assert vector.lookup(mode=mode).outcome is LookupOutcome.ABSENT


def test_rows_are_no_pages(entries: dict[str, StoreVector]) -> None:
    found = entries["legacy-rows"].verify(mode=StorageMode.PAGES)
    assert found.outcome is VerifyOutcome.INCOMPATIBLE
    assert "target_ckv and logical_positions" in (found.detail or "")


def test_pages_read_as_rows_are_one_record(entries: dict[str, StoreVector]) -> None:
    """A legacy entry of exactly these two records may be either; the asker decides."""
    vector = entries["legacy-pages-chunks"]
    found = vector.verify(mode=StorageMode.ROWS)
    assert found.outcome is VerifyOutcome.CORRUPT
    assert "rows of" in (found.detail or "")


def test_the_operators_limit(entries: dict[str, StoreVector]) -> None:
    vector = entries["flat-v2-single"]
    assert vector.verify(entry_bytes=10_371).outcome is VerifyOutcome.VERIFIED
    refused = vector.verify(entry_bytes=10_370)
    assert refused.outcome is VerifyOutcome.CORRUPT
    assert "operator's limit" in (refused.detail or "")
