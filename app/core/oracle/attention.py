"""The model behind a question: its prompt, and the key and value that every token has in every head.

One rotary multi-head attention layer. Every block of the prompt is a *line* and holds one *mark* at the same
place. All marks have the same key, so a query that asks for the mark at one position finds it by the rotary
phase of that position alone; what a mark's value says depends on its line. A page in a wrong place puts its
mark in phase there, and that mark says the wrong thing: every mark is a needle where it belongs and a decoy
everywhere else. All numbers are multiples of ½, so pages are bit for bit the same on every machine.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.core.digest import Digest, sha256, squeeze
from app.core.oracle.question import OracleQuestion

Floats: TypeAlias = "NDArray[np.float32]"
Tokens: TypeAlias = "NDArray[np.uint32]"
Bytes: TypeAlias = "NDArray[np.uint8]"

SEAL: Final = 0
"""What a mark says that only confirms its place; words count from 1."""
FILLER_KINDS: Final = 512
_FIRST_FILLER: Final = 1_000
_FIRST_MARK: Final = 200_000
_SAYINGS: Final = 8
# Filler is half as large as marks: it never wins against one that is in phase.
_FILLER_SIZE: Final = 0.5
# The code has 2**5 places and, of the Reed-Muller code of second order, 3 bits for words and 13 for lines.
_CODE_VARIABLES: Final = 5
CODE_LENGTH: Final = 1 << _CODE_VARIABLES
_WORD_BITS: Final = 3


def prompt(question: OracleQuestion, *, word: str) -> Tokens:
    """The tokens of the prompt whose needle says ``word``: filler, and one mark in every line.

    Prompts of different words differ in one token and are equally long.
    """
    label = f"sparkgate oracle prompt {question.seed}".encode()
    drawn = np.frombuffer(squeeze(label, byte_count=2 * question.span_tokens), dtype="<u2")
    tokens = (drawn % FILLER_KINDS).astype(np.uint32) + _FIRST_FILLER
    sayings = np.zeros(question.lines, dtype=np.uint32)
    sayings[question.needle_line] = 1 + question.words.index(word)
    marks = np.arange(question.lines, dtype=np.uint32) * _SAYINGS + sayings + _FIRST_MARK
    tokens[question.mark_offset :: question.block_tokens] = marks
    return tokens


def prompt_sha256(question: OracleQuestion, *, word: str) -> Digest:
    """The digest of a prompt: its tokens as 32-bit numbers, little end first."""
    return sha256(prompt(question, word=word).astype("<u4").tobytes())


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadWeights:
    """What one head makes of tokens; ``sizes`` are ±1 for marks and ±½ for filler.

    Attributes:
        mark_key: ``(head_dim,)``, the key of every mark, and what queries ask for.
        filler_keys: ``(FILLER_KINDS, head_dim)``; ``filler_values`` likewise.
        mask: ``(CODE_LENGTH,)``, turns the code of a line and a word into this head's own.
    """

    mark_key: Floats
    filler_keys: Floats
    filler_values: Floats
    mask: Floats

    def tags(self, *, lines: NDArray[np.int64], saying: int) -> Floats:
        """``(lines, head_dim / 2)``: what the marks of these lines say first if they say ``saying``."""
        code = _line_code(lines) * _WORD_CODE[saying] * self.mask
        return np.tile(code, (1, self.mark_key.shape[0] // 2 // CODE_LENGTH))

    def keys(self, tokens: Tokens) -> Floats:
        """``(tokens, head_dim)``, before any rotation."""
        is_mark = tokens >= _FIRST_MARK
        keys: Floats = self.filler_keys[np.where(is_mark, 0, tokens - np.uint32(_FIRST_FILLER))]
        keys[is_mark] = self.mark_key
        return keys

    def values(self, tokens: Tokens) -> Floats:
        """``(tokens, head_dim)``: of a mark its tag, then as many ones that say it is a mark."""
        is_mark = tokens >= _FIRST_MARK
        values: Floats = self.filler_values[np.where(is_mark, 0, tokens - np.uint32(_FIRST_FILLER))]
        marks = tokens[is_mark].astype(np.int64) - _FIRST_MARK
        half = self.mark_key.shape[0] // 2
        tags = np.ones((len(marks), half), dtype=np.float32)
        for saying in np.unique(marks % _SAYINGS):
            said = marks % _SAYINGS == saying
            tags[said] = self.tags(lines=marks[said] // _SAYINGS, saying=int(saying))
        values[is_mark, :half] = tags
        values[is_mark, half:] = 1
        return values


def head_weights(question: OracleQuestion, *, head: int) -> HeadWeights:
    """The weights of one head, counted over all ranks."""
    size = question.head_dim
    label = f"sparkgate oracle weights {question.seed}/{question.generation}/{head}"
    return HeadWeights(
        mark_key=_signs(f"{label}/mark", count=size),
        filler_keys=_signs(f"{label}/keys", count=FILLER_KINDS * size).reshape(-1, size) * _half(),
        filler_values=_signs(f"{label}/values", count=FILLER_KINDS * size).reshape(-1, size) * _half(),
        mask=_signs(f"{label}/mask", count=CODE_LENGTH),
    )


def rank_weights(question: OracleQuestion, *, rank: int) -> tuple[HeadWeights, ...]:
    """The weights of a rank's heads, in the order in which they lie in a page."""
    first = rank * question.heads_per_rank
    return tuple(head_weights(question, head=first + number) for number in range(question.heads_per_rank))


