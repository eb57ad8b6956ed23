"""Documents to facts, family by family, on documents made here (evidence-model §2.3, §4, appendix B)."""

from decimal import Decimal
from typing import Any

import pytest

from app.core.qualify.facts import Capability, CarrierLevel, Kind, Meaning
from app.core.qualify.gates import Agreement, OracleForm, RankForm, ScopeExpectation
from app.core.qualify.subject import ImageRole
from app.core.qualify.values import Basis, Found, Gap, Missing
from tests.core import evidence_documents as made
from tests.core.evidence_documents import facts, gap, value


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
