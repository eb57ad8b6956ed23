"""Fields of a document taken with their pointer; every offence is kept, and one refusal tells them all.

A field that is refused gives a stand-in so that reading goes on; ``Problems.refuse`` must be called before
what was read is used, and then no stand-in gets out.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from app.core.canonical_json import ExactValue
from app.core.digest import Digest
from app.core.errors import FormatError, shown
from app.core.profiles.documents import ProfileDocumentError
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.qualify.pointer import step

# A document with more offences than this is not of its kind; the first ones say so.
MOST_PROBLEMS: Final = 100
_NO_DIGEST: Final = Digest("0" * 64)


@dataclass(slots=True, kw_only=True)
class Problems:
    """The offences of one document, each as a failed check.

    Attributes:
        missing, wrong: codes of an absent field and of a wrong value.
    """

    subject: str
    sha256: Digest | None = None
    missing: str = "DOC_FIELD"
    wrong: str = "DOC_FIELD"
    found: list[ProfileFinding] = field(default_factory=list)

    def add(self, pointer: str, *, expected: str, found: object, code: str | None = None) -> None:
        """Keep one offence; from the hundredth on they are only a refusal."""
        if len(self.found) < MOST_PROBLEMS:
            shape = finding(
                code or self.wrong,
                CheckResult.FAIL,
                pointer=pointer,
                expected=expected,
                found=found if isinstance(found, str) else shown(found),
                document_sha256=self.sha256,
            )
            self.found.append(shape)

    @property
    def is_full(self) -> bool:
        """Whether no more offences are kept, so that looking for more is in vain."""
        return len(self.found) >= MOST_PROBLEMS

    def lacks(self, pointer: str, *, expected: str) -> None:
        """Keep that a field is absent."""
        self.add(pointer, expected=expected, found="nothing", code=self.missing)

    def refuse(self) -> None:
        """Raises: ProfileDocumentError: anything was added."""
        if self.found:
            raise ProfileDocumentError(self.subject, findings=tuple(self.found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The members of one object; ``at`` is its pointer."""

    value: dict[str, ExactValue]
    problems: Problems
    at: str = ""

    @classmethod
    def of(cls, value: ExactValue, *, problems: Problems, at: str = "") -> "Fields":
        """Take a value as an object; of one that is none, the members are no further offences."""
        if isinstance(value, dict):
            return cls(value=value, problems=problems, at=at)
        problems.add(at, expected="an object", found=shown(value))
        return cls(value={}, problems=Problems(subject=problems.subject), at=at)

    def place(self, name: str) -> str:
        """The pointer of a member."""
        return self.at + step(name)

    def has(self, name: str) -> bool:
        """Whether the member is there, whatever it is."""
        return name in self.value

    def raw(self, name: str) -> ExactValue:
        """The member as it is; null if it is absent, which is an offence."""
        if name not in self.value:
            self.problems.lacks(self.place(name), expected="a value")
        return self.value.get(name)

    def only(self, names: Collection[str]) -> None:
        """Every other member is an offence."""
        for name in self.value:
            if name not in names:
                self._wrong(name, expected=f"one of {', '.join(sorted(names))}", found="an unknown field")

    def text(
        self, name: str, *, one_of: Collection[str] | None = None, pattern: re.Pattern[str] | None = None
    ) -> str:
        """A string; not empty, one of the given ones, or one the whole of which fits."""
        value = self._member(name, expected="a string")
        if not isinstance(value, str):
            return ""
        if one_of is not None:
            if value not in one_of:
                self._wrong(name, expected=" or ".join(one_of), found=shown(value))
        elif pattern is not None:
            if pattern.fullmatch(value) is None:
                self._wrong(name, expected=f"text of the form {pattern.pattern}", found=shown(value))
        elif not value:
            self._wrong(name, expected="a string that is not empty", found="an empty one")
        return value

    def digest(self, name: str) -> Digest:
        """A SHA-256 of 64 lower-case hexadecimal characters."""
        value = self._member(name, expected="64 lower-case hexadecimal characters")
        if not isinstance(value, str):
            return _NO_DIGEST
        try:
            return Digest.parse(value, subject=name)
        except FormatError as error:
            self._wrong(name, expected=error.expected, found=error.found)
            return _NO_DIGEST

    def boolean(self, name: str) -> bool:
        """True or false and nothing else."""
        value = self.raw(name)
        if name in self.value and not isinstance(value, bool):
            self._wrong(name, expected="true or false", found=shown(value))
        return value is True

    def integer(self, name: str, *, minimum: int, maximum: int | None = None) -> int:
        """An integer within bounds; a boolean or 4.0 is none."""
        value = self.raw(name)
        if name in self.value and not _is_within(value, minimum, maximum):
            self._wrong(name, expected=_bounds(minimum, maximum), found=shown(value))
        return value if type(value) is int else minimum

    def number(self, name: str) -> int | Decimal:
        """A finite number; a boolean is none."""
        value = self.raw(name)
        if isinstance(value, Decimal) or type(value) is int:
            return value
        if name in self.value:
            self._wrong(name, expected="a number", found=shown(value))
        return 0

    def integers(self, name: str, *, minimum: int = 0, maximum_count: int = 10_000) -> tuple[int, ...]:
        """A list of integers, not empty, in its order."""
        taken = []
        for index, value in enumerate(self._list(name, maximum_count=maximum_count)):
            if type(value) is int and value >= minimum:
                taken.append(value)
            else:
                place = self.place(name) + step(index)
                self.problems.add(place, expected=_bounds(minimum, None), found=shown(value))
        return tuple(taken)

    def texts(self, name: str, *, maximum_count: int = 10_000) -> tuple[str, ...]:
        """A list of strings, not empty, in its order."""
        taken = []
        for index, value in enumerate(self._list(name, maximum_count=maximum_count)):
            if isinstance(value, str):
                taken.append(value)
            else:
                self.problems.add(self.place(name) + step(index), expected="a string", found=shown(value))
        return tuple(taken)

    def object(self, name: str) -> "Fields":
        """An object as a member; of one that is absent or none, the members are no further offences."""
        value = self.raw(name)
        if isinstance(value, dict):
            return Fields(value=value, problems=self.problems, at=self.place(name))
        if name in self.value:
            self._wrong(name, expected="an object", found=shown(value))
        return Fields(value={}, problems=Problems(subject=self.problems.subject), at=self.place(name))

    def objects(self, name: str, *, maximum_count: int = 10_000) -> list["Fields"]:
        """A list of objects, not empty."""
        listed = self._list(name, maximum_count=maximum_count)
        return [
            Fields.of(value, problems=self.problems, at=self.place(name) + step(index))
            for index, value in enumerate(listed)
        ]

    def named(self, name: str) -> dict[str, "Fields"]:
        """An object of objects by name."""
        inner = self.object(name)
        return {
            key: Fields.of(value, problems=self.problems, at=inner.place(key))
            for key, value in inner.value.items()
        }

    def pairs(self, name: str) -> dict[str, str]:
        """An object of strings."""
        inner = self.object(name)
        for key, value in inner.value.items():
            if not isinstance(value, str):
                inner._wrong(key, expected="a string", found=shown(value))
        return {key: value for key, value in inner.value.items() if isinstance(value, str)}

    def _member(self, name: str, *, expected: str) -> ExactValue:
        value = self.raw(name)
        if name in self.value and not isinstance(value, str):
            self._wrong(name, expected=expected, found=shown(value))
        return value

    def _list(self, name: str, *, maximum_count: int) -> list[ExactValue]:
        value = self.raw(name)
        if name not in self.value:
            return []
        if not isinstance(value, list) or not value:
            self._wrong(name, expected="a list that is not empty", found=shown(value))
            return []
        if len(value) > maximum_count:
            self._wrong(name, expected=f"at most {maximum_count} elements", found=f"{len(value)} elements")
            return []
        return value

    def _wrong(self, name: str, *, expected: str, found: str) -> None:
        self.problems.add(self.place(name), expected=expected, found=found)


def _is_within(value: ExactValue, minimum: int, maximum: int | None) -> bool:
    return type(value) is int and value >= minimum and (maximum is None or value <= maximum)


def _bounds(minimum: int, maximum: int | None) -> str:
    return f"an integer ≥ {minimum}" if maximum is None else f"an integer from {minimum} to {maximum}"
