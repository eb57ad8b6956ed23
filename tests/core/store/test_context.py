"""Every digest of ``digests.json``: keys, salts, prefixes, media, scopes, layouts (§5, §6, §8.5)."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.canonical_json import encode_canonical
from app.core.errors import FormatError
from app.core.store.context import (
    MediaFeature,
    context_digest,
    prefix_digests,
    request_scope,
    salt_v1,
    salt_v2,
    salt_v3,
)
from app.core.store.identity import IdentityForm, form_of, parse_identity
from app.core.store.snapshot import parse_page_layout

from .rig import StoreVector

PICTURE = MediaFeature(offset=10, length=100, modality="image", identifier="a")


@pytest.fixture(scope="module")
def digests(shared_dir: Path) -> Any:
    return json.loads((shared_dir / "vectors" / "digests.json").read_bytes())


def tokens_of(item: Any) -> list[int]:
    listed = item.get("token_ids")
    return listed or [(i * 7919 + 12345) % 151552 for i in range(item["token_count"])]


def media_of(item: Any) -> list[MediaFeature]:
    return [MediaFeature(**feature) for feature in item.get("multimodal_features", [])]


def test_every_context_digest(digests: Any) -> None:
    for item in digests["context_digests"]:
        found = context_digest(tokens_of(item), salt=item["salt"], media=media_of(item))
        assert found == item["context_digest"], item
    assert len(digests["context_digests"]) >= 39


def test_every_storage_key_in_its_form(digests: Any) -> None:
    for item in digests["storage_keys"]:
        identity = parse_identity(item["wire"], form=form_of(item["wire"]))
        assert encode_canonical(identity.to_wire()).decode() == item["canonical"]
        assert identity.storage_key == item["storage_key"]
        assert identity.rank_zero_storage_key == item["rank_zero_storage_key"]
        assert identity.form is IdentityForm.CURRENT
    assert len(digests["storage_keys"]) >= 5


def test_every_salt(digests: Any) -> None:
    wire = next(item["wire"] for item in digests["storage_keys"] if item["name"] == "page-tp4-rank2")
    identity = parse_identity(wire)
    known = {
        "v1": salt_v1(identity),
        "v2": salt_v2(identity),
        "v2+request-salt 'tenant-A'": salt_v2(identity, cache_salt="tenant-A"),
        "v3 unsalted": salt_v3(identity),
        "v3 salt 'tenant-A'": salt_v3(identity, cache_salt="tenant-A"),
        "v3 salt ''": salt_v3(identity, cache_salt=""),
        "v3 salt 'd\u00e9j\u00e0 \u4e2d'": salt_v3(identity, cache_salt="d\u00e9j\u00e0 \u4e2d"),
        "literal": "abc",
    }
    for item in digests["context_digests"]:
        assert known[item["salt_version"]] == item["salt"]
    assert {item["salt_version"] for item in digests["context_digests"]} == set(known)
    for item in digests["request_scopes"]:
        assert request_scope(item["cache_salt"]) == item["scope"]


def test_the_salts_of_the_entries(entries: dict[str, StoreVector]) -> None:
    salts = {"v1": salt_v1, "v2": salt_v2, "v3": salt_v3}
    for vector in entries.values():
        release = vector.name == "release-0.1.0a2-chunks"
        assert (vector.identity.form is IdentityForm.RELEASE_0_1_0A2) == release
        assert vector.identity.storage_key == vector.entry["storage_key"]
        salt = salts[vector.entry["salt_version"]](vector.identity)
        assert salt == vector.entry["salt"]
        tokens = [(i * 7919 + 12345) % 151552 for i in range(vector.entry["span_tokens"])]
        assert context_digest(tokens, salt=salt) == vector.entry["context_digest"]


def test_an_empty_salt_is_one_in_v3_only(entries: dict[str, StoreVector]) -> None:
    identity = entries["flat-v2-single"].identity
    assert salt_v2(identity, cache_salt="") == salt_v2(identity)
    assert salt_v3(identity, cache_salt="") != salt_v3(identity)


def test_incremental_prefixes(digests: Any) -> None:
    listed = digests["incremental"]["digests"]
    boundaries = [item["token_count"] for item in listed]
    tokens = tokens_of({"token_count": boundaries[-1] + 5})
    found = prefix_digests(tokens, salt=digests["incremental"]["salt"], boundaries=boundaries)
    assert list(found) == [item["context_digest"] for item in listed]


def test_every_layout(digests: Any) -> None:
    for item in digests["layouts"]:
        layout = parse_page_layout(item["canonical"].encode())
        assert layout.canonical.decode() == item["canonical"]
        assert layout.sha256 == item["layout_sha256"]


@given(
    tokens=st.lists(st.integers(0, 2**32 - 1), min_size=520, max_size=1100),
    gaps=st.lists(st.tuples(st.integers(0, 200), st.integers(1, 60)), max_size=4),
)
def test_prefixes_hashed_at_once_are_prefixes(tokens: list[int], gaps: list[tuple[int, int]]) -> None:
    media, at = [], 0
    for gap, length in gaps:
        feature = MediaFeature(offset=at + gap, length=length, modality="image", identifier="\u00e9")
        at = feature.offset + length
        if at <= len(tokens):
            media.append(feature)
    boundaries = list(range(256, len(tokens) + 1, 256))
    assert prefix_digests(tokens, salt="s", boundaries=boundaries, media=media) == tuple(
        context_digest(tokens[:boundary], salt="s", media=media) for boundary in boundaries
    )


@pytest.mark.parametrize("boundaries", [[0], [255], [512, 256], [256, 256], [1280], [-256]])
def test_a_boundary_out_of_place(boundaries: list[int]) -> None:
    with pytest.raises(FormatError, match="boundary"):
        prefix_digests([1] * 1024, salt="s", boundaries=boundaries)


@pytest.mark.parametrize(
    "media",
    [
        [MediaFeature(offset=-1, length=5, modality="m", identifier="i")],
        [MediaFeature(offset=3, length=0, modality="m", identifier="i")],
        [PICTURE, MediaFeature(offset=109, length=5, modality="m", identifier="i")],
        [PICTURE, MediaFeature(offset=2**64, length=5, modality="m", identifier="i")],
    ],
)
def test_media_that_are_none(media: list[MediaFeature]) -> None:
    with pytest.raises(FormatError, match="media feature"):
        context_digest([1] * 300, salt="s", media=media)


def test_media_behind_the_prompt() -> None:
    with pytest.raises(FormatError, match="media feature 0"):
        prefix_digests([1] * 109, salt="s", boundaries=[], media=[PICTURE])


def test_texts_that_are_no_unicode(entries: dict[str, StoreVector]) -> None:
    lone = MediaFeature(offset=1, length=5, modality="m", identifier="\ud800")
    identity = entries["flat-v2-single"].identity
    for ask in (
        lambda: context_digest([1] * 300, salt="s", media=[lone]),
        lambda: salt_v2(identity, cache_salt="\ud800"),
        lambda: salt_v3(identity, cache_salt="\ud800"),
    ):
        with pytest.raises(FormatError, match="Unicode"):
            ask()
