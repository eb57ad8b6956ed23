"""How two rule sets compare values, and where a receipt's members stand (profile-contract §11, §14, §16).

The published rules are those of a Python program that decodes loosely: ``true`` equals 1, ``false`` equals 0,
NaN is not below 0. Ours take a value only as what it is.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import TypeGuard

from app.core.canonical_json import ExactValue
from app.core.digest import Digest
from app.core.profiles.codes import Severity
from app.core.profiles.findings import CheckResult, ProfileFinding, finding


class RuleSet(StrEnum):
    """Whose rules are applied."""

    UPSTREAM = "upstream"
    """Those of §11 as published."""
    STRICT = "strict"
    """Those, and those of §14 and §18."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One value of a receipt; ``value`` is null where nothing stands at the pointer."""

    pointer: str
    value: ExactValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Comparisons and findings of one judgement."""

    rules: RuleSet
    document_sha256: Digest

    @property
    def strict(self) -> bool:
        """Whether our own rules are asked too."""
        return self.rules is RuleSet.STRICT

    def equal(self, value: ExactValue, wanted: ExactValue) -> bool:
        """Equality; strictly also of type, inside of lists and objects too."""
        if not self.strict:
            return bool(value == wanted)
        if isinstance(value, list) and isinstance(wanted, list):
            return len(value) == len(wanted) and all(map(self.equal, value, wanted))
        return type(value) is type(wanted) and value == wanted

    def positive(self, value: ExactValue) -> bool:
        """A number above 0. A boolean is none; NaN is not below 0, and strictly no number at all."""
        if not is_number(value):
            return False
        if isinstance(value, Decimal) and value.is_nan():
            return not self.strict
        return bool(value > 0)

    def at_least(self, value: ExactValue, minimum: int) -> bool:
        """A number that is not smaller; strictly an integer."""
        if self.strict:
            return type(value) is int and value >= minimum
        if isinstance(value, Decimal) and value.is_nan():
            return False
        return isinstance(value, bool | int | Decimal) and bool(value >= minimum)

    def say(
        self,
        code: str,
        good: bool,
        member: Member,
        *,
        expected: object,
        rank: int | None = None,
        detail: str = "",
        severity: Severity | None = None,
    ) -> ProfileFinding:
        """One rule at one place."""
        return finding(
            code,
            CheckResult.PASS if good else CheckResult.FAIL,
            severity=severity,
            pointer=member.pointer,
            expected=expected,
            found="nothing" if member.value is None else member.value,
            rank=rank,
            detail=detail,
            document_sha256=self.document_sha256,
        )

    def without(self, code: str, result: CheckResult, *, detail: str, pointer: str = "") -> ProfileFinding:
        """A rule that does not apply or cannot be asked."""
        return finding(code, result, pointer=pointer, detail=detail, document_sha256=self.document_sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationReceipt:
    """A decoded activation receipt; whatever shape its members have, they can be asked for."""

    value: dict[str, ExactValue]
    ranks: tuple["RankEntry", ...] = field(default=())

    @classmethod
    def of(cls, value: dict[str, ExactValue]) -> "ActivationReceipt":
        """Take a decoded object; elements of ``ranks`` that are no objects count as empty ones."""
        listed = value.get("ranks")
        entries = listed if isinstance(listed, list) else []
        ranks = tuple(
            RankEntry(index=index, value=entry if isinstance(entry, dict) else {})
            for index, entry in enumerate(entries)
        )
        return cls(value=value, ranks=ranks)

    def member(self, *names: str) -> Member:
        """The value at a path of plain names."""
        place: ExactValue = self.value
        for name in names:
            place = place.get(name) if isinstance(place, dict) else None
        return Member(pointer="/" + "/".join(names), value=place)

    def has(self, name: str) -> bool:
        """Whether a member of the top is there."""
        return name in self.value

    @property
    def profile(self) -> str:
        """The profile it names; empty where that is no text."""
        value = self.value.get("profile")
        return value if isinstance(value, str) else ""

    @property
    def schema(self) -> str:
        """The schema it names; empty where that is no text."""
        value = self.value.get("schema")
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEntry:
    """One element of ``ranks``."""

    index: int
    value: dict[str, ExactValue]

    @property
    def pointer(self) -> str:
        """Its place."""
        return f"/ranks/{self.index}"

    @property
    def number(self) -> int | None:
        """The rank it says it is; none where that is no integer."""
        value = self.value.get("rank")
        return value if type(value) is int else None

    def member(self, name: str) -> Member:
        """One of its values."""
        return Member(pointer=f"{self.pointer}/{name}", value=self.value.get(name))


def is_number(value: ExactValue) -> TypeGuard[int | Decimal]:
    """An integer or fraction; a boolean is none."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def is_finite(value: ExactValue) -> bool:
    """A number that a float can hold."""
    return is_number(value) and math.isfinite(_float(value))


def leaves(value: ExactValue, *, at: str) -> Iterator[str]:
    """The pointers of everything below a place that is neither object nor list of objects."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, at=f"{at}/{name}")
    else:
        yield at


def _float(value: int | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
