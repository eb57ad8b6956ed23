"""Any value at any place: a verdict, never an exception, and no claim is ever raised by it."""

import json
from typing import Any

import pytest

from app.core.qualify.findings import Outcome
from app.core.qualify.verdict import by_capability, joined_verdict, judge_document
from app.core.qualify.verdict_document import verdict_document
from tests.core import evidence_documents as made
from tests.core.judging import facts_of
from tests.data.evidence_mutations import leaves, replaced

_WEIRD: tuple[Any, ...] = (None, True, 2**62, -1.5, "x" * 300, [["x"]], {"a": {"b": 1}})
_WORDS = ("qualified", "verified", True, 1)


def outcomes(document: Any) -> list[Outcome]:
    """Outcomes per capability; every verdict must be a JSON document."""
    facts = facts_of(document)
    found = []
    for group in by_capability(judge_document(facts)).values():
        verdict = joined_verdict(group, facts)
        json.dumps(verdict_document(verdict))
        found.append(verdict.outcome)
    return found


@pytest.mark.parametrize("name", list(made.every_document()))
def test_any_value_at_any_place_gets_a_verdict(name: str) -> None:
    document = made.every_document()[name]
    places = {leaf[:cut] for leaf in leaves(document) for cut in range(1, len(leaf) + 1)}
    for path in places:
        for value in _WEIRD:
            assert outcomes(replaced(document, path, value))


@pytest.mark.parametrize("name", list(made.every_document()))
def test_no_word_at_any_place_qualifies_what_was_not(name: str) -> None:
    """Wherever a word of praise is written into a rejected or capped document, it stays what it is."""
    document = _spoiled(made.every_document()[name])
    before = outcomes(document)
    assert Outcome.QUALIFIED not in before[:1]
    for path in leaves(document):
        for word in _WORDS:
            assert outcomes(replaced(document, path, word))[:1] != [Outcome.QUALIFIED], (path, word)


def _spoiled(document: Any) -> Any:
    """Without image and without model in two places at once: no single word can fill both."""
    text = json.dumps(document)
    for good in (made.IMAGE, made.MODEL, made.COMMIT, made.DIGEST):
        text = text.replace(good, good[:9])
    return json.loads(text)
