"""The order in which a root document is judged, and the kinds not read here (store-format §8.3)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.core.canonical_json import encode_canonical
from app.core.digest import Digest, sha256
from app.core.errors import FormatError, IncompatibleError, IntegrityError
from app.core.store.manifest import FlatSnapshotManifest, encode_flat_manifest, parse_flat_manifest

from .rig import Vector

Document = dict[str, Any]


@pytest.fixture(scope="module")
def raw(vectors: dict[str, Vector]) -> bytes:
    vector = vectors["flat-v2-tp4-rank0"]
    return (vector.root / vector.entry["manifest"]).read_bytes()


@pytest.fixture
def judge(vectors: dict[str, Vector]) -> Callable[[bytes], FlatSnapshotManifest]:
    vector = vectors["flat-v2-tp4-rank0"]
    context = Digest(vector.entry["context_digest"])
    return lambda raw: parse_flat_manifest(raw, identity=vector.identity, context_digest=context)


def signed(raw: bytes, **changes: Any) -> bytes:
    document: Document = {k: v for k, v in (json.loads(raw) | changes).items() if k != "metadata_sha256"}
    return encode_canonical(document | {"metadata_sha256": sha256(encode_canonical(document))})


def test_a_good_document_is_its_value(
    raw: bytes, judge: Callable[[bytes], FlatSnapshotManifest], vectors: dict[str, Vector]
) -> None:
    entry = vectors["flat-v2-tp4-rank0"].entry
    manifest = judge(raw)
    assert manifest.sha256 == entry["manifest_sha256"]
    assert manifest.metadata_sha256 == entry["metadata_sha256"]
    assert manifest.snapshot_sha256 == entry["snapshot_sha256"]
    assert manifest.committed_tokens == entry["span_tokens"]
    assert manifest.encoded_bytes == entry["stream_bytes"]
    assert len(manifest.objects) == entry["object_count"]


def test_encoding_the_value_gives_the_document(
    raw: bytes, judge: Callable[[bytes], FlatSnapshotManifest]
) -> None:
    manifest = judge(raw)
    assert raw == encode_flat_manifest(
        identity=manifest.identity,
        context_digest=manifest.context_digest,
        committed_tokens=manifest.committed_tokens,
        object_bytes=manifest.object_bytes,
        objects=manifest.objects,
        snapshot_sha256=manifest.snapshot_sha256,
    )


def test_keys_come_before_digest_syntax(raw: bytes, judge: Callable[[bytes], FlatSnapshotManifest]) -> None:
    with pytest.raises(FormatError, match=r"extra \['note'\]"):
        judge(encode_canonical(json.loads(raw) | {"note": 1, "metadata_sha256": "x"}))


def test_digest_syntax_comes_before_the_metadata_digest(
    raw: bytes, judge: Callable[[bytes], FlatSnapshotManifest]
) -> None:
    with pytest.raises(FormatError, match="snapshot_sha256"):
        judge(encode_canonical(json.loads(raw) | {"snapshot_sha256": "x", "metadata_sha256": "0" * 64}))


def test_the_metadata_digest_comes_before_the_identity(
    raw: bytes, judge: Callable[[bytes], FlatSnapshotManifest]
) -> None:
    with pytest.raises(IntegrityError, match="metadata_sha256"):
        judge(encode_canonical(json.loads(raw) | {"identity": {}, "format_abi": 2}))


def test_the_identity_comes_before_the_geometry(
    raw: bytes, judge: Callable[[bytes], FlatSnapshotManifest]
) -> None:
    with pytest.raises(IncompatibleError, match="identity"):
        judge(signed(raw, identity={}, committed_tokens=0))


def test_the_geometry_comes_before_the_descriptors(
    raw: bytes, judge: Callable[[bytes], FlatSnapshotManifest]
) -> None:
    with pytest.raises(FormatError, match="committed_tokens"):
        judge(signed(raw, committed_tokens=0, snapshot_objects=[]))


def test_the_descriptors_come_before_the_coverage(
    raw: bytes, judge: Callable[[bytes], FlatSnapshotManifest]
) -> None:
    objects = json.loads(raw)["snapshot_objects"]
    objects[4]["sha256"] = "x"
    with pytest.raises(FormatError, match=r"snapshot_objects\[4\].sha256"):
        judge(signed(raw, snapshot_objects=objects, snapshot_encoded_bytes=5))


def test_an_identity_judged_by_itself_must_be_one(raw: bytes, vectors: dict[str, Vector]) -> None:
    context = Digest(vectors["flat-v2-tp4-rank0"].entry["context_digest"])
    with pytest.raises(FormatError, match=r"root document\.identity"):
        parse_flat_manifest(signed(raw, identity={"tp_degree": 1}), identity=None, context_digest=context)
    with pytest.raises(IncompatibleError, match="context_digest"):
        parse_flat_manifest(raw, identity=None, context_digest=sha256(b"another"))


def test_more_descriptors_than_the_limit(raw: bytes, judge: Callable[[bytes], FlatSnapshotManifest]) -> None:
    objects = [
        {"sha256": "0" * 64, "bytes": 1, "encoded_start": at, "encoded_end": at + 1} for at in range(65_537)
    ]
    with pytest.raises(FormatError, match="at most 65536 elements"):
        judge(signed(raw, snapshot_objects=objects, snapshot_object_bytes=1, snapshot_encoded_bytes=65_537))


@pytest.mark.parametrize(
    "name",
    [
        "legacy-pages-chunks",
        "rows-tail-cow-tail",
        "page-delta-v1-768",
        "page-delta-v2-768",
        "page-delta-v3-768",
    ],
)
def test_other_kinds_are_named_where_flat_ones_are_restored(
    shared_dir: Path, judge: Callable[[bytes], FlatSnapshotManifest], name: str
) -> None:
    folder = shared_dir / "vectors"
    entries = json.loads((folder / "index.json").read_bytes())["entries"]
    entry = next(item for item in entries if item["id"] == name)
    with pytest.raises(FormatError, match="a known kind that is not restorable by this version"):
        judge((folder / entry["root"] / entry["manifest"]).read_bytes())


@pytest.mark.parametrize("schema", [None, 2, "sparkcache-page-snapshot-manifest/v3", ["x"]])
def test_an_unknown_schema_is_not_called_known(
    raw: bytes, judge: Callable[[bytes], FlatSnapshotManifest], schema: Any
) -> None:
    with pytest.raises(FormatError) as refused:
        judge(signed(raw, schema=schema))
    assert "known kind" not in str(refused.value)


def test_a_flipped_bit_anywhere_is_refused(
    raw: bytes, judge: Callable[[bytes], FlatSnapshotManifest]
) -> None:
    for index in range(len(raw)):
        changed = bytearray(raw)
        changed[index] ^= 1 << index % 8
        with pytest.raises((FormatError, IntegrityError, IncompatibleError)):
            judge(bytes(changed))


def test_an_object_size_over_64_mib(raw: bytes, judge: Callable[[bytes], FlatSnapshotManifest]) -> None:
    """One last object may be smaller than stated, so that only the stated size is wrong."""
    whole = {"sha256": "0" * 64, "bytes": 66_599, "encoded_start": 0, "encoded_end": 66_599}
    most = 64 * 1024 * 1024
    assert judge(signed(raw, snapshot_objects=[whole], snapshot_object_bytes=most)).object_bytes == most
    with pytest.raises(FormatError, match=r"snapshot_object_bytes: .* ≤ 67108864, found 67108865"):
        judge(signed(raw, snapshot_objects=[whole], snapshot_object_bytes=most + 1))
