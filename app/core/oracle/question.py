"""The question a restore is asked: one document of integers and words from which all else follows.

Prompt, weights and right answer come from its seed; with the page layout and the slots it suffices to compute
an answer from placed pages. Its form is described in docs/FORMAT.md.
"""

import re
from dataclasses import dataclass, fields
from typing import Any, Final

from app.core.canonical_json import (
    JsonObject,
    JsonValue,
    decode_canonical,
    encode_canonical,
    expect_int,
    expect_list,
    expect_object,
    expect_text,
)
from app.core.digest import Digest, sha256
from app.core.errors import FormatError, IncompatibleError, shown
from app.core.store.context import BOUNDARY_TOKENS
from app.core.store.snapshot import PageLayout, ReusePolicy

QUESTION_SCHEMA: Final = "sparkgate-oracle/v1"
MOST_BYTES: Final = 64 * 1024
DTYPE_BYTES: Final = {"float16": 2, "float32": 4}
"""Numbers a page may hold, with their bytes. Keys and values are multiples of ½: both hold them exactly."""
# What the code of the marks can tell apart (attention.py): lines, and words besides the seal.
MOST_LINES: Final = 8192
MOST_WORDS: Final = 7
HEAD_DIM_STEP: Final = 64
# What keeps the work on a rank within some hundred MiB, whoever wrote the question.
MOST_HEADS_PER_RANK: Final = 128
MOST_PAGE_BYTES: Final = 1 << 20
MOST_SCORES: Final = 1 << 18

