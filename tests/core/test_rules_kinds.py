"""Rules on documents of each kind: validators, fences, selections, compositions, captures, isolation."""

from collections.abc import Callable
from typing import Any

import pytest

from app.core.qualify.facts import Capability
from app.core.qualify.findings import Gate, GateState, Outcome, Row
from app.core.qualify.verdict import Verdict
from tests.core import evidence_documents as made
from tests.core.judging import codes, judge

Members = dict[str, Any]
Change = Callable[[Members], None]


def after(document: Members, change: Change) -> Verdict:
    change(document)
    return judge(document)


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


def _probed(document: Members, cases: list[Members]) -> Members:
    document["topologies"][0]["cases"] += cases
    return document


def test_a_run_of_more_probes_than_anybody_makes_is_not_judged_to_its_end() -> None:
    """Nor does it qualify by what was left out; a leak before that still rejects, in a bounded verdict."""
    leak = {
        "case": "different",
        "cached_tokens": [1] * 4000,
        "worker_restore_totals": [{"rank": 0, "tokens": 1}, {"rank": 1, "tokens": 1}],
    }
    good = {**leak, "case": "seed", "cached_tokens": [0] * 60}
    good["worker_restore_totals"] = [{"rank": 0, "tokens": 0}, {"rank": 1, "tokens": 0}]
    many = judge(_probed(_isolation(), [good] * 2000))
    assert (many.outcome, "GATE_MISSING:isolation" in codes(many)) == (Outcome.INCOMPLETE, True)
    wide = judge(_probed(_isolation(), [{**good, "cached_tokens": [0] * 100_000}]))
    assert wide.outcome is Outcome.INCOMPLETE
    leaking = judge(_probed(_isolation(), [leak] * 30))
    assert leaking.outcome is Outcome.REJECTED
    assert len(leaking.findings) < 5000
    assert judge(_probed(_isolation(), [good] * 50)).outcome is judge(_isolation()).outcome


def test_a_rank_of_any_number_costs_nothing_to_refuse() -> None:
    for degree in (None, 2):
        document = made.single_restore()
        document["rank_restore_evidence"][1]["rank"] = 2**62
        if degree is None:
            del document["profile"]["tensor_parallel_size"]
        found = [one for one in judge(document).findings if one.name == "RANK_MISSING"]
        assert [one.value for one in found] == [f"missing: 1; not of the topology: {2**62}"]
