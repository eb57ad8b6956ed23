"""Semantic gate: was the answer of the restored request the right one (evidence-model §5, §7.3 row 2)?"""

from collections.abc import Iterator
from functools import lru_cache

from app.core.digest import sha256
from app.core.qualify.facts import Capability
from app.core.qualify.findings import Finding, Gate, GateResult, GateState
from app.core.qualify.gates import Agreement, AnswerOf, Comparison, Oracle, OracleForm
from app.core.qualify.rules.joined import oracle
from app.core.qualify.rules.rule import Judged, found, rule
from app.core.qualify.values import UNMAPPED, Basis, Fact, Found, Missing

NEEDS_ANSWER = frozenset((Capability.RESTORE, Capability.RECOVERY, Capability.SERVING, Capability.CAPACITY))
_LEADS = ("", " ")


@rule(
    Gate.SEMANTIC,
    question="Is an answer of this very request recorded?",
    needs="expected and observed answer, two answers of the run, or a boolean or annotated sentence",
    leaves_open="whether the answer is right",
    codes=("SEMANTIC_MISSING", "SEMANTIC_INCONCLUSIVE", "CANARY_UNRELATED"),
    version=3,
)
def an_answer_is_recorded(judged: Judged) -> Iterator[Finding]:
    if judged.capability not in NEEDS_ANSWER:
        return
    answers = oracle(judged)
    for one in _unrelated(judged, answers):
        yield found("CANARY_UNRELATED", at=one)
    inconclusive = tuple(_inconclusive(judged, answers))
    for pointer, value in inconclusive:
        yield found("SEMANTIC_INCONCLUSIVE", at=pointer, value=value)
    missing = tuple(_missing(judged, answers))
    for pointer, value in missing:
        yield found("SEMANTIC_MISSING", at=pointer, value=value)
    if not missing and not inconclusive and not _has_any(judged, answers):
        yield found("SEMANTIC_MISSING", at=_sought(judged, answers), value=answers.form.value)


@rule(
    Gate.SEMANTIC,
    question="Is the answer the expected one, and do flags say what the values say?",
    needs="equality after stripping blanks and lower-casing, computed anew",
    leaves_open="whether the expected answer is right",
    codes=("SEMANTIC_ORACLE_MISMATCH", "SEMANTIC_CONTRADICTION"),
    version=3,
)
def the_answer_is_right(judged: Judged) -> Iterator[Finding]:
    answers = oracle(judged)
    for one in related(judged, answers):
        yield from _compared(one)
    for said in answers.attested if _counts(judged, answers) else ():
        if not said.says:
            yield found("SEMANTIC_ORACLE_MISMATCH", at=said.pointer, value=said.text)
    if answers.published is not None:
        yield from _published(judged, answers, answers.published)


@rule(
    Gate.SEMANTIC,
    question="Was the whole answer compared?",
    needs="the comparison the writer made",
    leaves_open="what else the answer said",
    codes=("ORACLE_NOT_EXACT", "ORACLE_CONTAINS"),
    version=3,
)
def the_comparison_is_exact(judged: Judged) -> Iterator[Finding]:
    answers = oracle(judged)
    if judged.capability not in NEEDS_ANSWER or answers.form is OracleForm.NONE:
        return
    if answers.agreement is Agreement.SUFFIX:
        yield found("ORACLE_NOT_EXACT", at=judged.case.pointer, value=answers.agreement.value)
    if answers.agreement is Agreement.CONTAINS:
        yield found("ORACLE_CONTAINS", at=judged.case.pointer, value=answers.agreement.value)


@rule(
    Gate.SEMANTIC,
    question="How far can the answer be checked again?",
    needs="what is recorded of it",
    leaves_open="nothing: this is the grade of the evidence",
    codes=(
        "SEMANTIC_DEMONSTRATED",
        "ORACLE_SELF_CONSISTENT",
        "SEMANTIC_ATTESTED_ONLY",
        "ORACLE_OBSERVED_NOT_RECORDED",
        "SEMANTIC_NOT_TESTED",
    ),
    version=3,
)
def how_good_the_answer_is(judged: Judged) -> Iterator[Finding]:
    if judged.capability not in NEEDS_ANSWER:
        yield found("SEMANTIC_NOT_TESTED", at=judged.case.pointer, value=judged.capability.value)
        return
    answers, gate = oracle(judged), semantic_gate(judged)
    if not gate.state.holds:
        return
    if gate.basis is Basis.DEMONSTRATED:
        yield found("SEMANTIC_DEMONSTRATED", at=gate.pointer, value=gate.says)
    if gate.basis is Basis.SELF_CONSISTENT:
        yield found("ORACLE_SELF_CONSISTENT", at=gate.pointer, value=gate.says)
    if gate.basis is Basis.ATTESTED:
        yield found("SEMANTIC_ATTESTED_ONLY", at=gate.pointer, value=gate.says)
        for one in answers.comparisons:
            if isinstance(one.expected, Found) and not isinstance(one.observed, Found):
                yield found("ORACLE_OBSERVED_NOT_RECORDED", one.expected)


