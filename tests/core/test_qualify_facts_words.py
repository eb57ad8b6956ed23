"""Documents to facts: unknown schemas, words and sentences, families the corpus does not have (appendix
B).
"""

from decimal import Decimal
from typing import Any

import pytest

from app.core.digest import sha256
from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import Capability, CarrierLevel, Kind, Meaning, StatusClass
from app.core.qualify.families import cases
from app.core.qualify.gates import AnswerOf, OracleForm, RankForm
from app.core.qualify.schema_table import annotation, schema_entry, schema_names, status_class
from app.core.qualify.serialise import facts_bytes, facts_document
from app.core.qualify.values import Basis, Gap
from tests.core import evidence_documents as made
from tests.core.evidence_documents import facts, gap, value


@pytest.mark.parametrize(
    ("schema", "code"), [("somebody/v9", "SCHEMA_UNKNOWN"), (None, "SCHEMA_ABSENT"), (7, "SCHEMA_ABSENT")]
)
def test_an_unknown_schema_is_kept_and_has_no_case(schema: Any, code: str) -> None:
    document: dict[str, Any] = {"status": "qualified", "image_id": made.IMAGE}
    if schema is not None:
        document["schema"] = schema
    read = facts(document)
    assert (read.schema.kind, read.schema.no_verdict, read.cases) == (Kind.UNKNOWN, code, ())
    assert gap(read.subject.image) is Gap.UNMAPPED


@pytest.mark.parametrize("document", [[], [1], "text", None, 7, True, {}])
def test_any_json_value_has_facts(document: Any) -> None:
    assert facts(document).schema.kind is Kind.UNKNOWN


def test_a_schema_must_be_the_whole_string() -> None:
    document = made.single_restore()
    document["schema"] += "0"
    assert facts(document).schema.no_verdict == "SCHEMA_UNKNOWN"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("qualified", StatusClass.QUALIFIED),
        ("  qualified ", StatusClass.QUALIFIED),
        ("unqualified", StatusClass.UNKNOWN),
        ("Qualified", StatusClass.UNKNOWN),
        ("qualified-soon", StatusClass.UNKNOWN),
        ("source-closure-verified-runtime-qualification-pending", StatusClass.PENDING),
        ("research-only", StatusClass.RESEARCH),
        ("semantic-rejection", StatusClass.NEGATIVE),
        ("verified", StatusClass.CHECK),
        ("accepted", StatusClass.POLICY),
    ],
)
def test_a_status_word_is_compared_as_a_whole(word: str, expected: StatusClass) -> None:
    assert status_class(word) is expected


def test_a_map_declares_per_capability_without_performance() -> None:
    document = {
        "schema": "sparkring-glm53-dflash7-pr30-live-validation/v1",
        "status": {
            "persistent_restore": "qualified",
            "restore_performance": "research-only",
            "soak": "unsupported",
        },
    }
    carriers = facts(document).carriers
    assert [(one.key, one.level, one.capability) for one in carriers] == [
        ("persistent_restore", CarrierLevel.MAP, Capability.RESTORE),
        ("restore_performance", CarrierLevel.MAP, None),
        ("soak", CarrierLevel.MAP, None),
    ]


def test_maturity_counts_only_without_a_status() -> None:
    document: dict[str, Any] = {"schema": "sparkring-benchmark-summary/v1", "maturity": "live-validated"}
    assert [one.pointer for one in facts(document).carriers] == ["/maturity"]
    document["status"] = "research-only"
    levels = {one.pointer: one.level for one in facts(document).carriers}
    assert levels == {"/status": CarrierLevel.DOCUMENT, "/maturity": CarrierLevel.NESTED}


def test_a_word_deep_inside_is_shown_and_declares_nothing() -> None:
    document = made.single_restore()
    document["arms"] = [{"status": "fail"}, {"status": "a sentence that is no word"}]
    nested = [one for one in facts(document).carriers if one.level is CarrierLevel.NESTED]
    assert [(one.pointer, one.status) for one in nested if one.pointer.startswith("/arms")] == [
        ("/arms/0/status", StatusClass.NEGATIVE)
    ]


