"""Evidence documents made here: families of the corpus with values of our own, for tests without the
corpus.

Nothing of the corpus is copied; the pointers are those of evidence-model appendix B.
"""

import hashlib
import json
from typing import Any

from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.values import Found, Gap, Missing

Members = dict[str, Any]

IMAGE = "sha256:" + "a1" * 32
OTHER_IMAGE = "sha256:" + "b2" * 32
COMMIT = "c3" * 20
TREE = "d4" * 20
DIGEST = "e5" * 32
MODEL = "lab/model@" + "f6" * 20


def raw(document: Any) -> bytes:
    """The bytes of a document."""
    return json.dumps(document).encode("utf-8")


def response_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def single_restore() -> Members:
    """One case with rank records and both answers (snapshot-v1-safe)."""
    answer = response_digest(" green")
    return {
        "schema": "sparkring-glm53-dflash7-snapshot-v1-safe-validation/v1",
        "status": "qualified",
        "artifact": {
            "image_id": IMAGE,
            "build_receipt_sha256": DIGEST,
            "sparkcache_commit": COMMIT,
            "sparkcache_tree": TREE,
            "sparkcache_source_sha256": DIGEST,
        },
        "profile": {
            "served_model": "model-alias",
            "tensor_parallel_size": 2,
            "decode_context_parallel_size": 1,
            "kv_cache_dtype": "fp8",
            "publication_schema": "snapshot-v1",
            "storage_mode": "block_pages_v1",
        },
        "case": {
            "committed_tokens": 4096,
            "prompt_tokens": 4097,
            "context_digest": DIGEST,
            "prompt_sha256": DIGEST,
            "expected_oracle": "green",
            "publish_oracle": "green",
            "restore_oracle": "green",
            "publish_response_sha256": answer,
            "restore_response_sha256": answer,
        },
        "rank_restore_evidence": [
            {
                "rank": rank,
                "digest_prefix": DIGEST[:12],
                "end_to_end_ms": 10.5 + rank,
                "service_ms": 10.25,
                "page_bytes": 4096,
                "outcome": "verified",
            }
            for rank in range(2)
        ],
        "input_sha256": {"repository_manifest_inspection_json": DIGEST, "source_publish_json": DIGEST},
        "limitations": {"performance": "unsupported"},
    }


def page_tail() -> Members:
    """A chain of one delta with vectors (page-tail v1)."""
    return {
        "schema": "sparkcache-page-tail-qualification/v1",
        "runner": "live",
        "identity": {"publication_schema": "page-tail-cow-v1", "tp_degree": 2, "dcp_degree": 2},
        "base": {
            "context_digest": "11" * 32,
            "commit_ms": 4.5,
            "snapshot_bytes": 100,
            "committed_tokens": 256,
        },
        "deltas": [
            {
                "context_digest": "22" * 32,
                "manifest_schema": "sparkcache-page-delta-manifest/v2",
                "commit_ms": 7.25,
                "base_context_digest": "11" * 32,
                "base_committed_tokens": 256,
                "committed_tokens": 512,
                "base_snapshot_bytes": 100,
                "delta_encoded_bytes": 50,
                "result_snapshot_bytes": 150,
                "result_snapshot_sha256": DIGEST,
            }
        ],
        "result": {
            "context_digest": "22" * 32,
            "committed_tokens": 512,
            "expected_snapshot_sha256": DIGEST,
            "restart_restore_ms": 6.5,
        },
        "logical_snapshot_bytes": 150,
        "corruption": {"object": "00.spcc", "rejected": True, "lookup_reason": "corrupt"},
        "validation": {
            "byte_exact_restores": True,
            "complete_snapshot_equal": True,
            "corruption_rejected": True,
        },
        "live": {
            "image_id": IMAGE,
            "sparkcache_commit": COMMIT,
            "sparkring_commit": TREE,
            "target_checkpoint": MODEL,
            "draft_checkpoint": MODEL,
            "topology": "TP2/DCP2",
            "base_bytes": [100, 100],
            "delta_bytes": [50, 50],
            "commit_ms_by_rank": {"base": [4.5, 4.0], "delta": [7.0, 7.5]},
            "restart_restore_ms_by_rank": [6.5, 6.75],
            "post_repair_restore_ms_by_rank": [6.0, 6.25],
            "extension_semantic": "TEAL",
            "restart_semantic": "TEAL",
            "post_repair_semantic": "TEAL",
            "corruption_fallback_semantic": "TEAL",
            "corruption_fallback_tokens": 256,
        },
    }


