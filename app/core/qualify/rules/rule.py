"""A rule: one question about one case, answered with findings.

Rules read facts and surroundings, never JSON, never a clock. The texts beside a rule are the contents of
docs/RULES.md; its version changes when its answers do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from app.core.qualify.codes import CODES
from app.core.qualify.facts import Capability, Case, DocumentFacts
from app.core.qualify.findings import Finding, Gate, said
from app.core.qualify.rules.whole import Whole
from app.core.qualify.subject import Subject
from app.core.qualify.surroundings import Surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One case under judgement, with the document it stands in and everything around it."""

    facts: DocumentFacts
    case: Case
    around: Surroundings
    whole: Whole

    @property
    def capability(self) -> Capability:
        """What the case is judged for."""
        return self.case.capability

    @property
    def subject(self) -> Subject:
        """What the case is about."""
        return self.case.subject


Question = Callable[[Judged], Iterator[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """``answer`` finds; the rest is said about it."""

    name: str
    gate: Gate
    question: str
    needs: str
    leaves_open: str
    codes: tuple[str, ...]
    version: int
    answer: Question

    def __call__(self, judged: Judged) -> Iterator[Finding]:
        for finding in self.answer(judged):
            if finding.code not in self.codes:
                raise ValueError(f"rule {self.name} gave {finding.code}, which it does not declare")
            yield Finding(
                code=finding.code,
                row=finding.row,
                gate=finding.gate,
                detail=finding.detail,
                pointer=finding.pointer,
                value=finding.value,
                document=finding.document,
                rule=self.name,
            )


def rule(
    gate: Gate, *, question: str, needs: str, leaves_open: str, codes: tuple[str, ...], version: int = 1
) -> Callable[[Question], Rule]:
    """Make a rule of a function; its name is the function's."""

    def made(answer: Question) -> Rule:
        return Rule(
            name=answer.__name__.replace("_", "-"),
            gate=gate,
            question=question,
            needs=needs,
            leaves_open=leaves_open,
            codes=codes,
            version=version,
            answer=answer,
        )

    return made


def found(code: str, fact: object = None, *, at: str = "", value: str = "", detail: str = "") -> Finding:
    """A finding of a code at a fact, or at a pointer with a text."""
    pointer, text = said(fact) if fact is not None else (at, value)
    kind = CODES[code]
    return Finding(
        code=code,
        row=kind.row,
        gate=kind.gate,
        detail=detail,
        pointer=at or pointer,
        value=(value or text)[:200],
    )


def elsewhere(code: str, document: str, *, at: str, value: str, detail: str = "") -> Finding:
    """A finding whose cause stands in another document."""
    kind = CODES[code]
    return Finding(
        code=code,
        row=kind.row,
        gate=kind.gate,
        detail=detail,
        pointer=at,
        value=value[:200],
        document=document,
    )
