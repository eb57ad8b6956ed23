"""Documents to facts, family by family, on documents made here (evidence-model §2.3, §4, appendix B)."""

from decimal import Decimal
from typing import Any

import pytest

from app.core.digest import sha256
from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import Capability, CarrierLevel, DocumentFacts, Kind, Meaning, StatusClass
from app.core.qualify.families import cases
from app.core.qualify.gates import Agreement, AnswerOf, OracleForm, RankForm, ScopeExpectation
from app.core.qualify.schema_table import annotation, schema_entry, schema_names, status_class
from app.core.qualify.serialise import facts_bytes, facts_document
from app.core.qualify.subject import ImageRole
from app.core.qualify.values import Basis, Found, Gap, Missing
from tests.core import evidence_documents as made


def facts(document: Any) -> DocumentFacts:
    return document_facts(read_document(made.raw(document)))


def value(fact: Any) -> Any:
    assert isinstance(fact, Found), fact
    return fact.value


def gap(fact: Any) -> Gap:
    assert isinstance(fact, Missing), fact
    return fact.gap


def test_a_restore_receipt_has_subject_ranks_and_answer() -> None:
    read = facts(made.single_restore())
    (case,) = read.cases
    assert read.schema.kind is Kind.RESTORE_RECEIPT
    assert value(read.subject.image) == made.IMAGE
    assert read.subject.image == Found(value=made.IMAGE, pointer="/artifact/image_id")
    assert [value(record.rank) for record in case.ranks.records] == [0, 1]
    assert {value(record.outcome) for record in case.ranks.records} == {"verified"}
    assert case.ranks.form is RankForm.RECORDS
    assert case.oracle.form is OracleForm.EXPECTED_AND_OBSERVED
    assert case.oracle.basis is Basis.DEMONSTRATED
    assert case.oracle.agreement is Agreement.EXACT
    (compared,) = case.oracle.comparisons
    assert (value(compared.expected), value(compared.observed)) == ("green", "green")
    assert case.oracle.published is not None
    assert value(case.oracle.published.response_sha256) == made.response_digest(" green")


def test_a_served_name_is_an_alias_and_no_repository() -> None:
    target = facts(made.single_restore()).subject.target
    assert target.alias == Found(value="model-alias", pointer="/profile/served_model", basis=Basis.ATTESTED)
    assert gap(target.repository) is Gap.UNMAPPED
    assert target.digests == ()


def test_a_repository_at_a_revision_is_read_as_both() -> None:
    draft = facts(made.page_tail()).subject.draft
    assert (value(draft.repository), value(draft.revision)) == ("lab/model", "f6" * 20)


@pytest.mark.parametrize(
    ("digest", "expected"),
    [
        ("sha256:" + "A1" * 32, Gap.MALFORMED),
        ("sha256:" + "a1" * 31, Gap.MALFORMED),
        ("sha256:" + "00" * 32, Gap.MALFORMED),
        ("a1" * 32, Gap.MALFORMED),
        (7, Gap.WRONG_TYPE),
        (None, Gap.NULL),
        ([], Gap.WRONG_TYPE),
    ],
)
def test_an_image_of_another_form_is_missing_with_what_stood_there(digest: Any, expected: Gap) -> None:
    document = made.single_restore()
    document["artifact"]["image_id"] = digest
    image = facts(document).subject.image
    assert gap(image) is expected
    assert isinstance(image, Missing)
    assert image.pointer == "/artifact/image_id"


def test_an_abbreviated_commit_is_no_identity() -> None:
    document = made.single_restore()
    document["artifact"]["sparkcache_commit"] = made.COMMIT[:12]
    assert gap(facts(document).subject.source.commit) is Gap.MALFORMED


@pytest.mark.parametrize("tp", [True, Decimal("4.0"), "4", 0, -2, 2048])
def test_a_degree_is_a_small_positive_integer(tp: Any) -> None:
    document = made.single_restore()
    document["profile"]["tensor_parallel_size"] = float(tp) if isinstance(tp, Decimal) else tp
    assert isinstance(facts(document).subject.topology.tp, Missing)


