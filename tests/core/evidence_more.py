"""More evidence documents made here, for what `evidence_documents.py` has no family of."""

from tests.core.evidence_documents import COMMIT, DIGEST, IMAGE, Members


def hybrid_cache() -> Members:
    """Runs with fixtures, each with tokens per rank and a flag for its answer (Qwen hybrid cache)."""
    return {
        "schema": "sparkring-qwen-hybrid-cache-qualification/v1",
        "status": "qualified",
        "image_config_id": IMAGE,
        "model": "alias",
        "checkpoint_revision": COMMIT,
        "conditions": {"dcp": 1, "speculation_method": "mtp", "request_concurrency": 1},
        "runs": [
            {
                "tp": 2,
                "restart_passed_on_all_ranks": True,
                "fixture_results": [
                    {
                        "prompt_tokens": 900,
                        "request_sha256": DIGEST,
                        "replay_answer_correct": True,
                        "replay_cached_tokens": 512,
                        "rank_restore_tokens": [{"rank": rank, "tokens": 512} for rank in range(2)],
                    }
                ],
            }
        ],
    }


def named_answer() -> Members:
    """A served prompt that names its answer (bounded serving check)."""
    return {
        "schema": "sparkring-bounded-serving-check/v1",
        "status": "qualified",
        "image_config_id": IMAGE,
        "model": "alias",
        "checkpoint": {"config_sha256": DIGEST},
        "conditions": {"tp": 2, "dcp": 1, "sparkcache": False, "request_concurrency": 1},
        "result": {
            "prompt": "What is 6 times 7? Reply with only 42.",
            "answer": "42",
            "finish_reason": "stop",
        },
    }


def split_page() -> Members:
    """Eight restores at once, their answers counted here and recorded elsewhere (split page)."""
    return {
        "schema": "sparkring-glm53-split-page-shared-base-c8-validation/v1",
        "status": {"eight_external_restores": "qualified", "latency": "research-only"},
        "artifact": {"image_id": IMAGE, "image_id_on_every_rank": True, "sparkcache_commit": COMMIT},
        "conditions": {
            "topology": {"tensor_parallel_size": 2, "decode_context_parallel_size": 1},
            "target": {"repository": "lab/model", "revision": COMMIT},
        },
        "measurement": {
            "concurrency": 8,
            "stored_result_tokens": 512,
            "exact_response_count": 8,
            "external_restore": {"request_count": 8, "per_rank": {"base_read_ms": [1.5, 2.5]}},
        },
    }


def release_qualification() -> Members:
    """A release with one profile whose checks an annotated sentence attests (functional qualification)."""
    return {
        "schema": "sparkring-functional-qualification/v1",
        "release": "shared-2030.02.0",
        "status": "qualified",
        "runtime_image_id": IMAGE,
        "checkpoint_revision": COMMIT,
        "profiles": [
            {
                "id": "model-tp2",
                "status": "qualified",
                "qualification": "Bounded short/16K text, finite-score and synthetic-media checks, "
                "plus retained-container restart.",
            }
        ],
    }


def failed_start() -> Members:
    """A readiness record that tells of an image that failed before (JIT readiness)."""
    return {
        "schema": "sparkring-glm53-dflash-jit-readiness/v1",
        "status": "qualified",
        "failure_observation": {"time": "2030-01-01T00:00:00Z", "image_id": IMAGE, "symptom": "it hung"},
        "runtime": {"image_id": "sha256:" + "77" * 32, "topology": "TP2/DCP1"},
    }
