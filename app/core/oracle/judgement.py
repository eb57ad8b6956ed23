"""All ranks' parts become one answer, compared with the expected one; wrong pages get one name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.core.canonical_json import JsonObject, JsonValue
from app.core.digest import Digest
from app.core.errors import FormatError
from app.core.oracle.agreement import Agreement, compare
from app.core.oracle.attention import prompt_sha256
from app.core.oracle.partials import SCALE, RankPartials, SemanticFault
from app.core.oracle.question import OracleQuestion
from app.core.oracle.reference_decoder import Answer, add_up, most_votes

ANSWER_SCHEMA: Final = "sparkgate-oracle-answer/v1"
_SUBJECT: Final = "oracle partials"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What happened to the pages, on which ranks; the detail is of the first of them."""

    fault: SemanticFault
    ranks: tuple[int, ...]
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleJudgement:
    """What all ranks together answered.

    Attributes:
        prompt_tokens: length of the prompt, and of the control's: they differ in one token.
        answer: from the placed pages; ``control`` from the tokens with one of them changed.
        diagnosis: None only if every page of every rank is right and so is the answer.
    """

    question_sha256: Digest
    prompt_tokens: int
    prompt_sha256: Digest
    control_prompt_sha256: Digest
    expected: str
    expected_control: str
    answer: Answer
    control: Answer
    diagnosis: Diagnosis | None

    @property
    def agreement(self) -> Agreement:
        """How the answer agrees with the expected one."""
        return compare(expected=self.expected, observed=self.answer.word)

    @property
    def right(self) -> bool:
        """Whether the pages may be used: the exact answer, from pages none of which is wrong."""
        return self.agreement.qualifies and self.diagnosis is None

    @property
    def control_right(self) -> bool:
        """Whether the recomputation gave its own word; else question or machine are bad, not the restore."""
        return compare(expected=self.expected_control, observed=self.control.word).qualifies

    def to_document(self) -> JsonObject:
        """The judgement as integers and strings."""
        diagnosis: JsonValue = None
        if self.diagnosis is not None:
            diagnosis = {
                "fault": self.diagnosis.fault.value,
                "ranks": list(self.diagnosis.ranks),
                "detail": self.diagnosis.detail,
            }
        return {
            "schema": ANSWER_SCHEMA,
            "question_sha256": self.question_sha256,
            "scale": SCALE,
            "agreement": self.agreement.value,
            "right": self.right,
            "prompt_tokens": self.prompt_tokens,
            "restored": _written(self.answer, expected=self.expected, prompt=self.prompt_sha256),
            "control": _written(
                self.control, expected=self.expected_control, prompt=self.control_prompt_sha256
            ),
            "diagnosis": diagnosis,
        }


def judge_partials(question: OracleQuestion, *, partials: Sequence[RankPartials]) -> OracleJudgement:
    """Add up what all ranks found.

    Raises:
        FormatError: a rank is missing, there twice or not the question's; a part is of another question, has
            other words or more votes than a rank has.
    """
    by_rank = {one.rank: one for one in partials}
    if len(by_rank) != len(partials):
        ranks = sorted(one.rank for one in partials)
        raise FormatError(_SUBJECT, expected="every rank once", found=str(ranks))
    for one in partials:
        _check(question, one)
    answer = add_up(question, partials={rank: one.restored for rank, one in by_rank.items()})
    return OracleJudgement(
        question_sha256=question.sha256,
        prompt_tokens=question.span_tokens,
        prompt_sha256=prompt_sha256(question, word=question.expected),
        control_prompt_sha256=prompt_sha256(question, word=question.control),
        expected=question.expected,
        expected_control=question.control,
        answer=answer,
        control=add_up(question, partials={rank: one.control for rank, one in by_rank.items()}),
        diagnosis=_diagnose(question, answer=answer, ranks=[by_rank[rank] for rank in sorted(by_rank)]),
    )


def _check(question: OracleQuestion, one: RankPartials) -> None:
    subject = f"{_SUBJECT} of rank {one.rank}"
    if one.question_sha256 != question.sha256:
        raise FormatError(subject, expected=f"question {question.sha256}", found=one.question_sha256)
    most = most_votes(question)
    # What a word can get at most is known; a rank that claims more would outvote the others.
    highest = max((*one.restored.values(), *one.control.values()), default=0)
    if one.most != most or highest > 2 * most:
        raise FormatError(
            subject, expected=f"{most} votes at most, doubts twice as many", found=f"{one.most}, {highest}"
        )
    over = [
        word
        for logits in (one.restored, one.control)
        for word, logit in logits.items()
        if word != question.fallback and logit > most + SCALE // 8
    ]
    if over:
        raise FormatError(subject, expected=f"{most} votes at most", found=f"more for {', '.join(over)}")


def _diagnose(question: OracleQuestion, *, answer: Answer, ranks: Sequence[RankPartials]) -> Diagnosis | None:
    """The one thing that all findings say; several are unknown, and so is a wrong answer without any."""
    found = [(one.rank, one.finding) for one in ranks if one.finding is not None]
    if not found:
        if answer.word == question.expected:
            return None
        detail = "every page is right and the answer is not"
        return Diagnosis(fault=SemanticFault.UNKNOWN, ranks=(), detail=detail)
    faults = {finding.fault for _, finding in found}
    first_rank, first = found[0]
    return Diagnosis(
        fault=first.fault if len(faults) == 1 else SemanticFault.UNKNOWN,
        ranks=tuple(rank for rank, _ in found),
        detail=f"rank {first_rank}: {first.detail}",
    )


def _written(answer: Answer, *, expected: str, prompt: Digest) -> JsonObject:
    return {
        "prompt_sha256": prompt,
        "expected": expected,
        "observed": answer.word,
        "logits": dict(answer.logits),
        "margin": answer.margin,
    }
