"""What a case says about its answer: the semantic gate's input (Appendix B, oracle column; §5)."""

import re
from collections.abc import Callable, Iterator

from app.core.canonical_json import ExactValue
from app.core.errors import shown
from app.core.qualify.facts import Meaning, StatusClass
from app.core.qualify.families.context import Context
from app.core.qualify.families.links import linked_document
from app.core.qualify.gates import Agreement, AnswerOf, Attestation, Comparison, Oracle, OracleForm
from app.core.qualify.pointer import last_step, step
from app.core.qualify.reading import Place, answer, count, flag, found_only, hex64, name, taken
from app.core.qualify.schema_table import Spec, status_class
from app.core.qualify.values import UNMAPPED, Basis, Fact, Found, Gap, Missing

_BASIS = {
    OracleForm.EXPECTED_AND_OBSERVED: Basis.DEMONSTRATED,
    OracleForm.SELF_CONSISTENT: Basis.SELF_CONSISTENT,
    OracleForm.ATTESTED: Basis.ATTESTED,
}
# "What is 6 times 7? Reply with only 42.": the prompt itself names the one right answer.
_NAMED_ANSWER = re.compile(
    r".*\b(?:reply|respond|answer) with only (?P<answer>[^\s.?!]+)[.!]?\s*", re.DOTALL | re.IGNORECASE
)


def oracle(place: Place, spec: Spec, reader: Context) -> Oracle:
    """The answers of one case, and the strongest form for which something is there."""
    if not spec.members:
        return Oracle()
    compared = tuple(_comparisons(place, spec))
    equal = tuple(_self_comparisons(place, spec))
    attested = (
        *_attestations(place, spec.paths("attested"), reader),
        *_counts(place, spec.paths("attested_counts")),
        *_counted(place, spec),
        *_flags_without_answer(compared),
    )
    form = _form(compared, equal, attested)
    agreement = _agreement(place, spec, reader)
    return Oracle(
        form=form,
        basis=_BASIS.get(form),
        agreement=agreement,
        answers=AnswerOf(spec.text("of", AnswerOf.RESTORED.value)),
        comparisons=tuple(one for one in compared if not _is_only_flag(one)) + equal,
        attested=attested,
        unsaid=(
            *_unsaid(place, spec.paths("attested"), lambda at, value: _says(at, value, reader) is not None),
            *_unsaid(
                place, spec.paths("attested_counts"), lambda _, value: not isinstance(count(value), Gap)
            ),
        ),
        published=_published(place, spec),
        inconclusive=_inconclusive(place, spec),
        elsewhere=linked_document(place, spec.part("elsewhere")),
    )


def comparison(place: Place, spec: Spec) -> Comparison | None:
    """One pair of answers; none where the schema has no place for any."""
    if not spec.members:
        return None
    return _compared(place, spec)


def attestations(place: Place, patterns: tuple[str, ...], reader: Context) -> tuple[Attestation, ...]:
    """What booleans, counts, words and annotated sentences at the patterns say."""
    return tuple(_attestations(place, patterns, reader))


def _comparisons(place: Place, spec: Spec) -> Iterator[Comparison]:
    for part in spec.parts("compare"):
        for one in place.places(part.text("at")):
            yield _compared(one, part)


def _compared(place: Place, spec: Spec) -> Comparison:
    expected = place.fact(spec.paths("expected"), answer)
    if spec.paths("prompt"):
        expected = _named_in_prompt(place.fact(spec.paths("prompt"), name))
    return Comparison(
        pointer=place.base,
        expected=expected,
        observed=place.fact(spec.paths("observed"), answer),
        flag=place.fact(spec.paths("flag"), flag),
        response_sha256=place.fact(spec.paths("response_sha256"), hex64),
        prompt_sha256=place.fact(spec.paths("prompt_sha256"), hex64),
        finish_reason=place.fact(spec.paths("finish_reason"), name),
    )


def _self_comparisons(place: Place, spec: Spec) -> Iterator[Comparison]:
    """Later answers against the reference; the reference is the last value at its pattern where the spec
    says so."""
    part = spec.part("same")
    if not part.members:
        return
    every = place.facts(part.paths("reference"), answer, basis=Basis.SELF_CONSISTENT)
    reference = every[-1] if part.says("last") else every[0]
    at = reference.pointer
    for fact in place.facts(part.paths("values"), answer, basis=Basis.SELF_CONSISTENT):
        if not isinstance(fact, Found) or fact.pointer != at:
            yield Comparison(pointer=fact.pointer, expected=reference, observed=fact)


def _attestations(place: Place, patterns: tuple[str, ...], reader: Context) -> Iterator[Attestation]:
    for pointer, value in place.values(patterns):
        says = _says(pointer, value, reader)
        if says is not None:
            yield Attestation(
                pointer=pointer, says=says, text=value if isinstance(value, str) else shown(value)
            )