def page_bytes(rows: Floats, *, question: OracleQuestion) -> Bytes:
    """Keys or values ``(tokens, heads, head_dim)`` of whole lines as pages ``(lines, bytes_per_page)``."""
    stored = rows.astype("<f2" if question.dtype == "float16" else "<f4")
    return np.frombuffer(stored.tobytes(), dtype=np.uint8).reshape(-1, question.bytes_per_page)


def key_rows(weights: tuple[HeadWeights, ...], *, tokens: Tokens) -> Floats:
    """``(tokens, heads, head_dim)`` of a rank's heads."""
    return np.stack([head.keys(tokens) for head in weights], axis=1)


def value_rows(weights: tuple[HeadWeights, ...], *, tokens: Tokens) -> Floats:
    """``(tokens, heads, head_dim)`` of a rank's heads."""
    return np.stack([head.values(tokens) for head in weights], axis=1)


def _signs(label: str, *, count: int) -> Floats:
    """``count`` numbers that are 1 or -1."""
    bits = np.unpackbits(np.frombuffer(squeeze(label.encode(), byte_count=-(-count // 8)), dtype=np.uint8))
    return np.where(bits[:count] == 1, -1, 1).astype(np.float32)


def _half() -> np.float32:
    return np.float32(_FILLER_SIZE)


def _code_rows() -> NDArray[np.int64]:
    """Rows of the Reed-Muller code: three variables for words; two more, products and the constant for lines.

    Any two different combinations of them differ in at least 8 of the 32 places (the code's least distance),
    and two that differ in words alone in exactly 16.
    """
    variables = [(np.arange(CODE_LENGTH) >> bit) & 1 for bit in range(_CODE_VARIABLES)]
    products = [first * second for first, second in combinations(variables, 2)]
    return np.array([*variables, *products, np.ones(CODE_LENGTH, dtype=np.int64)])


_CODE: Final = _code_rows()


def _as_signs(numbers: NDArray[np.int64], *, rows: NDArray[np.int64]) -> Floats:
    bits = (numbers[:, None] >> np.arange(len(rows))) & 1
    return (1 - 2 * (bits @ rows % 2)).astype(np.float32)


def _line_code(lines: NDArray[np.int64]) -> Floats:
    return _as_signs(lines, rows=_CODE[_WORD_BITS:])


_WORD_CODE: Final = _as_signs(np.arange(_SAYINGS), rows=_CODE[:_WORD_BITS])
