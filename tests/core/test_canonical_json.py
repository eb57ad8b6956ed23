"""One value, one spelling; anything else is refused within bounded time (store-format §3)."""

import json
import sys
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.canonical_json import (
    MAX_DEPTH,
    MAX_DOCUMENT_BYTES,
    JsonLimits,
    decode_canonical,
    decode_exact,
    decode_strict,
    encode_canonical,
    expect_int,
    expect_list,
    expect_object,
)
from app.core.errors import FormatError, Stage

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)

BAD = {
    "empty": b"",
    "blank": b" ",
    "no value": b"nope",
    "cut": b'{"a":1',
    "two values": b"{}{}",
    "trailing nul": b"{}\0",
    "trailing comma": b"[1,]",
    "single quotes": b"{'a':1}",
    "comment": b"{}//x",
    "duplicate key": b'{"a":1,"a":1}',
    "duplicate key spelled differently": b'{"a":1,"\\u0061":2}',
    "duplicate key inside": b'[{"b":{"a":1,"a":2}}]',
    "nan": b'{"a":NaN}',
    "infinity": b"[Infinity]",
    "minus infinity": b"[-Infinity]",
    "float over range": b"[1e999]",
    "byte-order mark": b"\xef\xbb\xbf{}",
    "utf-16": '{"a":1}'.encode("utf-16"),
    "utf-32": '{"a":1}'.encode("utf-32"),
    "not utf-8": b'{"a":"\xff"}',
    "overlong utf-8": b'{"a":"\xc0\xaf"}',
    "raw surrogate": b'{"a":"\xed\xa0\x80"}',
    "unpaired surrogate escape": b'{"a":"\\ud800"}',
    "unpaired surrogate escape in a key": b'{"\\uDC00":1}',
    "raw control character": b'"\x01"',
    "raw newline in a string": b'"a\nb"',
    "bad escape": b'"\\x41"',
    "leading zero": b"[01]",
    "plus sign": b"[+1]",
    "hexadecimal": b"[0x1]",
    "5000-digit number": b"[1" + b"0" * 5000 + b"]",
    "129-digit number": b"[" + b"1" * 129 + b"]",
    "5000-digit fraction": b"[0." + b"1" * 5000 + b"]",
    "17 levels": b"[" * 17 + b"]" * 17,
    "17 mixed levels": b'{"a":[' * 9 + b"]}" * 9,
    "200000 levels": b"[" * 200_000,
    "levels behind an unterminated string": b"[" * 17 + b'"' + b'\\"' * 1000,
}

# The same values as a canonical document, in another spelling.
UNCANONICAL = {
    "pretty": b'{"a": 1}',
    "newline": b'{"a":1}\n',
    "leading blank": b' {"a":1}',
    "unsorted": b'{"b":1,"a":2}',
    "escaped key": b'{"\\u0061":1}',
    "escaped slash": b'{"a":"\\/"}',
    "upper-case escape": b'{"a":"\\u00E9"}',
    "raw non-ascii": '{"a":"é"}'.encode(),
    "raw delete": b'{"a":"\x7f"}',
    "minus zero": b'{"a":-0}',
    "exponent": b'{"a":1E2}',
    "long fraction": b'{"a":4.00}',
}


@pytest.mark.parametrize("raw", BAD.values(), ids=BAD.keys())
def test_refused_with_the_document_named(raw: bytes) -> None:
    with pytest.raises(FormatError, match=r"^thing: ") as refused:
        decode_strict(raw, subject="thing", stage=Stage.HEADER)
    assert refused.value.stage is Stage.HEADER
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("raw", UNCANONICAL.values(), ids=UNCANONICAL.keys())
def test_a_spelling_that_is_not_canonical(raw: bytes) -> None:
    try:
        decode_strict(raw, subject="thing")
    except FormatError:
        pytest.fail("a lenient reader may take this")
    with pytest.raises(FormatError):
        decode_canonical(raw, subject="thing")


def test_sixteen_levels_are_allowed() -> None:
    raw = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert encode_canonical(decode_canonical(raw, subject="thing")) == raw


def test_brackets_inside_strings_are_no_levels() -> None:
    raw = encode_canonical(["[{" * 1000, '"[' * 1000, "\\" * 31 + "[" * 99])
    assert decode_canonical(raw, subject="thing") == json.loads(raw)


def test_a_document_over_the_size_limit() -> None:
    with pytest.raises(FormatError, match=str(MAX_DOCUMENT_BYTES)):
        decode_strict(b'"' + b" " * MAX_DOCUMENT_BYTES + b'"', subject="thing")


def test_a_hostile_string_costs_linear_time() -> None:
    """Quadratic matching would need hours for this."""
    with pytest.raises(FormatError):
        decode_strict(b'"' + b'\\"' * 4_000_000, subject="thing")


def test_the_interpreter_keeps_its_own_limits() -> None:
    decode_strict(b"1", subject="thing")
    assert sys.get_int_max_str_digits() == 4300


def test_booleans_and_fractions_keep_their_type() -> None:
    found = decode_canonical(b"[true,1,1.0,4.5]", subject="thing")
    assert isinstance(found, list)
    assert [type(item) for item in found] == [bool, int, float, float]


@given(VALUES)
def test_encode_and_decode_are_inverse(value: Any) -> None:
    raw = encode_canonical(value)
    assert decode_canonical(raw, subject="thing") == value
    assert raw == json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


@given(VALUES, st.data())
def test_a_changed_byte_is_another_value_or_refused(value: Any, data: st.DataObject) -> None:
    raw = encode_canonical(value)
    index = data.draw(st.integers(0, len(raw) - 1))
    changed = bytearray(raw)
    changed[index] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = decode_canonical(bytes(changed), subject="thing")
    except FormatError:
        return
    assert encode_canonical(found) == changed


@given(st.binary(max_size=64))
def test_no_bytes_raise_anything_but_a_format_error(raw: bytes) -> None:
    with suppress(FormatError):
        decode_strict(raw, subject="thing")


@pytest.mark.parametrize("value", [True, 1.0, "1", None, 0, 11, [1]])
def test_not_an_integer_of_the_range(value: Any) -> None:
    with pytest.raises(FormatError, match="≥ 1 and ≤ 10"):
        expect_int(value, subject="count", minimum=1, maximum=10)


def test_missing_and_additional_keys_are_listed() -> None:
    with pytest.raises(FormatError, match=r"missing \['a'\], extra \['c'\]"):
        expect_object({"b": 1, "c": 2}, subject="thing", keys=frozenset({"a", "b"}))


@pytest.mark.parametrize("value", [[], {}, None, "abc", [1, 2, 3]])
def test_not_a_list_of_the_size(value: Any) -> None:
    with pytest.raises(FormatError):
        expect_list(value, subject="thing", maximum=2)


def test_constants_stand_only_where_they_are_let() -> None:
    raw = b'{"a":NaN,"b":[-Infinity],"c":"NaN"}'
    read = decode_exact(raw, subject="document", limits=JsonLimits(constants=True))
    assert isinstance(read, dict)
    assert str(read["a"]) == "NaN"
    assert read["b"] == [Decimal("-Infinity")]
    assert read["c"] == "NaN"
    for limits in (JsonLimits(), JsonLimits(constants=False)):
        with pytest.raises(FormatError, match="expected a JSON number, found NaN"):
            decode_exact(raw, subject="document", limits=limits)
    with pytest.raises(FormatError, match="expected a JSON number, found NaN"):
        decode_strict(raw, subject="document")
