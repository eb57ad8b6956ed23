"""Every leaf of a document dropped and changed, and what becomes of the verdict (evidence-model §13).

A mutation is judged with the same documents around it. What a document no longer says must cost it: a
mutated fact that leaves a document qualified either is about another scope now, or gave a new finding, or
belongs to a gate the capability does not need, or is a time or prose. Run
``python -m tests.data.evidence_mutations`` after a change of rules, and read the difference.
"""

import copy
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.neighbours import Stored, surroundings_of
from app.core.qualify.serialise import facts_document
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict, by_capability, joined_verdict, judge_document
from tests.data.evidence_verdicts import corpus_stored, qualified_names

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


_TIME = re.compile(r"(?:^|_)(?:ms|milliseconds|seconds)(?:_|$)")


def retimed(value: Any, *, inside: bool = False) -> Any:
    """A copy with every time another one; keys and lengths kept, equal times equal."""
    if isinstance(value, dict):
        return {
            key: retimed(member, inside=inside or bool(_TIME.search(key))) for key, member in value.items()
        }
    if isinstance(value, list):
        return [retimed(element, inside=inside) for element in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value * 2 + 1 if inside and is_number else value


def without_times(value: Any) -> Any:
    """A copy without any member whose name is that of a time."""
    if isinstance(value, dict):
        return {key: without_times(member) for key, member in value.items() if not _TIME.search(key)}
    if isinstance(value, list):
        return [without_times(element) for element in value]
    return value


def changed_facts(before: DocumentFacts, after: DocumentFacts) -> set[str]:
    """Paths of the facts that differ, list places as ``*``; pointers of equal facts do not count."""
    return set(_different(gate_facts(before), gate_facts(after), ""))


def _different(before: Any, after: Any, at: str) -> Iterator[str]:
    if before == after:
        return
    if (
        isinstance(before, dict)
        and isinstance(after, dict)
        and "pointer" not in (before.keys() ^ after.keys())
    ):
        for name in before.keys() | after.keys():
            yield from _different(before.get(name), after.get(name), f"{at}/{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after, strict=True):
            yield from _different(one, other, f"{at}/*")
    else:
        yield at


TABLE = Path(__file__).parent / "mutations.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One mutation judged: its effect in words, or, where there is none, the facts that changed."""

    pointer: str
    kind: str
    effect: str
    facts: frozenset[str]


def examine(evidence: Path, name: str, stored: dict[str, Stored]) -> list[Examined]:
    """Every mutation of one document, judged with the others around it."""
    own, others = stored[name], list(stored.values())
    facts, before = judged((evidence / name).read_bytes(), own, others)
    every = []
    for mutation in mutations(json.loads((evidence / name).read_text(encoding="utf-8"))):
        changed, after = judged(raw(mutation.document), own, others)
        says = effect(before, after)
        paths = frozenset() if says else frozenset(changed_facts(facts, changed))
        every.append(Examined(pointer=mutation.pointer, kind=mutation.kind, effect=says, facts=paths))
    return every


def mutation_line(name: str, examined: list[Examined]) -> dict[str, Any]:
    """What every mutation of one document comes to: outcome and deciding code by pointer, list places as
    ``*``. Mutations that leave it qualified without a word are not in it."""
    line: dict[str, dict[str, set[str]]] = {"drop": {}, "change": {}}
    for one in examined:
        if one.effect:
            pattern = re.sub(r"/\d+(?=/|$)", "/*", one.pointer)
            line[one.kind].setdefault(pattern, set()).add(one.effect)
    return {
        "file": name,
        **{
            kind: {pattern: sorted(every) for pattern, every in sorted(patterns.items())}
            for kind, patterns in line.items()
        },
    }


def effect(before: Verdict, after: Verdict) -> str:
    """How a verdict differs from the one before, in a few words; empty where it does not."""
    if after.outcome is not before.outcome:
        return f"{after.outcome.value} {after.deciding[0].name}"
    if after.scope != before.scope:
        return f"other scope: {', '.join(after.scope.differences(before.scope))}"
    names = {one.name for one in before.findings}
    gained = sorted({one.name for one in after.findings} - names)
    lost = sorted(names - {one.name for one in after.findings})
    parts = [*(f"+{name}" for name in gained), *(f"-{name}" for name in lost)]
    if after.deployable is not before.deployable:
        parts.append(f"deployable {after.deployable}".lower())
    return " ".join(parts)


def stored_mutations() -> dict[str, dict[str, Any]]:
    """The table as it is stored, by file."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return {line["file"]: line for line in map(json.loads, lines)}


def main() -> None:
    """Write the table anew."""
    evidence = Path(os.environ.get("SPARKGATE_SHARED", "/work/shared")) / "evidence"
    stored = corpus_stored(evidence)
    lines = [
        json.dumps(mutation_line(name, examine(evidence, name, stored)), sort_keys=True)
        for name in qualified_names()
    ]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
