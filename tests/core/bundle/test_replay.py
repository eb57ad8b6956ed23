"""An operator who lies everywhere at once, into rows, log, tables and statements: the rules find it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.core.bundle import replay, sample_log
from app.core.bundle.sample import ORIGIN, Sample, make_sample
from app.core.bundle.sample_log import SampleLog
from app.core.ledger.checkpoint import NoteSigner
from app.core.qualify import drafts, keys
from app.core.qualify.composition import compose
from app.core.qualify.drafts import Draft, receipt_draft, scope_draft
from app.core.qualify.facts import Capability
from app.core.qualify.findings import Outcome, Row
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict
from tests.core.bundle import rig
from tests.core.evidence_documents import (
    IMAGE,
    fenced_observation,
    page_tail,
    raw,
    selections,
    single_restore,
)
from tests.core.evidence_more import failed_start
from tests.core.test_claims import claim, raw_of

Lie = Callable[[Verdict], Verdict]


def _retold(draft: Draft, lie: Lie) -> Draft:
    return receipt_draft(
        lie(draft.verdict),
        kind=draft.kind,
        receipt=draft.receipt or "",
        composes=draft.composes,
        grade=draft.deployable_grade,
        superseded_by=draft.superseded_by,
    )


def _lie(monkeypatch: pytest.MonkeyPatch, lie: Lie) -> None:
    truth = drafts.receipt_drafts

    def retold(*args: Any, **named: Any) -> Iterator[Draft]:
        return (_retold(draft, lie) for draft in truth(*args, **named))

    monkeypatch.setattr(sample_log, "receipt_drafts", retold)


def _made(receipts: int = 3) -> str:
    return rig.said(rig.verify(rig.build(make_sample(seed=rig.SEED, receipts=receipts))))


def test_a_rejected_receipt_called_qualified_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _lie(monkeypatch, lambda one: replace(one, outcome=Outcome.QUALIFIED, row=Row.QUALIFIED))
    assert "expected outcome 'rejected' as the rules have it, found 'qualified'" in _made()


def test_deployable_without_a_registry_digest_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _lie(monkeypatch, lambda one: replace(one, deployable=True, deployable_reason=""))
    assert "expected deployable False as the rules have it, found True" in _made()


def test_a_finding_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _lie(monkeypatch, lambda one: replace(one, findings=one.findings[:1]))
    assert "as the rules have it" in _made()


def test_a_sentence_that_no_column_shows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _lie(monkeypatch, lambda one: replace(one, not_established=()))
    assert "expected the document" in _made()


def test_a_verdict_over_a_scope_that_its_receipts_do_not_give_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    truth = drafts.composed_draft

    def retold(receipts: Any, **named: Any) -> Draft | None:
        draft = truth(receipts, **named)
        composed = compose(receipts, scope=receipts[0].verdict.scope, capability=named["capability"])
        if draft is None or composed is None:
            return draft
        better = replace(composed, outcome=Outcome.QUALIFIED, row=Row.QUALIFIED)
        return scope_draft(better, made_of=receipts, grade=named["grade"])

    monkeypatch.setattr(sample_log, "composed_draft", retold)
    assert "expected outcome 'rejected' as the rules have it, found 'qualified'" in _made()


def test_columns_that_differ_from_the_document_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists and tables are made from columns: they must be an index over the document, no second opinion."""
    truth = drafts.index_columns
    monkeypatch.setattr(sample_log, "index_columns", lambda draft: {**truth(draft), "outcome": "qualified"})
    assert "outcome: expected 'rejected' as the document has it, found 'qualified'" in _made()


def test_a_receipt_indexed_under_another_image_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = keys.receipt_columns
    monkeypatch.setattr(
        sample_log, "receipt_columns", lambda facts: {**truth(facts), "image_config_id": "dd" * 32}
    )
    assert f"image_config_id: expected '{'a1' * 32}' as the document has it" in _made()


def _log(*documents: Any, grade: Basis = Basis.SELF_CONSISTENT) -> SampleLog:
    log = SampleLog(grade=grade)
    for number, document in enumerate(documents):
        log.add_receipt(raw(document), repository="lab", path=f"receipts/{number}.json")
    return log


def _bundle(log: SampleLog) -> bytes:
    return rig.build(Sample(log=log, signer=NoteSigner(name=ORIGIN, seed=rig.SEED), previous=1))


def test_documents_of_many_kinds_are_judged_to_the_same_bytes() -> None:
    """Cases, maps, chains, declarations, the same place again, another grade."""
    log = _log(single_restore(), page_tail(), fenced_observation(), selections(), {"no": "schema"})
    log.grade = Basis.ATTESTED
    log.declare(sorted(log.documents), reason="meant for qualification", capability=Capability.RESTORE)
    amended = {**single_restore(), "status": "research-only"}
    log.add_receipt(raw(amended), repository="lab", path="receipts/0.json")
    found = rig.verify(_bundle(log))
    assert (rig.said(found), found.exit_code) == ("", 0)
    assert found.counts["verdicts_judged"] == found.counts["verdicts"] >= 10