def test_a_sentence_counts_only_where_it_is_annotated() -> None:
    document = made.single_restore()
    document["limitations"]["note"] = "Native stall remains unresolved; wait."
    assert facts(document).remarks == ()
    scope = {
        "schema": "sparkring-managed-restart-evidence/v1",
        "scope": "One run. Native stall remains unresolved; wait.",
    }
    (remark,) = facts(scope).remarks
    assert (remark.meaning, remark.basis, remark.pointer) == (Meaning.KNOWN_FAILURE, Basis.ATTESTED, "/scope")


def test_a_person_may_annotate_a_sentence_of_one_document() -> None:
    sentence = "The engine stopped twice during the run."
    document = made.selections()
    document["limitations"] = ["other", sentence]
    said = annotation(
        name="auditor, 2030-01-02",
        pointer="/limitations/1",
        sentence_sha256=sha256(sentence.encode()),
        meaning=Meaning.KNOWN_FAILURE,
    )
    read = document_facts(read_document(made.raw(document)), annotations=(said,))
    assert [(one.pointer, one.text, one.phrase) for one in read.remarks] == [
        ("/limitations/1", sentence, "auditor, 2030-01-02")
    ]
    document["limitations"][1] += "!"
    assert document_facts(read_document(made.raw(document)), annotations=(said,)).remarks == ()


def test_our_own_receipt_is_about_the_measured_runtime() -> None:
    document = made.own_receipt()
    read = facts(document)
    (case,) = read.cases
    assert value(read.subject.image) == made.IMAGE
    assert value(read.subject.source.sha256) == made.DIGEST
    assert [value(one.source_sha256) for one in read.subject.rank_images] == [made.DIGEST] * 2
    assert (case.ranks.form, case.oracle.form) == (RankForm.RECORDS, OracleForm.EXPECTED_AND_OBSERVED)
    for rank in document["ranks"]:
        rank["runtime"]["image_config_id"] = "none"
    assert gap(facts(document).subject.image) is Gap.MALFORMED


def test_the_answer_named_by_the_prompt_is_the_expected_one() -> None:
    document = {
        "schema": "sparkring-bounded-serving-check/v1",
        "result": {"prompt": "What is 2 and 2? Reply with only 4.", "answer": "4", "finish_reason": "stop"},
    }
    oracle = facts(document).cases[0].oracle
    assert (oracle.form, oracle.answers) == (OracleForm.EXPECTED_AND_OBSERVED, AnswerOf.SERVED)
    document["result"] = {"prompt": "What is 2 and 2?", "answer": "4"}
    assert facts(document).cases[0].oracle.form is OracleForm.NONE


def test_times_per_rank_are_found_wherever_they_stand() -> None:
    named = {timing.pointer: timing.values for timing in facts(made.page_tail()).timings}
    assert named["/live/commit_ms_by_rank/delta"] == (Decimal("7.0"), Decimal("7.5"))
    records = {timing.pointer: timing.ranks for timing in facts(made.single_restore()).timings}
    assert records == {
        "/rank_restore_evidence/*/end_to_end_ms": (0, 1),
        "/rank_restore_evidence/*/service_ms": (0, 1),
    }


def test_facts_as_json_are_canonical_and_keep_gaps() -> None:
    document = made.single_restore()
    del document["case"]["restore_oracle"]
    read = facts(document)
    assert facts_bytes(read) == facts_bytes(facts(document))
    case: Any = facts_document(read)["cases"]
    assert case[0]["oracle"]["comparisons"][0]["observed"] == {
        "gap": "absent",
        "pointer": "/case/restore_oracle",
    }
    assert "subject" not in case[0]


def test_every_schema_of_the_table_reads_an_empty_document() -> None:
    for name in schema_names():
        entry = schema_entry(name)
        assert entry is not None
        if not name.startswith("("):
            read = facts({"schema": name})
            assert read.schema.kind is entry.kind, name
            assert gap(read.subject.image) in (Gap.ABSENT, Gap.UNMAPPED), name


def test_a_document_with_too_many_cases_is_not_read_case_by_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = made.fenced_observation()
    monkeypatch.setattr(cases, "MOST_CASES", 3)
    document["observations"] *= 4
    (case,) = facts(document).cases
    assert case.oracle.form is OracleForm.NONE
    document["observations"].pop()
    assert len(facts(document).cases) == 3


