"""Templates read literally: every way a line may be wrong, with file and line."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.profiles.documents import MAX_DOCUMENT_BYTES, ProfileDocumentError, read_profile_document
from app.core.profiles.template import MAX_TEMPLATE_KEYS, is_placeholder, read_template, read_template_set
from tests.core import profile_rig as rig


def refused(raw: bytes) -> ProfileDocumentError:
    with pytest.raises(ProfileDocumentError) as caught:
        read_template(raw, name="a.env")
    return caught.value


def test_assignments_are_taken_literally_and_in_order() -> None:
    raw = b'# note\n\nB=1\nA==rocep1s0f0,roceP2p1s0f0\nE=\nQ="quoted" $X # no comment \n'
    template = read_template(raw, name="a.env")
    assert list(template.pairs.items()) == [
        ("B", "1"),
        ("A", "=rocep1s0f0,roceP2p1s0f0"),
        ("E", ""),
        ("Q", '"quoted" $X # no comment '),
    ]
    assert template.lines == {"B": 3, "A": 4, "E": 5, "Q": 6}
    assert template.sha256 == rig.sha(raw)


@pytest.mark.parametrize(
    ("raw", "code", "line"),
    [
        (b"A=1\nB\n", "TPL_SYNTAX", 2),
        (b"a=1\n", "TPL_SYNTAX", 1),
        (b"=1\n", "TPL_SYNTAX", 1),
        (b"1A=1\n", "TPL_SYNTAX", 1),
        (b"A =1\n", "TPL_SYNTAX", 1),
        (b"export A=1\n", "TPL_SYNTAX", 1),
        ("Ä=1\n".encode(), "TPL_SYNTAX", 1),
        (b"A=1\nB=2\nA=1\n", "TPL_DUP_KEY", 3),
        (b"\xef\xbb\xbfA=1\n", "TPL_VALUE", 1),
        (b"A=1\r\n", "TPL_VALUE", 1),
        (b" A=1\n", "TPL_VALUE", 1),
        (b"\tA=1\n", "TPL_VALUE", 1),
        (b"A=1\n # late\n", "TPL_VALUE", 2),
        (b"A=1\n   \n", "TPL_VALUE", 2),
        (b"A=a\0b\n", "TPL_VALUE", 1),
        (b"A=\x1b[0m\n", "TPL_VALUE", 1),
        (b"A=1\nB=\xff\n", "TPL_VALUE", 2),
    ],
)
def test_a_wrong_line_is_named(raw: bytes, code: str, line: int) -> None:
    error = refused(raw)
    assert error.code == code
    assert f"a.env line {line}:" in error.found


def test_the_text_of_a_wrong_line_is_never_told() -> None:
    raw = b"SERVER_KEY=-----BEGIN\nhush\nhush+hush==\n hush=1\nHF=\x01hush\n"
    assert "hush" not in str(refused(raw).findings)


def test_a_key_twice_is_named_by_its_key() -> None:
    assert refused(b"A=1\nA=2\n").pointer == "/A"


def test_every_offence_is_told_up_to_a_hundred() -> None:
    assert [one.code for one in refused(b"x\nA=1\nA=2\n B=1\n").findings] == [
        "TPL_SYNTAX",
        "TPL_DUP_KEY",
        "TPL_VALUE",
    ]
    assert len(refused(b"x\n" * 100_000).findings) == 100


def test_a_carriage_return_inside_a_line_ends_no_line() -> None:
    assert refused(b"A=1\rB=2\n").code == "TPL_VALUE"


def test_ten_thousand_keys_are_refused_at_the_first_too_many() -> None:
    raw = b"".join(b"K%d=1\n" % number for number in range(10_000))
    error = refused(raw)
    assert (error.code, len(error.findings)) == ("DOC_TOO_LARGE", 1)
    assert f"line {MAX_TEMPLATE_KEYS + 1}:" in error.found


def test_two_thousand_keys_are_read() -> None:
    raw = b"".join(b"K%d=1\n" % number for number in range(MAX_TEMPLATE_KEYS))
    assert len(read_template(raw, name="a").pairs) == MAX_TEMPLATE_KEYS


@pytest.mark.parametrize("line", [b"\n", b"#\n"])
def test_a_template_of_nothing_but_lines_ends_early_in_bounded_memory(line: bytes) -> None:
    raw = line * (MAX_DOCUMENT_BYTES // len(line))
    tracemalloc.start()
    error = refused(raw)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert error.code == "DOC_TOO_LARGE"
    assert "line 100001:" in error.found
    assert peak < 8 * MAX_DOCUMENT_BYTES
    assert read_template(line * 100_000, name="a").pairs == {}


@pytest.mark.parametrize(("value", "open_"), [("<x>", True), ("a>b", True), ("${X}", True), ("$X", False)])
def test_placeholders(value: str, open_: bool) -> None:
    assert is_placeholder(value) is open_


def _set(assignments: object) -> bytes:
    templates = {"a.env.example": {"assignments": assignments, "original_sha256": "ab" * 32}}
    return rig.dump({"schema": "steering-derived-env-templates/v1", "templates": templates})


def test_a_set_of_templates_keeps_the_published_digest_apart() -> None:
    template = read_template_set(read_profile_document(_set([["A", "=1"]])))["a.env.example"]
    assert (template.pairs, template.sha256, template.published_sha256) == ({"A": "=1"}, None, "ab" * 32)


@pytest.mark.parametrize(
    ("assignments", "code"),
    [
        ({}, "DOC_FIELD"),
        ([["A"]], "DOC_FIELD"),
        ([["A", 1]], "DOC_FIELD"),
        ([["a", "1"]], "TPL_SYNTAX"),
        ([["A", "1"], ["A", "1"]], "TPL_DUP_KEY"),
        ([["A", "\n"]], "TPL_VALUE"),
        ([["A", "1"]] * 2001, "DOC_TOO_LARGE"),
    ],
)
def test_a_set_is_held_to_the_same_rules(assignments: object, code: str) -> None:
    with pytest.raises(ProfileDocumentError) as caught:
        read_template_set(read_profile_document(_set(assignments)))
    assert caught.value.code == code


@given(st.binary(max_size=200))
def test_any_bytes_are_a_template_or_a_refusal(raw: bytes) -> None:
    values: list[str] = []
    try:
        values = list(read_template(raw, name="a.env").pairs.values())
    except ProfileDocumentError as error:
        values = [one.code for one in error.findings]
    assert all("\n" not in value and "\r" not in value for value in values)


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z][A-Z0-9_]{0,9}", fullmatch=True),
        st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=20),
        max_size=20,
    )
)
def test_what_is_written_is_read_again(pairs: dict[str, str]) -> None:
    raw = "".join(f"{key}={value}\n" for key, value in pairs.items()).encode()
    assert dict(read_template(raw, name="a").pairs) == pairs