def test_a_topology_in_words_gives_both_axes_and_disagrees_with_numbers() -> None:
    document = made.page_tail()
    document["live"]["topology"] = "TP2/DCP4"
    subject = facts(document).subject
    assert value(subject.topology.dcp) == 2
    (found,) = subject.disagreements
    assert found.axis == "dcp"
    assert [(one.value, one.pointer) for one in found.values] == [
        (2, "/identity/dcp_degree"),
        (4, "/live/topology"),
    ]


def test_the_page_tail_chain_answers_and_headlines() -> None:
    read = facts(made.page_tail())
    (case,) = read.cases
    assert read.chain is not None
    assert value(read.chain.deltas[0].base_context_digest) == "11" * 32
    assert case.ranks.form is RankForm.VECTOR
    assert [vector.ranks for vector in case.ranks.vectors] == [(0, 1)] * 4
    assert [vector.must_be_equal for vector in case.ranks.vectors] == [False, False, True, True]
    assert [(value(one.value), one.blocking) for one in case.ranks.headlines] == [
        (Decimal("6.5"), True),
        (Decimal("7.25"), False),
    ]
    assert case.oracle.form is OracleForm.SELF_CONSISTENT
    assert len(case.oracle.comparisons) == 2
    assert value(case.fault.fallback_tokens) == value(case.fault.fallback_expected) == 256


def test_a_missing_later_answer_leaves_that_comparison_without_one() -> None:
    document = made.page_tail()
    del document["live"]["post_repair_semantic"]
    oracle = facts(document).cases[0].oracle
    assert oracle.form is OracleForm.SELF_CONSISTENT
    assert [isinstance(one.observed, Found) for one in oracle.comparisons] == [True, False]


def test_embedded_payloads_are_hashed_with_the_number_rule() -> None:
    read = facts(made.fenced_observation())
    assert len(read.payloads) == 2
    assert {value(one.declared) == value(one.computed) for one in read.payloads} == {True}
    (case,) = read.cases
    assert [value(record.fence_ms) for record in case.ranks.records] == [Decimal("0.25")] * 2


def test_a_changed_payload_no_longer_has_its_digest() -> None:
    document = made.fenced_observation()
    document["observations"][0]["rank_records"][1]["payload"]["page_bytes"] = 4097
    payload = facts(document).payloads[1]
    assert value(payload.declared) != value(payload.computed)


def test_admission_and_retention_are_facts_of_their_own() -> None:
    read = facts(made.fenced_observation())
    assert value(read.admission.deployable) is False
    assert [remark.meaning for remark in read.remarks] == [Meaning.RAW_EVIDENCE_NOT_RETAINED]
    levels = {carrier.pointer: carrier.level for carrier in read.carriers}
    assert levels["/status"] is CarrierLevel.DOCUMENT
    assert levels["/admission/deployable"] is CarrierLevel.ADMISSION


def test_every_selection_is_a_case_per_capability_with_its_own_degrees() -> None:
    read = facts(made.selections())
    named = [(case.pointer, case.capability, value(case.subject.topology.tp)) for case in read.cases]
    assert named == [
        ("/selections/0", Capability.SERVING, 2),
        ("/selections/1", Capability.SERVING, 4),
        ("/selections/0", Capability.RESTORE, 2),
    ]
    assert [[word.word for word in case.carriers] for case in read.cases] == [
        ["qualified"],
        ["implemented"],
        ["qualified"],
    ]
    assert [one.says for one in read.cases[1].oracle.attested] == [False]
    assert read.cases[2].oracle.form is OracleForm.NONE
    assert value(read.admission.published) is True


