"""The answer to a question: partial logits of one rank's pages, all ranks added up, and the slow way.

Keys lie in their pages unrotated and are rotated when they are read, by the position their place in the block
table gives them. For every line a query asks for the mark at that line's position and looks back over a
window; the heads' outputs are read as logits, rank by rank. A word wins against the fallback only if less
than a quarter of one of all votes is missing, and a vote is never more than one: values are cut to ±1 and
attention averages. So nothing can make up for a single page that is not where it belongs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.core.errors import FormatError
from app.core.oracle.attention import (
    SEAL,
    Bytes,
    Floats,
    HeadWeights,
    head_weights,
    key_rows,
    prompt,
    rank_weights,
    value_rows,
)
from app.core.oracle.partials import SCALE
from app.core.oracle.question import OracleQuestion

# Lines that are asked about at once; with the window before them they bound the memory of the scores.
_LINES_AT_ONCE: Final = 16
_UNSEEN: Final = -1e9
# The fallback's lead over a rank's worth of nothing: a quarter of one vote short of all votes.
_LEEWAY: Final = SCALE // 4

Array: TypeAlias = Any
"""An array of NumPy or CuPy: which, only the caller knows."""
_Rows: TypeAlias = "Callable[[int, int], tuple[Array, Array]]"
"""Keys and values ``(tokens, heads, head_dim)`` in float32 of lines ``[first, last)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The word with the greatest logit, its lead ``margin``, and all logits; in units of 1 / ``SCALE``."""

    word: str
    logits: Mapping[str, int]
    margin: int


def restored_logits(
    xp: ModuleType, *, question: OracleQuestion, rank: int, keys: Bytes, values: Bytes
) -> dict[str, int]:
    """One rank's partial logits from its placed pages, by word, in units of 1 / ``SCALE``.

    Args:
        xp: the array module of ``keys`` and ``values``: NumPy, or CuPy.
        rank: whose heads they are.
        keys: uint8 ``(blocks, bytes_per_page)``, pages in the order of the block table; ``values`` likewise.

    Raises:
        FormatError: the rank is none of the question's, or the pages have another shape.
    """
    _check_rank(question, rank=rank)
    shape = (question.lines, question.bytes_per_page)
    for name, pages in ((question.key_layer, keys), (question.value_layer, values)):
        if pages.shape != shape:
            raise FormatError(f"pages of {name}", expected=str(shape), found=str(pages.shape))

    def rows(first: int, last: int) -> tuple[Array, Array]:
        return tuple(_numbers(xp, pages=pages[first:last], question=question) for pages in (keys, values))

    return _logits(xp, question=question, rank=rank, rows=rows)


def recomputed_logits(xp: ModuleType, *, question: OracleQuestion, rank: int, word: str) -> dict[str, int]:
    """One rank's partial logits from the tokens of the prompt that says ``word``; no page is looked at."""
    _check_rank(question, rank=rank)
    weights, tokens, block = (
        rank_weights(question, rank=rank),
        prompt(question, word=word),
        question.block_tokens,
    )

    def rows(first: int, last: int) -> tuple[Array, Array]:
        some = tokens[first * block : last * block]
        return xp.asarray(key_rows(weights, tokens=some)), xp.asarray(value_rows(weights, tokens=some))

    return _logits(xp, question=question, rank=rank, rows=rows)


def most_votes(question: OracleQuestion) -> int:
    """What one rank adds to the right word if all of its pages are right."""
    return question.heads_per_rank * question.lines * SCALE


def add_up(question: OracleQuestion, *, partials: Mapping[int, Mapping[str, int]]) -> Answer:
    """All ranks' partial logits, and the fallback's lead, as the answer.

    Raises:
        FormatError: a rank is missing or not the question's, or has other words.
    """
    if set(partials) != set(range(question.ranks)):
        raise FormatError(
            "oracle partials", expected=f"ranks 0 … {question.ranks - 1}", found=str(sorted(partials))
        )
    for rank, logits in partials.items():
        if set(logits) != set(question.words):
            raise FormatError(
                f"oracle partials of rank {rank}",
                expected=f"the words {', '.join(question.words)}",
                found=", ".join(sorted(logits)),
            )
    sums = {word: sum(logits[word] for logits in partials.values()) for word in question.words}
    sums[question.fallback] += question.ranks * most_votes(question) - _LEEWAY
    # The fallback is listed first: what only equals it has not won.
    order = sorted(sums, key=lambda word: (-sums[word], word != question.fallback, word))
    return Answer(word=order[0], logits=sums, margin=sums[order[0]] - sums[order[1]])


