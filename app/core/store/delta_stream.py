"""The encoded delta stream ``SPHD1``: a header, then one tail per layer (store-format §11.2)."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

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
from app.core.digest import Digest
from app.core.errors import FormatError, Stage, shown
from app.core.store.framing import judged_in_header, verify_header_length
from app.core.store.manifest import DeltaStage
from app.core.store.snapshot import MAX_GROUPS, MAX_LAYERS, PageLayout

DELTA_MAGIC = b"SPHD1\0"
DELTA_SCHEMA = "sparkcache-hybrid-page-delta/v1"
DELTA_PREFIX_BYTES = 10

_MAX_NUMBER = 2**63 - 1
_PREFIX = struct.Struct("<6sI")
_KEYS = frozenset(
    {
        "schema",
        "layout_sha256",
        "base_snapshot_sha256",
        "result_snapshot_sha256",
        "base_block_counts",
        "result_block_counts",
        "base_boundary_tokens",
        "result_boundary_tokens",
        "reused_pages_by_group",
        "layer_tails",
    }
)
_TAIL_KEYS = frozenset({"name", "bytes", "sha256"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTail:
    """The pages of one layer that the base does not have."""

    name: str
    byte_count: int
    sha256: Digest

    def to_wire(self) -> JsonObject:
        """The tail as it stands in the header."""
        return {"name": self.name, "bytes": self.byte_count, "sha256": self.sha256}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaHeader:
    """A delta stream's header, sound by itself; whether it fits its stage is ``verify_delta_header``'s part.

    Attributes:
        reused_pages: pages per group that are kept from the base.
        tails: one per layer, in layout order.
    """

    layout_sha256: Digest
    base_snapshot_sha256: Digest
    result_snapshot_sha256: Digest
    base_block_counts: tuple[int, ...]
    result_block_counts: tuple[int, ...]
    base_tokens: int
    result_tokens: int
    reused_pages: tuple[int, ...]
    tails: tuple[LayerTail, ...]

    @property
    def tail_bytes(self) -> int:
        """The stream without its header."""
        return sum(tail.byte_count for tail in self.tails)


def parse_delta_prefix(prefix: bytes, *, available: int, subject: str) -> int:
    """Read a delta stream's first ten bytes.

    Args:
        prefix: those bytes.
        available: how many bytes may belong to the header behind them.
        subject: the stream, for messages.

    Returns:
        The length of the header that follows.

    Raises:
        FormatError: stage ``header``: another magic, or an impossible length.
    """
    magic, length = _PREFIX.unpack(prefix)
    if magic != DELTA_MAGIC:
        raise FormatError(
            f"{subject} magic", expected=shown(DELTA_MAGIC), found=shown(magic), stage=Stage.HEADER
        )
    verify_header_length(length, available=available, subject=f"{subject} header")
    return int(length)


def parse_delta_header(body: bytes, *, subject: str) -> DeltaHeader:
    """Judge the JSON behind the first ten bytes by itself (store-format §11.2, §20.6).

    Raises:
        FormatError: stage ``header``: not canonical, other keys, or a value of another type or range.
    """
    with judged_in_header():
        header = expect_object(
            decode_canonical(body, subject=subject, stage=Stage.HEADER), subject=subject, keys=_KEYS
        )
        if header["schema"] != DELTA_SCHEMA:
            raise FormatError(f"{subject}.schema", expected=DELTA_SCHEMA, found=shown(header["schema"]))
        return DeltaHeader(
            layout_sha256=_take_digest(header, key="layout_sha256", subject=subject),
            base_snapshot_sha256=_take_digest(header, key="base_snapshot_sha256", subject=subject),
            result_snapshot_sha256=_take_digest(header, key="result_snapshot_sha256", subject=subject),
            base_block_counts=_take_counts(header, key="base_block_counts", subject=subject, minimum=1),
            result_block_counts=_take_counts(header, key="result_block_counts", subject=subject, minimum=1),
            base_tokens=_take_tokens(header, key="base_boundary_tokens", subject=subject),
            result_tokens=_take_tokens(header, key="result_boundary_tokens", subject=subject),
            reused_pages=_take_counts(header, key="reused_pages_by_group", subject=subject, minimum=0),
            tails=_take_tails(header, subject=subject),
        )


def encode_delta_header(header: DeltaHeader) -> bytes:
    """The first bytes of a delta stream, magic and length included (store-format §11.2)."""
    body = encode_canonical(
        {
            "schema": DELTA_SCHEMA,
            "layout_sha256": header.layout_sha256,
            "base_snapshot_sha256": header.base_snapshot_sha256,
            "result_snapshot_sha256": header.result_snapshot_sha256,
            "base_block_counts": list(header.base_block_counts),
            "result_block_counts": list(header.result_block_counts),
            "base_boundary_tokens": header.base_tokens,
            "result_boundary_tokens": header.result_tokens,
            "reused_pages_by_group": list(header.reused_pages),
            "layer_tails": [tail.to_wire() for tail in header.tails],
        }
    )
    return _PREFIX.pack(DELTA_MAGIC, len(body)) + body


def verify_delta_header(
    header: DeltaHeader, *, stage: DeltaStage, layout_sha256: Digest, base_sha256: Digest | None, subject: str
) -> None:
    """The header belongs to its stage and to the stream before it (store-format §11.2).

    Args:
        header: of an authentic delta stream.
        stage: what the root document says of it.
        layout_sha256: the layout the document names.
        base_sha256: digest of the stream it extends, where it is known beforehand.
        subject: the stream, for messages.

    Raises:
        FormatError: stage ``header``: another layout, base, count or boundary, or more pages reused than
            there are.
    """
    pairs: tuple[tuple[str, object, object], ...] = (
        ("layout_sha256", layout_sha256, header.layout_sha256),
        ("base_snapshot_sha256", base_sha256 or header.base_snapshot_sha256, header.base_snapshot_sha256),
        ("base_block_counts", stage.base.block_counts, header.base_block_counts),
        ("result_block_counts", stage.result.block_counts, header.result_block_counts),
        ("base_boundary_tokens", stage.base.committed_tokens, header.base_tokens),
        ("result_boundary_tokens", stage.result.committed_tokens, header.result_tokens),
    )
    for key, expected, found in pairs:
        if expected != found:
            raise FormatError(
                f"{subject}.{key}", expected=shown(expected), found=shown(found), stage=Stage.HEADER
            )
    _verify_reuse(header, subject=subject)


def verify_tails(header: DeltaHeader, *, layout: PageLayout, subject: str) -> None:
    """There is one tail per layer, in layout order, as long as its new pages (store-format §11.2).

    Raises:
        FormatError: stage ``header``: another layer, or another length.
    """
    wanted = tail_shapes(
        layout, reused_pages=header.reused_pages, result_block_counts=header.result_block_counts
    )
    found = tuple((tail.name, tail.byte_count) for tail in header.tails)
    if found != wanted:
        at = next((i for i, pair in enumerate(zip(found, wanted, strict=False)) if pair[0] != pair[1]), 0)
        raise FormatError(
            f"{subject}.layer_tails",
            expected=f"{len(wanted)} layers, at {at} {shown(wanted[at])}",
            found=f"{len(found)} layers, at {at} {shown(found[at])}",
            stage=Stage.HEADER,
        )


def tail_shapes(
    layout: PageLayout, *, reused_pages: Sequence[int], result_block_counts: Sequence[int]
) -> tuple[tuple[str, int], ...]:
    """Name and length of every layer's tail: (result − reused) pages (store-format §11.2)."""
    return tuple(
        (layer.name, (result - reused) * layer.bytes_per_page)
        for group, reused, result in zip(layout.groups, reused_pages, result_block_counts, strict=True)
        for layer in group.layers
    )


