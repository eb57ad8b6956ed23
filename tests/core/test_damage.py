"""Every named fault does one thing, the same thing every time, and a full check calls it by its name."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from app.core.digest import Digest
from app.core.errors import PlanError
from app.core.store.check import Problem, ProblemCode
from app.core.store.damage import FAULTS, Damaged, damage_root

from .roots import WholeRoot, problems_of, whole_root

SEEDS = (0, 1)
# What an entry leaves behind whose document cannot be read, or forgets an object.
LEFT_BEHIND = frozenset({ProblemCode.OBJECT_UNREFERENCED, ProblemCode.SEGMENT_UNREFERENCED})


@pytest.fixture
def root(shared_dir: Path, tmp_path: Path) -> WholeRoot:
    return whole_root(shared_dir, folder=tmp_path)


def found_in(root: WholeRoot, *, done: Damaged) -> list[Problem]:
    """The problems of a damaged root, without what the damaged entry leaves behind."""
    fault = done.fault
    if fault.codes & LEFT_BEHIND and fault.suits is None:
        return root.check()
    return [problem for problem in root.check() if problem.code not in LEFT_BEHIND]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", FAULTS)
def test_a_full_check_finds_exactly_the_fault(root: WholeRoot, name: str, seed: int) -> None:
    done = damage_root(root.path, name=name, seed=seed)
    problems = found_in(root, done=done)
    assert len(problems) == done.fault.problems
    assert {problem.code for problem in problems} <= done.fault.codes
    changed = {path.rsplit("/", 1)[-1] for path in done.paths}
    assert all(problem.path.rsplit("/", 1)[-1] in changed for problem in problems)


@pytest.mark.parametrize("name", FAULTS)
def test_the_same_seed_gives_the_same_root(root: WholeRoot, tmp_path: Path, name: str) -> None:
    other = tmp_path / "other"
    shutil.copytree(root.path, other)
    first, second = (damage_root(path, name=name, seed=5) for path in (root.path, other))
    assert (first.paths, first.entry) == (second.paths, second.entry)
    assert image_of(root.path) == image_of(other)


def test_seeds_reach_different_entries(root: WholeRoot, tmp_path: Path) -> None:
    hit = set()
    for seed in range(12):
        copy = tmp_path / f"copy{seed}"
        shutil.copytree(root.path, copy)
        hit.add(damage_root(copy, name="object-missing", seed=seed).entry)
    assert len(hit) > 4


@pytest.mark.parametrize("name", FAULTS)
def test_a_copy_of_hard_links_keeps_its_content(root: WholeRoot, tmp_path: Path, name: str) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(root.path, kept, copy_function=os.link)
    before = image_of(kept)
    damage_root(root.path, name=name)
    assert image_of(kept) == before
    assert problems_of(kept) == []


def test_the_asked_context_is_hit(root: WholeRoot) -> None:
    context = Digest(root.entries["page-delta-v3-768"]["context_digest"])
    done = damage_root(root.path, name="document-metadata-digest", context=context)
    assert done.entry is not None
    assert done.entry.context_digest == context
    assert [problem.code for problem in root.check()] == [ProblemCode.DOCUMENT_INCOMPATIBLE]


def test_a_root_at_work_is_refused(root: WholeRoot) -> None:
    before = image_of(root.path)
    with (root.path / ".maintenance.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        with pytest.raises(PlanError, match="lock taken"):
            damage_root(root.path, name="object-missing")
    assert image_of(root.path) == before


def test_a_root_whose_objects_lie_elsewhere_is_refused(root: WholeRoot, tmp_path: Path) -> None:
    chunks = root.path / "chunks"
    chunks.rename(tmp_path / "elsewhere")
    chunks.symlink_to(tmp_path / "elsewhere")
    assert root.check() == []
    with pytest.raises(PlanError, match="a link"):
        damage_root(root.path, name="object-missing")


def test_what_cannot_be_done_is_said(root: WholeRoot, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="one of object-flipped-bit"):
        damage_root(root.path, name="nonsense")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PlanError, match="an entry that object-missing can be done to"):
        damage_root(tmp_path / "empty", name="object-missing")


def image_of(root: Path) -> dict[str, tuple[int, bytes]]:
    """Names, kinds and contents."""
    return {
        str(path.relative_to(root)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in root.rglob("*")
    }
