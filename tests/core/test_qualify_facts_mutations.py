"""Bent documents: a fact that loses its field is missing, and nothing raises (issue 6).

Every document made here, and one of every schema of the corpus, with each place a fact stands at dropped
and replaced by values of every other type.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.canonical_json import ExactValue
from app.core.digest import sha256
from app.core.qualify.document import Document, read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.serialise import facts_bytes, facts_document
from tests.core import evidence_documents as made
from tests.data.evidence_facts import corpus_files

OTHER_TYPES: tuple[ExactValue, ...] = (None, True, -1, "", "x", [], {}, [[]], {"x": {}})


def document_of(value: Any) -> Document:
    return Document(sha256=sha256(b""), byte_count=0, value=value)


def found_at(facts: DocumentFacts) -> set[str]:
    """The pointer of every value that subject, cases, admission and lifecycle have."""
    whole = facts_document(facts)
    return set(
        _found({name: whole.get(name) for name in ("subject", "cases", "admission", "lifecycle", "chain")})
    )


def _found(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if value.keys() == {"value", "pointer", "basis"}:
            yield value["pointer"]
        for name, member in value.items():
            # A computed digest is ours, of whatever stands there; a rank may be the name of its record.
            ours = name == "computed" or (name == "rank" and str(member.get("pointer"))[-1:].isdecimal())
            yield from () if ours else _found(member)
    elif isinstance(value, list):
        for element in value:
            yield from _found(element)


def without(value: Any, pointer: str) -> Any:
    return _changed(value, _steps(pointer), lambda holder, key: holder.pop(key))


def replaced(value: Any, pointer: str, other: ExactValue) -> Any:
    return _changed(value, _steps(pointer), lambda holder, key: holder.__setitem__(key, other))


def _steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _changed(value: Any, steps: list[str], change: Callable[[Any, Any], object]) -> Any:
    """A copy of the value along the path, changed at its end; the rest is shared."""
    key: Any = int(steps[0]) if isinstance(value, list) else steps[0]
    copied = value.copy()
    if len(steps) == 1:
        change(copied, key)
    else:
        copied[key] = _changed(value[key], steps[1:], change)
    return copied


def _holder(value: Any, pointer: str) -> tuple[Any, Any]:
    *steps, last = _steps(pointer)
    for step in steps:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value, int(last) if isinstance(value, list) else last


def check(value: Any, *, others: tuple[ExactValue, ...]) -> None:
    """Drop and bend every place a fact stands at."""
    for pointer in sorted(found_at(document_facts(document_of(value)))):
        if any(step.isdecimal() and int(step) > 1 for step in _steps(pointer)):
            continue  # the first two elements of a list stand for all
        holder, key = _holder(value, pointer)
        if not isinstance(holder, list):
            dropped = document_facts(document_of(without(value, pointer)))
            assert pointer not in found_at(dropped), pointer
        for other in others:
            document_facts(document_of(replaced(value, pointer, other)))
        # Of a block the name may be the fact (``dcp4``): it stands as long as the block does.
        if not isinstance(holder[key], dict):
            emptied = found_at(document_facts(document_of(replaced(value, pointer, {}))))
            assert pointer not in emptied, pointer


@pytest.mark.parametrize("name", made.every_document())
def test_a_made_document_that_loses_a_field_loses_the_fact(name: str) -> None:
    check(read_document(made.raw(made.every_document()[name])).value, others=OTHER_TYPES)


def test_a_document_of_the_corpus_that_loses_a_field_loses_the_fact(shared_dir: Path) -> None:
    seen: set[str | None] = set()
    for name in corpus_files(shared_dir / "evidence"):
        if name.startswith("_"):
            continue
        document = read_document((shared_dir / "evidence" / name).read_bytes(), subject=name)
        facts = document_facts(document)
        if document.schema in seen or not facts.cases:
            continue
        seen.add(document.schema)
        check(document.value, others=())
    assert len(seen) > 40


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=4), inside, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
def test_any_value_anywhere_gives_facts(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(made.every_document())))
    value = read_document(made.raw(made.every_document()[name])).value
    places = sorted(set(_places(value, "")))
    for _ in range(data.draw(st.integers(min_value=1, max_value=3))):
        pointer = data.draw(st.sampled_from(places))
        try:
            value = replaced(value, pointer, data.draw(values))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            continue  # an earlier replacement took this place away
    facts = document_facts(document_of(value))
    assert facts_bytes(facts) == facts_bytes(document_facts(document_of(value)))


def _places(value: object, at: str) -> Iterator[str]:
    if at:
        yield at
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _places(member, f"{at}/{name}")
    elif isinstance(value, list):
        for number, element in enumerate(value):
            yield from _places(element, f"{at}/{number}")


def test_changing_a_time_changes_no_other_fact() -> None:
    document = made.single_restore()
    before = facts_document(document_facts(read_document(made.raw(document))))
    document["rank_restore_evidence"][0]["end_to_end_ms"] = 9999.5
    after = facts_document(document_facts(read_document(made.raw(document))))
    differing = {name for name in before if before[name] != after.get(name)}
    assert differing <= {"timings", "sha256", "canonical_sha256", "byte_count"}
