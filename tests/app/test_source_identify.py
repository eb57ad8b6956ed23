"""``sparkgate source identify`` on real repositories: every kind, every change, every file no tree has."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli.source_checkout import MOST_SHOWN
from app.core.source_tree import digest_folder
from tests.app.checkouts import FILES, append, changes, git, link, look, make_checkout
from workers.runtime import measure_runtime


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path)


def test_clean_checkout(checkout: Path) -> None:
    found = look(checkout)
    assert (found.kind, found.branch, found.dirty, found.problems.count) == ("checkout", "main", False, 0)
    assert found.commit == git(checkout, "rev-parse", "HEAD")
    assert found.tree == git(checkout, "rev-parse", "HEAD^{tree}")
    assert found.base == git(checkout, "rev-parse", "HEAD^")
    assert found.repository == str(checkout.parent / "remote")
    assert (found.source_sha256, found.source_files) == (digest_folder(checkout).sha256, 6)


def test_one_commit_has_one_digest_however_it_is_held(checkout: Path, tmp_path: Path) -> None:
    """Checkout, with ignored files, bare clone, shallow clone, worktree, exported folder: the same files."""
    (checkout / "ignored").mkdir()
    (checkout / "ignored" / "x").write_text("not a source")
    git(tmp_path, "clone", "-q", "--bare", str(checkout), "bare")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{checkout}", "shallow")
    git(checkout, "worktree", "add", "-q", "--detach", str(tmp_path / "worktree"))
    (tmp_path / "folder").mkdir()
    git(checkout, "archive", "-o", str(tmp_path / "x.tar"), "HEAD")
    subprocess.run(["tar", "-xf", str(tmp_path / "x.tar"), "-C", str(tmp_path / "folder")], check=True)
    found = {name: look(tmp_path / name) for name in ("clone", "bare", "shallow", "worktree", "folder")}
    assert len({source.source_sha256 for source in found.values()}) == 1
    assert found["clone"].source_sha256 is not None
    assert len({source.commit for name, source in found.items() if name != "folder"}) == 1
    kinds = {name: (source.kind, source.dirty, source.branch) for name, source in found.items()}
    assert kinds == {
        "clone": ("checkout", False, "main"),
        "bare": ("bare", None, "main"),
        "shallow": ("checkout", False, "main"),
        "worktree": ("checkout", False, None),
        "folder": ("folder", None, None),
    }
    assert "history: shallow; ancestors beyond its end are not here" in found["shallow"].notes
    assert "HEAD: detached, on no branch" in found["worktree"].notes
    assert "git: no metadata; commit and tree are not known" in found["folder"].notes
    assert (found["folder"].commit, found["folder"].repository) == (None, None)


def assume_unchanged(checkout: Path) -> None:
    """git status would not tell."""
    git(checkout, "update-index", "--assume-unchanged", "code/a.py")
    append(checkout)


def same_size_and_time(checkout: Path) -> None:
    path = checkout / "code/a.py"
    before = path.stat()
    path.write_bytes(b"x = 9\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def stage_then_restore(checkout: Path) -> None:
    append(checkout)
    git(checkout, "add", "-A")
    (checkout / "code/a.py").write_bytes(FILES["code/a.py"])


def merge_conflict(checkout: Path) -> None:
    git(checkout, "checkout", "-q", "-b", "other", "HEAD^")
    (checkout / "more.py").write_text("theirs\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "other")
    with pytest.raises(subprocess.CalledProcessError):
        git(checkout, "merge", "-q", "main")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (append, {"modified": ["code/a.py"]}),
        (assume_unchanged, {"modified": ["code/a.py"]}),
        (same_size_and_time, {"modified": ["code/a.py"]}),
        (stage_then_restore, {"modified": ["code/a.py"]}),
        (lambda c: (c / "run").chmod(0o644), {"modified": ["run"]}),
        (lambda c: (c / "run").unlink(), {"deleted": ["run"]}),
        (lambda c: git(c, "rm", "-q", "--cached", "run"), {"deleted": ["run"], "untracked": ["run"]}),
        (lambda c: (c / "new.py").write_text("n"), {"untracked": ["new.py"]}),
        (lambda c: ((c / "new.py").write_text("n"), git(c, "add", "new.py")), {"added": ["new.py"]}),
        (merge_conflict, {"unmerged": ["more.py"]}),
        (lambda c: (c / "new.pyc").write_text("compiled"), {}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_changes_are_found_and_named(
    checkout: Path, change: Callable[[Path], object], expected: dict[str, list[str]]
) -> None:
    change(checkout)
    found = look(checkout)
    assert (changes(found), found.dirty) == (expected, bool(expected))
    assert found.source_sha256 == digest_folder(checkout).sha256


def test_line_ends_of_another_system_are_no_change(checkout: Path) -> None:
    before = look(checkout).source_sha256
    (checkout / "code/a.py").write_bytes(b"x = 1\r\n")
    found = look(checkout)
    assert (found.dirty, found.source_sha256) == (False, before)
    assert "line ends: CRLF for LF in 1 files, no change" in found.notes


def test_list_of_changes_is_bounded_and_counted(checkout: Path) -> None:
    for number in range(MOST_SHOWN + 5):
        (checkout / f"n{number:03}").write_text("")
    untracked = look(checkout).to_document()["changes"]["untracked"]
    assert (untracked["count"], len(untracked["first"])) == (MOST_SHOWN + 5, MOST_SHOWN)


def submodule(checkout: Path) -> None:
    remote = str(checkout.parent / "remote")
    git(checkout, "-c", "protocol.file.allow=always", "submodule", "add", "-q", remote, "sub")
    git(checkout, "commit", "-q", "-m", "sub")


def nested(checkout: Path) -> None:
    git(checkout, "init", "-q", "inner")
    (checkout / "inner/x").write_text("")


def strange_name(checkout: Path) -> None:
    (checkout / os.fsdecode(b"code/\xff.py")).write_text("")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "name")


def linked_folder(checkout: Path) -> None:
    (checkout / "code").rename(checkout.parent / "code")
    (checkout / "code").symlink_to(checkout.parent / "code")


@pytest.mark.parametrize(
    ("make", "problem", "dirty"),
    [
        (link, "code/link: expected a file: no link is part of a source tree, found a symbolic link", False),
        (submodule, "sub: expected a file, found a submodule at ", False),
        (nested, "inner/: expected files, found a repository of its own", False),
        (strange_name, r"path b'code/\xff.py': expected UTF-8, found byte 0xff at 5", None),
        (
            lambda c: (c / "new").symlink_to("run"),
            "new: expected a file: no link is part of a source tree, found a symbolic link",
            True,
        ),
        (linked_folder, "code/a.py: expected a file below folders, found a symbolic link on the way", True),
        (
            lambda c: ((c / "run").unlink(), (c / "run").symlink_to("more.py")),
            "run: expected a file: no link is part of a source tree, found a symbolic link",
            True,
        ),
    ],
    ids=["link", "submodule", "nested", "name", "new link", "linked folder", "link instead"],
)
def test_what_no_tree_has_is_named_and_leaves_the_digest_unknown(
    checkout: Path, make: Callable[[Path], object], problem: str, dirty: bool | None
) -> None:
    make(checkout)
    found = look(checkout)
    assert [text for text in found.problems.first if text.startswith(problem)], found.problems.first
    assert (found.source_sha256, found.commit is None, found.dirty) == (None, False, dirty)


@pytest.mark.parametrize("make", [link, submodule, strange_name])
def test_bare_clone_names_them_too(checkout: Path, tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(checkout)
    git(tmp_path, "clone", "-q", "--bare", str(checkout), "bare")
    found = look(tmp_path / "bare")
    assert (found.problems.count, found.source_sha256) == (1, None)


def test_pipe_beside_the_files_is_nothing_to_git_and_an_error_in_a_folder(checkout: Path) -> None:
    os.mkfifo(checkout / "code/pipe")
    assert (look(checkout).problems.count, look(checkout).dirty) == (0, False)
    assert look(checkout, plain=True).problems.first == ["code/pipe: expected a file, found a named pipe"]


def test_only_a_folder_leaves_the_rest_unjudged(checkout: Path) -> None:
    link(checkout)
    (checkout / "README.md").unlink()
    (checkout / "code/link").rename(checkout / "link")
    found = look(checkout, only=("code",))
    assert found.source_sha256 == digest_folder(checkout, only=("code",)).sha256
    assert look(checkout, only=("none",)).problems.first == ["none: expected a folder with files, found none"]


def test_file_that_cannot_be_read_leaves_the_state_unknown(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refuse(path: Any, *rest: Any, **named: Any) -> int:
        if str(path).endswith("a.py"):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *rest, **named)

    monkeypatch.setattr(os, "open", refuse)
    found = look(checkout)
    assert found.problems.first == ["code/a.py: expected to be readable, found Permission denied"]
    assert (found.dirty, found.source_sha256) == (None, None)


def test_worker_measures_its_code_as_the_command_does(checkout: Path) -> None:
    for name in ("app/core/a.py", "app/b.html", "workers/c.py"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(name)
    found = look(checkout, only=("app", "workers"))
    assert found.source_sha256 == measure_runtime(checkout).source_sha256
    assert look(checkout, only=("app/core",)).source_sha256 == measure_runtime(checkout).engine_sha256
