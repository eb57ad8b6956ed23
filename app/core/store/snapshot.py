"""The encoded page stream of a snapshot: layout, header, counts, layer spans (store-format §8.4 – §8.7)."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from app.core.canonical_json import (
    JsonObject,
    JsonValue,
    decode_canonical,
    decode_strict,
    encode_canonical,
    expect_int,
    expect_list,
    expect_object,
    expect_text,
)
from app.core.digest import ByteBuffer, Digest, sha256
from app.core.errors import FormatError, PlanError, Stage, shown
from app.core.store.framing import judged_in_header, verify_header_length

STREAM_MAGIC = b"SPHP1\0"
STREAM_SCHEMA = "sparkcache-hybrid-pages/v1"

# No size in a layout can exceed what a stream can hold; keeps every product within 128 bits.
_MAX_LAYOUT_NUMBER = 2**63 - 1
MAX_GROUPS = 4_096
MAX_LAYERS = 65_536
_MAX_DIMENSIONS = 16

STREAM_PREFIX_BYTES = 10

_PREFIX = struct.Struct("<6sI")
_HEADER_KEYS = frozenset({"block_counts", "layout_sha256", "schema"})
_LAYOUT_KEYS = frozenset({"groups"})
_GROUP_KEYS = frozenset({"block_size", "layers", "reuse_policy", "reuse_window_tokens"})
_LAYER_KEYS = frozenset({"bytes_per_page", "dtype", "name", "page_shape"})


class ReusePolicy(StrEnum):
    """Which of a span's blocks a group keeps (store-format §8.6)."""

    FULL = "full"
    SLIDING = "sliding"
    RECURRENT_ALIGN = "recurrent_align"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLayer:
    """One layer's page: ``bytes_per_page`` raw bytes."""

    name: str
    dtype: str
    page_shape: tuple[int, ...]
    bytes_per_page: int

    def to_wire(self) -> JsonObject:
        """The layer as it stands in the layout document."""
        return {
            "bytes_per_page": self.bytes_per_page,
            "dtype": self.dtype,
            "name": self.name,
            "page_shape": list(self.page_shape),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PageGroup:
    """Layers that share one block table; a block covers ``block_size`` tokens."""

    block_size: int
    reuse_policy: ReusePolicy
    reuse_window_tokens: int | None
    layers: tuple[PageLayer, ...]

    @property
    def bytes_per_block(self) -> int:
        """One page of every layer, in bytes."""
        return sum(layer.bytes_per_page for layer in self.layers)

    def block_count(self, span_tokens: int) -> int:
        """How many pages per layer a span of ``span_tokens`` > 0 tokens keeps (store-format §8.6)."""
        if self.reuse_policy is ReusePolicy.RECURRENT_ALIGN:
            return 1
        blocks = _ceil_div(span_tokens, by=self.block_size)
        if self.reuse_window_tokens is None:
            return blocks
        return min(blocks, _ceil_div(self.reuse_window_tokens - 1, by=self.block_size))

    def to_wire(self) -> JsonObject:
        """The group as it stands in the layout document."""
        return {
            "block_size": self.block_size,
            "layers": [layer.to_wire() for layer in self.layers],
            "reuse_policy": self.reuse_policy,
            "reuse_window_tokens": self.reuse_window_tokens,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLayout:
    """Groups in the serving runtime's order; never stored with a snapshot, named by its digest (§8.5).

    Attributes:
        canonical: the layout document in its canonical spelling.
        sha256: the digest of ``canonical``.
    """

    groups: tuple[PageGroup, ...]
    canonical: bytes = field(init=False, repr=False, compare=False)
    sha256: Digest = field(init=False)

    def __post_init__(self) -> None:
        canonical = encode_canonical({"groups": [group.to_wire() for group in self.groups]})
        object.__setattr__(self, "canonical", canonical)
        object.__setattr__(self, "sha256", sha256(canonical))

    def block_counts(self, span_tokens: int) -> tuple[int, ...]:
        """Pages per layer for each group, for a span in tokens (store-format §8.6).

        Raises:
            PlanError: the span has no token.
        """
        if span_tokens < 1:
            raise PlanError("span", expected="at least one token", found=str(span_tokens))
        return tuple(group.block_count(span_tokens) for group in self.groups)

    def payload_bytes(self, *, block_counts: Sequence[int]) -> int:
        """The page bytes of a stream with these counts: what its pages need, without header or padding."""
        return sum(
            count * group.bytes_per_block for count, group in zip(block_counts, self.groups, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSpan:
    """Where one layer lies in the stream: bytes ``start … end`` hold ``pages`` pages, in block-table order.

    ``index`` counts layers over all groups and is the destination number of a copy span.
    """

    index: int
    group: int
    name: str
    pages: int
    bytes_per_page: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamHeader:
    """What a stream says of itself: the layout it was cut in, and pages per layer for each group."""

    layout_sha256: Digest
    block_counts: tuple[int, ...]


def parse_page_layout(raw: bytes, *, subject: str = "page layout") -> PageLayout:
    """Read a layout document in any JSON spelling; its digest is that of the canonical one (§8.5).

    Raises:
        FormatError: not JSON, keys missing or additional, a value of another type or out of range, layers
            unsorted or named twice, a window without ``sliding`` or the reverse.
    """
    document = expect_object(decode_strict(raw, subject=subject), subject=subject, keys=_LAYOUT_KEYS)
    groups = tuple(
        _parse_group(value, subject=f"{subject} group {index}")
        for index, value in enumerate(expect_list(document["groups"], subject=subject, maximum=MAX_GROUPS))
    )
    names = [layer.name for group in groups for layer in group.layers]
    if len(set(names)) != len(names):
        raise FormatError(subject, expected="each layer name in one group only", found="a name in two groups")
    return PageLayout(groups=groups)


def encode_stream_header(layout_sha256: Digest, *, block_counts: Sequence[int]) -> bytes:
    """The first bytes of a stream, magic and length included: a pure function of its arguments (§8.4)."""
    body = encode_canonical(
        {"block_counts": list(block_counts), "layout_sha256": layout_sha256, "schema": STREAM_SCHEMA}
    )
    return _PREFIX.pack(STREAM_MAGIC, len(body)) + body


def verify_stream_header(first_object: ByteBuffer, *, expected: bytes) -> None:
    """Compare the start of an authentic object 0 with the only header it may carry (§8.4).

    Args:
        first_object: all bytes of object 0.
        expected: what ``encode_stream_header`` builds for the wanted layout and counts.

    Raises:
        FormatError: stage ``header``, naming the part that differs.
    """
    found = bytes(first_object[: len(expected)])
    if found == expected:
        return
    subject = "stream header"
    if found[:6] != STREAM_MAGIC:
        raise _header_error(subject, expected=shown(STREAM_MAGIC), found=shown(found[:6]))
    length = len(expected) - _PREFIX.size
    if found[6:10] != expected[6:10]:
        raise _header_error(subject, expected=f"length {length}", found=shown(found[6:10]))
    raise _header_error(subject, expected=shown(expected[10:]), found=shown(found[10:]))


def parse_stream_header(body: bytes, *, subject: str = "stream header") -> StreamHeader:
    """Judge a header without a layout to compare it with (store-format §8.4).

    Args:
        body: the JSON behind magic and length.
        subject: the header, for messages.

    Raises:
        FormatError: stage ``header``: not canonical, other keys, another schema, or a value of another type.
    """
    with judged_in_header():
        header = expect_object(
            decode_canonical(body, subject=subject, stage=Stage.HEADER), subject=subject, keys=_HEADER_KEYS
        )
        if header["schema"] != STREAM_SCHEMA:
            raise FormatError(f"{subject}.schema", expected=STREAM_SCHEMA, found=shown(header["schema"]))
        counts = expect_list(header["block_counts"], subject=f"{subject}.block_counts", maximum=MAX_GROUPS)
        return StreamHeader(
            layout_sha256=Digest.parse(header["layout_sha256"], subject=f"{subject}.layout_sha256"),
            block_counts=tuple(_take_size(count, subject=f"{subject}.block_counts") for count in counts),
        )


def parse_stream_prefix(prefix: bytes, *, available: int, subject: str = "stream header") -> int:
    """Read a stream's first ten bytes; returns the length of the header that follows.

    Raises:
        FormatError: stage ``header``: another magic, or a length that is not within ``available`` bytes.
    """
    magic, length = _PREFIX.unpack(prefix)
    if magic != STREAM_MAGIC:
        raise _header_error(subject, expected=shown(STREAM_MAGIC), found=shown(magic))
    verify_header_length(length, available=available, subject=subject)
    return int(length)


def layer_spans(
    layout: PageLayout, *, block_counts: Sequence[int], header_bytes: int
) -> tuple[LayerSpan, ...]:
    """Every layer's place in the stream, in stream order, without gap from the header's end on (§8.4)."""
    spans: list[LayerSpan] = []
    start = header_bytes
    for number, (group, pages) in enumerate(zip(layout.groups, block_counts, strict=True)):
        for layer in group.layers:
            end = start + pages * layer.bytes_per_page
            spans.append(
                LayerSpan(
                    index=len(spans),
                    group=number,
                    name=layer.name,
                    pages=pages,
                    bytes_per_page=layer.bytes_per_page,
                    start=start,
                    end=end,
                )
            )
            start = end
    return tuple(spans)


def _header_error(subject: str, *, expected: str, found: str) -> FormatError:
    return FormatError(subject, expected=expected, found=found, stage=Stage.HEADER)


def _parse_group(value: JsonValue, *, subject: str) -> PageGroup:
    wire = expect_object(value, subject=subject, keys=_GROUP_KEYS)
    policy = _parse_policy(wire["reuse_policy"], subject=f"{subject}.reuse_policy")
    layers = tuple(
        _parse_layer(item, subject=f"{subject} layer {index}")
        for index, item in enumerate(expect_list(wire["layers"], subject=subject, maximum=MAX_LAYERS))
    )
    names = [layer.name for layer in layers]
    if names != sorted(names):
        raise FormatError(subject, expected="layers sorted by name", found=shown(names))
    return PageGroup(
        block_size=_take_size(wire["block_size"], subject=f"{subject}.block_size"),
        reuse_policy=policy,
        reuse_window_tokens=_parse_window(wire["reuse_window_tokens"], policy=policy, subject=subject),
        layers=layers,
    )


def _parse_policy(value: JsonValue, *, subject: str) -> ReusePolicy:
    for policy in ReusePolicy:
        if value == policy.value:
            return policy
    raise FormatError(subject, expected=f"one of {', '.join(ReusePolicy)}", found=shown(value))


def _parse_window(value: JsonValue, *, policy: ReusePolicy, subject: str) -> int | None:
    subject = f"{subject}.reuse_window_tokens"
    if policy is ReusePolicy.SLIDING:
        return expect_int(value, subject=subject, minimum=2, maximum=_MAX_LAYOUT_NUMBER)
    if value is not None:
        raise FormatError(subject, expected=f"null for {policy}", found=shown(value))
    return None


def _parse_layer(value: JsonValue, *, subject: str) -> PageLayer:
    wire = expect_object(value, subject=subject, keys=_LAYER_KEYS)
    shape = expect_list(wire["page_shape"], subject=f"{subject}.page_shape", maximum=_MAX_DIMENSIONS)
    return PageLayer(
        name=expect_text(wire["name"], subject=f"{subject}.name"),
        dtype=expect_text(wire["dtype"], subject=f"{subject}.dtype"),
        page_shape=tuple(_take_size(size, subject=f"{subject}.page_shape") for size in shape),
        bytes_per_page=_take_size(wire["bytes_per_page"], subject=f"{subject}.bytes_per_page"),
    )


def _take_size(value: JsonValue, *, subject: str) -> int:
    return expect_int(value, subject=subject, minimum=1, maximum=_MAX_LAYOUT_NUMBER)


def _ceil_div(amount: int, *, by: int) -> int:
    return -(-amount // by)
