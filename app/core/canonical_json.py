"""JSON read strictly and written in one form (store-format §3).

Two texts of one value are two documents: a digest covers bytes. So a hashed document is accepted only in
the one spelling its writer must have used, which also disposes of duplicate keys, byte-order marks and
escapes.
"""

import functools
import json
import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, NoReturn, TypeAlias

from app.core.errors import FormatError, Stage, shown

# Recommended limits, store-format §19.
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 16
# The widest legal number is a 64-bit one; 128 digits leave room to quote a wrong one in full.
MAX_NUMBER_CHARACTERS = 128

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"
ExactValue: TypeAlias = "bool | int | Decimal | str | list[ExactValue] | dict[str, ExactValue] | None"
"""JSON with every fraction as the decimal it is written as: ``0.030`` stays ``0.030``."""

# Possessive: an unterminated string is one match to the end of the document, never a second try.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLimits:
    """How large a foreign document may be: bytes, levels of nesting, characters of one number, values.

    ``constants`` lets ``NaN`` and ``Infinity`` stand as decimals, for rules of people who do
    (``decode_exact`` only).
    """

    byte_count: int = MAX_DOCUMENT_BYTES
    depth: int = MAX_DEPTH
    number_characters: int = MAX_NUMBER_CHARACTERS
    values: int | None = None
    constants: bool = False


class CanonicalForm(StrEnum):
    """The named canonical forms; a document carries the name of the one it is hashed in."""

    SPARKCACHE_V1 = "sparkcache-canonical-json/v1"


def encode_canonical(value: JsonValue) -> bytes:
    """Encode in ``sparkcache-canonical-json/v1``: ASCII, sorted keys, no blanks (store-format §3).

    Raises:
        ValueError: the value holds NaN or an infinity; our own documents hold no floats at all.
    """
    return _CANONICAL.encode(value).encode("ascii")


def encode_verbatim(value: JsonValue) -> bytes:
    """Encode compactly in UTF-8, nothing but the necessary escaped (the scope text, store-format §20.8).

    Raises:
        UnicodeEncodeError: a string holds an unpaired surrogate.
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")


def encode_exact(value: ExactValue) -> bytes:
    """Encode canonically with numbers in Python's shortest form: ``0.030`` becomes ``0.03``
    (evidence-model §11).

    This is the form in which evidence documents hash parts of themselves.
    """
    return encode_canonical(_with_floats(value))


def decode_exact(raw: bytes, *, subject: str, limits: JsonLimits) -> ExactValue:
    """Parse a foreign JSON document as strictly as ``decode_strict``, every number kept exactly.

    Raises:
        FormatError: as ``decode_strict``, with ``limits`` for size, depth and length of numbers.
    """
    value: ExactValue = _decode(raw, subject=subject, stage=Stage.METADATA, limits=limits, exact=True)
    return value


def decode_strict(raw: bytes, *, subject: str, stage: Stage = Stage.METADATA) -> JsonValue:
    """Parse JSON in any spelling, within bounded time and memory.

    Booleans and fractions keep their own types (store-format §3 item 5).

    Args:
        raw: the document as read.
        subject: what the document is, for messages.
        stage: the lookup stage a refusal belongs to.

    Raises:
        FormatError: over 16 MiB, nested over 16 deep, not UTF-8, with a byte-order mark, NaN, infinity,
            duplicate key, unpaired surrogate, number over 128 characters, or not JSON.
    """
    value: JsonValue = _decode(raw, subject=subject, stage=stage, limits=_OUR_LIMITS, exact=False)
    return value


def decode_canonical(raw: bytes, *, subject: str, stage: Stage = Stage.METADATA) -> JsonValue:
    """Parse a document that must stand in its canonical spelling (store-format §3, strict reading rule).

    Raises:
        FormatError: as ``decode_strict``, or the bytes differ from the canonical encoding of their value.
    """
    value = decode_strict(raw, subject=subject, stage=stage)
    if encode_canonical(value) != raw:
        raise FormatError(
            subject,
            expected="canonical JSON (sorted, compact, ASCII)",
            found="another spelling of its value",
            stage=stage,
        )
    return value


def expect_object(value: JsonValue, *, subject: str, keys: frozenset[str] | None = None) -> JsonObject:
    """Take a value as an object, with exactly ``keys`` if given.

    Raises:
        FormatError: not an object, or a key is missing or additional (the names are listed).
    """
    if not isinstance(value, dict):
        raise FormatError(subject, expected="an object", found=shown(value))
    if keys is not None and value.keys() != keys:
        raise FormatError(
            subject,
            expected=f"exactly the keys {', '.join(sorted(keys))}",
            found=f"missing {shown(sorted(keys - value.keys()))}, extra {shown(sorted(value.keys() - keys))}",
        )
    return value


def expect_list(value: JsonValue, *, subject: str, maximum: int | None = None) -> list[JsonValue]:
    """Take a value as a non-empty list of at most ``maximum`` elements.

    Raises:
        FormatError: not a list, empty, or too long.
    """
    if not isinstance(value, list) or not value:
        raise FormatError(subject, expected="a non-empty list", found=shown(value))
    if maximum is not None and len(value) > maximum:
        raise FormatError(subject, expected=f"at most {maximum} elements", found=f"{len(value)} elements")
    return value


def expect_int(value: JsonValue, *, subject: str, minimum: int, maximum: int | None = None) -> int:
    """Take a value as an integer of exact type: ``true`` and ``4.0`` are none (store-format §17).

    Raises:
        FormatError: another type, or outside ``minimum … maximum``.
    """
    upper = "" if maximum is None else f" and ≤ {maximum}"
    if type(value) is not int or value < minimum or (maximum is not None and value > maximum):
        raise FormatError(subject, expected=f"an integer ≥ {minimum}{upper}", found=shown(value))
    return value


def expect_text(value: JsonValue, *, subject: str) -> str:
    """Take a value as a non-empty string.

    Raises:
        FormatError: not a string, or empty.
    """
    if not isinstance(value, str) or not value:
        raise FormatError(subject, expected="a non-empty string", found=shown(value))
    return value


class _RefusedError(ValueError):
    """A JSON text that Python's decoder would let through."""

    def __init__(self, *, expected: str, found: str) -> None:
        super().__init__(expected, found)
        self.expected = expected
        self.found = found


