"""Identities, storage keys and context digests come out as upstream's do."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.core.canonical_json import encode_canonical
from app.core.errors import FormatError
from app.core.store.context import context_digest, request_scope, salt_v3
from app.core.store.identity import RecordKind, parse_identity

WIRE: dict[str, Any] = {
    "target_checkpoint": "ab" * 32,
    "draft_checkpoint": "cd" * 32,
    "quantization_layout": "q",
    "rope_layout": "r",
    "tp_degree": 4,
    "dcp_degree": 2,
    "cp_kv_cache_interleave_size": 1,
    "chunk_tokens": 256,
    "dcp_shard_rank": -1,
    "tp_shard_rank": 3,
    "boundary_hidden_policy": "live_forward",
    "draft_kv_policy": "colocated_target",
}
BAD = {
    "checkpoint upper case": {"target_checkpoint": "AB" * 32},
    "checkpoint null": {"draft_checkpoint": None},
    "quantization empty": {"quantization_layout": ""},
    "rope not text": {"rope_layout": 1},
    "degree zero": {"tp_degree": 0},
    "degree boolean": {"dcp_degree": True},
    "degree fraction": {"tp_degree": 4.0},
    "interleave zero": {"cp_kv_cache_interleave_size": 0},
    "chunk zero": {"chunk_tokens": 0},
    "rank below -1": {"tp_shard_rank": -2},
    "rank not below degree": {"tp_shard_rank": 4},
    "rank boolean": {"dcp_shard_rank": False},
    "policy unknown": {"boundary_hidden_policy": "maybe"},
    "policy null": {"draft_kv_policy": None},
    "policy of the other field": {"draft_kv_policy": "persisted"},
    "records empty": {"record_schema": []},
    "records without positions": {"record_schema": ["target_ckv"]},
    "records twice": {"record_schema": ["logical_positions", "target_ckv", "target_ckv"]},
    "records unknown": {"record_schema": ["logical_positions", "pages"]},
    "records not a list": {"record_schema": "logical_positions"},
    "publication empty": {"publication_schema": ""},
    "publication unknown": {"publication_schema": "snapshot-v1"},
    "publication null": {"publication_schema": None},
    "additional key": {"note": "x"},
}


@pytest.fixture(scope="module")
def digests(shared_dir: Path) -> Any:
    return json.loads((shared_dir / "vectors" / "digests.json").read_bytes())


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD.keys())
def test_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(FormatError):
        parse_identity(WIRE | changes)


@pytest.mark.parametrize("key", sorted(WIRE))
def test_a_key_is_missing(key: str) -> None:
    with pytest.raises(FormatError, match=key):
        parse_identity({name: value for name, value in WIRE.items() if name != key})


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_not_an_object(value: Any) -> None:
    with pytest.raises(FormatError, match="an object"):
        parse_identity(value)


def test_wire_form_survives() -> None:
    for extra in (
        {},
        {"record_schema": ["logical_positions", "target_ckv"], "publication_schema": "tail-cow-v1"},
    ):
        assert parse_identity(WIRE | extra).to_wire() == WIRE | extra


def test_ranks_of_sharded_and_unsharded_identities() -> None:
    sharded, single = parse_identity(WIRE), parse_identity(WIRE | {"tp_shard_rank": -1})
    assert (sharded.rank, sharded.rank_count) == (3, 4)
    assert (single.rank, single.rank_count) == (0, 1)


def test_required_records_follow_from_the_policies() -> None:
    assert parse_identity(WIRE).required_records == {
        RecordKind.TARGET_CKV,
        RecordKind.SPARSE_INDEXER,
        RecordKind.LOGICAL_POSITIONS,
    }
    kept = WIRE | {"boundary_hidden_policy": "persisted", "draft_kv_policy": "separate"}
    assert parse_identity(kept).required_records == set(RecordKind)


def test_storage_keys_of_the_vectors(digests: Any) -> None:
    storable = [item for item in digests["storage_keys"] if "cp_kv_cache_interleave_size" in item["wire"]]
    assert len(storable) >= 4
    for item in storable:
        identity = parse_identity(item["wire"])
        assert encode_canonical(identity.to_wire()).decode() == item["canonical"]
        assert identity.storage_key == item["storage_key"]
        assert identity.rank_zero_storage_key == item["rank_zero_storage_key"]


def test_request_scopes_and_v3_salts_of_the_vectors(digests: Any) -> None:
    wire = next(item["wire"] for item in digests["storage_keys"] if item["name"] == "page-tp4-rank2")
    salts = set()
    for item in digests["request_scopes"]:
        assert request_scope(item["cache_salt"]) == item["scope"]
        salts.add(salt_v3(parse_identity(wire), cache_salt=item["cache_salt"]))
    stated = {item["salt"] for item in digests["context_digests"] if item["salt_version"].startswith("v3")}
    assert stated <= salts
    assert len(stated) == 4


def test_context_digests_of_the_vectors(digests: Any) -> None:
    checked = 0
    for item in digests["context_digests"]:
        if "multimodal_features" in item:
            continue
        count = item.get("token_count", 0)
        tokens = item.get("token_ids") or [(i * 7919 + 12345) % 151552 for i in range(count)]
        assert context_digest(tokens, salt=item["salt"]) == item["context_digest"]
        checked += 1
    assert checked >= 30


@pytest.mark.parametrize("token", [-1, 2**32, 1.5, "1", None])
def test_a_token_that_is_none(token: Any) -> None:
    with pytest.raises(FormatError, match=r"^token 2: "):
        context_digest([0, 1, token, 3], salt="x")
    with pytest.raises(FormatError, match=r"^token 65537: "):
        context_digest([0] * 65_537 + [token], salt="x")
