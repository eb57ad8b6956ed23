"""What the document says of itself: status words, flags, admission (evidence-model §2.3, §7.3)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.core.qualify.facts import Carrier, CarrierLevel, StatusClass
from app.core.qualify.findings import Finding, Gate
from app.core.qualify.rules.page_tail import validator_errors
from app.core.qualify.rules.rule import Judged, found, rule
from app.core.qualify.rules.whole import MOST_SHOWN
from app.core.qualify.surroundings import Declaration
from app.core.qualify.values import Found

_MOST_RESTRICTIVE_FIRST = (
    StatusClass.UNSUPPORTED,
    StatusClass.NEGATIVE,
    StatusClass.RESEARCH,
    StatusClass.IMPLEMENTED,
    StatusClass.PENDING,
)
_SIZE = re.compile(r"\d+[km]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The declared class of one case: ``status`` is none where nothing is declared. ``carriers`` are those
    that decided it, ``claims`` those that claim qualification."""

    status: StatusClass | None
    carriers: tuple[Carrier, ...] = ()
    claims: tuple[Carrier, ...] = ()
    taken_away: tuple[Carrier, ...] = ()
    by: Declaration | None = None
    validated: bool = False


def declared(judged: Judged) -> Declared:
    """The most restrictive class found, in the order U, N, R, I, P, absent, Q (§2.3)."""
    if judged.facts.schema.validator:
        return _validated(judged)
    words = _words(judged)
    claims = tuple(word for word in words if word.status is StatusClass.QUALIFIED)
    for status in _MOST_RESTRICTIVE_FIRST:
        of_class = tuple(word for word in words if word.status is status)
        if of_class and not (_of_map(of_class) and claims):
            return Declared(status=status, carriers=of_class, claims=claims)
    silent = _silent(judged) or any(word.status is StatusClass.NONE for word in words)
    takes = judged.whole.taking
    unknown = any(word.status is StatusClass.UNKNOWN for word in words)
    if not claims and not unknown:
        return _by_operator(judged)
    stands = None if takes or unknown or silent else StatusClass.QUALIFIED
    return Declared(status=stands, carriers=claims, claims=claims, taken_away=takes)


def declaration_of(judged: Judged) -> Declaration | None:
    """The operator's declaration that names this receipt for this capability, if there is one."""
    for one in judged.around.declarations:
        if judged.facts.sha256 in one.receipts and one.capability is judged.capability:
            return one
    return None


@rule(
    Gate.DECLARED,
    question="Does the document claim that this works, and how much does it claim?",
    needs="the status carriers at document level, of the case or of the map key about this capability",
    leaves_open="whether the claim is true: a word is no gate state",
    codes=(
        "DECLARED_UNSUPPORTED",
        "GATE_DECLARED_FAILED",
        "DECLARED_CEILING",
        "PENDING_CHECK",
        "STATUS_ABSENT",
    ),
    version=2,
)
def the_claim_is_qualified(judged: Judged) -> Iterator[Finding]:
    claim = declared(judged)
    code = _BY_CLASS.get(claim.status) if claim.status is not None else None
    if claim.status is None and not claim.validated:
        yield found("STATUS_ABSENT", at=_first(claim.taken_away), value=_word(claim.taken_away))
    if code is not None:
        yield found(code, at=_first(claim.carriers), value=_word(claim.carriers))


@rule(
    Gate.DECLARED,
    question="Is every status word one that is known here?",
    needs="whole strings: a part of a sentence is no word",
    leaves_open="what the writer meant by an unknown word",
    codes=("STATUS_WORD_UNKNOWN", "STATUS_PHRASE"),
    version=2,
)
def words_are_known(judged: Judged) -> Iterator[Finding]:
    for word in _words(judged):
        if word.status is StatusClass.UNKNOWN:
            yield found("STATUS_WORD_UNKNOWN", at=word.pointer, value=word.word)
        elif " " in word.word:
            yield found("STATUS_PHRASE", at=word.pointer, value=word.word)


