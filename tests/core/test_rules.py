"""Each rule on documents made for it: what blocks, what warns, what supports, and where it was read."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.core.qualify.codes import CODES
from app.core.qualify.facts import Capability
from app.core.qualify.findings import Gate, GateState, Outcome, Row
from app.core.qualify.ruleset import NEEDS, RULES, ruleset_version
from app.core.qualify.scope import ScopeKey, scope_of
from app.core.qualify.surroundings import (
    Declaration,
    Elsewhere,
    OtherIdentity,
    PinCheck,
    PinState,
    Surroundings,
)
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict
from tests.core import evidence_documents as made
from tests.core.judging import codes, facts_of, judge
from tests.data.rules_page import PAGE, page

Members = dict[str, Any]
Change = Callable[[Members], None]
ELSEWHERE = Elsewhere(document="aa" * 32, pointer="/there", value="stood there")


def after(document: Members, change: Change) -> Verdict:
    change(document)
    return judge(document)


def test_the_document_these_tests_start_from_is_qualified() -> None:
    verdict = judge(made.single_restore())
    assert verdict.outcome is Outcome.QUALIFIED
    assert verdict.evidence_grade is Basis.DEMONSTRATED
    assert [one.name for one in verdict.deciding] == ["QUALIFIED_EXACT_SCOPE"]
    assert judge(made.page_tail()).outcome is Outcome.QUALIFIED
    assert judge(made.composition()).outcome is Outcome.QUALIFIED


def _records(change: Callable[[Members], None]) -> Change:
    return lambda document: change(document["rank_restore_evidence"][1])


@pytest.mark.parametrize(
    ("change", "outcome", "code", "pointer"),
    [
        (lambda d: d.update(status="unsupported"), "unsupported", "DECLARED_UNSUPPORTED", "/status"),
        (lambda d: d.update(status="semantic-rejection"), "rejected", "GATE_DECLARED_FAILED", "/status"),
        (lambda d: d.update(status="fail"), "rejected", "GATE_DECLARED_FAILED", "/status"),
        (lambda d: d.update(status="research-only"), "research-only", "DECLARED_CEILING", "/status"),
        (lambda d: d.update(status="Experimental"), "research-only", "DECLARED_CEILING", "/status"),
        (lambda d: d.update(status="implemented"), "implemented", "DECLARED_CEILING", "/status"),
        (lambda d: d.update(status="pending"), "incomplete", "PENDING_CHECK", "/status"),
        (lambda d: d.update(status="unqualified"), "incomplete", "STATUS_WORD_UNKNOWN", "/status"),
        (lambda d: d.update(status="verified"), "incomplete", "STATUS_ABSENT", ""),
        (lambda d: d.update(status="accepted"), "incomplete", "STATUS_ABSENT", ""),
        (lambda d: d.update(status=True), "incomplete", "STATUS_ABSENT", ""),
        (lambda d: d.pop("status"), "incomplete", "STATUS_ABSENT", ""),
        (
            lambda d: d["artifact"].pop("image_id"),
            "incomplete",
            "IDENTITY_INCOMPLETE:image",
            "/artifact/image_id",
        ),
        (
            lambda d: d["profile"].pop("served_model"),
            "incomplete",
            "IDENTITY_INCOMPLETE:model",
            "/profile/served_model",
        ),
        (
            lambda d: d["profile"].pop("tensor_parallel_size"),
            "incomplete",
            "TOPOLOGY_UNBOUND:tp",
            "/profile/tensor_parallel_size",
        ),
        (
            lambda d: d["profile"].update(decode_context_parallel_size=True),
            "incomplete",
            "TOPOLOGY_UNBOUND:dcp",
            "/profile/decode_context_parallel_size",
        ),
        (
            lambda d: d["artifact"].update(sparkcache_commit="C3" * 20),
            "incomplete",
            "DIGEST_MALFORMED",
            "/artifact/sparkcache_commit",
        ),
        (
            lambda d: d["artifact"].update(sparkcache_commit="c3c3c3c3"),
            "incomplete",
            "DIGEST_MALFORMED",
            "/artifact/sparkcache_commit",
        ),
        (
            lambda d: d["artifact"].update(image_id="sha256:" + "0" * 64),
            "incomplete",
            "DIGEST_MALFORMED",
            "/artifact/image_id",
        ),
        (
            lambda d: d["case"].update(context_digest="0" * 64),
            "incomplete",
            "DIGEST_MALFORMED",
            "/case/context_digest",
        ),
        (
            lambda d: d["rank_restore_evidence"].pop(),
            "incomplete",
            "RANK_MISSING",
            "/rank_restore_evidence/0",
        ),
        (
            lambda d: d["rank_restore_evidence"].append({**d["rank_restore_evidence"][0]}),
            "incomplete",
            "RANK_MISSING",
            "/rank_restore_evidence/0",
        ),
        (_records(lambda r: r.update(rank=2)), "incomplete", "RANK_MISSING", "/rank_restore_evidence/0"),
        (_records(lambda r: r.update(rank=0)), "incomplete", "RANK_MISSING", "/rank_restore_evidence/0"),
        (_records(lambda r: r.update(rank=True)), "incomplete", "RANK_MISSING", "/rank_restore_evidence/1"),
        (
            _records(lambda r: r.update(outcome="recompute")),
            "incomplete",
            "PARTIAL_RANK_FAILURE",
            "/rank_restore_evidence/1/outcome",
        ),
        (
            _records(lambda r: r.pop("outcome")),
            "incomplete",
            "RANK_MISSING",
            "/rank_restore_evidence/1/outcome",
        ),
        (
            _records(lambda r: r.update(page_bytes=4097)),
            "rejected",
            "RANK_DIVERGENCE",
            "/rank_restore_evidence/0/page_bytes",
        ),
        (
            _records(lambda r: r.update(digest_prefix="0123456789ab")),
            "rejected",
            "RANK_DIVERGENCE",
            "/rank_restore_evidence/0/digest_prefix",
        ),
        (lambda d: d.update(rank_restore_evidence=[]), "incomplete", "NO_RANK_RESTORE_PROOF", ""),
        (
            lambda d: d["profile"].update(tensor_parallel_size=4),
            "incomplete",
            "RANK_MISSING",
            "/rank_restore_evidence/0",
        ),
        (
            lambda d: d["case"].update(restore_oracle="blue"),
            "rejected",
            "SEMANTIC_ORACLE_MISMATCH",
            "/case/restore_oracle",
        ),
        (
            lambda d: d["case"].update(expected_oracle="blue"),
            "rejected",
            "SEMANTIC_ORACLE_MISMATCH",
            "/case/restore_oracle",
        ),
        (
            lambda d: d["case"].update(publish_oracle="blue"),
            "rejected",
            "SEMANTIC_ORACLE_MISMATCH",
            "/case/publish_oracle",
        ),
        (
            lambda d: d["case"].update(restore_response_sha256="ab" * 32),
            "rejected",
            "SEMANTIC_CONTRADICTION",
            "/case/restore_response_sha256",
        ),
        (lambda d: d["case"].pop("restore_oracle"), "incomplete", "SEMANTIC_MISSING", "/case/restore_oracle"),
        (
            lambda d: d["case"].pop("expected_oracle"),
            "incomplete",
            "SEMANTIC_MISSING",
            "/case/expected_oracle",
        ),
        (lambda d: d["case"].update(restore_oracle="  "), "incomplete", "SEMANTIC_INCONCLUSIVE", "/case"),
        (lambda d: d.pop("schema"), "none", "SCHEMA_ABSENT", "/schema"),
        (
            lambda d: d.update(schema="sparkring-glm53-dflash7-snapshot-v1-safe-validation/v2"),
            "none",
            "SCHEMA_UNKNOWN",
            "/schema",
        ),
    ],
)
def test_one_change_one_outcome_one_code(change: Change, outcome: str, code: str, pointer: str) -> None:
    verdict = after(made.single_restore(), change)
    assert verdict.outcome.value == outcome
    assert (verdict.deployable, bool(verdict.deployable_reason)) == (False, True)
    found = [one for one in verdict.deciding if one.name == code]
    assert found, [one.name for one in verdict.deciding]
    assert pointer in [one.pointer for one in found]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda d: d["artifact"].pop("sparkcache_commit"), None),
        (lambda d: d["case"].pop("restore_response_sha256"), "RESPONSE_DIGEST_UNEXPLAINED"),
        (lambda d: d["case"].update(publish_oracle="Green", restore_oracle=" GREEN "), None),
        (lambda d: d["rank_restore_evidence"].reverse(), None),
        (lambda d: d["limitations"].update(performance="unqualified"), None),
        (lambda d: d.update(note="a person's words: unqualified, rejected, failed"), None),
    ],
)
def test_what_only_warns(change: Change, code: str | None) -> None:
    verdict = after(made.single_restore(), change)
    assert verdict.outcome is Outcome.QUALIFIED
    assert code is None or code in codes(verdict)


def test_without_any_source_it_warns_and_is_another_scope() -> None:
    document = made.single_restore()
    for name in ("sparkcache_commit", "sparkcache_tree", "sparkcache_source_sha256"):
        del document["artifact"][name]
    verdict = judge(document)
    assert verdict.outcome is Outcome.QUALIFIED
    assert "IDENTITY_INCOMPLETE_WARN:source" in codes(verdict)
    assert verdict.scope.source == ""


def test_answers_are_compared_after_strip_and_lower_only() -> None:
    for observed, outcome in (
        (" Green\n", Outcome.QUALIFIED),
        ("green.", Outcome.REJECTED),
        ("gre en", Outcome.REJECTED),
    ):
        document = made.single_restore()
        document["case"].update(restore_oracle=observed)
        for name in ("restore_response_sha256", "publish_response_sha256"):
            del document["case"][name]
        assert judge(document).outcome is outcome, observed


@pytest.mark.parametrize("spelling", ["green", " green", "Green", " Green", "GREEN", " GREEN"])
def test_the_usual_spellings_explain_a_response_digest(spelling: str) -> None:
    document = made.single_restore()
    digest = made.response_digest(spelling)
    document["case"].update(restore_response_sha256=digest, publish_response_sha256=digest)
    assert "RESPONSE_DIGEST_UNEXPLAINED" not in codes(judge(document))
    digest = made.response_digest(spelling + "!")
    document["case"].update(restore_response_sha256=digest, publish_response_sha256=digest)
    assert "RESPONSE_DIGEST_UNEXPLAINED" in codes(judge(document))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda d: d["live"].update(restart_semantic="RED"), "SEMANTIC_ORACLE_MISMATCH"),
        (lambda d: d["live"].update(corruption_fallback_semantic="RED"), "SEMANTIC_ORACLE_MISMATCH"),
        (lambda d: d["corruption"].update(rejected=False), "CORRUPTION_NOT_REJECTED"),
        (lambda d: d["live"].update(base_bytes=[100, 101]), "RANK_DIVERGENCE"),
        (lambda d: d["live"].pop("post_repair_semantic"), "SEMANTIC_MISSING"),
        (lambda d: d["result"].update(restart_restore_ms=99.5), "RANK_VALUE_UNBOUND"),
        (lambda d: d["corruption"].pop("rejected"), "VALIDATOR_FAILED:rejected"),
        (lambda d: d["corruption"].update(lookup_reason="missing"), "VALIDATOR_FAILED:lookup-reason"),
        (lambda d: d["validation"].update(byte_exact_restores=1), "VALIDATOR_FAILED:flag"),
        (lambda d: d["deltas"][0].update(base_context_digest="44" * 32), "VALIDATOR_FAILED:base-digest"),
        (lambda d: d["deltas"][0].update(base_committed_tokens=255), "VALIDATOR_FAILED:base-tokens"),
        (lambda d: d["deltas"][0].update(base_snapshot_bytes=99), "VALIDATOR_FAILED:base-bytes"),
        (lambda d: d["deltas"][0].update(committed_tokens=256), "VALIDATOR_FAILED:boundary-grows"),
        (lambda d: d["result"].update(committed_tokens=511), "VALIDATOR_FAILED:result-tokens"),
        (lambda d: d["result"].update(context_digest="33" * 32), "VALIDATOR_FAILED:result-digest"),
        (lambda d: d["result"].update(expected_snapshot_sha256="33" * 32), "VALIDATOR_FAILED:result-stream"),
        (lambda d: d["live"].update(corruption_fallback_tokens=0), "VALIDATOR_FAILED:fallback-tokens"),
        (lambda d: d["live"].pop("restart_restore_ms_by_rank"), "VALIDATOR_FAILED:vectors"),
        (lambda d: d["live"].update(delta_bytes=[49, 49]), "VALIDATOR_FAILED:header-bytes"),
        (lambda d: d.update(logical_snapshot_bytes=151), "VALIDATOR_FAILED:logical-bytes"),
        (lambda d: d.update(deltas=[]), "VALIDATOR_FAILED:deltas"),
        (lambda d: d.update(runner="local"), "STATUS_ABSENT"),
        (lambda d: d.pop("runner"), "STATUS_ABSENT"),
    ],
)
def test_the_page_tail_validator_names_every_error(change: Change, code: str) -> None:
    verdict = after(made.page_tail(), change)
    assert code in {one.name for one in verdict.findings if one.row.blocks}
    assert verdict.outcome in (Outcome.INCOMPLETE, Outcome.REJECTED)


def test_a_chain_is_judged_link_by_link() -> None:
    document = made.page_tail()
    first = document["deltas"][0]
    second = {**first, "context_digest": "55" * 32, "base_context_digest": "22" * 32}
    second.update(
        base_committed_tokens=512, committed_tokens=768, base_snapshot_bytes=150, result_snapshot_bytes=200
    )
    document["deltas"].append(second)
    document["result"].update(context_digest="55" * 32, committed_tokens=768)
    document.update(logical_snapshot_bytes=200)
    assert judge(document).outcome is Outcome.QUALIFIED
    second["base_context_digest"] = "11" * 32
    assert "VALIDATOR_FAILED:base-digest" in codes(judge(document))


def test_a_fence_on_every_rank_demonstrates_placement() -> None:
    verdict = judge(made.fenced_observation())
    placement = next(one for one in verdict.gates if one.gate is Gate.PLACEMENT)
    assert placement.state is GateState.DEMONSTRATED
    assert "SEMANTIC_DEMONSTRATED" in codes(verdict)
    without = judge(made.fenced_observation(phase_ms={"restore_read": 3.0}))
    assert next(one for one in without.gates if one.gate is Gate.PLACEMENT).state is GateState.NOT_TESTED
    stuck = judge(made.fenced_observation(phase_ms={"prior_cuda_work": 0, "restore_read": 3.0}))
    assert next(one for one in stuck.gates if one.gate is Gate.PLACEMENT).state is GateState.INCONCLUSIVE


def test_an_embedded_digest_that_covers_something_else_rejects() -> None:
    document = made.fenced_observation()
    document["observations"][0]["rank_records"][0]["payload"]["service_ms"] = 13
    verdict = judge(document)
    assert (verdict.outcome, verdict.row) == (Outcome.REJECTED, Row.REJECTED)
    assert "PAYLOAD_DIGEST_MISMATCH" in codes(verdict)


def test_denied_admission_counts_as_research() -> None:
    document = made.fenced_observation()
    document.update(status="qualified")
    verdict = judge(document)
    assert verdict.outcome is Outcome.RESEARCH_ONLY
    assert {"ADMISSION_DENIED", "SCHEMA_CEILING"} <= {one.name for one in verdict.deciding}


def test_a_flag_against_its_values_is_a_contradiction() -> None:
    document = made.fenced_observation()
    document["observations"][0]["oracle_match"] = False
    verdict = judge(document)
    assert verdict.outcome is Outcome.REJECTED
    assert "SEMANTIC_CONTRADICTION" in codes(verdict)


def test_selections_have_words_of_their_own() -> None:
    document = made.selections()
    document["selections"][1]["functional_cases"][0]["passed"] = True
    verdict = judge(document)
    assert verdict.outcome is Outcome.QUALIFIED
    assert "PARTLY_ESTABLISHED" in codes(verdict)
    restore = judge(document, capability=Capability.RESTORE)
    assert (restore.outcome, "SEMANTIC_MISSING" in codes(restore)) == (Outcome.INCOMPLETE, True)
    document["selections"][1]["functional_cases"][0]["passed"] = False
    assert judge(document).outcome is Outcome.REJECTED, (
        "one selection that failed is a failure of the document"
    )


def test_a_selection_without_a_word_is_a_hole() -> None:
    document = made.selections()
    document["selections"][1].update(functional_cases=[{"kind": "short", "passed": True}])
    del document["selections"][1]["status"]
    verdict = judge(document)
    assert verdict.outcome is Outcome.INCOMPLETE
    assert "STATUS_ABSENT" in codes(verdict)


def test_a_check_without_its_flag_is_a_hole() -> None:
    document = made.selections()
    document["selections"][0]["functional_cases"].append({"kind": "long"})
    verdict = judge({**document, "selections": document["selections"][:1]})
    assert verdict.outcome is Outcome.INCOMPLETE
    assert "SEMANTIC_MISSING" in codes(verdict)


def test_a_composition_needs_the_answer_in_its_sentence() -> None:
    verdict = judge(made.composition())
    assert {"SEMANTIC_ATTESTED_ONLY", "ORACLE_OBSERVED_NOT_RECORDED"} <= codes(verdict)
    for sentence in ("All ranks restored.", "It returned OK:777; all fine.", "It returned OK:7."):
        silent = judge(made.composition(sentence))
        assert (silent.outcome, "SEMANTIC_MISSING" in codes(silent)) == (Outcome.INCOMPLETE, True), sentence


def test_the_word_of_a_part_does_not_declare_for_the_document() -> None:
    document = made.composition()
    del document["status"]
    assert judge(document).outcome is Outcome.INCOMPLETE


def test_capture_needs_zero_counters_on_what_was_observed() -> None:
    document = made.connector_job()
    assert judge(document).outcome is Outcome.QUALIFIED
    retained = judge(document, capability=Capability.CAPTURE)
    assert retained.outcome is Outcome.REJECTED
    assert "GATE_FAILED:drain" in codes(retained)
    values = document["capture_retirement_cases"][0]["post_drain_values"]
    for name in (
        "delayed_requests",
        "delayed_rank_slots",
        "oldest_delayed_ms",
        "uncertain_ranks",
        "busy_ranks",
    ):
        values[f"sparkcache_capture_{name}"] = 0
    values.update(sparkcache_capture_retained_pages=0, sparkcache_publication_pending_rank_slots=0)
    assert judge(document, capability=Capability.CAPTURE).outcome is Outcome.QUALIFIED
    del values["sparkcache_capture_busy_ranks"]
    missing = judge(document, capability=Capability.CAPTURE)
    assert (missing.outcome, "GATE_MISSING:drain" in codes(missing)) == (Outcome.INCOMPLETE, True)


def _probe(document: Members, name: str) -> Members:
    return next(one for one in document["topologies"][0]["cases"] if one["case"] == name)


def _isolation() -> Members:
    document = made.isolation_run()
    document["topologies"][0]["cases"] = [
        one for one in document["topologies"][0]["cases"] if one["case"] != "new"
    ]
    return document


@pytest.mark.parametrize(
    ("change", "outcome", "code"),
    [
        (lambda d: None, "qualified", "NEGATIVE_CONTROLS"),
        (lambda d: _probe(d, "seed")["worker_restore_totals"][1].update(tokens=1), "rejected", "SCOPE_LEAK"),
        (lambda d: _probe(d, "seed").update(cached_tokens=[5]), "rejected", "SCOPE_LEAK"),
        (lambda d: _probe(d, "concurrent").update(cached_tokens=[512, 512]), "rejected", "SCOPE_LEAK"),
        (
            lambda d: _probe(d, "warm")["worker_restore_totals"][1].update(tokens=0),
            "rejected",
            "RANK_DIVERGENCE",
        ),
        (
            lambda d: [r.update(tokens=0) for r in _probe(d, "warm")["worker_restore_totals"]],
            "incomplete",
            "PARTIAL_RANK_FAILURE",
        ),
        (lambda d: _probe(d, "warm")["worker_restore_totals"].pop(), "incomplete", "RANK_MISSING"),
        (lambda d: _probe(d, "warm")["worker_restore_totals"][0].pop("rank"), "incomplete", "RANK_MISSING"),
        (lambda d: _probe(d, "seed").update(case="something"), "incomplete", "GATE_MISSING:isolation"),
        (
            lambda d: d["topologies"][0].update(cases=[_probe(d, "warm")]),
            "incomplete",
            "GATE_MISSING:isolation",
        ),
        (
            lambda d: d["topologies"][0].update(cases=[_probe(d, "seed")]),
            "incomplete",
            "GATE_MISSING:isolation",
        ),
        (lambda d: d["topologies"][0].update(cases=[]), "incomplete", "GATE_MISSING:isolation"),
    ],
)
def test_isolation(change: Change, outcome: str, code: str) -> None:
    verdict = after(_isolation(), change)
    assert verdict.outcome.value == outcome
    assert code in codes(verdict)


def test_a_probe_of_unknown_kind_cannot_be_judged() -> None:
    assert "GATE_MISSING:isolation" in codes(judge(made.isolation_run()))


@pytest.mark.parametrize(
    ("around", "outcome", "code"),
    [
        (Surroundings(failures=(ELSEWHERE,)), "research-only", "KNOWN_FAILURE"),
        (Surroundings(withdrawals=(ELSEWHERE,)), "unsupported", "ARTIFACT_WITHDRAWN"),
        (Surroundings(claims_withdrawn=(ELSEWHERE,)), "research-only", "CLAIM_WITHDRAWN"),
        (Surroundings(claims_amended=(ELSEWHERE,)), "qualified", "CLAIM_AMENDED"),
        (Surroundings(superseded_by=(ELSEWHERE,)), "qualified", "SUPERSEDED_RECEIPT"),
        (Surroundings(path_reused=(ELSEWHERE,)), "qualified", "PATH_REUSED"),
        (Surroundings(unproven_pulls=(ELSEWHERE,)), "qualified", "CLEAN_PULL_UNPROVEN"),
        (
            Surroundings(pins=(PinCheck(pointer="/p", state=PinState.DIFFERS_SAME_COMMIT),)),
            "rejected",
            "PIN_MISMATCH",
        ),
        (
            Surroundings(pins=(PinCheck(pointer="/p", state=PinState.DIFFERS_OTHER_COMMIT),)),
            "qualified",
            "PIN_OTHER_COMMIT",
        ),
        (
            Surroundings(pins=(PinCheck(pointer="/p", state=PinState.ABSENT),)),
            "qualified",
            "PIN_TARGET_ABSENT",
        ),
        (
            Surroundings(pins=(PinCheck(pointer="/p", state=PinState.EQUAL),)),
            "qualified",
            "STRUCTURE_VERIFIED",
        ),
        (
            Surroundings(identities=(OtherIdentity(axis="commit", value="99" * 20, read_from=ELSEWHERE),)),
            "research-only",
            "IDENTITY_CONFLICT",
        ),
        (
            Surroundings(identities=(OtherIdentity(axis="commit", value=made.COMMIT, read_from=ELSEWHERE),)),
            "qualified",
            "STRUCTURE_VERIFIED",
        ),
        (Surroundings(asked=ScopeKey(image=made.OTHER_IMAGE)), "incomplete", "NOT_TRANSFERABLE"),
    ],
)
def test_what_stands_in_other_documents(around: Surroundings, outcome: str, code: str) -> None:
    verdict = judge(made.single_restore(), around=around)
    assert verdict.outcome.value == outcome
    assert code in codes(verdict)
    assert verdict.deployable is False


def test_the_asked_scope_must_be_equal_in_every_axis() -> None:
    document = made.single_restore()
    own = scope_of(facts_of(document).subject)
    assert judge(document, around=Surroundings(asked=own)).outcome is Outcome.QUALIFIED
    for axis, other in (
        ("dcp", "4"),
        ("tp", "4"),
        ("target", "alias=other"),
        ("publication_schema", "page-tail-cow-v1"),
        ("source", ""),
        ("draft", "x"),
        ("manifest_schema", "y"),
        ("image", "z"),
    ):
        asked = replace(own, **{axis: other})
        verdict = judge(document, around=Surroundings(asked=asked))
        assert verdict.outcome is Outcome.INCOMPLETE, axis
        found = [one for one in verdict.deciding if one.name == "NOT_TRANSFERABLE"]
        assert [one.value.partition(":")[0] for one in found] == [axis]


def test_a_registry_digest_elsewhere_makes_it_deployable() -> None:
    document = made.single_restore()
    assert judge(document).deployable_reason == "NO_REGISTRY_DIGEST"
    published = Surroundings(registry=(ELSEWHERE,))
    assert judge(document, around=published).deployable is True
    for more, reason in (
        ({"failures": (ELSEWHERE,)}, "KNOWN_FAILURE"),
        ({"unproven_pulls": (ELSEWHERE,)}, "CLEAN_PULL_UNPROVEN"),
        ({"withdrawals": (ELSEWHERE,)}, "ARTIFACT_WITHDRAWN"),
    ):
        assert judge(document, around=replace(published, **more)).deployable_reason == reason


def test_the_grade_asked_for_decides_what_is_deployable() -> None:
    published = Surroundings(registry=(ELSEWHERE,))
    for document, grade, deployable in (
        (made.composition(), Basis.ATTESTED, True),
        (made.composition(), Basis.SELF_CONSISTENT, False),
        (made.page_tail(), Basis.SELF_CONSISTENT, True),
        (made.page_tail(), Basis.DEMONSTRATED, False),
        (made.single_restore(), Basis.DEMONSTRATED, True),
    ):
        verdict = judge(document, around=published, grade=grade)
        assert verdict.outcome is Outcome.QUALIFIED
        assert verdict.deployable is deployable
        assert verdict.deployable_reason == ("" if deployable else "GRADE_TOO_LOW")


def _declaration(document: Members, **values: Any) -> Surroundings:
    filled = {
        "who": "A. Operator",
        "when": "2030-01-01T00:00:00Z",
        "reason": "run of the week",
        "receipts": (facts_of(document).sha256,),
        **values,
    }
    return Surroundings(declarations=(Declaration(**filled),))


def test_a_declaration_stands_in_for_a_missing_word_and_for_nothing_else() -> None:
    document = made.single_restore()
    del document["status"]
    assert judge(document).outcome is Outcome.INCOMPLETE
    verdict = judge(document, around=_declaration(document))
    assert verdict.outcome is Outcome.QUALIFIED
    found = next(one for one in verdict.findings if one.name == "DECLARED_BY_OPERATOR")
    assert "A. Operator" in found.value
    assert judge(document, around=_declaration(document, receipts=("ff" * 32,))).outcome is Outcome.INCOMPLETE
    serving = _declaration(document, capability=Capability.SERVING)
    assert judge(document, around=serving).outcome is Outcome.INCOMPLETE
    document["case"]["restore_oracle"] = "blue"
    assert judge(document, around=_declaration(document)).outcome is Outcome.REJECTED
    for word in ("research-only", "implemented", "unsupported", "pending", "weird"):
        claimed = {**made.single_restore(), "status": word}
        assert judge(claimed, around=_declaration(claimed)).outcome is judge(claimed).outcome, word


@pytest.mark.parametrize("missing", [{"who": " "}, {"when": ""}, {"reason": "\n"}, {"receipts": ()}])
def test_a_declaration_has_a_name_a_time_a_reason_and_receipts(missing: Members) -> None:
    filled = {"who": "A", "when": "now", "reason": "because", "receipts": ("aa" * 32,), **missing}
    with pytest.raises(ValueError, match="declaration: expected"):
        Declaration(**filled)


def test_structure_alone_never_qualifies() -> None:
    """Every answer taken out of every document made here leaves it below qualified."""
    for name, document in made.every_document().items():
        facts = facts_of(document)
        if facts.schema.capability is not Capability.RESTORE:
            continue
        verdict = judge(_without_answers(document))
        assert verdict.outcome is not Outcome.QUALIFIED, name


def test_a_suffix_oracle_never_qualifies() -> None:
    sentence = "It returned OK:77 with finish reason stop and the required answer suffix."
    document = made.composition(sentence)
    verdict = judge(document)
    assert verdict.outcome is Outcome.RESEARCH_ONLY
    assert "ORACLE_NOT_EXACT" in codes(verdict)
    assert (
        judge(document, around=Surroundings(registry=(ELSEWHERE,))).deployable_reason == ""
        or not verdict.deployable
    )


def test_a_rule_gives_only_the_codes_it_declares() -> None:
    for rule in RULES:
        assert rule.codes, rule.name
        assert all(code in CODES for code in rule.codes), rule.name
        assert rule.question.endswith("?"), rule.name
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)


def test_every_code_belongs_to_a_rule_or_to_the_decision() -> None:
    declared = {code for rule in RULES for code in rule.codes}
    decision = {
        "INVALID_JSON",
        "QUALIFIED_EXACT_SCOPE",
        "DECLARED_ABOVE_EVIDENCE",
        "PARTLY_ESTABLISHED",
        "GRADE_TOO_LOW",
        "CAPABILITY_NOT_DEPLOYABLE",
    }
    assert declared | decision == CODES.keys()
    assert declared & decision == set()


def test_one_file_per_gate() -> None:
    folder = Path(__file__).parents[2] / "app" / "core" / "qualify" / "rules"
    of_file = {rule.answer.__module__.rpartition(".")[2] for rule in RULES}
    assert of_file <= {path.stem for path in folder.glob("*.py")}
    assert {gate for gates in NEEDS.values() for gate in gates} <= {
        Gate.IDENTITY,
        Gate.STRUCTURAL,
        Gate.SEMANTIC,
        Gate.FAULT,
        Gate.ISOLATION,
        Gate.DRAIN,
        Gate.READINESS,
    }


def test_the_page_of_the_rules_is_made_from_them() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.data.rules_page"
    assert ruleset_version()[:16] in page()


def _without_answers(value: Any) -> Any:
    names = ("oracle", "semantic", "observed", "answer", "result", "expected", "passed", "exact")
    if isinstance(value, dict):
        return {
            key: _without_answers(member)
            for key, member in value.items()
            if not (any(name in key for name in names) and not isinstance(member, dict | list))
        }
    return [_without_answers(element) for element in value] if isinstance(value, list) else value
