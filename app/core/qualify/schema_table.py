"""The declarative tables: schemas.json, words.json and phrases.json, read once (evidence-model appendices
A, B).

A schema entry maps pointers to facts; the families give the pointers their meaning. ``Spec`` is a typed
view of one object of the table; a name the table does not have reads as empty, so an entry says only what
it has.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pkgutil import get_data

from app.core.canonical_json import JsonObject, JsonValue, decode_strict, expect_object
from app.core.digest import Digest, sha256
from app.core.qualify.facts import Capability, Kind, Meaning, StatusClass
from app.core.qualify.pointer import under


@dataclass(frozen=True, slots=True)
class Spec:
    """One object of a table. What was read of it once is kept: every document asks the same hundreds of
    times."""

    members: Mapping[str, JsonValue]
    _paths: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _parts: dict[str, "Spec"] = field(default_factory=dict, init=False, repr=False, compare=False)
    _lists: dict[str, tuple["Spec", ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def paths(self, name: str) -> tuple[str, ...]:
        """Patterns under ``name``: one string or a list of strings."""
        paths = self._paths.get(name)
        if paths is None:
            value = self.members.get(name, [])
            every = value if isinstance(value, list) else [value]
            paths = self._paths[name] = tuple(path for path in every if isinstance(path, str))
        return paths

    def part(self, name: str) -> "Spec":
        """The object under ``name``; an empty one if there is none."""
        part = self._parts.get(name)
        if part is None:
            value = self.members.get(name)
            part = self._parts[name] = Spec(value if isinstance(value, dict) else {})
        return part

    def parts(self, name: str) -> tuple["Spec", ...]:
        """The objects under ``name``: one object or a list of them."""
        parts = self._lists.get(name)
        if parts is None:
            value = self.members.get(name, [])
            every = value if isinstance(value, list) else [value]
            parts = self._lists[name] = tuple(Spec(part) for part in every if isinstance(part, dict))
        return parts

    def text(self, name: str, default: str = "") -> str:
        """The string under ``name``."""
        value = self.members.get(name)
        return value if isinstance(value, str) else default

    def says(self, name: str) -> bool:
        """Whether the boolean under ``name`` is there and true."""
        return self.members.get(name) is True

    def __contains__(self, name: str) -> bool:
        return name in self.members


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaEntry:
    """One schema of the table. ``ceilings`` and ``no_verdict`` are codes; ``spec`` holds the pointers."""

    name: str
    kind: Kind
    capability: Capability
    family: str
    ceilings: tuple[str, ...]
    no_verdict: str
    sparkcache: bool
    validator: str
    spec: Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """An annotation shipped with the rules (Appendix B.3): a sentence at ``pattern`` of documents of
    ``schema`` means ``meaning``, if its SHA-256 is ``sentence_sha256`` or the expression fits all of it."""

    name: str
    schema: str
    pattern: str
    meaning: Meaning
    sentence_sha256: str
    expression: re.Pattern[str] | None

    def fits(self, sentence: str) -> bool:
        """Whether the sentence is the annotated one."""
        if self.expression is not None:
            return self.expression.fullmatch(sentence.strip()) is not None
        return sha256(sentence.encode("utf-8")) == self.sentence_sha256


@cache
def schema_entry(name: str) -> SchemaEntry | None:
    """The entry of a schema string; none for an unknown one."""
    return _entries().get(name)


def schema_names() -> tuple[str, ...]:
    """Every schema string of the table, sorted."""
    return tuple(sorted(_entries()))


@cache
def phrases(schema: str) -> tuple[Phrase, ...]:
    """The annotations for documents of a schema."""
    return tuple(phrase for phrase in _phrases() if phrase.schema == schema)


def annotation(*, name: str, pointer: str, sentence_sha256: Digest, meaning: Meaning) -> Phrase:
    """A person's annotation of one stored document: the sentence of that digest at the pointer has the
    meaning.

    Args: name: who said it and when, shown beside the fact.
    """
    return Phrase(
        name=name,
        schema="",
        pattern=pointer,
        meaning=meaning,
        sentence_sha256=sentence_sha256,
        expression=None,
    )


def status_class(word: str) -> StatusClass:
    """Class of a status word: the whole string is compared after trimming (§2.2)."""
    return _words().get(word.strip(), StatusClass.UNKNOWN)


def table_bytes(name: str) -> bytes:
    """A table as it lies beside this file, or in the archive this file is read from (`verify.pyz`)."""
    raw = get_data(__package__, name)
    if raw is None:
        raise FileNotFoundError(f"{name}: expected beside {__name__}, found none")
    return raw


def _load(name: str) -> JsonObject:
    return expect_object(decode_strict(table_bytes(name), subject=name), subject=name)


@cache
def _entries() -> dict[str, SchemaEntry]:
    table = _load("schemas.json")
    shared = Spec(expect_object(table["defaults"], subject="schemas.json defaults"))
    schemas = expect_object(table["schemas"], subject="schemas.json schemas")
    return {
        name: _entry(name, expect_object(members, subject=name), shared) for name, members in schemas.items()
    }


def _entry(name: str, members: JsonObject, shared: Spec) -> SchemaEntry:
    own = Spec(members)
    kind = Kind(own.text("kind"))
    spec = _laid_over(_laid_over(shared.part("every"), shared.part(kind.value)), own)
    return SchemaEntry(
        name=name,
        kind=kind,
        capability=Capability(own.text("capability")),
        family=own.text("family", "declared"),
        ceilings=own.paths("ceilings"),
        no_verdict=own.text("no_verdict"),
        sparkcache=own.members.get("sparkcache") is not False,
        validator=own.text("validator"),
        spec=spec,
    )


def _laid_over(below: Spec, above: Spec) -> Spec:
    """The members of both; of an object in both, the members of both, those above first."""
    merged = dict(below.members)
    for name, value in above.members.items():
        under_it = merged.get(name)
        both = isinstance(value, dict) and isinstance(under_it, dict)
        merged[name] = {**under_it, **value} if both else value  # type: ignore[dict-item]
    return Spec(merged)


@cache
def _phrases() -> tuple[Phrase, ...]:
    table = Spec(_load("phrases.json"))
    return tuple(_phrase(part, number) for number, part in enumerate(table.parts("phrases")))


def _phrase(part: Spec, number: int) -> Phrase:
    text = part.text("expression")
    return Phrase(
        name=part.text("name", f"phrase-{number}"),
        schema=part.text("schema"),
        pattern=under("", part.text("at")),
        meaning=Meaning(part.text("meaning")),
        sentence_sha256=part.text("sentence_sha256"),
        expression=re.compile(text, re.DOTALL) if text else None,
    )


@cache
def _words() -> dict[str, StatusClass]:
    return dict(_classified(Spec(_load("words.json"))))


def _classified(table: Spec) -> Iterator[tuple[str, StatusClass]]:
    for status in StatusClass:
        for word in table.paths(status.value):
            yield word, status
