"""The question document: one spelling, every field judged, every refusal with its name."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from app.core.canonical_json import encode_canonical
from app.core.digest import Digest, sha256
from app.core.errors import FormatError, IncompatibleError
from app.core.oracle.agreement import Agreement, compare, normalise
from app.core.oracle.attention import prompt, prompt_sha256
from app.core.oracle.question import (
    MOST_BYTES,
    OracleQuestion,
    parse_question,
    require_question_fits,
)
from app.core.store.context import context_digest, salt_v3
from app.core.store.snapshot import PageLayout
from app.core.store.synth.inputs import page_identity

from .oracle_rig import RANKS, layout_of, question_of


@pytest.fixture(scope="module")
def question() -> OracleQuestion:
    return question_of(3)


def test_it_is_read_as_it_is_written_is_small_and_holds_no_fraction(question: OracleQuestion) -> None:
    raw = question.to_bytes()
    assert parse_question(raw) == question
    assert len(raw) < 1024
    assert question.sha256 == sha256(raw)
    assert b"." not in encode_canonical({k: v for k, v in json.loads(raw).items() if isinstance(v, int)})


def test_its_context_is_that_of_its_prompt(question: OracleQuestion) -> None:
    layout, span_tokens = layout_of()
    identity = page_identity(layout, ranks=RANKS, rank=2)
    tokens = [int(token) for token in prompt(question, word="red")]
    assert len(tokens) == span_tokens == question.span_tokens
    assert question.context_digest == context_digest(tokens, salt=salt_v3(identity))


def test_the_control_differs_in_one_token_and_is_as_long(question: OracleQuestion) -> None:
    asked, control = prompt(question, word=question.expected), prompt(question, word=question.control)
    assert len(asked) == len(control)
    assert list((asked != control).nonzero()[0]) == [
        question.needle_line * question.block_tokens + question.mark_offset
    ]
    assert prompt_sha256(question, word="red") != prompt_sha256(question, word="blue")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"schema": "sparkgate-oracle/v2"}, r"oracle question\.schema"),
        ({"seed": -1}, r"\.seed"),
        ({"seed": True}, r"\.seed"),
        ({"seed": 1.0}, r"\.seed"),
        ({"span_tokens": 500}, r"\.span_tokens: expected a multiple of 256"),
        ({"span_tokens": 256, "block_tokens": 256}, r"\.span_tokens: expected 2 … 8192 blocks, found 1"),
        ({"block_tokens": 1, "span_tokens": 16_384}, r"blocks, found 16384"),
        ({"block_tokens": 0}, r"\.block_tokens"),
        ({"window_tokens": 65}, r"\.window_tokens: expected a multiple of 64"),
        ({"heads": 9}, r"\.heads: expected a multiple of 4"),
        ({"heads": 516}, r"\.heads: expected ≤ 128 per rank, found 129"),
        ({"window_tokens": 2**18}, r"\.window_tokens: expected ≤ 262144 over heads, found 524288"),
        ({"heads": 512, "head_dim": 128}, r"\.block_tokens: expected ≤ 1048576 bytes a page, found 2097152"),
        ({"head_dim": 96}, r"\.head_dim: expected a multiple of 64"),
        ({"dtype": "bfloat16"}, r"\.dtype: expected float16 or float32"),
        ({"mark_offset": 64}, r"\.mark_offset: expected < 64"),
        ({"needle_line": 8}, r"\.needle_line: expected < 8"),
        ({"value_layer": "model.layers.000.oracle_attn.k_cache"}, r"\.value_layer"),
        ({"words": []}, r"\.words: expected a non-empty list"),
        ({"words": ["red", "blue", "spark", "red"]}, r"\.words"),
        ({"words": ["red", "blue", "Spark"]}, r"\.words"),
        ({"words": ["red", "blue", "spark", "a", "b", "c", "d", "e"]}, r"\.words: expected at most 7"),
        ({"expected": "teal"}, r"\.expected: expected one of red"),
        ({"control": "red"}, r"\.control: expected expected, control and fallback to be three"),
        ({"fallback": "blue"}, r"three different words"),
        ({"context_digest": "ab"}, r"\.context_digest"),
        ({"layout_sha256": 7}, r"\.layout_sha256"),
        ({"extra": 1}, r"extra \['extra'\]"),
    ],
)
def test_a_wrong_value_is_named(question: OracleQuestion, changes: dict[str, Any], named: str) -> None:
    document = {**json.loads(question.to_bytes()), **changes}
    with pytest.raises(FormatError, match=named):
        parse_question(encode_canonical(document))


@pytest.mark.parametrize("name", ["schema", *(item.name for item in fields(OracleQuestion))])
def test_every_field_is_needed(question: OracleQuestion, name: str) -> None:
    document = json.loads(question.to_bytes())
    del document[name]
    with pytest.raises(FormatError, match=rf"missing \['{name}'\]|schema"):
        parse_question(encode_canonical(document))


def test_another_spelling_too_many_bytes_and_no_json_are_refused(question: OracleQuestion) -> None:
    raw = question.to_bytes()
    for bad in (raw + b"\n", raw.replace(b":", b": ", 1), b"[]", b"\xff", b""):
        with pytest.raises(FormatError):
            parse_question(bad)
    with pytest.raises(FormatError, match="at most 65536 bytes"):
        parse_question(raw + bytes(MOST_BYTES))


def test_it_fits_its_snapshot_and_no_other(question: OracleQuestion) -> None:
    layout, span_tokens = layout_of()
    facts: dict[str, Any] = {
        "context_digest": question.context_digest,
        "layout": layout,
        "ranks": RANKS,
        "span_tokens": span_tokens,
    }
    require_question_fits(question, **facts)
    for name, other in (
        ("context_digest", Digest("ab" * 32)),
        ("ranks", 2),
        ("span_tokens", 1024),
        ("layout", PageLayout(groups=layout.groups[:1])),
    ):
        with pytest.raises(IncompatibleError, match=f"oracle question.{name}"):
            require_question_fits(question, **{**facts, name: other})


def test_a_layer_that_is_not_as_the_question_says_is_named(question: OracleQuestion) -> None:
    layout, _ = layout_of()
    facts: dict[str, Any] = {
        "context_digest": question.context_digest,
        "layout": layout,
        "ranks": RANKS,
        "span_tokens": question.span_tokens,
    }
    with pytest.raises(IncompatibleError, match="a layer nowhere"):
        require_question_fits(replace(question, key_layer="nowhere"), **facts)
    with pytest.raises(IncompatibleError, match="32768 bytes per page, found full, 64 tokens and 16384"):
        require_question_fits(replace(question, dtype="float32"), **facts)
    elsewhere = layout.groups[1].layers[0].name
    with pytest.raises(IncompatibleError, match=f"layer {elsewhere}: expected reuse policy full"):
        require_question_fits(replace(question, value_layer=elsewhere), **facts)


@pytest.mark.parametrize(
    ("expected", "observed", "agreement"),
    [
        ("red", " Red\n", Agreement.EXACT),
        ("red", "red", Agreement.EXACT),
        ("red", "the answer is red", Agreement.SUFFIX),
        ("red", "red.", Agreement.NONE),
        ("red", "spark", Agreement.NONE),
        ("red", "", Agreement.NONE),
        ("", "red", Agreement.NONE),
        ("", " ", Agreement.EXACT),
    ],
)
def test_only_the_exact_answer_qualifies(expected: str, observed: str, agreement: Agreement) -> None:
    assert compare(expected=expected, observed=observed) is agreement
    assert agreement.qualifies is (agreement is Agreement.EXACT)
    assert normalise(" Red\t") == "red"
