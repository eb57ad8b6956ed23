"""The inventory scan: what is found, what is named as a problem, and that nothing is touched."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.core.store.synth import synthesize_store
from workers.inventory import is_inside, rank_roots, scan


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    synthesize_store(tmp_path / "stores" / "one", ranks=2, bytes_per_rank=300_000)
    return tmp_path / "stores"


def test_roots_are_found_two_levels_down_and_by_themselves(stores: Path) -> None:
    expected = [stores / "one" / "rank0", stores / "one" / "rank1"]
    assert rank_roots([stores]) == expected
    assert rank_roots([stores / "one"]) == expected
    assert rank_roots([stores / "one" / "rank1"]) == expected[1:]
    assert rank_roots([stores / "missing"]) == []


def test_symbolic_link_below_a_served_folder_is_not_followed(stores: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (stores / "one" / "rank0").rename(tmp_path / "outside" / "rank0")
    (stores / "one" / "linked").symlink_to(tmp_path / "outside" / "rank0")
    assert rank_roots([stores]) == [stores / "one" / "rank1"]


def test_scan_names_every_problem_and_still_finds_the_rest(stores: Path) -> None:
    manifests = stores / "one" / "rank0" / "manifests"
    key = next(manifests.iterdir())
    document = next(key.iterdir())
    (key / f"{'0' * 64}.json").write_bytes(document.read_bytes())
    (key / f"{'1' * 64}.json").write_bytes(b"{")
    os.mkfifo(key / f"{'2' * 64}.json")
    (key / "notes.txt").write_text("mine")
    foreign = manifests / ("f" * 64)
    foreign.mkdir()
    (foreign / document.name).write_bytes(document.read_bytes())
    result = scan([stores])
    assert [found.root.name for found in result.found] == ["rank0", "rank1"]
    problems = {Path(path).parent.name[:4] + Path(path).name[:2]: detail for path, detail in result.problems}
    misplaced = "ffff" + document.name[:2]
    assert set(problems) == {*(key.name[:4] + name for name in ("00", "11", "22")), misplaced}
    assert "storage key" in problems[misplaced]
    assert (key / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("kind", ["loop", "unreadable", "vanished"])
def test_folder_that_cannot_be_looked_into_hides_no_other(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """An inventory without them would say that everything is gone, and refuse every restore."""
    bad = tmp_path / "bad"
    bad.symlink_to(bad) if kind == "loop" else (bad / "below").mkdir(parents=True)
    listed = Path.iterdir

    def iterdir(folder: Path) -> Iterator[Path]:
        if folder.name == "below":
            raise OSError(5 if kind == "unreadable" else 2, "cannot be listed", str(folder))
        return listed(folder)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    result = scan([bad, stores])
    assert [found.root.name for found in result.found] == ["rank0", "rank1"]
    assert [path for path, _ in result.problems] == [str(bad if kind == "loop" else bad / "below")]


@pytest.mark.parametrize("path", ["loop", "loop/x", "with\0zero"])
def test_what_is_no_path_is_not_inside(tmp_path: Path, path: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert not is_inside(tmp_path / path, folders=[tmp_path])


def test_scan_changes_nothing(stores: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(stores.rglob("*"))
        }

    before = state()
    scan([stores])
    assert state() == before


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("served", True),
        ("served/rank0", True),
        ("served/../other", False),
        ("served-not", False),
        ("/etc", False),
    ],
)
def test_only_served_folders_are_inside(tmp_path: Path, path: str, expected: bool) -> None:
    assert is_inside(tmp_path / path, folders=[tmp_path / "served"]) is expected


def test_link_out_of_a_served_folder_is_not_inside(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "out").symlink_to("/etc")
    assert not is_inside(tmp_path / "served" / "out", folders=[tmp_path / "served"])


def test_pages_of_every_kind_are_found_and_rows_are_named(shared_dir: Path) -> None:
    vectors = shared_dir / "vectors"
    folders = ["page-delta-v1", "page-delta-v2", "page-delta-v3", "legacy-pages-chunks"]
    result = scan([vectors / folder for folder in folders])
    assert len(result.found) == 2 + 4 + 3 + 1
    assert not result.problems
    rows = scan([vectors / "legacy-rows"])
    assert not rows.found
    assert all("per-token rows" in detail for _, detail in rows.problems)