def _counted(place: Place, spec: Spec) -> Iterator[Attestation]:
    """Right answers counted: as many as there were requests is yes, another number no."""
    for part in spec.parts("right_of_all"):
        right = place.fact(part.paths("right"), count)
        requests = place.fact(part.paths("requests"), count)
        listed = sum(1 for _ in place.values(part.paths("listed")))
        every = requests.value if isinstance(requests, Found) else listed
        if isinstance(right, Found) and (right.value or every):
            yield Attestation(
                pointer=right.pointer,
                says=right.value == every if every else True,
                text=f"{right.value} of {every}" if every else str(right.value),
                count=right.value,
            )


def _counts(place: Place, patterns: tuple[str, ...]) -> Iterator[Attestation]:
    """Checks that passed, counted; none of them says nothing."""
    for fact in found_only(place.facts(patterns, count)):
        if fact.value:
            yield Attestation(pointer=fact.pointer, says=True, text=str(fact.value))


def _unsaid(
    place: Place, patterns: tuple[str, ...], speaks: Callable[[str, ExactValue], bool]
) -> Iterator[str]:
    """Where the schema has a flag or count and nothing stands that is one: the block or list element is
    there. Members of an object picked by a pattern may be of other kinds and owe none."""
    for pattern in patterns:
        head, _, key = pattern.rpartition("/")
        if not key or "*" in key or "|" in key:
            continue
        top = Place(document=place.document)
        holders = (top,) if pattern.startswith("/") and not head else place.places(head)
        for holder in holders:
            if "*" in head and not last_step(holder.base).isdecimal():
                continue
            if not any(speaks(at, value) for at, value in holder.values((key,))):
                yield holder.base + step(key)


def _says(pointer: str, value: ExactValue, reader: Context) -> bool | None:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    if reader.annotated(pointer, value, Meaning.ANSWER_ATTESTED):
        return True
    return {StatusClass.CHECK: True, StatusClass.NEGATIVE: False}.get(status_class(value))


def _flags_without_answer(compared: tuple[Comparison, ...]) -> tuple[Attestation, ...]:
    return tuple(
        Attestation(pointer=one.flag.pointer, says=one.flag.value, text=shown(one.flag.value))
        for one in compared
        if isinstance(one.flag, Found) and not isinstance(one.observed, Found)
    )


def _is_only_flag(one: Comparison) -> bool:
    """A check that had no expected answer (``null``) and recorded none: its flag is an attestation."""
    nothing = Gap.NULL, Gap.UNMAPPED
    return (
        isinstance(one.expected, Missing)
        and one.expected.gap in nothing
        and not isinstance(one.observed, Found)
    )


def _form(
    compared: tuple[Comparison, ...], equal: tuple[Comparison, ...], attested: tuple[Attestation, ...]
) -> OracleForm:
    if any(_is_whole(one) for one in compared):
        return OracleForm.EXPECTED_AND_OBSERVED
    if any(_is_whole(one) for one in equal):
        return OracleForm.SELF_CONSISTENT
    if attested:
        return OracleForm.ATTESTED
    expected = any(isinstance(one.expected, Found) for one in compared + equal)
    return OracleForm.EXPECTED_ONLY if expected else OracleForm.NONE


def _is_whole(one: Comparison) -> bool:
    return isinstance(one.expected, Found) and isinstance(one.observed, Found)


def _agreement(place: Place, spec: Spec, reader: Context) -> Agreement:
    """As the schema has it, unless a policy field names the exact one or an annotated sentence says
    suffix."""
    for pointer, value in place.values(spec.paths("suffix_if_annotated")):
        if reader.annotated(pointer, value, Meaning.ORACLE_SUFFIX):
            return Agreement.SUFFIX
    policy = spec.part("policy")
    if policy.members:
        said = place.fact(policy.paths("at"), name)
        exact = isinstance(said, Found) and said.value == policy.text("exact")
        return Agreement.EXACT if exact else Agreement(policy.text("else", Agreement.UNSTATED.value))
    return Agreement(spec.text("agreement", Agreement.UNSTATED.value))


def _published(place: Place, spec: Spec) -> Comparison | None:
    part = spec.part("published")
    return _compared(place, part) if part.members else None


def _inconclusive(place: Place, spec: Spec) -> Fact[str]:
    """Found only where the record itself says that nothing can be compared."""
    part = spec.part("inconclusive")
    for pointer, value in place.values(part.paths("null")):
        if value is None:
            return Found(value="null", pointer=pointer, basis=Basis.ATTESTED)
    for pointer, value in place.values(part.paths("false")):
        if value is False:
            return Found(value="false", pointer=pointer, basis=Basis.ATTESTED)
    for pointer, value in place.values(part.paths("cut")):
        if value == "length":
            return Found(value="length", pointer=pointer)
    for pointer, value in place.values(part.paths("empty")):
        if value == 0 and type(value) is int:
            return Found(value="0", pointer=pointer)
    return UNMAPPED


def _named_in_prompt(prompt: Fact[str]) -> Fact[str]:
    if not isinstance(prompt, Found):
        return prompt
    named = _NAMED_ANSWER.fullmatch(prompt.value)
    if named is None:
        return Missing(gap=Gap.ABSENT, pointer=prompt.pointer, found=shown(prompt.value))
    return taken(named["answer"].strip("\"'`"), answer, pointer=prompt.pointer)
