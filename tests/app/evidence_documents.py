"""Evidence documents made for tests of the control plane: a restore receipt that qualifies, and edits."""

import copy
import json
from typing import Any

IMAGE = "sha256:" + "1a" * 32
OTHER_IMAGE = "sha256:" + "2b" * 32
SCHEMA = "sparkring-glm53-dflash7-snapshot-v1-safe-validation/v1"
WITHDRAWAL = "sparkring-prerelease-withdrawal/v1"


def receipt(**changes: Any) -> dict[str, Any]:
    """A restore receipt of four ranks (evidence-model §4.4); changes name members by ``part__member``."""
    document = copy.deepcopy(_RECEIPT)
    for name, value in changes.items():
        *path, last = name.split("__")
        place: Any = document
        for step in path:
            place = place[step]
        place[last] = value
    return document


def raw(document: Any) -> bytes:
    return json.dumps(document).encode()


def rank_record(rank: int) -> dict[str, Any]:
    return {
        "rank": rank,
        "bounded_log_input_sha256": f"{rank + 1}c" * 32,
        "request_id": f"r{rank}",
        "digest_prefix": "b4" * 6,
        "end_to_end_ms": 1600.5 + rank,
        "service_ms": 1500.5 + rank,
        "page_bytes": 813_068_464,
        "outcome": "verified",
    }


_RECEIPT: dict[str, Any] = {
    "schema": SCHEMA,
    "status": "qualified",
    "artifact": {
        "image": "ghcr.io/example/spark@sha256:" + "3d" * 32,
        "image_id": IMAGE,
        "build_receipt_sha256": "4e" * 32,
        "sparkcache_commit": "5f" * 20,
        "sparkcache_tree": "6a" * 20,
        "sparkcache_source_sha256": "7b" * 32,
    },
    "profile": {
        "profile_id": "p",
        "served_model": "glm",
        "tensor_parallel_size": 4,
        "decode_context_parallel_size": 1,
        "kv_cache_dtype": "fp8",
        "kv_cache_bytes_per_rank": 1,
        "publication_schema": "snapshot-v1",
        "storage_mode": "page",
        "load_threads": 1,
        "max_pending_restores": 1,
        "cache_root_role": "x",
    },
    "case": {
        "committed_tokens": 131_072,
        "prompt_tokens": 131_080,
        "context_digest": "b4" * 32,
        "prompt_sha256": "8c" * 32,
        "expected_oracle": "red",
        "publish_oracle": "red",
        "restore_oracle": "red",
        "publish_response_sha256": "2c68d024" + "0" * 56,
        "restore_response_sha256": "2c68d024" + "0" * 56,
        "snapshot_encoded_bytes_per_rank": 813_068_464,
        "snapshot_object_count_per_rank": 13,
    },
    "rank_restore_evidence": [rank_record(rank) for rank in range(4)],
    "input_sha256": {},
    "limitations": {},
}


def publication(**changes: Any) -> dict[str, Any]:
    """The registry serves `IMAGE` under a manifest digest."""
    return {
        "schema": "sparkring-image-publication/v1",
        "status": "published-live-verified",
        "registry_manifest_digest": "sha256:" + "3d" * 32,
        "image_config_id": IMAGE,
        **changes,
    }


def failure(**changes: Any) -> dict[str, Any]:
    """`IMAGE` failed."""
    return {
        "schema": "sparkring-glm53-dflash-jit-readiness/v1",
        "status": "qualified",
        "runtime": {"image_id": OTHER_IMAGE},
        "failure_observation": {"image_id": IMAGE, "symptom": "stopped"},
        **changes,
    }