def fenced_observation(**payload: Any) -> Members:
    """One observation with embedded payloads (event-fenced)."""
    body: Members = {
        "span_tokens": 4096,
        "digest": DIGEST[:12],
        "outcome": "verified",
        "chunk_count": 3,
        "page_bytes": 4096,
        "service_ms": 12.030,
        "phase_ms": {"prior_cuda_work": 0.25, "restore_read": 3.0},
        **payload,
    }
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":")).encode("ascii")
    record = {"canonical_payload_sha256": hashlib.sha256(canonical).hexdigest(), "payload": body}
    return {
        "schema": "sparkcache-glm53-event-fenced-flat-restore-research/v1",
        "status": "research-only",
        "runtime": {
            "image_id": IMAGE,
            "sparkcache_commit": COMMIT,
            "topology": "TP2/DCP1",
            "model": "alias",
            "publication_schema": "snapshot-v1",
        },
        "observations": [
            {
                "context_digest": DIGEST,
                "prompt_sha256": DIGEST,
                "restored_tokens": 4096,
                "expected_oracle": "teal",
                "observed_oracle": "teal",
                "oracle_match": True,
                "response_sha256": response_digest(" teal"),
                "rank_records": [{"rank": rank, **record} for rank in range(2)],
            }
        ],
        "raw_log_retention": {"rank_log_files_retained": False},
        "admission": {"deployable": False, "qualified": False, "reason": "open points"},
    }


def selections() -> Members:
    """Two selections, one with restores (functional evidence)."""
    common = {"checkpoint_repository": "lab/model", "checkpoint_revision": COMMIT, "profile_id": "p"}
    return {
        "schema": "sparkring-functional-evidence/v1",
        "release": "shared-2030.01.0",
        "image_id": IMAGE,
        "publication_status": "published",
        "selections": [
            {
                "selection": "one",
                "tp": 2,
                "dcp": 1,
                "status": "qualified",
                "functional_cases": [{"kind": "short", "passed": True}],
                "retained_restart": True,
                "restore_fixtures": [{"cached_tokens": 512, "physical_ranks": [0, 1]}],
                **common,
            },
            {
                "selection": "two",
                "tp": 4,
                "dcp": 1,
                "status": "implemented",
                "functional_cases": [{"kind": "short", "passed": False}],
                "retained_restart": False,
                **common,
            },
        ],
        "limitations": ["not more than this"],
    }


def composition(result: str = "The prompt was restored and returned OK:77; all ranks healthy.") -> Members:
    """A recipe that embeds its evidence; the degree stands in the preferred profile."""
    return {
        "schema": "sparkring-sparkcache-composition/v1",
        "status": "qualified",
        "preferred_profile": "dcp2",
        "model": {"repository": "lab/model", "revision": COMMIT, "checkpoint_sha256": DIGEST},
        "runtime": {"image_id": IMAGE, "sparkcache": {"source_commit": COMMIT, "source_tree": TREE}},
        "serving_common": {"tensor_parallel_size": 2},
        "profiles": {
            "dcp1": {"status": "implemented", "decode_context_parallel_size": 1},
            "dcp2": {"status": "qualified", "decode_context_parallel_size": 2},
        },
        "evidence": {
            "status": "qualified",
            "result": result,
            "expected_response": "OK:77",
            "restore_milliseconds_by_rank": [3.5, 4.5],
            "reusable_tokens": 512,
        },
    }