def test_what_is_only_shown_is_bounded() -> None:
    document = made.single_restore()
    document["arms"] = [{"status": "fail"}] * 5000
    document["limitations"] = ["sentence"] * 5000
    read = facts(document)
    assert len(read.statements) == 1000
    assert sum(one.level is CarrierLevel.NESTED for one in read.carriers) == 1000


def test_a_labels_only_child_is_linked_with_both_equalities() -> None:
    read = facts(
        {
            "schema": "sparkring-candidate-validation-summary/v1",
            "image_config_id": made.IMAGE,
            "runtime_build_config_id": made.OTHER_IMAGE,
            "published": False,
            "verification": {"serving_qualified": False},
            "metadata_equivalence": {
                "rootfs_identical": True,
                "configuration_except_labels_identical": True,
                "serving_qualification_added": False,
            },
        }
    )
    (link,) = read.lifecycle.labels_only
    assert (value(link.runtime), value(link.child)) == (made.OTHER_IMAGE, made.IMAGE)
    assert (value(link.layers_equal), value(link.configuration_equal)) == (True, True)
    assert value(read.admission.published) is False
    assert read.schema.ceilings == ("CONSTRUCTION_ONLY",)
    assert {carrier.level for carrier in read.carriers} == {CarrierLevel.FLAG}


def test_a_smoke_of_a_public_image_pairs_digest_and_config_id() -> None:
    read = facts(
        {
            "schema": "sparkcache-public-arm64-smoke/v1",
            "status": "implemented",
            "scope": {
                "tp4_smoke_verified": True,
                "general_qualification": False,
                "topology": "TP4/DCP1 on four nodes",
            },
            "artifact": {"manifest_digest": made.OTHER_IMAGE, "image_config_digest": made.IMAGE},
            "sources": {"sparkcache": {"commit": made.COMMIT, "tree": made.TREE}},
            "smoke": {
                "restart_restore": {
                    "full_engine_restart": True,
                    "exact_results": True,
                    "worker_cache_service_ms": {"minimum": 100, "maximum": 200},
                }
            },
        }
    )
    (case,) = read.cases
    assert (value(read.subject.topology.tp), value(read.subject.topology.dcp)) == (4, 1)
    assert value(read.subject.manifest_digest) == made.OTHER_IMAGE
    assert case.ranks.form is RankForm.SUMMARY
    assert case.oracle.form is OracleForm.ATTESTED
    assert value(case.restart.happened) is True


def test_an_image_receipt_names_its_builder_and_shows_the_words_inside() -> None:
    read = facts(
        {
            "schema": "sparkring-glm53-jj-r8-gb10-image-receipt/v1",
            "status": "implemented",
            "image": "name:tag",
            "image_id": made.IMAGE,
            "inside_image": {
                "sparkcache_commit": made.COMMIT,
                "live_qualification": "not-established-by-image-verification",
                "status": "implemented",
            },
            "labels": {
                "org.opencontainers.image.revision": made.TREE,
                "org.sparkring.runtime.status": "research-only",
            },
        }
    )
    assert value(read.subject.builder_commit) == made.TREE
    assert read.registry == ()
    levels = {carrier.pointer: (carrier.level, carrier.status) for carrier in read.carriers}
    assert levels["/status"] == (CarrierLevel.DOCUMENT, StatusClass.IMPLEMENTED)
    assert levels["/inside_image/live_qualification"] == (CarrierLevel.NESTED, StatusClass.PENDING)
    assert levels["/labels/org.sparkring.runtime.status"] == (CarrierLevel.NESTED, StatusClass.RESEARCH)


def test_a_withdrawal_names_what_must_not_be_used() -> None:
    read = facts(
        {
            "schema": "sparkring-prerelease-withdrawal/v1",
            "release": "r-1",
            "status": "unsupported",
            "registry_manifest_digest": made.IMAGE,
            "cause": "too many layers",
            "replacement_release": "r-2",
        }
    )
    withdrawal = read.lifecycle.withdrawal
    assert withdrawal is not None
    assert (value(withdrawal.manifest_digest), value(withdrawal.reason)) == (made.IMAGE, "too many layers")
    assert value(read.lifecycle.release) == "r-1"
    assert gap(withdrawal.replacement_digest) is Gap.ABSENT