def test_a_later_receipt_changes_verdicts_of_earlier_ones_and_must_be_heard() -> None:
    """The same path, image and schema again supersedes: the server has to judge the earlier one again."""
    log = _log(single_restore())
    amended = {**single_restore(), "status": "research-only"}
    log.add_receipt(raw(amended), repository="lab", path="receipts/0.json")
    good = rig.verify(_bundle(log))
    assert (good.exit_code, rig.said(good)) == (0, "")
    assert any(row.text("superseded_by") for leaf in log.leaves for row in leaf.rows if row.view == "verdict")


def test_an_earlier_verdict_that_was_not_made_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    log = _log(single_restore())
    judge = SampleLog.judge
    monkeypatch.setattr(SampleLog, "judge", lambda self, wanted: judge(self, sorted(wanted)[:0]))
    amended = {**single_restore(), "status": "research-only"}
    log.add_receipt(raw(amended), repository="lab", path="receipts/0.json")
    log.add_image(config_id="ee" * 32, title="something later")
    told = rig.said(rig.verify(_bundle(log)))
    assert "which says otherwise" in told
    assert "found none" in told  # the new receipt has no verdict at all


def test_a_case_without_a_verdict_of_its_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = drafts.receipt_drafts

    def without_cases(*args: Any, **named: Any) -> Iterator[Draft]:
        return (draft for draft in truth(*args, **named) if draft.kind != "case")

    monkeypatch.setattr(sample_log, "receipt_drafts", without_cases)
    assert "found none" in rig.said(rig.verify(_bundle(_log(selections()))))


def test_a_changed_scope_without_a_verdict_over_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_log, "composed_draft", lambda *_, **__: None)
    assert "expected a verdict over it, found none" in _made()


def test_verdicts_of_other_rules_are_counted_and_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    raw_bundle = rig.small()
    monkeypatch.setattr(replay, "ruleset_version", lambda: "ab" * 32)
    found = rig.verify(raw_bundle)
    assert (found.exit_code, rig.said(found)) == (0, "")
    assert found.counts["verdicts_judged"] == 0
    assert found.counts["verdicts_other_rules"] == found.counts["verdicts"]


def test_a_scope_over_verdicts_of_other_rules_rests_on_their_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """While new rules judge part after part, a scope rests on old verdicts too: a receipt that has cases
    takes no part in it beside them, whichever row stands first."""
    _lie(monkeypatch, lambda one: replace(one, ruleset="ab" * 32))
    found = rig.verify(_bundle(_log(selections())))
    assert (found.exit_code, rig.said(found)) == (0, "")
    assert found.counts["verdicts_judged"] > 0
    assert found.counts["verdicts_other_rules"] > 1


def test_a_log_that_ends_inside_a_transaction_is_no_finding() -> None:
    """A receipt is the last entry: its verdicts lie behind the end of what was asked for."""
    log = _log(single_restore(), page_tail())
    while not any(row.view == "receipt" for row in log.leaves[-1].rows):
        log.leaves.pop()
    assert rig.verify(_bundle(log)).exit_code == 0


def test_a_log_that_ends_inside_a_transaction_about_what_was_known_is_no_finding() -> None:
    """What the last receipt is about was spoken of before, when that receipt had not come in."""
    log = _log(
        {**failed_start(), "failure_observation": {"image_id": IMAGE, "symptom": "x"}}, single_restore()
    )
    while not any(row.view == "receipt" for row in log.leaves[-1].rows):
        log.leaves.pop()
    found = rig.verify(_bundle(log))
    assert (found.exit_code, rig.said(found)) == (0, "")


def test_a_claim_about_an_earlier_receipt_must_be_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Withdrawn afterwards: the earlier receipt is judged again, or the verifier says that it was not."""
    log = _log(single_restore())
    subject = next(iter(log.documents))
    log.add_receipt(raw_of(claim(subject_sha256=subject)))
    heard = rig.verify(_bundle(log))
    assert (heard.exit_code, rig.said(heard)) == (0, "")
    table = rig.unpack(_bundle(log))["tables/withdrawals.csv"].decode()
    assert "CLAIM_WITHDRAWN" in table
    deaf = _log(single_restore())
    judge = SampleLog.judge
    monkeypatch.setattr(
        SampleLog, "judge", lambda self, wanted: judge(self, [one for one in wanted if one != subject])
    )
    deaf.add_receipt(raw_of(claim(subject_sha256=subject)))
    deaf.add_image(config_id="ee" * 32, title="something later")
    assert "which says otherwise" in rig.said(rig.verify(_bundle(deaf)))
