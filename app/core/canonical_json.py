"""JSON read strictly and written in one form (store-format §3).

Two texts of one value are two documents: a digest covers bytes. So a hashed document is accepted only in the
one spelling its writer must have used, which also disposes of duplicate keys, byte-order marks and escapes.
"""

import json
import math
import re
from enum import StrEnum
from typing import NoReturn, TypeAlias

from app.core.errors import FormatError, Stage, shown

# Recommended limits, store-format §19.
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 16
# The widest legal number is a 64-bit one; 128 digits leave room to quote a wrong one in full.
MAX_NUMBER_CHARACTERS = 128

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"

# Possessive: an unterminated string is one match to the end of the document, never a second try.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class CanonicalForm(StrEnum):
    """The named canonical forms; a document carries the name of the one it is hashed in."""

    SPARKCACHE_V1 = "sparkcache-canonical-json/v1"


def encode_canonical(value: JsonValue) -> bytes:
    """Encode in ``sparkcache-canonical-json/v1``: ASCII, sorted keys, no blanks (store-format §3).

    Raises:
        ValueError: the value holds NaN or an infinity; our own documents hold no floats at all.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def encode_verbatim(value: JsonValue) -> bytes:
    """Encode compactly in UTF-8, nothing but the necessary escaped (the scope text, store-format §20.8).

    Raises:
        UnicodeEncodeError: a string holds an unpaired surrogate.
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")


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
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise FormatError(
            subject, expected=f"at most {MAX_DOCUMENT_BYTES} bytes", found=f"{len(raw)} bytes", stage=stage
        )
    _check_depth(raw, subject=subject, stage=stage)
    try:
        value: JsonValue = _DECODER.decode(raw.decode("utf-8"))
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


def _check_depth(raw: bytes, *, subject: str, stage: Stage) -> None:
    depth = 0
    for bracket in _STRING.sub(b"", raw).translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise FormatError(
                subject, expected=f"at most {MAX_DEPTH} levels of nesting", found="more", stage=stage
            )


def _check_surrogates(raw: bytes, *, value: JsonValue) -> None:
    """An unpaired surrogate has no UTF-8 form; only an escape can have brought one in."""
    if _SURROGATE_ESCAPE.search(raw):
        encode_verbatim(value)


def _take_pairs(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    taken = dict(pairs)
    if len(taken) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _RefusedError(expected="every key once", found=f"{shown(twice)} more than once")
    return taken


def _take_int(text: str) -> int:
    _check_number(text)
    return int(text)


def _take_float(text: str) -> float:
    _check_number(text)
    number = float(text)
    if not math.isfinite(number):
        raise _RefusedError(expected="a finite number", found=text)
    return number


def _check_number(text: str) -> None:
    if len(text) > MAX_NUMBER_CHARACTERS:
        raise _RefusedError(
            expected=f"numbers of at most {MAX_NUMBER_CHARACTERS} characters", found=f"one of {len(text)}"
        )


def _refuse_constant(name: str) -> NoReturn:
    raise _RefusedError(expected="a JSON number", found=name)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_take_pairs,
    parse_int=_take_int,
    parse_float=_take_float,
    parse_constant=_refuse_constant,
)