def _decode(raw: bytes, *, subject: str, stage: Stage, limits: JsonLimits, exact: bool) -> Any:
    """The value as the decoder builds it; only the two public functions know its type."""
    if len(raw) > limits.byte_count:
        raise FormatError(
            subject, expected=f"at most {limits.byte_count} bytes", found=f"{len(raw)} bytes", stage=stage
        )
    _check_shape(raw, subject=subject, stage=stage, limits=limits)
    try:
        value = _decoder(limits, exact=exact).decode(raw.decode("utf-8"))
        _check_surrogates(raw, value=value)
    except _RefusedError as error:
        raise FormatError(subject, expected=error.expected, found=error.found, stage=stage) from None
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise FormatError(
            subject, expected="Unicode text in UTF-8", found=error.reason, stage=stage
        ) from None
    except ValueError as error:
        raise FormatError(subject, expected="one JSON value", found=str(error), stage=stage) from None
    return value


def _check_shape(raw: bytes, *, subject: str, stage: Stage, limits: JsonLimits) -> None:
    if limits.values is not None and _separates(raw, limits.values):
        raise FormatError(subject, expected=f"at most {limits.values} values", found="more", stage=stage)
    without_strings = _STRING.sub(b"", raw)
    depth = 0
    for bracket in without_strings.translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > limits.depth:
            raise FormatError(
                subject, expected=f"at most {limits.depth} levels of nesting", found="more", stage=stage
            )


def _separates(raw: bytes, values: int) -> bool:
    """Whether that many commas stand outside strings; stops there and holds nothing of the document."""
    if raw.count(b",") < values:
        return False
    commas = end = 0
    for string in _STRING.finditer(raw):
        commas += raw.count(b",", end, string.start())
        if commas >= values:
            return True
        end = string.end()
    return commas + raw.count(b",", end) >= values


def _check_surrogates(raw: bytes, *, value: Any) -> None:
    """An unpaired surrogate has no UTF-8 form; only an escape can have brought one in."""
    if _SURROGATE_ESCAPE.search(raw):
        json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")


def _take_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    taken = dict(pairs)
    if len(taken) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _RefusedError(expected="every key once", found=f"{shown(twice)} more than once")
    return taken


class _Numbers:
    """Takes the numbers of one document within its limits."""

    def __init__(self, limits: JsonLimits) -> None:
        self._most = limits.number_characters

    def take_int(self, text: str) -> int:
        self._check(text)
        return int(text)

    def take_float(self, text: str) -> float:
        self._check(text)
        number = float(text)
        if not math.isfinite(number):
            raise _RefusedError(expected="a finite number", found=shown(text))
        return number

    def take_decimal(self, text: str) -> Decimal:
        self.take_float(text)
        try:
            return Decimal(text)
        except InvalidOperation:
            raise _RefusedError(expected="an exponent a decimal can have", found=shown(text)) from None

    def _check(self, text: str) -> None:
        if len(text) > self._most:
            raise _RefusedError(
                expected=f"numbers of at most {self._most} characters", found=f"one of {len(text)}"
            )


def _refuse_constant(name: str) -> NoReturn:
    raise _RefusedError(expected="a JSON number", found=name)


@functools.cache
def _decoder(limits: JsonLimits, *, exact: bool) -> json.JSONDecoder:
    numbers = _Numbers(limits)
    return json.JSONDecoder(
        object_pairs_hook=_take_pairs,
        parse_int=numbers.take_int,
        parse_float=numbers.take_decimal if exact else numbers.take_float,
        parse_constant=Decimal if exact and limits.constants else _refuse_constant,
    )


def _with_floats(value: ExactValue) -> JsonValue:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_with_floats(element) for element in value]
    if isinstance(value, dict):
        return {name: _with_floats(member) for name, member in value.items()}
    return value


_OUR_LIMITS = JsonLimits()
# Made once: a document of evidence is hashed in a dozen parts, and making one costs as much as a part.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
