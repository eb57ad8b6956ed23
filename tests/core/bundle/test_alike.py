"""Verdicts of a long log take little memory: what they say alike is kept once, and they say the same."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from app.core.bundle import alike, replay
from app.core.bundle.alike import Alike
from app.core.bundle.sample import make_sample
from app.core.qualify.drafts import draft_from, receipt_drafts
from app.core.qualify.surroundings import ALONE
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict
from tests.core.bundle import rig
from tests.core.evidence_documents import every_document, facts


def kept(document: Any) -> list[Verdict]:
    """A document's verdicts, each read from its bytes as a verifier reads them."""
    drafts = receipt_drafts(facts(document), ALONE, grade=Basis.SELF_CONSISTENT)
    return [draft_from(one.document, subject="verdict").verdict for one in drafts]


def everything() -> Iterator[Verdict]:
    for document in every_document().values():
        yield from kept(document)


def parts(verdict: Verdict) -> list[Any]:
    """What of a verdict can be shared."""
    sentences = (verdict.reason, verdict.ruleset, *verdict.established, *verdict.not_established)
    return [verdict.scope, verdict.gates, *verdict.gates, verdict.findings, *verdict.findings, *sentences]


def test_a_verdict_says_what_it_said() -> None:
    shared = Alike()
    verdicts = list(everything())
    assert len(verdicts) > 10
    for verdict in (*verdicts, *everything()):
        told = shared.verdict(verdict)
        assert told == verdict
        # Equal is not enough: a word and a member of an enumeration can be.
        assert repr(told) == repr(verdict)


def test_what_is_alike_is_kept_once() -> None:
    shared = Alike()
    first, again = ([shared.verdict(one) for one in everything()] for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert list(map(id, parts(one))) == list(map(id, parts(other)))


def test_what_is_kept_is_bounded_and_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "_MOST_KEPT", 3)
    shared = Alike()
    verdicts = list(everything())
    assert [shared.verdict(one) for one in verdicts] == verdicts
    of_ours = [one for one in gc.get_referents(shared) if isinstance(one, dict)]
    assert of_ours
    assert all(len(one) <= 3 for kinds in of_ours for one in kinds.values())


def test_a_verifier_keeps_gates_and_sentences_of_its_verdicts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many receipts about one scope hardly anything differs."""
    made: list[replay.Replay] = []
    begin = replay.Replay.__init__

    def note(self: replay.Replay, **given: Any) -> None:
        made.append(self)
        begin(self, **given)

    monkeypatch.setattr(replay.Replay, "__init__", note)
    assert rig.verify(rig.build(make_sample(seed=rig.SEED, receipts=24))).finding_count == 0
    verdicts = list(made[-1]._verdicts.values())
    assert len(verdicts) >= 24
    every = [part for verdict in verdicts for part in parts(verdict)]
    assert len(set(map(id, every))) == len(set(map(repr, every)))
