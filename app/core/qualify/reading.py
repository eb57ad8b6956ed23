"""Mapped pointers of one document to facts: a place, a form, a value or the gap (evidence-model §4
types).

A wrong type is never an exception: the fact is missing, with the gap and what stood there. So a document
that lost or bent a field still has facts, and the rules say what that costs.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias, TypeVar

from app.core.canonical_json import ExactValue
from app.core.errors import shown
from app.core.qualify.pointer import matches, parent, under
from app.core.qualify.values import UNMAPPED, Basis, Fact, Found, Gap, Missing, Number

T = TypeVar("T")
Form: TypeAlias = Callable[[ExactValue], T | Gap]
"""A JSON value as T, or why it is none."""

_HEX = re.compile(r"[0-9a-f]+")
_AXIS = {axis: re.compile(rf"(?<![A-Za-z]){axis}\s?([0-9]{{1,4}})(?!\d)") for axis in ("TP", "DCP", "PP")}
_REFERENCE = re.compile(r"(?P<repository>[^@\s]+)@(?P<revision>[0-9a-f]{40})")
_MOST_COUNT = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A value inside a document from which relative pointers are read; ``..`` goes one step up."""

    document: ExactValue
    base: str = ""

    def at(self, pattern: str) -> str:
        """The absolute pattern for one that may be relative or climb."""
        base = self.base
        if pattern.startswith(".."):
            while pattern.startswith("../") or pattern == "..":
                base, pattern = parent(base), pattern[3:]
        return under(base, pattern)

    def places(self, pattern: str) -> Iterator["Place"]:
        """Every place the pattern fits, in document order."""
        for pointer, _ in matches(self.document, self.at(pattern)):
            yield Place(document=self.document, base=pointer)

    def values(self, patterns: Sequence[str]) -> Iterator[tuple[str, ExactValue]]:
        """Every value at any of the patterns, with its pointer."""
        for pattern in patterns:
            yield from matches(self.document, self.at(pattern))

    def has(self, pattern: str) -> bool:
        """Whether anything but ``null`` stands at the pattern."""
        return any(value is not None for _, value in self.values((pattern,)))

    def fact(self, patterns: Sequence[str], form: Form[T], *, basis: Basis = Basis.DEMONSTRATED) -> Fact[T]:
        """The first value of the form at any of the patterns, else the gap at the first one that exists."""
        if not patterns:
            return UNMAPPED
        gap: Missing | None = None
        for pattern in patterns:
            for pointer, value in matches(self.document, self.at(pattern)):
                fact = taken(value, form, pointer=pointer, basis=basis)
                if isinstance(fact, Found):
                    return fact
                gap = gap or fact
        return gap or Missing(gap=Gap.ABSENT, pointer=self.at(patterns[0]))

    def facts(
        self, patterns: Sequence[str], form: Form[T], *, basis: Basis = Basis.DEMONSTRATED
    ) -> tuple[Fact[T], ...]:
        """A fact for every value at the patterns; one gap for a pattern that fits nowhere."""
        every: list[Fact[T]] = []
        for pattern in patterns:
            before = len(every)
            every += [taken(value, form, pointer=at, basis=basis) for at, value in self.values((pattern,))]
            if len(every) == before:
                every.append(Missing(gap=Gap.ABSENT, pointer=self.at(pattern)))
        return tuple(every)


def taken(value: ExactValue, form: Form[T], *, pointer: str, basis: Basis = Basis.DEMONSTRATED) -> Fact[T]:
    """One value as a fact of the form."""
    if value is None:
        return Missing(gap=Gap.NULL, pointer=pointer)
    one = form(value)
    if isinstance(one, Gap):
        return Missing(gap=one, pointer=pointer, found=shown(value))
    return Found(value=one, pointer=pointer, basis=basis)


def found_only(facts: Sequence[Fact[T]]) -> tuple[Found[T], ...]:
    """The facts that have a value."""
    return tuple(fact for fact in facts if isinstance(fact, Found))


def name(value: ExactValue) -> str | Gap:
    """A string with something in it."""
    if not isinstance(value, str):
        return Gap.WRONG_TYPE
    return value if value.strip() else Gap.MALFORMED


