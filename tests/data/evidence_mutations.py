"""Every leaf of a document dropped and changed, and what becomes of the verdict (evidence-model §13).

A mutation is judged with the same documents around it. What a document no longer says must cost it: a
mutated fact that leaves a document qualified either is about another scope now, or gave a new finding, or
belongs to a gate the capability does not need, or is a time or prose.
"""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.neighbours import Stored, surroundings_of
from app.core.qualify.serialise import facts_document
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict, by_capability, joined_verdict, judge_document

_HEX = "0123456789abcdef"
_SHOWN_ONLY = ("sha256", "canonical_sha256", "byte_count", "timings", "statements")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One change of one leaf; ``pointer`` in JSON pointer form."""

    pointer: str
    kind: str
    document: Any


def leaves(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of every value that is no object and no list; of empty ones too."""
    if isinstance(value, dict) and value:
        for key, member in value.items():
            yield from leaves(member, (*at, key))
    elif isinstance(value, list) and value:
        for index, element in enumerate(value):
            yield from leaves(element, (*at, index))
    elif at:
        yield at


def mutations(document: Any) -> Iterator[Mutation]:
    """Every leaf dropped, and every leaf changed to a value of its kind."""
    for path in leaves(document):
        pointer = "".join(f"/{step}" for step in path)
        yield Mutation(pointer=pointer, kind="drop", document=dropped(document, path))
        yield Mutation(pointer=pointer, kind="change", document=changed(document, path))


def dropped(document: Any, path: tuple[str | int, ...]) -> Any:
    """A copy without the value at the path."""
    copied = copy.deepcopy(document)
    del _parent(copied, path)[path[-1]]
    return copied


def replaced(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """A copy with another value at the path."""
    copied = copy.deepcopy(document)
    _parent(copied, path)[path[-1]] = value
    return copied


def changed(document: Any, path: tuple[str | int, ...]) -> Any:
    """A copy with another value of the same kind: a flipped digit, the other truth, one more."""
    return replaced(document, path, _other(_parent(document, path)[path[-1]]))


def judged(raw: bytes, own: Stored, others: list[Stored]) -> tuple[DocumentFacts, Verdict]:
    """The joined verdict of changed bytes in the place of a stored document."""
    facts = document_facts(read_document(raw))
    rest = [one for one in others if one.facts.sha256 != own.facts.sha256]
    place = Stored(facts=facts, repository=own.repository, path=own.path, commit=own.commit, age=own.age)
    verdicts = judge_document(facts, around=surroundings_of(place, rest), deployable_grade=Basis.ATTESTED)
    groups = by_capability(verdicts)
    group = groups.get(own.facts.schema.capability) or next(iter(groups.values()))
    return facts, joined_verdict(group, facts)


def raw(document: Any) -> bytes:
    """Bytes of a document."""
    return json.dumps(document).encode("utf-8")


def gate_facts(facts: DocumentFacts) -> dict[str, Any]:
    """The facts a rule may read, without what is only shown."""
    document = facts_document(facts)
    return {name: value for name, value in document.items() if name not in _SHOWN_ONLY}


def _parent(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path[:-1]:
        document = document[step]
    return document


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value + 1.5
    if isinstance(value, str):
        return _other_text(value)
    return "something" if value is None else None


def _other_text(text: str) -> str:
    """The last digit of a digest turned, else a word no table knows."""
    if len(text) >= 12 and text[-1] in _HEX and all(one in _HEX for one in text[-12:]):
        return text[:-1] + _HEX[(_HEX.index(text[-1]) + 1) % 16]
    return f"{text}-changed"
