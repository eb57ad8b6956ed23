"""A bundle holds what its request says: nothing asked for is hidden or left out; its period is true."""

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.core.bundle import layout
from app.core.bundle.build import BundleRequest
from app.core.bundle.records import Leaf, RowRecord
from app.core.bundle.request import Selection
from app.core.bundle.sample_log import BEGINNING
from app.core.bundle.verify import Verification
from app.core.ledger.leaf import instant_text
from tests.core.bundle import rig

GOOD, OTHER = "a1" * 32, "b2" * 32
Choose = Callable[[Leaf, RowRecord], bool]


def at(seconds: float) -> str:
    """An instant of the sample: its entries are a second apart."""
    return instant_text(BEGINNING + timedelta(seconds=seconds))


def size() -> int:
    return len(rig.small_sample().log.leaves)


def asked(**changes: Any) -> BundleRequest:
    """Everything, with changes."""
    sample = rig.small_sample()
    everything = BundleRequest(name=sample.signer.name, everything=not changes, start=0, size=size())
    return replace(everything, **changes)


def told(request: BundleRequest, tmp_path: Path, *, choose: Choose | None = None) -> Verification:
    """What the verifier says of a bundle of this request; rows chosen as the request has it, or otherwise."""
    sample = rig.small_sample()
    selection = Selection(request)
    rows = [row for leaf in sample.log.leaves for row in leaf.rows]
    selection.learn(row for row in rows if row.view in selection.deciding)
    selection.learn_attempts(row for row in rows if row.view in selection.attempts)

    def takes(leaf: Leaf, row: RowRecord) -> bool:
        return selection.takes(leaf.index, row)

    def chosen(leaf: Leaf) -> Leaf:
        said = [(row, (choose or takes)(leaf, row)) for row in leaf.rows]
        return replace(leaf, rows=tuple(replace(row, selected=taken) for row, taken in said))

    rig.build_with(
        tmp_path / "x.tar", sample, request=request, log=[chosen(leaf) for leaf in sample.log.leaves]
    )
    return rig.verify((tmp_path / "x.tar").read_bytes())


REQUESTS: dict[str, dict[str, Any]] = {
    "everything": {},
    "from the fourth on": {"start": 3, "period_from": at(3)},
    "from between two": {"start": 4, "period_from": at(3.5)},
    "from before the log": {"period_from": at(-10)},
    "until the end": {"period_to": at(60)},
    "an image": {"images": (GOOD,)},
    "two images": {"images": (GOOD, OTHER)},
    "a topology": {"topology": "TP2/DCP1"},
    "a topology nobody judged": {"topology": "TP64/DCP1"},
    "an image in a period": {"images": (OTHER,), "start": 5, "period_from": at(5)},
    "an image and a topology": {"images": (GOOD,), "topology": "TP2/DCP1"},
}


@pytest.mark.parametrize("name", REQUESTS)
def test_what_the_server_chooses_the_verifier_chooses(name: str, tmp_path: Path) -> None:
    found = told(asked(**REQUESTS[name]), tmp_path)
    assert (rig.said(found), found.exit_code) == ("", 0)


@pytest.mark.parametrize("name", [name for name in REQUESTS if "nobody" not in name])
def test_a_rejected_verdict_cannot_hide_as_context(name: str, tmp_path: Path) -> None:
    """Its row stands in no table then; the log, the receipts and the rules say nothing against it."""
    found = told(asked(**REQUESTS[name]), tmp_path, choose=lambda _, row: False)
    assert "expected selected, as it was asked for, found context" in rig.said(found)


def test_what_nobody_asked_for_is_in_no_table(tmp_path: Path) -> None:
    request = asked(**REQUESTS["an image in a period"])
    found = told(request, tmp_path, choose=lambda leaf, row: leaf.index >= request.start)
    assert "expected context: nobody asked for it, found selected" in rig.said(found)
    found = told(request, tmp_path, choose=lambda leaf, row: True)
    assert "expected context: nobody asked for it, found selected" in rig.said(found)


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "everything that is a part": (
        {"everything": True, "period_from": at(3), "start": 3},
        "request.everything: expected false",
    ),
    "a part that is everything": ({"everything": False}, "request.everything: expected true"),
    "a period that begins later": (
        {"everything": False, "start": 5, "period_from": at(2)},
        f"entry 4: expected one before the period from {at(2)}",
    ),
    "a period that began earlier": (
        {"everything": False, "start": 2, "period_from": at(4)},
        f"entry 2: expected one of {at(4)} or later",
    ),
    "a period that was over": (
        {"everything": False, "period_to": at(3)},
        f"expected one before {at(3)}",
    ),
    "a range without a period": (
        {"everything": False, "start": 2, "topology": "TP2/DCP1"},
        "request.start: expected 0",
    ),
    "an instant in another spelling": (
        {"everything": False, "period_from": "2025-01-01T00:00:00Z"},
        "request.period_from: expected YYYY",
    ),
    "no instant": ({"everything": False, "period_to": "tomorrow"}, "request.period_to: expected YYYY"),
    "images out of order": ({"everything": False, "images": (OTHER, GOOD)}, "request.images: expected"),
    "no image": ({"everything": False, "images": ("runtime",)}, "request.images: expected"),
    "no topology": ({"everything": False, "topology": "4/1"}, "request.topology: expected TPn/DCPn"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_request_is_what_the_log_answers(name: str, tmp_path: Path) -> None:
    changes, said = LIES[name]
    found = told(asked(**changes), tmp_path)
    assert (found.exit_code, said in rig.said(found)) == (1, True), rig.said(found)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_row_of_the_range_cannot_be_left_out(name: str, tmp_path: Path) -> None:
    """What is not there might be what speaks against: an image's rows cannot be told from others unseen."""
    request = asked(**REQUESTS[name])
    told(request, tmp_path)
    files = rig.unpack((tmp_path / "x.tar").read_bytes())
    rows = rig.lines(files[layout.ROWS])
    gone = next(one for one in rows[::-1] if one["view"] == "verdict" and one["leaf"] >= request.start)
    files[layout.ROWS] = rig.text_of([one for one in rows if one is not gone])
    found = rig.verify(rig.signed_again(files))
    assert f"entry {gone['leaf']}: expected every row it names" in rig.said(found)


def test_an_image_without_evidence_for_the_topology_stands_in_the_matrix(tmp_path: Path) -> None:
    """What is known of it on another topology does not count; every registered image has a line."""
    for name, without in (("a topology", 1), ("a topology nobody judged", 3), ("everything", 1)):
        told(asked(**REQUESTS[name]), tmp_path)
        table = rig.unpack((tmp_path / "x.tar").read_bytes())[layout.table_path("coverage")].decode()
        lines = list(csv.DictReader(io.StringIO(table, newline="")))
        assert len({line["image"] for line in lines}) == 3, name
        assert [line["outcome"] for line in lines].count("no evidence") == without, name
