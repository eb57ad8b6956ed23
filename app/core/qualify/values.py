"""A value read from a document, or the reason why there is none (evidence-model §5, §16).

Missing is a value: a rule asks ``isinstance(fact, Found)`` and otherwise learns where the value was
sought and what stood there instead. Nothing here judges.
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

Number: TypeAlias = int | Decimal
T = TypeVar("T", covariant=True)


class Basis(StrEnum):
    """How far a value can be checked again, strongest first (§16)."""

    DEMONSTRATED = "demonstrated"
    """The value itself is recorded and can be compared or derived again from stored bytes."""
    SELF_CONSISTENT = "self-consistent"
    """One of two recorded values of the same run; they can be compared, neither can be derived again."""
    ATTESTED = "attested"
    """A boolean, a count, a name or a sentence says so."""


class Gap(StrEnum):
    """Why there is no value."""

    UNMAPPED = "unmapped"
    """Documents of this schema have no place for it."""
    ABSENT = "absent"
    """The place does not exist in this document."""
    NULL = "null"
    """The place holds ``null``: the writer knew it and had nothing."""
    WRONG_TYPE = "wrong-type"
    """Something of another JSON type stands there (``true`` and ``4.0`` are no integers)."""
    MALFORMED = "malformed"
    """Right type, wrong form: an upper-case, short or all-zero digest, a negative count
    (``DIGEST_MALFORMED``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[T]):
    """A value, the JSON pointer it stands at (RFC 6901, in its own document) and its basis."""

    value: T
    pointer: str
    basis: Basis = Basis.DEMONSTRATED


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """No value: ``pointer`` is the first place it was sought at, ``found`` what stood there (bounded
    text)."""

    gap: Gap
    pointer: str = ""
    found: str = ""


Fact: TypeAlias = Found[T] | Missing

UNMAPPED = Missing(gap=Gap.UNMAPPED)
