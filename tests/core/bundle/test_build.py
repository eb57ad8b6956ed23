"""The builder: the same bytes every time, nothing half made, nothing taken that does not hold."""

import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.core.bundle import archive, build, layout, sample_log
from app.core.bundle.build import BundleRequest, clear_leftovers
from app.core.bundle.records import EXPORTED, Leaf, RowRecord, subtrees
from app.core.bundle.sample import make_sample
from app.core.errors import CoreError
from app.core.ledger.merkle import Node
from app.core.qualify import drafts
from app.ledger.repository.views import VIEWS
from tests.core.bundle import rig


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    built = [rig.build_with(tmp_path / name, rig.small_sample()) for name in ("one.tar", "two.tar")]
    assert built[0] == built[1]
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes() == rig.small()
    assert built[0].byte_count == len(rig.small())
    assert sorted(one.name for one in tmp_path.iterdir()) == ["one.tar", "two.tar"]


def test_rows_may_come_in_any_order_and_receipts_from_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = rig.small_sample()
    asked: list[Sequence[str]] = []

    def read(wanted: Sequence[str]) -> dict[str, bytes]:
        asked.append(wanted)
        return dict(sample.log.documents)

    monkeypatch.setattr(build, "_BATCH", 2)
    reversed_rows = [replace(leaf, rows=leaf.rows[::-1]) for leaf in sample.log.leaves]
    rig.build_with(tmp_path / "x.tar", sample, log=iter(reversed_rows), read_receipts=read)
    assert (tmp_path / "x.tar").read_bytes() == rig.small()
    assert [len(one) for one in asked] == [2, 1]
    assert [one for batch in asked for one in batch] == sorted(sample.log.documents)


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    built = rig.build_with(tmp_path / "x.tar", rig.small_sample(), progress=lambda *said: told.append(said))
    size = len(rig.small_sample().log.leaves)
    assert told == [("entries", size), ("receipts", 3), ("bytes", built.byte_count)]


@pytest.mark.parametrize("room", [0, 1, 500, 20_000, 60_000, 100_000, 200_000])
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    left = [room]

    def limited(write: Callable[[Any, bytes], None]) -> Callable[[Any, bytes], None]:
        def writing(self: Any, chunk: bytes) -> None:
            left[0] -= len(chunk)
            if left[0] < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(self, chunk)

        return writing

    monkeypatch.setattr(build._Spool, "write", limited(build._Spool.write))
    monkeypatch.setattr(archive.ArchiveWriter, "_write", limited(archive.ArchiveWriter._write))
    (tmp_path / "bundle.tar").write_bytes(b"an earlier bundle")
    with pytest.raises(OSError, match="No space left"):
        rig.build_with(tmp_path / "bundle.tar", rig.small_sample())
    assert [one.name for one in tmp_path.iterdir()] == ["bundle.tar"]
    assert (tmp_path / "bundle.tar").read_bytes() == b"an earlier bundle"


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "bundle.tar"

    class KilledError(BaseException):
        pass

    def log() -> Iterator[Leaf]:
        yield rig.small_sample().log.leaves[0]
        assert [one.name for one in tmp_path.iterdir()] == [".bundle.tar.unfinished"]
        raise KilledError

    with pytest.raises(KilledError):
        rig.build_with(target, rig.small_sample(), log=log())
    assert not list(tmp_path.iterdir())
    leftovers = tmp_path / ".bundle.tar.unfinished"
    leftovers.mkdir()
    (leftovers / "archive").write_bytes(b"half")
    clear_leftovers(target)
    assert not list(tmp_path.iterdir())
    leftovers.mkdir()
    rig.build_with(target, rig.small_sample())
    assert [one.name for one in tmp_path.iterdir()] == ["bundle.tar"]


def _changed_row(leaves: list[Leaf], **columns: tuple[str, str]) -> list[Leaf]:
    leaf = next(one for one in leaves if any(row.view == "verdict" for row in one.rows))
    first, *rest = leaf.rows
    changed = replace(leaf, rows=(replace(first, columns={**first.columns, **columns}), *rest))
    return [changed if one is leaf else one for one in leaves]


