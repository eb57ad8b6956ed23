"""Pinned root documents: the serial digest may be skipped for exactly the document that was checked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.core.digest import Digest
from app.core.restore.execute import RankOrder
from app.core.restore.report import RankOutcome, StreamDigestState, parse_report

from .rig import Vector, flip_byte, restore_at


def pinned(vector: Vector, **changes: Any) -> RankOrder:
    sha256 = Digest(vector.entry["manifest_sha256"])
    return vector.order(**{"manifest_sha256": sha256, "stream_pinned": True, **changes})


def test_pinned_document_restores_to_the_same_pages_without_the_serial_digest(vector: Vector) -> None:
    with vector.device() as device:
        restored = restore_at(vector.root, order=pinned(vector), device=device)
        assert restored.pages is not None
        assert list(device.pool_digests(vector.layout)) == vector.entry["placement"]["pool_sha256"]
    assert restored.report.stream_digest is StreamDigestState.PINNED
    assert parse_report(restored.report.to_document()) == restored.report


def test_unpinned_document_recomputes_it(vector: Vector) -> None:
    with vector.device() as device:
        restored = restore_at(vector.root, order=vector.order(), device=device)
    assert restored.report.stream_digest is StreamDigestState.RECOMPUTED


def test_other_document_than_the_pinned_one_is_an_integrity_error_not_a_miss(vector: Vector) -> None:
    with vector.device() as device:
        order = pinned(vector, manifest_sha256=Digest("0" * 64))
        restored = restore_at(vector.root, order=order, device=device)
    assert (restored.report.outcome, restored.report.submissions) == (RankOutcome.CORRUPT, 0)


def test_pinned_without_a_document_is_a_programming_error(vector: Vector) -> None:
    with pytest.raises(ValueError, match="stream_pinned"):
        vector.order(stream_pinned=True)


@pytest.mark.parametrize("index", [0, 4, 8])
def test_every_object_is_still_authenticated(
    vector: Vector, object_file: Callable[[int], Path], index: int
) -> None:
    flip_byte(object_file(index))
    with vector.device() as device:
        restored = restore_at(vector.root, order=pinned(vector), device=device)
        assert device.free_bytes == device.pool_bytes
    assert restored.report.outcome is RankOutcome.CORRUPT
    assert restored.report.problem is not None
    assert object_file(index).stem in restored.report.problem.subject
