"""What a longer span's pages add to a shorter one's, as a delta stream (store-format §11.2, §11.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.digest import Digest, sha256
from app.core.errors import FormatError
from app.core.store.delta_stream import DeltaHeader, LayerTail, encode_delta_header
from app.core.store.manifest import StageEnd
from app.core.store.snapshot import (
    LayerSpan,
    PageLayout,
    encode_stream_header,
    layer_spans,
    verify_stream_header,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStream:
    """A whole encoded stream in memory, and the place in a chain of deltas it stands for."""

    end: StageEnd
    encoded: memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTail:
    """A delta stream: its header, and for each layer the pages that the base does not have.

    Attributes:
        reused_pages: pages per group that are kept from the base.
        parts: the stream in order, header first; nothing is copied from the result.
    """

    reused_pages: tuple[int, ...]
    parts: tuple[memoryview, ...]

    @property
    def byte_count(self) -> int:
        """Length of the delta stream."""
        return sum(map(len, self.parts))


def page_stream(
    encoded: memoryview, *, layout: PageLayout, context_digest: Digest, committed_tokens: int
) -> PageStream:
    """Take a stream as what it must be: header and pages of this layout and span (store-format §8.4, §8.6).

    Raises:
        FormatError: another header or length.
    """
    counts = layout.block_counts(committed_tokens)
    header = encode_stream_header(layout.sha256, block_counts=counts)
    verify_stream_header(encoded, expected=header)
    wanted = len(header) + layout.payload_bytes(block_counts=counts)
    if len(encoded) != wanted:
        raise FormatError("page stream", expected=f"{wanted} bytes", found=f"{len(encoded)} bytes")
    end = StageEnd(context_digest=context_digest, committed_tokens=committed_tokens, block_counts=counts)
    return PageStream(end=end, encoded=encoded)


def cut_tail(layout: PageLayout, *, base: PageStream, result: PageStream) -> PageTail:
    """The delta stream from ``base`` to a longer ``result``; both are of this layout."""
    old, new = _spans(layout, stream=base), _spans(layout, stream=result)
    reused = tuple(_reused_pages(group, base=old, result=new) for group in range(len(layout.groups)))
    tails = [view.pages[reused[view.span.group] * view.span.bytes_per_page :] for view in new]
    header = DeltaHeader(
        layout_sha256=layout.sha256,
        base_snapshot_sha256=sha256(base.encoded),
        result_snapshot_sha256=sha256(result.encoded),
        base_block_counts=base.end.block_counts,
        result_block_counts=result.end.block_counts,
        base_tokens=base.end.committed_tokens,
        result_tokens=result.end.committed_tokens,
        reused_pages=reused,
        tails=tuple(
            LayerTail(name=view.span.name, byte_count=len(tail), sha256=sha256(tail))
            for view, tail in zip(new, tails, strict=True)
        ),
    )
    return PageTail(reused_pages=reused, parts=(memoryview(encode_delta_header(header)), *tails))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LayerPages:
    """One layer's pages inside a stream."""

    span: LayerSpan
    pages: memoryview

    def page(self, number: int) -> memoryview:
        """The bytes of one page."""
        size = self.span.bytes_per_page
        return self.pages[number * size : (number + 1) * size]


def _spans(layout: PageLayout, *, stream: PageStream) -> list[_LayerPages]:
    counts = stream.end.block_counts
    header_bytes = len(encode_stream_header(layout.sha256, block_counts=counts))
    spans = layer_spans(layout, block_counts=counts, header_bytes=header_bytes)
    return [_LayerPages(span=span, pages=stream.encoded[span.start : span.end]) for span in spans]


def _reused_pages(group: int, *, base: Sequence[_LayerPages], result: Sequence[_LayerPages]) -> int:
    """How many leading pages of the base are equal in all layers of the group (store-format §11.3)."""
    pairs = [(old, new) for old, new in zip(base, result, strict=True) if old.span.group == group]
    return min(_equal_pages(old, new) for old, new in pairs)


def _equal_pages(base: _LayerPages, result: _LayerPages) -> int:
    for number in range(base.span.pages):
        if bytes(base.page(number)) != bytes(result.page(number)):
            return number
    return base.span.pages
