"""Layouts, page counts, headers and layer spans (store-format §8.4 – §8.7)."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.core.digest import Digest
from app.core.errors import FormatError, PlanError, Stage
from app.core.store.snapshot import (
    encode_stream_header,
    layer_spans,
    parse_page_layout,
    verify_stream_header,
)

from .rig import Vector

LAYOUT: dict[str, Any] = {
    "groups": [
        {
            "block_size": 64,
            "layers": [
                {"bytes_per_page": 768, "dtype": "torch.uint8", "name": "a", "page_shape": [1, 768]},
                {"bytes_per_page": 320, "dtype": "torch.uint8", "name": "b", "page_shape": [1, 320]},
            ],
            "reuse_policy": "full",
            "reuse_window_tokens": None,
        },
        {
            "block_size": 32,
            "layers": [{"bytes_per_page": 256, "dtype": "torch.uint8", "name": "c", "page_shape": [256]}],
            "reuse_policy": "sliding",
            "reuse_window_tokens": 129,
        },
    ]
}


def changed(change: Callable[[Any], object]) -> bytes:
    document = copy.deepcopy(LAYOUT)
    change(document)
    return json.dumps(document).encode()


BAD: dict[str, Callable[[Any], object]] = {
    "no groups": lambda d: d.update(groups=[]),
    "groups not a list": lambda d: d.update(groups={}),
    "additional key": lambda d: d.update(note=1),
    "group key missing": lambda d: d["groups"][0].pop("block_size"),
    "group key additional": lambda d: d["groups"][0].update(x=1),
    "group null": lambda d: d.update(groups=[None]),
    "block size zero": lambda d: d["groups"][0].update(block_size=0),
    "block size boolean": lambda d: d["groups"][0].update(block_size=True),
    "no layers": lambda d: d["groups"][0].update(layers=[]),
    "layer key missing": lambda d: d["groups"][0]["layers"][0].pop("dtype"),
    "page bytes zero": lambda d: d["groups"][0]["layers"][0].update(bytes_per_page=0),
    "page bytes fraction": lambda d: d["groups"][0]["layers"][0].update(bytes_per_page=768.0),
    "page bytes over 63 bits": lambda d: d["groups"][0]["layers"][0].update(bytes_per_page=2**63),
    "shape empty": lambda d: d["groups"][0]["layers"][0].update(page_shape=[]),
    "shape zero": lambda d: d["groups"][0]["layers"][0].update(page_shape=[0]),
    "dtype not text": lambda d: d["groups"][0]["layers"][0].update(dtype=None),
    "name empty": lambda d: d["groups"][0]["layers"][0].update(name=""),
    "layers unsorted": lambda d: d["groups"][0]["layers"].reverse(),
    "layer twice in a group": lambda d: d["groups"][0]["layers"][1].update(name="a"),
    "layer in two groups": lambda d: d["groups"][1]["layers"][0].update(name="a"),
    "policy unknown": lambda d: d["groups"][0].update(reuse_policy="none"),
    "policy null": lambda d: d["groups"][0].update(reuse_policy=None),
    "window without sliding": lambda d: d["groups"][0].update(reuse_window_tokens=5),
    "sliding without window": lambda d: d["groups"][1].update(reuse_window_tokens=None),
    "window of one": lambda d: d["groups"][1].update(reuse_window_tokens=1),
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD.keys())
def test_a_layout_that_is_none(change: Callable[[Any], object]) -> None:
    with pytest.raises(FormatError, match=r"^layout L"):
        parse_page_layout(changed(change), subject="layout L")


def test_a_layout_is_the_same_in_any_spelling() -> None:
    compact = parse_page_layout(json.dumps(LAYOUT, sort_keys=True, separators=(",", ":")).encode())
    pretty = parse_page_layout(json.dumps(LAYOUT, indent=2).encode())
    assert compact == pretty
    assert compact.sha256 == pretty.sha256
    assert parse_page_layout(pretty.canonical) == compact


def test_layout_digests_of_the_vectors(shared_dir: Path) -> None:
    digests = json.loads((shared_dir / "vectors" / "digests.json").read_bytes())
    for item in digests["layouts"]:
        layout = parse_page_layout(item["canonical"].encode())
        assert layout.canonical.decode() == item["canonical"]
        assert layout.sha256 == item["layout_sha256"]


@pytest.mark.parametrize(
    ("span_tokens", "counts"), [(1, (1, 1)), (64, (1, 2)), (65, (2, 3)), (128, (2, 4)), (1024, (16, 4))]
)
def test_page_counts(span_tokens: int, counts: tuple[int, ...]) -> None:
    layout = parse_page_layout(changed(lambda d: None))
    assert layout.block_counts(span_tokens) == counts
    assert layout.payload_bytes(block_counts=counts) == counts[0] * 1088 + counts[1] * 256


def test_a_span_without_tokens_has_no_counts() -> None:
    with pytest.raises(PlanError):
        parse_page_layout(changed(lambda d: None)).block_counts(0)


def test_layer_spans_and_header_of_the_vectors(vectors: dict[str, Vector]) -> None:
    for vector in vectors.values():
        counts = vector.layout.block_counts(vector.entry["span_tokens"])
        assert list(counts) == vector.entry["block_counts"]
        header = encode_stream_header(vector.layout.sha256, block_counts=counts)
        assert len(header) == vector.entry["header_bytes"]
        spans = layer_spans(vector.layout, block_counts=counts, header_bytes=len(header))
        found = [(span.name, span.pages, span.group, span.start, span.end) for span in spans]
        keys = ("name", "pages", "group", "stream_start", "stream_end")
        assert found == [tuple(layer[key] for key in keys) for layer in vector.entry["layers"]]


HEADER = encode_stream_header(Digest("ab" * 32), block_counts=(16, 4, 1))
BAD_HEADERS = {
    "empty object": b"",
    "magic": b"SPHP2\0" + HEADER[6:],
    "delta magic": b"SPHD1\0" + HEADER[6:],
    "length": HEADER[:6] + b"\xff\xff\xff\xff" + HEADER[10:],
    "cut": HEADER[:-1],
    "another layout": encode_stream_header(Digest("cd" * 32), block_counts=(16, 4, 1)),
    "other counts": encode_stream_header(Digest("ab" * 32), block_counts=(15, 4, 1)),
    "one bit": HEADER[:-1] + bytes([HEADER[-1] ^ 1]),
}


@pytest.mark.parametrize("start", BAD_HEADERS.values(), ids=BAD_HEADERS.keys())
def test_a_header_that_is_not_the_only_possible_one(start: bytes) -> None:
    with pytest.raises(FormatError, match=r"^stream header: ") as refused:
        verify_stream_header(memoryview(start), expected=HEADER)
    assert refused.value.stage is Stage.HEADER


def test_bytes_behind_the_header_are_not_looked_at() -> None:
    verify_stream_header(HEADER + b"\0\xff", expected=HEADER)