def test_a_composition_takes_its_degree_from_the_preferred_profile() -> None:
    subject = facts(made.composition()).subject
    assert subject.topology.dcp == Found(value=2, pointer="/profiles/dcp2/decode_context_parallel_size")
    assert value(subject.topology.tp) == 2


@pytest.mark.parametrize(
    ("result", "form"),
    [
        ("… and returned OK:77; the canary returned OK.", OracleForm.ATTESTED),
        ("… returned final content OK:77 with finish reason stop.", OracleForm.ATTESTED),
        ("… and returned OK:771;", OracleForm.EXPECTED_ONLY),
        ("… expected OK:77.", OracleForm.EXPECTED_ONLY),
        ("", OracleForm.EXPECTED_ONLY),
    ],
)
def test_an_expected_answer_counts_only_where_the_sentence_says_it_was_returned(
    result: str, form: OracleForm
) -> None:
    assert facts(made.composition(result)).cases[0].oracle.form is form


def test_an_answer_compared_by_its_end_is_a_suffix() -> None:
    said = "The canary completed with finish reason stop and the required answer suffix."
    document = made.composition(said)
    del document["evidence"]["expected_response"]
    oracle = facts(document).cases[0].oracle
    assert (oracle.form, oracle.agreement) == (OracleForm.ATTESTED, Agreement.SUFFIX)


def test_a_document_of_two_capabilities_has_cases_of_both() -> None:
    read = facts(made.connector_job())
    restore, capture = read.cases
    assert restore.capability is Capability.RESTORE
    assert restore.ranks.form is RankForm.ATTESTED
    assert restore.oracle.basis is Basis.ATTESTED
    assert capture.capability is Capability.CAPTURE
    counted = [fact.value for fact in capture.drain.zero if isinstance(fact, Found)]
    assert counted == [0, 2]
    assert sum(isinstance(fact, Missing) for fact in capture.drain.zero) == 6


def test_probes_expect_what_their_names_say() -> None:
    (case,) = facts(made.isolation_run()).cases
    assert [(probe.name, probe.expects) for probe in case.isolation] == [
        ("seed", ScopeExpectation.NOTHING),
        ("warm", ScopeExpectation.EVERY_RANK),
        ("concurrent", ScopeExpectation.LAST_NOTHING),
        ("new", ScopeExpectation.UNKNOWN),
    ]
    assert [value(tokens) for tokens in case.isolation[2].cached_tokens] == [512, 0]


def test_a_parent_image_is_named_and_not_the_subject() -> None:
    read = facts(made.isolation_run())
    assert value(read.subject.image) == made.IMAGE
    assert [(one.role, value(one.image)) for one in read.lifecycle.mentions] == [
        (ImageRole.PARENT, made.OTHER_IMAGE)
    ]


def test_a_pin_names_the_file_beside_the_document() -> None:
    pins = {pin.name: pin.sibling for pin in facts(made.single_restore()).pins}
    assert pins["repository_manifest_inspection_json"] == "manifest-inspection.json"
    assert pins["source_publish_json"] == ""


def test_a_list_of_cases_that_is_gone_leaves_an_empty_case() -> None:
    document = made.fenced_observation()
    del document["observations"]
    (case,) = facts(document).cases
    assert (case.capability, case.ranks.form, case.oracle.form) == (
        Capability.RESTORE,
        RankForm.NONE,
        OracleForm.NONE,
    )


@pytest.mark.parametrize("vector", [[3.5, None], [3.5, "4"], [3.5]])
def test_a_rank_without_a_number_is_not_in_the_vector(vector: list[Any]) -> None:
    document = made.composition()
    document["evidence"]["restore_milliseconds_by_rank"] = vector
    (kept,) = facts(document).cases[0].ranks.vectors
    assert kept.ranks == (0,)


def test_a_boolean_is_no_rank() -> None:
    document = made.single_restore()
    document["rank_restore_evidence"][1]["rank"] = True
    assert gap(facts(document).cases[0].ranks.records[1].rank) is Gap.WRONG_TYPE


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
