"""Annotations, flags, other images, controls: what stands beside the gates."""

from typing import Any

import pytest

from app.core.digest import sha256
from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import Meaning
from app.core.qualify.findings import Gate, GateState, Outcome
from app.core.qualify.schema_table import annotation
from app.core.qualify.verdict import judge_document
from tests.core import evidence_documents as made
from tests.core.judging import codes, judge

Members = dict[str, Any]


@pytest.mark.parametrize(
    ("meaning", "outcome", "code"),
    [
        (Meaning.CONFIG_FAILS_CLOSED, "unsupported", "CONFIG_FAILS_CLOSED"),
        (Meaning.PENDING_CHECK, "incomplete", "PENDING_CHECK"),
        (Meaning.KNOWN_FAILURE, "research-only", "KNOWN_FAILURE"),
        (Meaning.WAIVED_FAILURE, "research-only", "WAIVED_FAILURE"),
        (Meaning.OPEN_DEFECTS, "research-only", "OPEN_DEFECTS"),
        (Meaning.CLAIM_WITHDRAWN, "research-only", "CLAIM_WITHDRAWN"),
        (Meaning.IMAGE_NOT_UNIFORM, "research-only", "IMAGE_NOT_UNIFORM"),
        (Meaning.EVIDENCE_OTHER_IMAGE, "research-only", "EVIDENCE_OTHER_IMAGE"),
        (Meaning.CLAIM_AMENDED, "qualified", "CLAIM_AMENDED"),
        (Meaning.WRITER_OTHER_IMAGE, "qualified", "WRITER_OTHER_IMAGE"),
        (Meaning.RAW_EVIDENCE_NOT_RETAINED, "qualified", "RAW_EVIDENCE_NOT_RETAINED"),
    ],
)
def test_an_annotated_sentence_means_what_the_person_said(meaning: Meaning, outcome: str, code: str) -> None:
    sentence = "Read by a person, not by us."
    document = {**made.single_restore(), "note": sentence}
    assert judge(document).outcome is Outcome.QUALIFIED
    said = annotation(
        name="A. Person, 2030-01-01",
        pointer="/note",
        sentence_sha256=sha256(sentence.encode()),
        meaning=meaning,
    )
    facts = document_facts(read_document(made.raw(document)), annotations=[said])
    (verdict,) = judge_document(facts)
    assert verdict.outcome.value == outcome
    found = next(one for one in verdict.findings if one.code == code)
    assert (found.pointer, found.value) == ("/note", sentence)


@pytest.mark.parametrize("pointer", ["/other", "/note"])
def test_an_annotation_covers_one_sentence_at_one_place(pointer: str) -> None:
    document = {**made.single_restore(), "note": "Another sentence."}
    said = annotation(
        name="A", pointer=pointer, sentence_sha256=sha256(b"Read by a person."), meaning=Meaning.KNOWN_FAILURE
    )
    (verdict,) = judge_document(document_facts(read_document(made.raw(document)), annotations=[said]))
    assert verdict.outcome is Outcome.QUALIFIED


def smoke() -> Members:
    return {
        "schema": "sparkcache-public-arm64-smoke/v1",
        "status": "qualified",
        "scope": {"topology": "TP4/DCP1"},
        "artifact": {"image_config_digest": made.IMAGE, "parent_image_config_digest": made.OTHER_IMAGE},
        "sources": {"sparkcache": {"commit": made.COMMIT}},
        "models": {"target": {"repository": "lab/model", "revision": made.COMMIT}},
        "smoke": {
            "restart_restore": {
                "worker_cache_service_ms": {"minimum": 1, "maximum": 2},
                "exact_results": True,
                "full_engine_restart": True,
            }
        },
    }


