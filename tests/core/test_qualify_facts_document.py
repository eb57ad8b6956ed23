"""Strict decode of evidence documents: what is refused, where, and what numbers become (evidence-model
§7.2, §11).
"""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.canonical_json import encode_exact
from app.core.errors import CoreError, DocumentError
from app.core.qualify.document import MAX_RECEIPT_BYTES, canonical_digest, read_document

_SIGNS = '{}[]",:\\ue1-0.dtrfalsn \n'


def refusal(raw: bytes) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        read_document(raw, subject="receipt.json")
    return caught.value


@pytest.mark.parametrize(
    ("raw", "pointer", "offset", "expected"),
    [
        (b'{"a":{"b":[1,{"c":1,"c":2}]}}', "/a/b/1/c", 20, "every key once"),
        (b'{"ab":1,"a\\u0062":2}', "/ab", 8, "every key once"),
        (b'{"a":NaN}', "/a", 5, "a JSON number"),
        (b'{"a":[0,-Infinity]}', "/a/1", 8, "a JSON number"),
        (b'{"a":1e999}', "/a", 5, "a finite number"),
        (b'{"a":["\\ud800"]}', "/a/0", 6, "Unicode text in UTF-8"),
        (b'{"a":' + b"9" * 4097 + b"}", "/a", 5, "numbers of at most 4096 characters"),
        (b'{"a":1,}', "/a", 7, "one JSON value"),
        (b'{"a":[1,2', "/a/1", 9, "one JSON value"),
        (b'{"a":1}{}', "", 7, "one JSON value"),
        (b'{"a/b":{"c~d":tru}}', "/a~1b/c~0d", 14, "one JSON value"),
        (b'{"a":\n<<<<<<< HEAD\n1}', "/a", 6, "one JSON value"),
        (b'{"a":01}', "/a", 5, "one JSON value"),
        (b'{"a":"x\ny"}', "/a", 5, "one JSON value"),
        (b'{"\xc3\xa9":1,"b":nul}', "/b", 12, "one JSON value"),
    ],
)
def test_a_refusal_says_where_and_what_was_expected(
    raw: bytes, pointer: str, offset: int, expected: str
) -> None:
    error = refusal(raw)
    assert (error.pointer, error.offset, error.expected) == (pointer, offset, expected)
    assert error.subject == "receipt.json"


def test_a_document_nested_too_deep_is_refused_at_the_level() -> None:
    error = refusal(b'{"a":' * 32 + b"[]" + b"}" * 32)
    assert error.expected == "at most 32 levels of nesting"
    assert error.pointer == "/a" * 32
    read_document(b'{"a":' * 31 + b"[]" + b"}" * 31)


def test_a_byte_order_mark_is_named() -> None:
    assert refusal(b"\xef\xbb\xbf{}").expected == "UTF-8 without a byte-order mark"


def test_bytes_that_are_no_text_are_refused_at_the_byte() -> None:
    error = refusal(b'{"a":"\xff"}')
    assert (error.expected, error.offset) == ("Unicode text in UTF-8", 6)


def test_a_document_above_the_limit_is_refused_whole() -> None:
    read_document(b"[" + b" " * (MAX_RECEIPT_BYTES - 2) + b"]")
    error = refusal(b"[" + b" " * (MAX_RECEIPT_BYTES - 1) + b"]")
    assert error.expected == f"at most {MAX_RECEIPT_BYTES} bytes"
    assert error.found == f"{MAX_RECEIPT_BYTES + 1} bytes"


def test_a_document_of_too_many_values_is_refused() -> None:
    read_document(b"[" + b"1," * 249_999 + b"1]")
    assert refusal(b"[" + b"1," * 250_000 + b"1]").expected == "at most 250000 values"
    read_document(b'{"a":"' + b"," * 300_000 + b'"}')


def test_the_search_for_the_place_is_bounded() -> None:
    error = refusal(b"[" + b"1," * 200_000 + b"x]")
    assert (error.pointer, error.offset) == ("", 0)
    assert "char 400001" in error.found


def test_numbers_are_kept_as_written() -> None:
    raw = b'{"a":0.030,"b":123456789012345678901234567890,"c":1e-400,"d":132.0,"e":-0.0}'
    assert read_document(raw).value == {
        "a": Decimal("0.030"),
        "b": 123456789012345678901234567890,
        "c": Decimal("1e-400"),
        "d": Decimal("132.0"),
        "e": Decimal("-0.0"),
    }
    value = read_document(raw).value
    assert isinstance(value, dict)
    assert [str(value[name]) for name in "ade"] == ["0.030", "132.0", "-0.0"]


def test_the_canonical_form_has_pythons_shortest_numbers() -> None:
    value = read_document(b'{"b": 0.030, "a": [132.0, 1, 1E5], "\xc3\xa9": "\xc3\xa9"}').value
    assert encode_exact(value) == b'{"a":[132.0,1,100000.0],"b":0.03,"\\u00e9":"\\u00e9"}'


def test_the_digest_of_an_empty_list_is_the_one_upstream_records() -> None:
    assert canonical_digest([]).startswith("4f53cda1")


def refused(raw: bytes) -> CoreError | None:
    try:
        read_document(raw)
    except CoreError as error:
        return error
    return None


@given(raw=st.one_of(st.binary(max_size=200), st.text(alphabet=_SIGNS, max_size=60).map(str.encode)))
def test_any_bytes_are_a_document_or_a_refusal_with_a_place(raw: bytes) -> None:
    error = refused(raw)
    if error is not None:
        assert isinstance(error, DocumentError)
        assert error.expected
        assert error.found
        assert 0 <= error.offset <= len(raw)


def test_the_file_with_merge_markers_is_refused_where_they_begin(shared_dir: Path) -> None:
    (path,) = (shared_dir / "evidence" / "_malformed").rglob("*.json")
    raw = path.read_bytes()
    error = refusal(raw)
    assert raw[error.offset :].startswith(b"<<<<<<<")
    assert error.pointer == "/qualification/tp4-dcp4-sparkcache/record"
