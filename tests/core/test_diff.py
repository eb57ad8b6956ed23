"""``diff_roots``: what is equal and what differs, exactly, for roots and for ranks."""

import shutil
from pathlib import Path

import pytest

from app.core.digest import Digest
from app.core.store.damage import damage_root
from app.core.store.diff import EntryDiff, diff_roots
from app.core.store.files import RootFiles

from .rig import Vector
from .roots import WholeRoot, whole_root


def diffs(a: Path, b: Path, **options: object) -> list[EntryDiff]:
    return list(diff_roots(RootFiles(a), RootFiles(b), **options))  # type: ignore[arg-type]


@pytest.fixture
def root(shared_dir: Path, tmp_path: Path) -> WholeRoot:
    return whole_root(shared_dir, folder=tmp_path)


@pytest.fixture
def twin(root: WholeRoot, tmp_path: Path) -> Path:
    shutil.copytree(root.path, tmp_path / "twin")
    return tmp_path / "twin"


def test_a_root_equals_its_copy(root: WholeRoot, twin: Path) -> None:
    found = diffs(root.path, twin)
    assert len(found) == 18
    assert all(pair.is_equal for pair in found)
    contexts = [pair.a.name.context_digest for pair in found if pair.a is not None]
    assert contexts == sorted(contexts)


def test_two_ranks_of_a_snapshot_differ_in_rank_and_payload_only(vectors: dict[str, Vector]) -> None:
    a, b = vectors["flat-v2-tp4-rank0"], vectors["flat-v2-tp4-rank1"]
    (pair,) = diffs(a.root, b.root)
    assert [difference.fact for difference in pair.different] == [
        "identity.tp_shard_rank",
        "document_sha256",
        "snapshot_sha256",
        "objects",
    ]
    assert {"kind", "committed_tokens", "object_sizes", "encoded_bytes"} <= set(pair.equal)
    objects = pair.different[-1].a
    assert isinstance(objects, dict)
    assert (objects["count"], objects["also_in_other"], objects["first_difference"]) == (9, 0, 0)


def test_with_a_layout_every_layer_is_compared(vectors: dict[str, Vector]) -> None:
    a, b = vectors["flat-v2-tp4-rank0"], vectors["flat-v2-tp4-rank1"]
    (pair,) = diffs(a.root, b.root, layout=a.layout)
    by_fact = {difference.fact: difference for difference in pair.different}
    for one, other in zip(a.entry["layers"], b.entry["layers"], strict=True):
        difference = by_fact[f"layer.{one['name']}"]
        assert (difference.a, difference.b) == (one["sha256"], other["sha256"])
    assert "content" in pair.equal


def test_rows_are_compared_per_kind_of_record(
    root: WholeRoot, twin: Path, vectors: dict[str, Vector]
) -> None:
    context = Digest(root.entries["rows-tail-cow-tail"]["context_digest"])
    (pair,) = diffs(root.path, twin, context=context, layout=vectors["flat-v2-single"].layout)
    assert pair.is_equal
    assert {"record.target_ckv", "record.logical_positions"} <= set(pair.equal)


def test_one_changed_descriptor_is_pointed_at(root: WholeRoot, twin: Path) -> None:
    context = Digest(root.entries["flat-v2-tp4-rank0"]["context_digest"])
    damage_root(twin, name="descriptors-exchanged", context=context)
    (pair,) = [pair for pair in diffs(root.path, twin) if not pair.is_equal]
    facts = {difference.fact: difference for difference in pair.different}
    assert facts.keys() == {"document_sha256", "objects"}
    objects = facts["objects"].a
    assert isinstance(objects, dict)
    assert (objects["same_place"], objects["also_in_other"]) == (7, 9)


def test_what_only_one_root_has_is_told(root: WholeRoot, twin: Path) -> None:
    root.document("page-delta-v3-1024").unlink()
    shutil.rmtree(twin / "prefix-aliases")
    lone = [pair for pair in diffs(root.path, twin) if not pair.is_equal]
    assert {(pair.a is None, pair.b is None) for pair in lone} == {(True, False), (False, True)}
    assert len(lone) == 3
    assert all([difference.fact for difference in pair.different] == ["present"] for pair in lone)


def test_an_unsound_document_is_a_difference_and_no_error(root: WholeRoot, twin: Path) -> None:
    damage_root(twin, name="document-fifo", seed=3)
    (pair,) = [pair for pair in diffs(root.path, twin) if not pair.is_equal]
    assert pair.different[0].fact == "document"
    assert pair.different[0].a == "sound"


def test_other_content_under_equal_documents_shows_with_a_layout(
    root: WholeRoot, twin: Path, vectors: dict[str, Vector]
) -> None:
    context = Digest(root.entries["flat-v2-single"]["context_digest"])
    damage_root(twin, name="object-flipped-bit", context=context)
    assert all(pair.is_equal for pair in diffs(root.path, twin, context=context))
    layout = vectors["flat-v2-single"].layout
    (pair,) = diffs(root.path, twin, context=context, layout=layout)
    assert "content" in {difference.fact for difference in pair.different}
