"""A restore with a fault put in on purpose: whatever it shows, it bears on nothing but the checks."""

import json
from typing import Any

import pytest

from app.core.canonical_json import encode_canonical
from app.core.qualify.composition import Receipt, compose
from app.core.qualify.findings import Gate, GateState, Outcome
from app.core.qualify.own_receipt import InjectedFault, RestoredAnswer, restore_receipt
from app.core.qualify.verdict import Verdict
from tests.core.judging import codes, facts_of, judge
from tests.core.test_own_receipt import PROMPT, meant, restore, verdicts

FAULT = InjectedFault(name="swap-pages", rank=1)
WRONG = RestoredAnswer(prompt_sha256=PROMPT, expected="teal", observed=b"pink", finish_reason="stop")


def test_the_receipt_names_fault_and_rank_and_says_that_there_was_none() -> None:
    assert json.loads(restore_receipt(restore(injected_fault=FAULT)))["injected_fault"] == {
        "name": "swap-pages",
        "rank": 1,
    }
    assert json.loads(restore_receipt(restore()))["injected_fault"] is None


def test_a_wrong_answer_rejects_the_drill_and_says_what_that_shows() -> None:
    _, declared = verdicts(restore(answer=WRONG, injected_fault=FAULT))
    assert declared.outcome is Outcome.REJECTED
    assert {"SEMANTIC_ORACLE_MISMATCH", "STRUCTURE_VERIFIED", "INJECTED_FAULT"} <= codes(declared)
    assert declared.reason.endswith("A fault was put in on purpose: this shows that the check catches it.")
    assert "FAULT_NOT_TESTED" not in codes(declared)
    fault = next(one for one in declared.gates if one.gate is Gate.FAULT)
    assert (fault.state, fault.says) == (GateState.NOT_TESTED, "a drill: swap-pages on rank 1")


def test_a_right_answer_never_qualifies_a_drill() -> None:
    alone, declared = verdicts(restore(injected_fault=FAULT))
    assert alone.outcome is Outcome.INCOMPLETE
    assert declared.outcome is Outcome.RESEARCH_ONLY
    assert {one.name for one in declared.deciding} == {"INJECTED_FAULT"}
    assert verdicts(restore())[1].outcome is Outcome.QUALIFIED


@pytest.mark.parametrize("noted", [{}, {"name": ""}, {"name": 5}, [], "swap-pages", True, False, 0, ""])
def test_whatever_stands_where_a_fault_is_named_is_one(noted: Any) -> None:
    document = {**json.loads(restore_receipt(restore())), "injected_fault": noted}
    raw = encode_canonical(document)
    verdict = judge(raw, around=meant(raw))
    assert verdict.is_drill
    assert verdict.outcome is Outcome.RESEARCH_ONLY


def test_drills_decide_no_scope() -> None:
    healthy, drill = receipt(), receipt(answer=WRONG, injected_fault=FAULT)
    scope = healthy.verdict.scope
    assert drill.verdict.scope == scope
    composed = compose([healthy, drill], scope=scope)
    assert composed is not None
    assert composed.outcome is Outcome.QUALIFIED
    assert composed.receipts == (healthy.sha256,)
    assert composed.beside == ()
    assert compose([drill], scope=scope) is None
    met = receipt(answer=WRONG)
    against = compose([healthy, met, drill], scope=scope)
    assert against is not None
    assert (against.outcome, against.receipts) == (Outcome.REJECTED, (met.sha256,))


def receipt(**values: Any) -> Receipt:
    raw = restore_receipt(restore(**values))
    verdict: Verdict = judge(raw, around=meant(raw))
    return Receipt(sha256=facts_of(raw).sha256, verdict=verdict)
