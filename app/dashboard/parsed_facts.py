"""What was read from a document, as rows: a name, a value, where it stands and on what it rests.

The rows are those of the facts the rules read, nothing else: what a document says beyond them is in its
bytes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from app.core.canonical_json import JsonObject, JsonValue
from app.core.qualify.facts import DocumentFacts, StatusClass
from app.core.qualify.serialise import facts_document

MOST_ROWS: Final = 600
GAPS: Final[dict[str, str]] = {
    "absent": "not said",
    "null": "null: known, and nothing there",
    "wrong-type": "of another type",
    "malformed": "of a form it cannot have",
}
CLASSES: Final[dict[str, str]] = {
    StatusClass.QUALIFIED: "claims qualification",
    StatusClass.IMPLEMENTED: "claims to be implemented",
    StatusClass.RESEARCH: "claims no more than research",
    StatusClass.UNSUPPORTED: "says that it is not supported",
    StatusClass.NEGATIVE: "negative result of one check",
    StatusClass.PENDING: "not yet known",
    StatusClass.CHECK: "a check ran and was fine; claims nothing",
    StatusClass.POLICY: "a policy, no evidence",
    StatusClass.NONE: "a flag; declares nothing",
    StatusClass.UNKNOWN: "not known here; counts as no word",
}
_LEVELS: Final = {
    "document": "of the whole document",
    "case": "of one case",
    "map": "one entry of a map",
    "admission": "of the admission",
}
_TITLES: Final = {
    "schema": "Kind of document",
    "subject": "What it is about",
    "carriers": "Status words",
    "admission": "Admission",
    "lifecycle": "About other documents",
    "registry": "Registry digests",
    "pins": "Documents it pins",
    "payloads": "Digests inside it",
    "remarks": "Remarks that count",
    "statements": "Its own words",
    "chain": "Chain of deltas",
    "activation": "Activation",
}
# Stand in the head of the page, or as bars.
_ELSEWHERE: Final = frozenset({"sha256", "canonical_sha256", "byte_count", "timings", "cases"})
_BEFORE_CASES: Final = frozenset({"schema", "subject", "carriers"})
_FOUND: Final = frozenset({"value", "pointer", "basis"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRow:
    """One fact. `gap` is in place of a value that is missing; `pointer` is None where it is no place."""

    name: str
    value: str
    pointer: str | None
    basis: str = ""
    gap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactGroup:
    """Facts that belong together; `more` counts rows that are not shown."""

    title: str
    rows: tuple[FactRow, ...]
    more: int = 0

    @property
    def found(self) -> tuple[FactRow, ...]:
        return tuple(row for row in self.rows if not row.gap)

    @property
    def missing(self) -> tuple[FactRow, ...]:
        return tuple(row for row in self.rows if row.gap)


def fact_groups(facts: DocumentFacts) -> tuple[FactGroup, ...]:
    """Every fact of a document but its times, in the order of the document's parts."""
    document = facts_document(facts)
    cases = [_case(case) for case in _list(document.get("cases"))]
    groups: list[FactGroup] = []
    for name, value in _parts(document):
        if name not in _BEFORE_CASES:
            groups += cases
            cases = []
        groups.append(_group(_TITLES.get(name, _words(name)), value))
    groups += cases
    return tuple(group for group in groups if group.rows)


def _parts(document: JsonObject) -> Iterator[tuple[str, JsonValue]]:
    for name, value in document.items():
        if name not in _ELSEWHERE:
            yield name, value


def _case(case: JsonValue) -> FactGroup:
    if not isinstance(case, dict):
        return FactGroup(title="Case", rows=())
    named = {name: value for name, value in case.items() if name not in ("name", "capability")}
    return _group(f"Case “{case.get('name', '')}”, for {case.get('capability', '')}", named)


def _group(title: str, value: JsonValue) -> FactGroup:
    rows = list(_rows(value, path=(), pointer=None))
    return FactGroup(title=title, rows=tuple(rows[:MOST_ROWS]), more=max(0, len(rows) - MOST_ROWS))


def _rows(value: JsonValue, *, path: tuple[str, ...], pointer: str | None) -> Iterator[FactRow]:
    if isinstance(value, dict):
        yield from _of_object(value, path=path, pointer=pointer)
    elif isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        for number, element in enumerate(value):
            yield from _rows(element, path=(*path, str(number)), pointer=pointer)
    else:
        yield FactRow(name=_name(path), value=_text(value), pointer=pointer)


def _of_object(value: JsonObject, *, path: tuple[str, ...], pointer: str | None) -> Iterator[FactRow]:
    own = value.get("pointer")
    place = own if isinstance(own, str) else pointer
    if "gap" in value:
        gap = str(value["gap"])
        yield FactRow(
            name=_name(path), value=_text(value.get("found", "")), pointer=place, gap=GAPS.get(gap, gap)
        )
    elif "value" in value and value.keys() <= _FOUND:
        yield FactRow(
            name=_name(path), value=_text(value["value"]), pointer=place, basis=str(value.get("basis", ""))
        )
    elif "word" in value:
        yield _carrier(value, place)
    elif "form" in value and isinstance(value.get("sha256"), dict):
        yield from _rows(value["sha256"], path=(str(value.get("name") or value.get("path")),), pointer=place)
    elif "text" in value and path:
        yield _sentence(value, place)
    else:
        for name, member in value.items():
            if name != "pointer":
                yield from _rows(member, path=(*path, name), pointer=place)


def _carrier(value: Mapping[str, JsonValue], place: str | None) -> FactRow:
    status = str(value.get("status", ""))
    meaning = f"{CLASSES.get(status, status)}; {_LEVELS.get(str(value.get('level', '')), 'of a part')}"
    return FactRow(name=str(value.get("key", "")), value=f"{value['word']} ({meaning})", pointer=place)


def _sentence(value: Mapping[str, JsonValue], place: str | None) -> FactRow:
    """A sentence of the document, or a remark that counts by its meaning."""
    shows = {True: "established", False: "not established"}
    name = value.get("meaning") or shows.get(value.get("establishes") is True, "")
    basis = str(value.get("basis", ""))
    return FactRow(name=_words(str(name)), value=_text(value["text"]), pointer=place, basis=basis)


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _name(path: tuple[str, ...]) -> str:
    return " ".join(_words(part) for part in path) or "value"


def _words(name: str) -> str:
    return name.replace("_", " ").replace("sha256", "SHA-256")


def _text(value: JsonValue) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
