"""The rules as a whole: declared codes, gates, the page made from them, what never qualifies."""

from pathlib import Path
from typing import Any

from app.core.qualify.codes import CODES
from app.core.qualify.facts import Capability
from app.core.qualify.findings import Gate, Outcome
from app.core.qualify.ruleset import NEEDS, RULES, ruleset_version
from app.core.qualify.surroundings import (
    Elsewhere,
    Surroundings,
)
from tests.core import evidence_documents as made
from tests.core.judging import codes, facts_of, judge
from tests.data.rules_page import PAGE, page

ELSEWHERE = Elsewhere(document="aa" * 32, pointer="/there", value="stood there")


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
