"""Source trees on disk: what is read, what is left out, what is refused by name."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.core.digest import sha256
from app.core.errors import CoreError, FormatError, ResourceError
from app.core.source_identity import source_tree_digest
from app.core.source_tree import digest_folder, read_source, walk_sources


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Three sources, and one of everything that is left out."""
    files = {
        "a/b.py": b"x\r\n",
        "a-b.py": b"",
        "build": b"a file of this name is a source",
        "a/__pycache__/b.pyc": b"no",
        "a/build/x": b"no",
        ".git/config": b"no",
        "x.egg-info/PKG-INFO": b"no",
        "c.pyc": b"no",
    }
    for name, raw in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(raw)
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_folder_is_digested_as_decided(tree: Path) -> None:
    told: list[tuple[str, int]] = []
    found = digest_folder(tree, progress=lambda path, size: told.append((path, size)))
    named = [
        ("a/b.py", sha256(b"x\n")),
        ("a-b.py", sha256(b"")),
        ("build", sha256(b"a file of this name is a source")),
    ]
    assert (found.sha256, found.files, found.bytes) == (source_tree_digest(named), 3, 34)
    assert sorted(told) == [("a-b.py", 0), ("a/b.py", 3), ("build", 31)]


def test_only_some_folders(tree: Path) -> None:
    assert digest_folder(tree, only=("a",)).sha256 == source_tree_digest([("a/b.py", sha256(b"x\n"))])
    with pytest.raises(FormatError, match="build: expected a folder"):
        digest_folder(tree, only=("build",))
    with pytest.raises(ResourceError, match="none: expected to be readable, found No such file"):
        digest_folder(tree, only=("none",))
    with pytest.raises(FormatError, match="expected a path below the root"):
        digest_folder(tree, only=("../a",))


def make_socket(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(place))


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda place: place.symlink_to("a-b.py"), "a symbolic link"),
        (lambda place: place.symlink_to("nowhere"), "a symbolic link"),
        (lambda place: place.symlink_to("a"), "a symbolic link"),
        (os.mkfifo, "a named pipe"),
        (make_socket, "a socket"),
    ],
)
def test_what_is_no_file_is_named(tree: Path, make: Callable[[Path], None], found: str) -> None:
    make(tree / "a" / "odd")
    with pytest.raises(FormatError, match=f"a/odd: expected a file.*, found {found}"):
        digest_folder(tree)
    with pytest.raises(FormatError, match=f"a/odd: expected a file.*, found {found}"):
        list(read_source(tree, path="a/odd"))


def test_link_in_the_place_of_a_build_folder_is_an_error(tree: Path) -> None:
    (tree / "dist").symlink_to("a")
    with pytest.raises(FormatError, match=r"dist: .* a symbolic link"):
        digest_folder(tree)


def test_name_that_is_not_utf_8_is_told_and_the_rest_goes_on(tree: Path) -> None:
    (tree / os.fsdecode(b"a/\xff.py")).write_bytes(b"")
    found = list(walk_sources(tree))
    problems = [str(one) for one in found if isinstance(one, CoreError)]
    assert problems == [r"path b'a/\xff.py': expected UTF-8, found byte 0xff at 2"]
    assert len(found) == 4


def test_folder_name_that_is_not_utf_8_is_told_with_its_file(tree: Path) -> None:
    folder = tree / os.fsdecode(b"\xfe")
    folder.mkdir()
    (folder / "x").write_bytes(b"")
    with pytest.raises(FormatError, match=r"path b'\\xfe/x': expected UTF-8"):
        digest_folder(tree)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything; the refusal is simulated below")
def test_file_that_cannot_be_read_is_named(tree: Path) -> None:
    (tree / "a-b.py").chmod(0)
    with pytest.raises(ResourceError, match=r"a-b\.py: expected to be readable, found Permission denied"):
        digest_folder(tree)


def test_refused_open_is_named(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object, *rest: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ResourceError, match="expected to be readable, found Permission denied"):
        digest_folder(tree, only=("a",))


def test_refused_folder_is_named(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.scandir

    def refuse(path: bytes) -> Iterator[object]:
        if path.endswith(b"/a"):
            raise PermissionError(13, "Permission denied", path)
        return whole(path)  # type: ignore[return-value]

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ResourceError, match="a: expected to be readable, found Permission denied"):
        digest_folder(tree)


def test_change_while_it_is_read_is_told(tree: Path) -> None:
    reading = read_source(tree, path="build")
    next(reading)
    (tree / "build").write_bytes(b"longer than it was before, and later")
    with pytest.raises(ResourceError, match="build: expected a file that stays as it is"):
        list(reading)


def test_root_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="No such file"):
        digest_folder(tmp_path / "none")