def answer(value: ExactValue) -> str | Gap:
    """An answer as recorded: any string, or the number of a token."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else Gap.WRONG_TYPE


def flag(value: ExactValue) -> bool | Gap:
    """A boolean; 1 and 0 are none."""
    return value if isinstance(value, bool) else Gap.WRONG_TYPE


def count(value: ExactValue) -> int | Gap:
    """An integer ≥ 0; ``true`` and ``4.0`` are none."""
    if isinstance(value, bool) or not isinstance(value, int):
        return Gap.WRONG_TYPE
    return value if 0 <= value < _MOST_COUNT else Gap.MALFORMED


def degree(value: ExactValue) -> int | Gap:
    """A parallel degree: an integer from 1 to 1024."""
    one = count(value)
    if isinstance(one, Gap):
        return one
    return one if 1 <= one <= 1024 else Gap.MALFORMED


def number(value: ExactValue) -> Number | Gap:
    """An integer or a fraction, exact."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return Gap.WRONG_TYPE
    return value


def hex64(value: ExactValue) -> str | Gap:
    """A SHA-256: 64 lower-case hexadecimal characters, not all zero."""
    return _hexadecimal(value, 64)


def hex40(value: ExactValue) -> str | Gap:
    """A commit or tree at full length: an abbreviated one is never an identity."""
    return _hexadecimal(value, 40)


def context(value: ExactValue) -> str | Gap:
    """A context digest in full or its first 12 digits."""
    return _hexadecimal(value, 12) if isinstance(value, str) and len(value) == 12 else hex64(value)


def image(value: ExactValue) -> str | Gap:
    """A config id: ``sha256:`` and 64 digits."""
    if not isinstance(value, str):
        return Gap.WRONG_TYPE
    kind, _, digits = value.partition(":")
    return value if kind == "sha256" and not isinstance(hex64(digits), Gap) else Gap.MALFORMED


def manifest(value: ExactValue) -> str | Gap:
    """A registry manifest digest, alone or behind ``name@``; the digest is what counts."""
    if not isinstance(value, str):
        return Gap.WRONG_TYPE
    return image(value.rpartition("@")[2])


def manifest_named(value: ExactValue) -> str | Gap:
    """The digest of a registry reference; one that names none (a tag, another text) is absent, not
    malformed."""
    if isinstance(value, str) and "@" not in value and not value.lower().startswith("sha256:"):
        return Gap.ABSENT
    return manifest(value)


def any_image(value: ExactValue) -> str | Gap:
    """An image by config id or registry reference, as written."""
    digest = manifest(value)
    return digest if isinstance(digest, Gap) else str(value)


def repository_of(value: ExactValue) -> str | Gap:
    """The repository of ``repository@revision``; the whole text where it names no revision."""
    return _of_reference(value, "repository")


def revision_of(value: ExactValue) -> str | Gap:
    """The revision of ``repository@revision``, 40 digits; absent where the text names none."""
    return _of_reference(value, "revision")


def axis(letters: str) -> Form[int]:
    """A degree named in a text such as ``TP4/DCP1``: ``letters`` is TP, DCP or PP."""

    def read(value: ExactValue) -> int | Gap:
        if not isinstance(value, str):
            return Gap.WRONG_TYPE
        said = {int(digits) for digits in _AXIS[letters].findall(value)}
        return degree(said.pop()) if len(said) == 1 else Gap.MALFORMED if said else Gap.ABSENT

    return read


def _hexadecimal(value: ExactValue, length: int) -> str | Gap:
    if not isinstance(value, str):
        return Gap.WRONG_TYPE
    fits = len(value) == length and _HEX.fullmatch(value) is not None and value.strip("0") != ""
    return value if fits else Gap.MALFORMED


def _of_reference(value: ExactValue, part: str) -> str | Gap:
    if not isinstance(value, str):
        return Gap.WRONG_TYPE
    found = _REFERENCE.fullmatch(value.strip())
    if found or "@" in value:
        return found[part] if found else Gap.MALFORMED
    return name(value) if part == "repository" else Gap.ABSENT