def _refusals() -> dict[str, tuple[dict[str, Any], str]]:
    sample = rig.small_sample()
    leaves, size = sample.log.leaves, len(sample.log.leaves)
    request = BundleRequest(name=sample.signer.name, everything=True, start=0, size=size)
    raw = dict(sample.log.documents)
    wrong = {digest: document + b" " for digest, document in raw.items()}
    foreign = RowRecord(view="account", key="x", columns={})
    return {
        "a gap": ({"log": leaves[:3] + leaves[4:]}, "expected entry 3 next, found 4"),
        "too few": ({"log": leaves[:-1]}, "entries as signed"),
        "another size": ({"request": replace(request, size=size - 1)}, "as asked for"),
        "another log": ({"request": replace(request, name="other/log")}, "as asked for"),
        "a head of another size": ({"checkpoint": sample.checkpoint(size - 1)}, "consistency proof"),
        "a head unsigned": ({"checkpoint": b"x"}, "checkpoint"),
        "no proof": ({"consistency": None}, "it and a consistency proof, or neither"),
        "a changed row": ({"log": _changed_row(leaves, outcome=("text", "incomplete"))}, "it was changed"),
        "a missing row": ({"log": [replace(leaves[0], rows=()), *leaves[1:]]}, "every row it names"),
        "a row of no entry": (
            {"log": [replace(leaves[0], rows=leaves[1].rows), *leaves[1:]]},
            "does not name",
        ),
        "a row twice": ({"log": [replace(leaves[0], rows=leaves[0].rows * 2), *leaves[1:]]}, "found twice"),
        "a row of an account": ({"log": [replace(leaves[0], rows=(foreign,)), *leaves[1:]]}, "a view that"),
        "changed bytes": ({"read_receipts": lambda wanted: wrong}, "bytes of digest"),
        "no bytes": ({"read_receipts": lambda wanted: {}}, "found 0 bytes"),
    }


@pytest.mark.parametrize("name", _refusals())
def test_what_does_not_hold_makes_no_bundle(tmp_path: Path, name: str) -> None:
    changes, said = _refusals()[name]
    with pytest.raises(CoreError, match=said):
        rig.build_with(tmp_path / "bundle.tar", rig.small_sample(), **changes)
    assert not list(tmp_path.iterdir())


def test_no_view_with_secrets_is_exported() -> None:
    assert VIEWS.keys() >= EXPORTED
    assert not EXPORTED & {"account", "api_key"}


def test_subtrees_cover_a_range_with_the_fewest_nodes() -> None:
    assert subtrees(0, 0) == []
    assert subtrees(0, 7) == [Node(2, 0), Node(1, 2), Node(0, 6)]
    assert subtrees(3, 12) == [Node(0, 3), Node(2, 1), Node(2, 2)]
    for start in range(20):
        for end in range(start, 40):
            covered = [
                place
                for node in subtrees(start, end)
                for place in range(node.position << node.level, (node.position + 1) << node.level)
            ]
            assert list(range(start, end)) == covered


def _marked(leaf: Leaf, *, start: int) -> Leaf:
    """A leaf as a period from `start` on has it."""
    return replace(leaf, rows=tuple(replace(row, selected=leaf.index >= start) for row in leaf.rows))


def test_a_period_has_the_entries_of_its_range_and_the_root_of_all(tmp_path: Path) -> None:
    """Images were registered before the range: the entries of all but the last are pruned to nodes."""
    sample = rig.small_sample()
    size = len(sample.log.leaves)
    request = rig.period(sample, start=3)
    log = rig.part(sample, start=3, selected=lambda row: row.view != "image")
    built = rig.build_with(tmp_path / "part.tar", sample, request=request, log=log)
    raw = (tmp_path / "part.tar").read_bytes()
    found = rig.verify(raw, checkpoint=sample.checkpoint(size))
    assert (rig.said(found), found.exit_code, found.counts["entries"]) == ("", 0, size - 2)
    assert built.counts["images"] == 0
    # A head inside what is pruned cannot be compared: that is a finding, not silence.
    assert "nothing to compare with" in rig.said(rig.verify(raw, checkpoint=sample.checkpoint(1)))