@rule(
    Gate.DECLARED,
    question="Did the schema's own validator or a person stand in for the missing status word?",
    needs="a live run without validator errors, or a declaration with name, time, reason and receipts",
    leaves_open="everything the gates ask: neither replaces one",
    codes=("STATUS_ABSENT_VALIDATOR_PASSED", "DECLARED_BY_OPERATOR"),
    version=2,
)
def something_stands_in(judged: Judged) -> Iterator[Finding]:
    claim = declared(judged)
    if claim.validated and claim.status is StatusClass.QUALIFIED and judged.facts.chain is not None:
        yield found("STATUS_ABSENT_VALIDATOR_PASSED", judged.facts.chain.runner)
    if claim.by is not None:
        yield found("DECLARED_BY_OPERATOR", value=f"{claim.by.who}, {claim.by.when}: {claim.by.reason}")


@rule(
    Gate.ADMISSION,
    question="Does the record deny its own admission?",
    needs="the booleans under admission or candidate",
    leaves_open="why, unless the record says so",
    codes=("ADMISSION_DENIED",),
    version=2,
)
def admission_is_not_denied(judged: Judged) -> Iterator[Finding]:
    for carrier in judged.whole.denying:
        yield found("ADMISSION_DENIED", at=carrier.pointer, value="false")


@rule(
    Gate.DECLARED,
    question="Were parts of the document rejected?",
    needs="words of arms, candidates, components, gates and ranks",
    leaves_open="whether the rest is touched by it: they never enter a class",
    codes=("NESTED_REJECTION",),
    version=2,
)
def parts_were_rejected(judged: Judged) -> Iterator[Finding]:
    for carrier in judged.whole.nested_rejections[:MOST_SHOWN]:
        what = re.sub(r"[^A-Z0-9]+", "_", carrier.word.upper()).strip("_")
        yield found("NESTED_REJECTION", at=carrier.pointer, value=carrier.word, detail=what[:60])


_BY_CLASS = {
    StatusClass.UNSUPPORTED: "DECLARED_UNSUPPORTED",
    StatusClass.NEGATIVE: "GATE_DECLARED_FAILED",
    StatusClass.RESEARCH: "DECLARED_CEILING",
    StatusClass.IMPLEMENTED: "DECLARED_CEILING",
    StatusClass.PENDING: "PENDING_CHECK",
}


def _words(judged: Judged) -> tuple[Carrier, ...]:
    """Every word that may enter the class of this case."""
    return judged.whole.words + judged.case.carriers + _map_words(judged)


def _map_words(judged: Judged) -> tuple[Carrier, ...]:
    """The keys of a status map about this capability; where keys name
    sizes, a case that names one is spoken of by its own key only."""
    words = tuple(one for one in judged.whole.of_map if one.capability is judged.capability)
    sizes = set(_SIZE.findall(judged.case.name))
    if not sizes or not any(_SIZE.search(one.key) for one in words):
        return words
    return tuple(one for one in words if sizes & set(_SIZE.findall(one.key)))


def _silent(judged: Judged) -> bool:
    """Whether a word is missing that others of its kind have: the document's own where its schema has a
    place for one and only a part speaks, or this case's where other cases have theirs (absent before Q)."""
    spoken = judged.whole.of_map or any(one.pointer.count("/") == 1 for one in judged.whole.words)
    of_document = bool(judged.facts.schema.status_column) and not spoken
    siblings = judged.capability in judged.whole.speaking
    return of_document or (siblings and not judged.case.carriers)


def _of_map(words: tuple[Carrier, ...]) -> bool:
    """In a map one Q among the keys of a capability declares Q (§2.3)."""
    return all(one.level is CarrierLevel.MAP for one in words)


def _validated(judged: Judged) -> Declared:
    chain = judged.facts.chain
    errors = tuple(validator_errors(judged.facts, judged.case))
    live = chain is not None and isinstance(chain.runner, Found) and chain.runner.value == "live"
    if live and not errors:
        return Declared(status=StatusClass.QUALIFIED, validated=True)
    return Declared(status=None, validated=bool(errors))


def _by_operator(judged: Judged) -> Declared:
    one = declaration_of(judged)
    return Declared(status=StatusClass.QUALIFIED if one else None, by=one)


def _first(carriers: tuple[Carrier, ...]) -> str:
    return carriers[0].pointer if carriers else ""


def _word(carriers: tuple[Carrier, ...]) -> str:
    return ", ".join(dict.fromkeys(one.word for one in carriers)) if carriers else "no status word"