def test_a_false_flag_takes_the_claim_away_and_declares_nothing() -> None:
    document = smoke()
    assert judge(document).outcome is Outcome.QUALIFIED
    assert {"RANK_SUMMARY_ONLY", "PARENT_NOT_UPGRADED", "SEMANTIC_ATTESTED_ONLY"} <= codes(judge(document))
    document["scope"]["general_qualification"] = False
    verdict = judge(document)
    assert verdict.outcome is Outcome.INCOMPLETE
    found = next(one for one in verdict.deciding if one.name == "STATUS_ABSENT")
    assert found.pointer == "/scope/general_qualification"
    document["scope"]["general_qualification"] = True
    assert judge(document).outcome is Outcome.QUALIFIED
    document["status"] = "implemented"
    assert judge(document).outcome is Outcome.IMPLEMENTED, "a true flag raises nothing"


def test_a_range_for_all_ranks_attests_and_warns() -> None:
    verdict = judge(smoke())
    structural = next(one for one in verdict.gates if one.gate is Gate.STRUCTURAL)
    assert structural.state is GateState.ATTESTED
    assert "STRUCTURE_VERIFIED" not in codes(verdict)


def test_uncommitted_sources_are_research() -> None:
    document = {
        "schema": "sparkcache-glm53-dcp-validation/v1",
        "evidence_status": "qualified",
        "platform": "four nodes, TP4",
        "runtime": {
            "sparkcache_behavioral_base_commit": made.COMMIT,
            "sparkcache_behavior_has_uncommitted_changes": True,
        },
        "models": {"target": {"repository": "lab/model", "revision": made.COMMIT}},
        "accepted_runs": {
            "dcp2": {
                "decode_context_parallel_size": 2,
                "cuda_restore": {
                    "semantic_oracle": "exact green",
                    "service_ms": {"minimum": 1, "maximum": 2},
                },
            }
        },
    }
    verdict = judge(document)
    assert "UNCOMMITTED_SOURCE" in codes(verdict)
    assert verdict.outcome is Outcome.INCOMPLETE, "no image is named either"


def rejection(**control: Any) -> Members:
    return {
        "schema": "sparkcache-glm53-flat-v2-reader-research/v1",
        "status": "research-only",
        "runtime": {"image_id": made.IMAGE, "topology": "TP2/DCP1"},
        "structural_restore": {"ranks": [0, 1], "all_ranks_verified": True},
        "semantic_restore": {"expected": "teal", "observed": "pink", "passed": False},
        **({"recomputation_control": control} if control else {}),
    }


@pytest.mark.parametrize(
    ("control", "code", "says"),
    [
        (
            {"expected": "teal", "observed": "Teal", "passed": True},
            "CONTROL_PASSED",
            "restore path is implicated",
        ),
        ({"expected": "teal", "observed": "pink", "passed": False}, "CONTROL_FAILED", "Model or prompt"),
        ({}, "CONTROL_MISSING", "cause is unknown"),
        ({"expected": "teal"}, "CONTROL_MISSING", "cause is unknown"),
    ],
)
def test_the_control_says_who_is_to_blame(control: Members, code: str, says: str) -> None:
    verdict = judge(rejection(**control))
    assert verdict.outcome is Outcome.REJECTED
    assert code in codes(verdict)
    assert says in verdict.reason


def test_a_control_whose_flag_lies_is_a_contradiction() -> None:
    document = rejection(expected="teal", observed="pink", passed=True)
    document["semantic_restore"].update(observed="teal", passed=True)
    assert judge(document).outcome is Outcome.REJECTED
    assert "SEMANTIC_CONTRADICTION" in codes(judge(document))


def test_evidence_of_a_predecessor_is_left_out_unless_it_is_the_image_itself() -> None:
    document = {
        "schema": "sparkring-glm53-pr146-live-validation/v2",
        "status": {"persistent_8k_restore": "qualified"},
        "artifact": {"image_id": made.IMAGE},
        "predecessor_artifact": {"image_id": made.OTHER_IMAGE},
    }
    assert "PREDECESSOR_EVIDENCE_EXCLUDED" in codes(judge(document))
    document["predecessor_artifact"] = {"image_id": made.IMAGE}
    assert "PREDECESSOR_EVIDENCE" in codes(judge(document))