def test_context_is_kept_apart_from_what_was_selected(tmp_path: Path) -> None:
    """Earlier receipts are there for judging, and stand in no table."""
    sample = rig.small_sample()
    size = len(sample.log.leaves)
    request = rig.period(sample, start=size - 4)
    instant = str(int(sample.log.leaves[size - 4].rows[0].text("created_at")))
    log = rig.part(sample, start=0, selected=lambda row: int(row.text("created_at")) >= int(instant))
    built = rig.build_with(tmp_path / "part.tar", sample, request=request, log=log)
    found = rig.verify((tmp_path / "part.tar").read_bytes())
    assert (rig.said(found), found.exit_code) == ("", 0)
    assert 0 < built.counts["verdicts"] < found.counts["verdicts_judged"]
    assert found.counts["verdicts_context"] == 0  # the whole past is there: context is made again too
    assert built.counts["coverage"] == 3  # the matrix is the state at the end, from whatever is known


def test_context_may_be_left_out_and_is_counted(tmp_path: Path) -> None:
    """Rows of entries before the range: the entries name them, the bundle does not carry them."""
    sample = rig.small_sample()
    size = len(sample.log.leaves)
    start = size - 1
    log = [
        replace(
            leaf, rows=tuple(row for row in _marked(leaf, start=start).rows if row.view != "receipt_origin")
        )
        for leaf in sample.log.leaves
    ]
    rig.build_with(tmp_path / "part.tar", sample, request=rig.period(sample, start=start), log=log)
    found = rig.verify((tmp_path / "part.tar").read_bytes())
    assert (rig.said(found), found.exit_code) == ("", 0)
    assert found.counts["outside"] == 3
    report = rig.unpack((tmp_path / "part.tar").read_bytes())[layout.REPORT].decode()
    assert "<td>rows the entries name, outside the selection</td><td>3</td>" in report


def test_a_pruned_part_may_not_hide_the_previous_head(tmp_path: Path) -> None:
    sample = rig.small_sample()
    assert 0 < sample.previous < 7
    with pytest.raises(CoreError, match="a size at which no pruned part lies"):
        rig.build_with(
            tmp_path / "part.tar",
            sample,
            request=rig.period(sample, start=8),
            log=rig.part(sample, start=8, selected=lambda row: True),
        )


def test_what_is_only_context_is_judged_where_its_whole_past_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The matrix shows the newest verdicts whatever they were asked for; a lie cannot hide as context."""
    truth = drafts.composed_draft
    size = len(rig.small_sample().log.leaves)

    def lying(receipts: Any, **named: Any) -> Any:
        draft = truth(receipts, **named)
        return draft and replace(draft, document=draft.document.replace(b"rejected", b"qualified"))

    monkeypatch.setattr(sample_log, "composed_draft", lying)
    monkeypatch.setattr(sample_log, "index_columns", lambda draft: drafts.index_columns(_read_again(draft)))
    sample = make_sample(seed=rig.SEED, receipts=3)
    assert len(sample.log.leaves) == size
    request = rig.period(sample, start=size - 1)
    log = rig.part(sample, start=0, selected=lambda row: row.view == "operational_exception")
    built = rig.build_with(tmp_path / "part.tar", sample, request=request, log=log)
    assert built.counts["verdicts"] == 0
    found = rig.verify((tmp_path / "part.tar").read_bytes())
    assert "expected outcome 'rejected' as the rules have it, found 'qualified'" in rig.said(found)


def _read_again(draft: drafts.Draft) -> drafts.Draft:
    return drafts.draft_from(draft.document, subject="verdict")