def expected_answer(question: OracleQuestion) -> Answer:
    """What the prompt must be answered, the slow and obvious way: from the tokens, query by query."""
    return _slow_answer(question, word=question.expected)


def control_answer(question: OracleQuestion) -> Answer:
    """The same for the prompt with the needle's token changed."""
    return _slow_answer(question, word=question.control)


def _check_rank(question: OracleQuestion, *, rank: int) -> None:
    if not 0 <= rank < question.ranks:
        raise FormatError("oracle rank", expected=f"0 … {question.ranks - 1}", found=str(rank))


def _numbers(xp: ModuleType, *, pages: Array, question: OracleQuestion) -> Array:
    """Pages as numbers ``(tokens, heads, head_dim)``; what can be no key or value counts as nothing or ±1."""
    stored = xp.float16 if question.dtype == "float16" else xp.float32
    numbers = xp.ascontiguousarray(pages).view(stored).astype(xp.float32)
    # Not a number fails both comparisons.
    if not (numbers.max() <= 1 and numbers.min() >= -1):
        xp.nan_to_num(numbers, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        xp.clip(numbers, -1, 1, out=numbers)
    return numbers.reshape(-1, question.heads_per_rank, question.head_dim)


def _logits(xp: ModuleType, *, question: OracleQuestion, rank: int, rows: _Rows) -> dict[str, int]:
    """Attention in steps of some lines on the device; the few numbers that come out are read on the host."""
    weights = rank_weights(question, rank=rank)
    window = _Window(xp, question=question, weights=weights)
    outputs = []
    for first in range(0, question.lines, _LINES_AT_ONCE):
        last = min(first + _LINES_AT_ONCE, question.lines)
        keys, values = rows(first, last)
        window.move(keys, values, first=first, last=last)
        outputs.append(window.attend(first=first, last=last))
    gathered = on_host(xp.concatenate(outputs, axis=1))
    return _read(question, weights=weights, outputs=gathered)


class _Window:
    """Rotated keys, and values, of some lines and of the window before them; each is made once."""

    def __init__(self, xp: ModuleType, *, question: OracleQuestion, weights: Sequence[HeadWeights]) -> None:
        self._xp = xp
        self._question = question
        self._lines = question.window_tokens // question.block_tokens
        self._marks = xp.asarray(np.stack([head.mark_key for head in weights]))[:, None, :]
        self._start = 0
        empty = xp.zeros((len(weights), 0, question.head_dim), dtype=xp.float32)
        self._keys, self._values = empty, empty

    def move(self, keys: Array, values: Array, *, first: int, last: int) -> None:
        """Take the ``(tokens, heads, head_dim)`` of lines ``[first, last)``; drop what no query sees now."""
        xp, block = self._xp, self._question.block_tokens
        start = max(0, first - self._lines + 1)
        dropped = (start - self._start) * block
        positions = np.arange(first * block, last * block)
        turned = _rotate(xp, rows=keys.transpose(1, 0, 2), positions=positions, question=self._question)
        self._keys = xp.concatenate((self._keys[:, dropped:], turned), axis=1)
        self._values = xp.concatenate((self._values[:, dropped:], values.transpose(1, 0, 2)), axis=1)
        self._start = start

    def attend(self, *, first: int, last: int) -> Array:
        """``(heads, lines, head_dim)``: what the queries of lines ``[first, last)`` find."""
        xp, question = self._xp, self._question
        asked = np.arange(first, last)
        wanted = asked * question.block_tokens + question.mark_offset
        queries = _rotate(xp, rows=self._marks, positions=wanted, question=question)
        queries = queries * xp.float32(question.sharpness / question.head_dim**0.5)
        scores = queries @ self._keys.transpose(0, 2, 1)
        lines = np.repeat(np.arange(self._start, last), question.block_tokens)
        seen = (lines[None, :] <= asked[:, None]) & (lines[None, :] > asked[:, None] - self._lines)
        scores = xp.where(xp.asarray(seen)[None], scores, xp.float32(_UNSEEN))
        weighed = xp.exp(scores - scores.max(axis=2, keepdims=True))
        weighed /= weighed.sum(axis=2, keepdims=True)
        return weighed @ self._values


def _rotate(xp: ModuleType, *, rows: Array, positions: NDArray[np.int64], question: OracleQuestion) -> Array:
    """Rotary position: pair ``i`` of a row, entries ``i`` and ``i + head_dim / 2``, turned by its angle."""
    half = question.head_dim // 2
    angles = positions[:, None] * _frequencies(question)[None, :]
    cosines = xp.asarray(np.cos(angles).astype(np.float32))
    sines = xp.asarray(np.sin(angles).astype(np.float32))
    ahead, behind = rows[..., :half], rows[..., half:]
    return xp.concatenate((ahead * cosines - behind * sines, ahead * sines + behind * cosines), axis=-1)


def _frequencies(question: OracleQuestion) -> NDArray[np.float64]:
    half = question.head_dim // 2
    frequencies: NDArray[np.float64] = float(question.rope_base) ** (-np.arange(half) / half)
    return frequencies


def on_host(array: Array) -> Any:
    """A NumPy array of any module's; CuPy's have ``get``."""
    return array.get() if hasattr(array, "get") else array


def _read(
    question: OracleQuestion, *, weights: Sequence[HeadWeights], outputs: NDArray[Any]
) -> dict[str, int]:
    """Outputs ``(heads, lines, head_dim)`` as logits.

    Every line but the needle's votes for all words alike if its mark is its own; the needle's for the word
    it says. What is a mark and not the one that belongs there is a vote for the fallback.
    """
    half, needle = question.head_dim // 2, question.needle_line
    lines = np.arange(question.lines)
    votes = dict.fromkeys(question.words, 0.0)
    for head, output in zip(weights, outputs.astype(np.float64), strict=True):
        present = output[:, half:].sum(axis=1) / half
        own = (output[:, :half] * head.tags(lines=lines, saying=SEAL)).sum(axis=1) / half
        said = {
            word: float((output[needle, :half] * _needle_tag(question, head=head, word=word)).sum() / half)
            for word in question.words
        }
        own[needle] = max(said.values())
        doubts = np.maximum(present - own, 0).sum()
        confirmed = own.sum() - own[needle]
        for word in question.words:
            votes[word] += doubts if word == question.fallback else confirmed + said[word]
    return {word: round(vote * SCALE) for word, vote in votes.items()}


def _needle_tag(question: OracleQuestion, *, head: HeadWeights, word: str) -> Floats:
    lines = np.array([question.needle_line])
    tag: Floats = head.tags(lines=lines, saying=1 + question.words.index(word))[0]
    return tag


def _slow_answer(question: OracleQuestion, *, word: str) -> Answer:
    """One head, one query and one token after the other, in double precision."""
    partials: dict[int, dict[str, int]] = {}
    for rank in range(question.ranks):
        first = rank * question.heads_per_rank
        heads = [head_weights(question, head=first + number) for number in range(question.heads_per_rank)]
        outputs = np.stack([_slow_head(question, head=head, word=word) for head in heads])
        partials[rank] = _read(question, weights=heads, outputs=outputs)
    return add_up(question, partials=partials)


def _slow_head(question: OracleQuestion, *, head: HeadWeights, word: str) -> NDArray[np.float64]:
    tokens, block = prompt(question, word=word), question.block_tokens
    keys, values = head.keys(tokens), head.values(tokens)
    turned = np.stack([_turn(question, row=row, position=at) for at, row in enumerate(keys)])
    outputs = []
    for line in range(question.lines):
        wanted = line * block + question.mark_offset
        query = question.sharpness * _turn(question, row=head.mark_key, position=wanted)
        end = (line + 1) * block
        start = max(0, end - question.window_tokens)
        scores = turned[start:end] @ query / question.head_dim**0.5
        weighed = np.exp(scores - scores.max())
        outputs.append(weighed / weighed.sum() @ values[start:end])
    return np.stack(outputs)


def _turn(question: OracleQuestion, *, row: Floats, position: int) -> NDArray[np.float64]:
    """The rotation of one row as complex numbers."""
    half = question.head_dim // 2
    turned = (row[:half] + 1j * row[half:]) * np.exp(1j * position * _frequencies(question))
    return np.concatenate((turned.real, turned.imag))