def connector_job() -> Members:
    """Restores and captures side by side (connector job live evidence)."""
    return {
        "schema": "sparkcache-connector-job-live-evidence/v1",
        "status": "qualified-for-listed-cases",
        "sparkcache_revision": COMMIT,
        "image": IMAGE,
        "conditions": {
            "model": "lab/model",
            "model_revision": COMMIT,
            "tensor_parallel_size": 4,
            "decode_context_parallel_size": 1,
        },
        "capture_retirement_cases": [
            {
                "kind": "stress",
                "native_capture_verified_physical_ranks": [0, 1, 2, 3],
                "post_drain_values": {
                    "sparkcache_ranks": 4,
                    "sparkcache_capture_pending_rank_slots": 0,
                    "sparkcache_capture_retained_pages": 2,
                },
            }
        ],
        "persistent_restore_cases": [
            {
                "prompt_tokens": 900,
                "restored_tokens": 768,
                "context_digest": DIGEST,
                "all_four_workers_verified": True,
                "exact_semantics_passed": True,
            }
        ],
        "raw_receipt_sha256": {"roundtrip": DIGEST},
    }


def isolation_run() -> Members:
    """Probes of two scopes (request scope)."""
    return {
        "schema": "sparkcache-request-scope-qualification/v1",
        "status": "qualified for the bounded cases listed; not general stability qualification",
        "candidate_image_id": IMAGE,
        "parent_image_id": OTHER_IMAGE,
        "sparkcache_source_commit": COMMIT,
        "checkpoint": {"repository": "lab/model", "revision": COMMIT},
        "conditions": {"dcp": 1, "prompt_tokens": 900},
        "topologies": [
            {
                "tp": 2,
                "cases": [
                    {
                        "case": name,
                        "cached_tokens": tokens,
                        "worker_restore_totals": [{"rank": rank, "tokens": tokens[0]} for rank in range(2)],
                    }
                    for name, tokens in (
                        ("seed", [0]),
                        ("warm", [512]),
                        ("concurrent", [512, 0]),
                        ("new", [1]),
                    )
                ],
            }
        ],
    }


def own_receipt() -> Members:
    """A finished restore of ours."""
    return {
        "schema": "sparkgate-restore-receipt/v1",
        "model": {"repository": "lab/model", "revision": COMMIT},
        "topology": {"tensor_parallel_size": 2, "decode_context_parallel_size": 1},
        "snapshot": {
            "context_digest": DIGEST,
            "span_tokens": 512,
            "publication_schema": "snapshot-v1",
            "manifest_schema": "sparkcache-page-snapshot-manifest/v2",
        },
        "ranks": [
            {
                "rank": rank,
                "runtime": {"image_config_id": IMAGE, "engine_sha256": DIGEST},
                "outcome": "restored",
                "bytes": 4096,
                "objects": 2,
                "context_digest": DIGEST,
                "manifest_sha256": DIGEST,
            }
            for rank in range(2)
        ],
        "semantic": {
            "expected": "teal",
            "observed": " teal",
            "passed": True,
            "response_sha256": response_digest(" teal"),
            "prompt_sha256": DIGEST,
        },
        "not_established": ["other prompts"],
    }


def every_document() -> dict[str, Members]:
    """All of them by name."""
    return {
        "single restore": single_restore(),
        "page tail": page_tail(),
        "fenced": fenced_observation(),
        "selections": selections(),
        "composition": composition(),
        "connector job": connector_job(),
        "isolation": isolation_run(),
        "own": own_receipt(),
    }


def facts(document: Any) -> DocumentFacts:
    return document_facts(read_document(raw(document)))


def value(fact: Any) -> Any:
    assert isinstance(fact, Found), fact
    return fact.value


def gap(fact: Any) -> Gap:
    assert isinstance(fact, Missing), fact
    return fact.gap