@rule(
    Gate.SEMANTIC,
    question="Does the digest of the raw response belong to the recorded answer?",
    needs="the answer with or without a leading blank, as is, capitalised or upper-case",
    leaves_open="other spellings: a longer answer with the same meaning is unexplained",
    codes=("RESPONSE_DIGEST_UNEXPLAINED",),
    version=3,
)
def digests_are_explained(judged: Judged) -> Iterator[Finding]:
    answers = oracle(judged)
    published = (answers.published,) if answers.published is not None else ()
    for one in (*related(judged, answers), *published):
        digest, observed = one.response_sha256, one.observed
        if not isinstance(observed, Found) or digest == UNMAPPED:
            continue
        if not isinstance(digest, Found) or digest.value not in _spellings(observed.value):
            yield found("RESPONSE_DIGEST_UNEXPLAINED", digest)


@rule(
    Gate.SEMANTIC,
    question="Are there restores in this document whose answers are not recorded?",
    needs="the restore cases beside a serving case",
    leaves_open="those restores: their own verdict says incomplete",
    codes=("RESTORE_ANSWER_NOT_RECORDED",),
    version=3,
)
def restores_have_answers(judged: Judged) -> Iterator[Finding]:
    if judged.capability is Capability.SERVING:
        for case in judged.whole.unanswered[:1]:
            yield found("RESTORE_ANSWER_NOT_RECORDED", at=case.pointer)


def semantic_gate(judged: Judged) -> GateResult:
    """State and basis of the answer of the restored (or served) request."""
    answers = oracle(judged)
    if any(the_answer_is_right.answer(judged)):
        compared = any(is_whole(one) for one in related(judged, answers))
        says = "the answer is wrong or contradicts its flag"
        return _result(GateState.FAILED, basis=_basis(answers, whole=compared), says=says)
    blocking = [one for one in an_answer_is_recorded.answer(judged) if one.row.blocks]
    if blocking:
        inconclusive = any(one.code == "SEMANTIC_INCONCLUSIVE" for one in blocking)
        state = GateState.INCONCLUSIVE if inconclusive else GateState.NOT_TESTED
        return _result(state, pointer=blocking[0].pointer, says=blocking[0].value)
    if judged.capability not in NEEDS_ANSWER:
        return _result(GateState.NOT_TESTED, says="the capability needs no answer")
    whole = [one for one in related(judged, answers) if is_whole(one)]
    basis = _basis(answers, whole=bool(whole))
    pointer = whole[0].pointer if whole else answers.attested[0].pointer
    if answers.agreement is Agreement.SUFFIX:
        return _result(GateState.INCONCLUSIVE, pointer=pointer, says="compared by its end only")
    state = GateState.ATTESTED if basis is Basis.ATTESTED else GateState.DEMONSTRATED
    return _result(state, basis=basis, pointer=pointer, says=_says(whole, answers))


def related(judged: Judged, answers: Oracle) -> tuple[Comparison, ...]:
    """The comparisons that speak about this case's request: same prompt where both are recorded, and no
    answer of a restore taken from another request."""
    if not _counts(judged, answers):
        return ()
    return tuple(one for one in answers.comparisons if not _other_prompt(judged, one))


def is_whole(one: Comparison) -> bool:
    """Whether both answers are recorded."""
    return isinstance(one.expected, Found) and isinstance(one.observed, Found)


def equal_answers(one: Comparison) -> bool | None:
    """Equality after strip and lower; none where a side is missing."""
    if isinstance(one.expected, Found) and isinstance(one.observed, Found):
        return _plain(one.expected.value) == _plain(one.observed.value)
    return None


def comparison_findings(one: Comparison) -> Iterator[Finding]:
    """Mismatch and contradiction of one comparison, for the gates that have one of their own."""
    yield from _compared(one)


def _compared(one: Comparison) -> Iterator[Finding]:
    equal = equal_answers(one)
    if equal is None:
        return
    cut = _is_cut(one)
    flag = one.flag
    if isinstance(flag, Found) and flag.value is not equal and (flag.value or not cut):
        yield found("SEMANTIC_CONTRADICTION", flag, value=f"{flag.value} beside {_pair(one)}")
    if not equal and not cut:
        yield found("SEMANTIC_ORACLE_MISMATCH", one.observed, value=_pair(one))


def _published(judged: Judged, answers: Oracle, before: Comparison) -> Iterator[Finding]:
    """The answer before the restore must be the one after it, to the byte where digests are recorded."""
    yield from _compared(before)
    for one in related(judged, answers):
        first, later = before.response_sha256, one.response_sha256
        if isinstance(first, Found) and isinstance(later, Found) and first.value != later.value:
            yield found(
                "SEMANTIC_CONTRADICTION",
                later,
                value=f"published {first.value[:12]}, restored {later.value[:12]}",
            )