_SUBJECT: Final = "oracle question"
_WORD: Final = re.compile(r"[a-z]{1,16}")
_DIGESTS: Final = ("context_digest", "layout_sha256")
_TEXTS: Final = ("dtype", "key_layer", "value_layer", "expected", "control", "fallback")
_LIMITS: Final = {
    "span_tokens": (BOUNDARY_TOKENS, 2**24),
    "block_tokens": (1, 4096),
    "seed": (0, 2**63 - 1),
    "generation": (0, 2**15),
    "ranks": (1, 512),
    "heads": (1, 4096),
    "head_dim": (HEAD_DIM_STEP, 256),
    "rope_base": (2, 2**31),
    "sharpness": (1, 64),
    "window_tokens": (1, 2**20),
    "mark_offset": (0, 4095),
    "needle_line": (0, MOST_LINES - 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleQuestion:
    """A prompt with one marked token in every block of it, and what it must be answered.

    Attributes:
        context_digest: of the snapshot whose prompt this is; ``layout_sha256`` of its pages.
        span_tokens: length of the prompt, ``block_tokens`` for each page.
        generation: of the weights: pages of another one are those of the same context, published before.
        ranks: tensor-parallel degree; ``heads`` of all of them together, equally many on each.
        dtype: of the numbers in a page, as in a layout without ``torch.``.
        key_layer: the layer with the keys, not yet rotated; ``value_layer`` the one with the values.
        sharpness: factor on the attention's scores.
        window_tokens: how far back a query looks.
        mark_offset: which token of every block is the marked one.
        needle_line: the block whose mark says the word; the marks of all others confirm their place.
        words: all that can be answered.
        expected: the word of the prompt; ``control`` that of the prompt with the needle's token changed.
        fallback: what is answered if anything at all is missing.
    """

    context_digest: Digest
    layout_sha256: Digest
    span_tokens: int
    block_tokens: int
    seed: int
    generation: int
    ranks: int
    heads: int
    head_dim: int
    dtype: str
    key_layer: str
    value_layer: str
    rope_base: int
    sharpness: int
    window_tokens: int
    mark_offset: int
    needle_line: int
    words: tuple[str, ...]
    expected: str
    control: str
    fallback: str

    def __post_init__(self) -> None:
        _check_geometry(self)
        _check_words(self)

    @property
    def lines(self) -> int:
        """Blocks of the prompt, each with its mark."""
        return self.span_tokens // self.block_tokens

    @property
    def heads_per_rank(self) -> int:
        """Heads whose keys and values one rank holds."""
        return self.heads // self.ranks

    @property
    def bytes_per_page(self) -> int:
        """Bytes of one page of either layer: tokens, heads, dimensions."""
        return self.block_tokens * self.heads_per_rank * self.head_dim * DTYPE_BYTES[self.dtype]

    @property
    def sha256(self) -> Digest:
        """The digest of the document, which names the question."""
        return sha256(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The document in canonical JSON."""
        values: JsonObject = {item.name: getattr(self, item.name) for item in fields(self)}
        return encode_canonical({"schema": QUESTION_SCHEMA, **values, "words": list(self.words)})


def parse_question(raw: bytes, *, subject: str = _SUBJECT) -> OracleQuestion:
    """Read a question document in its only spelling.

    Raises:
        FormatError: over 64 KiB, not canonical JSON, another schema, keys missing or additional, a value of
            another type or out of range, or values that contradict each other.
    """
    if len(raw) > MOST_BYTES:
        raise FormatError(subject, expected=f"at most {MOST_BYTES} bytes", found=f"{len(raw)} bytes")
    keys = frozenset(item.name for item in fields(OracleQuestion)) | {"schema"}
    decoded = expect_object(decode_canonical(raw, subject=subject), subject=subject)
    if decoded.get("schema") != QUESTION_SCHEMA:
        raise FormatError(f"{subject}.schema", expected=QUESTION_SCHEMA, found=shown(decoded.get("schema")))
    wire = expect_object(decoded, subject=subject, keys=keys)
    values: dict[str, Any] = {
        name: expect_int(wire[name], subject=f"{subject}.{name}", minimum=least, maximum=most)
        for name, (least, most) in _LIMITS.items()
    }
    values |= {name: expect_text(wire[name], subject=f"{subject}.{name}") for name in _TEXTS}
    values |= {name: Digest.parse(wire[name], subject=f"{subject}.{name}") for name in _DIGESTS}
    return OracleQuestion(words=_parse_words(wire["words"], subject=subject), **values)


def require_question_fits(
    question: OracleQuestion, *, context_digest: Digest, layout: PageLayout, ranks: int, span_tokens: int
) -> None:
    """Require a question to be about one snapshot: its context, layout, ranks and span.

    Raises:
        IncompatibleError: naming the first field that differs, or the layer that is not as the question says.
    """
    wanted: tuple[tuple[str, object, object], ...] = (
        ("context_digest", context_digest, question.context_digest),
        ("ranks", ranks, question.ranks),
        ("span_tokens", span_tokens, question.span_tokens),
    )
    for name, expected, found in wanted:
        if expected != found:
            raise IncompatibleError(f"{_SUBJECT}.{name}", expected=str(expected), found=str(found))
    require_layout(question, layout=layout)


def require_layout(question: OracleQuestion, *, layout: PageLayout) -> None:
    """Require a question to be about pages of one layout, with both of its layers as it says.

    Raises:
        IncompatibleError: another layout, or a layer is missing or another.
    """
    if layout.sha256 != question.layout_sha256:
        raise IncompatibleError(
            f"{_SUBJECT}.layout_sha256", expected=layout.sha256, found=question.layout_sha256
        )
    for name in (question.key_layer, question.value_layer):
        _check_layer(question, layout=layout, name=name)


def layer_number(layout: PageLayout, *, name: str) -> int:
    """The place of a layer in a layout, groups in order, layers in order.

    Raises:
        IncompatibleError: the layout has no such layer.
    """
    names = [layer.name for group in layout.groups for layer in group.layers]
    if name not in names:
        raise IncompatibleError(f"layout {layout.sha256}", expected=f"a layer {name}", found="none")
    return names.index(name)


def _check_layer(question: OracleQuestion, *, layout: PageLayout, name: str) -> None:
    layer_number(layout, name=name)
    for group in layout.groups:
        for layer in group.layers:
            if layer.name == name:
                found = (group.reuse_policy, group.block_size, layer.bytes_per_page)
    expected = (ReusePolicy.FULL, question.block_tokens, question.bytes_per_page)
    if found != expected:
        raise IncompatibleError(
            f"layer {name}",
            expected=f"reuse policy {expected[0]}, {expected[1]} tokens and {expected[2]} bytes per page",
            found=f"{found[0]}, {found[1]} tokens and {found[2]} bytes",
        )


def _parse_words(value: JsonValue, *, subject: str) -> tuple[str, ...]:
    listed = expect_list(value, subject=f"{subject}.words", maximum=MOST_WORDS)
    return tuple(expect_text(word, subject=f"{subject}.words") for word in listed)


def _check_geometry(question: OracleQuestion) -> None:
    for name, (least, most) in _LIMITS.items():
        value = getattr(question, name)
        _require(least <= value <= most, name, expected=f"{least} … {most}", found=value)
    block = question.block_tokens
    for name, step in (
        ("span_tokens", BOUNDARY_TOKENS),
        ("span_tokens", block),
        ("window_tokens", block),
        ("head_dim", HEAD_DIM_STEP),
        ("heads", question.ranks),
    ):
        value = getattr(question, name)
        _require(value % step == 0, name, expected=f"a multiple of {step}", found=value)
    lines = question.lines
    _require(2 <= lines <= MOST_LINES, "span_tokens", expected=f"2 … {MOST_LINES} blocks", found=lines)
    heads = question.heads_per_rank
    _require(heads <= MOST_HEADS_PER_RANK, "heads", expected=f"≤ {MOST_HEADS_PER_RANK} per rank", found=heads)
    scores = heads * question.window_tokens
    _require(scores <= MOST_SCORES, "window_tokens", expected=f"≤ {MOST_SCORES} over heads", found=scores)
    _require(question.mark_offset < block, "mark_offset", expected=f"< {block}", found=question.mark_offset)
    _require(question.needle_line < lines, "needle_line", expected=f"< {lines}", found=question.needle_line)
    _require(
        question.dtype in DTYPE_BYTES,
        "dtype",
        expected=" or ".join(DTYPE_BYTES),
        found=shown(question.dtype),
    )
    size = question.bytes_per_page
    _require(
        size <= MOST_PAGE_BYTES, "block_tokens", expected=f"≤ {MOST_PAGE_BYTES} bytes a page", found=size
    )
    _require(
        question.key_layer != question.value_layer,
        "value_layer",
        expected="another layer than that of the keys",
        found=shown(question.value_layer),
    )


def _check_words(question: OracleQuestion) -> None:
    words = question.words
    sound = all(_WORD.fullmatch(word) for word in words) and len(set(words)) == len(words) <= MOST_WORDS
    _require(
        sound,
        "words",
        expected=f"at most {MOST_WORDS} different words of 1 … 16 letters a … z",
        found=shown(list(words)),
    )
    roles = (question.expected, question.control, question.fallback)
    for name, word in zip(("expected", "control", "fallback"), roles, strict=True):
        _require(word in words, name, expected=f"one of {', '.join(words)}", found=shown(word))
    _require(
        len(set(roles)) == len(roles),
        "control",
        expected="expected, control and fallback to be three different words",
        found=", ".join(roles),
    )


def _require(holds: bool, name: str, *, expected: str, found: object) -> None:
    if not holds:
        raise FormatError(f"{_SUBJECT}.{name}", expected=expected, found=str(found))