def _verify_reuse(header: DeltaHeader, *, subject: str) -> None:
    counts = header.base_block_counts
    reused = header.reused_pages
    if len(reused) != len(counts) or any(kept > there for kept, there in zip(reused, counts, strict=True)):
        raise FormatError(
            f"{subject}.reused_pages_by_group",
            expected=f"one count per group, none above {shown(list(counts))}",
            found=shown(list(reused)),
            stage=Stage.HEADER,
        )


def _take_digest(header: JsonObject, *, key: str, subject: str) -> Digest:
    return Digest.parse(header[key], subject=f"{subject}.{key}")


def _take_tokens(header: JsonObject, *, key: str, subject: str) -> int:
    return expect_int(header[key], subject=f"{subject}.{key}", minimum=1, maximum=_MAX_NUMBER)


def _take_counts(header: JsonObject, *, key: str, subject: str, minimum: int) -> tuple[int, ...]:
    values = expect_list(header[key], subject=f"{subject}.{key}", maximum=MAX_GROUPS)
    return tuple(
        expect_int(value, subject=f"{subject}.{key}", minimum=minimum, maximum=_MAX_NUMBER)
        for value in values
    )


def _take_tails(header: JsonObject, *, subject: str) -> tuple[LayerTail, ...]:
    subject = f"{subject}.layer_tails"
    values = expect_list(header["layer_tails"], subject=subject, maximum=MAX_LAYERS)
    return tuple(_parse_tail(value, subject=f"{subject}[{index}]") for index, value in enumerate(values))


def _parse_tail(value: JsonValue, *, subject: str) -> LayerTail:
    wire = expect_object(value, subject=subject, keys=_TAIL_KEYS)
    return LayerTail(
        name=expect_text(wire["name"], subject=f"{subject}.name"),
        byte_count=expect_int(wire["bytes"], subject=f"{subject}.bytes", minimum=0, maximum=_MAX_NUMBER),
        sha256=Digest.parse(wire["sha256"], subject=f"{subject}.sha256"),
    )
