"""The pages a rank must hold if everything is right: real keys and values, filler in every other layer."""

from collections.abc import Iterator

from app.core.oracle.attention import Bytes, key_rows, page_bytes, prompt, rank_weights, value_rows
from app.core.oracle.question import OracleQuestion
from app.core.store.snapshot import LayerSpan, PageLayout, encode_stream_header, layer_spans
from app.core.store.synth.pages import filler_block, filler_page

# Lines whose pages are made at once.
_LINES_AT_ONCE = 64
# Filler of another generation is other filler: generations are this far apart in its seeds.
_GENERATION_SHIFT = 64


class OraclePages:
    """All pages of one rank, made when they are asked for; those of the oracle's layers a few at once."""

    def __init__(self, question: OracleQuestion, *, rank: int) -> None:
        self._question = question
        self._rank = rank
        self._weights = rank_weights(question, rank=rank)
        self._tokens = prompt(question, word=question.expected)
        self._filler: memoryview | None = None
        self._made: dict[str, tuple[int, Bytes]] = {}

    def oracle_pages(self, name: str, *, first: int, last: int) -> Bytes:
        """Pages ``[first, last)`` of the layer with the keys or the values: ``(lines, bytes_per_page)``."""
        question = self._question
        block = question.block_tokens
        rows = key_rows if name == question.key_layer else value_rows
        some = self._tokens[first * block : last * block]
        return page_bytes(rows(self._weights, tokens=some), question=question)

    def page(self, span: LayerSpan, *, block: int, number: int) -> Iterator[memoryview]:
        """One page of any layer in parts; ``number`` counts pages over the whole stream."""
        if span.name not in (self._question.key_layer, self._question.value_layer):
            yield from filler_page(
                self._block(), rank=self._rank, number=number, byte_count=span.bytes_per_page
            )
            return
        first = block - block % _LINES_AT_ONCE
        made = self._made.get(span.name)
        if made is None or made[0] != first:
            last = min(first + _LINES_AT_ONCE, self._question.lines)
            made = first, self.oracle_pages(span.name, first=first, last=last)
            self._made[span.name] = made
        yield memoryview(made[1][block - first]).cast("B")

    def _block(self) -> memoryview:
        """What filler is cut from, made when the first page of it is wanted."""
        if self._filler is None:
            seed = self._question.seed + (self._question.generation << _GENERATION_SHIFT)
            self._filler = filler_block(rank=self._rank, seed=seed)
        return self._filler

    def stream(self, layout: PageLayout) -> Iterator[memoryview]:
        """The encoded stream of the whole snapshot, header first, in parts."""
        counts = layout.block_counts(self._question.span_tokens)
        header = encode_stream_header(layout.sha256, block_counts=counts)
        yield memoryview(header)
        number = 0
        for span in layer_spans(layout, block_counts=counts, header_bytes=len(header)):
            for block in range(span.pages):
                yield from self.page(span, block=block, number=number)
                number += 1
