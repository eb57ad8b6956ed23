"""Judging documents made in tests."""

from typing import Any

from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import Capability, DocumentFacts
from app.core.qualify.surroundings import ALONE, Surroundings
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict, by_capability, joined_verdict, judge_document
from tests.core.evidence_documents import raw


def facts_of(document: Any) -> DocumentFacts:
    """The facts of a document given as a value or as bytes."""
    return document_facts(read_document(document if isinstance(document, bytes) else raw(document)))


def judge(
    document: Any,
    *,
    around: Surroundings = ALONE,
    capability: Capability | None = None,
    grade: Basis = Basis.ATTESTED,
) -> Verdict:
    """The joined verdict for a capability, else for that of the schema."""
    facts = facts_of(document)
    groups = by_capability(judge_document(facts, around=around, deployable_grade=grade))
    wanted = capability or facts.schema.capability
    return joined_verdict(groups.get(wanted) or next(iter(groups.values())), facts)


def codes(verdict: Verdict) -> set[str]:
    """Names of all findings."""
    return {one.name for one in verdict.findings}