def _counts(judged: Judged, answers: Oracle) -> bool:
    """A restore is judged by its own answer only; other capabilities take the served one."""
    return answers.answers is not AnswerOf.OTHER and (
        judged.capability is not Capability.RESTORE or answers.answers is AnswerOf.RESTORED
    )


def _other_prompt(judged: Judged, one: Comparison) -> bool:
    own = judged.case.span.prompt_sha256
    if judged.capability is not Capability.RESTORE or one not in judged.case.oracle.comparisons:
        return False
    return (
        isinstance(own, Found)
        and isinstance(one.prompt_sha256, Found)
        and own.value != one.prompt_sha256.value
    )


def _unrelated(judged: Judged, answers: Oracle) -> Iterator[str]:
    if not _counts(judged, answers):
        yield from (one.pointer for one in answers.comparisons)
        yield from (one.pointer for one in answers.attested)
        return
    yield from (one.pointer for one in answers.comparisons if _other_prompt(judged, one))


def _inconclusive(judged: Judged, answers: Oracle) -> Iterator[tuple[str, str]]:
    if isinstance(answers.inconclusive, Found):
        yield answers.inconclusive.pointer, answers.inconclusive.value
    for one in related(judged, answers):
        if is_whole(one) and _is_cut(one):
            yield one.pointer, "empty or cut by length"


def _missing(judged: Judged, answers: Oracle) -> Iterator[tuple[str, str]]:
    """Comparisons with a side gone although others are whole, attestations that others of their list have."""
    if answers.form is OracleForm.ATTESTED and _counts(judged, answers):
        yield from ((pointer, "nothing said") for pointer in answers.unsaid)
    yield from _uncounted(judged, answers)
    if answers.form not in (OracleForm.EXPECTED_AND_OBSERVED, OracleForm.SELF_CONSISTENT):
        return
    for one in related(judged, answers):
        for fact in (one.expected, one.observed):
            if isinstance(fact, Missing):
                yield fact.pointer or one.pointer, fact.gap.value


def _uncounted(judged: Judged, answers: Oracle) -> Iterator[tuple[str, str]]:
    """Right answers that are counted and of which only some are recorded."""
    recorded = sum(1 for one in related(judged, answers) if is_whole(one))
    for said in answers.attested if recorded else ():
        if said.count is not None and recorded < said.count:
            yield said.pointer, f"{recorded} of {said.count} answers recorded"


def _sought(judged: Judged, answers: Oracle) -> str:
    """Where an answer was sought first; the case itself where its schema has no place for one."""
    facts = [fact for one in answers.comparisons for fact in (one.observed, one.expected)]
    places = [fact.pointer for fact in facts if isinstance(fact, Missing) and fact.pointer]
    return next(iter((*places, *answers.unsaid)), judged.case.pointer)


def _has_any(judged: Judged, answers: Oracle) -> bool:
    said = answers.form not in (OracleForm.NONE, OracleForm.EXPECTED_ONLY)
    own = [one for one in related(judged, answers) if is_whole(one)]
    return said and _counts(judged, answers) and bool(own or answers.attested)


def _is_cut(one: Comparison) -> bool:
    """Empty, or cut by length before it could differ: what begins as the expected answer might have become
    it. Another beginning is another answer, however short the request made it."""
    if not isinstance(one.observed, Found):
        return False
    begun = _plain(one.observed.value)
    cut = isinstance(one.finish_reason, Found) and one.finish_reason.value == "length"
    whole = _plain(one.expected.value) if isinstance(one.expected, Found) else ""
    return not begun or (cut and whole != begun and whole.startswith(begun))


def _basis(answers: Oracle, *, whole: bool) -> Basis:
    if not whole:
        return Basis.ATTESTED
    return Basis.SELF_CONSISTENT if answers.form is OracleForm.SELF_CONSISTENT else Basis.DEMONSTRATED


# Every receipt of a suite has the same answers.
@lru_cache(maxsize=1024)
def _spellings(answer: str) -> frozenset[str]:
    word = answer.strip()
    forms = {answer, word, word.capitalize(), word.upper(), word.lower()}
    return frozenset(
        str(sha256((lead + form + tail).encode("utf-8")))
        for form in forms
        for lead in _LEADS
        for tail in ("", " ", "\n")
    )


def _plain(text: str) -> str:
    return text.strip().lower()


def _pair(one: Comparison) -> str:
    return f"expected {_text(one.expected)}, observed {_text(one.observed)}"


def _text(fact: Fact[str]) -> str:
    return repr(fact.value[:60]) if isinstance(fact, Found) else "nothing"


def _says(whole: list[Comparison], answers: Oracle) -> str:
    if whole:
        return f"{len(whole)} × expected = observed" if len(whole) > 1 else _pair(whole[0])
    return answers.attested[0].text[:120]


def _result(state: GateState, *, basis: Basis | None = None, pointer: str = "", says: str = "") -> GateResult:
    return GateResult(gate=Gate.SEMANTIC, state=state, basis=basis, pointer=pointer, says=says)
