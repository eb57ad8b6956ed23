"""Files that are none, that lie, that change: a precise answer, no hang, nothing outside the root (§13.2)."""

import json
import os
import socket
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from app.core.errors import FormatError, ResourceError, Stage
from app.core.restore.reader import list_documents
from app.core.store.files import RootFiles, StoredFile, iterate_blocks, read_whole
from app.core.store.lookup import Depth, LookupOutcome
from app.core.store.verify import VerifyOutcome

from ..conftest import copied as copied_vector
from .rig import MemoryFile, MemoryFiles, StoreVector, content_of

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def flat(entries: dict[str, StoreVector], tmp_path: Path) -> StoreVector:
    """A snapshot of nine objects in a root that a test may damage."""
    vector = entries["flat-v2-tp4-rank0"]
    root = copied_vector(vector, folder=tmp_path).root
    return replace(vector, root=root, files=RootFiles(root))


def object_of(vector: StoreVector, *, index: int = 4) -> Path:
    document = json.loads((vector.root / vector.document).read_bytes())
    return vector.root / "chunks" / f"{document['snapshot_objects'][index]['sha256']}.spcc"


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    """Under a short name first: an address has room for 107 characters."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as made:
        made.bind(f"{folder}/s")
        Path(folder, "s").rename(path)


def make_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("devices can be made by root only")


def make_link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def make_loop(path: Path) -> None:
    path.symlink_to(path.name)


def make_folder(path: Path) -> None:
    path.mkdir()


KINDS = [make_fifo, make_socket, make_device, make_link, make_loop, make_folder]


@pytest.mark.parametrize("make", KINDS)
def test_what_is_no_file_is_corrupt(flat: StoreVector, make: Callable[[Path], None]) -> None:
    for path, stage in ((object_of(flat), Stage.SIZE), (flat.root / flat.document, Stage.METADATA)):
        kept = path.read_bytes()
        path.unlink()
        make(path)
        for answer in (flat.lookup(Depth.SIZE), flat.verify()):
            assert (answer.outcome, answer.stage) == ("corrupt", stage)
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        path.write_bytes(kept)
    assert flat.verify().outcome is VerifyOutcome.VERIFIED


@pytest.mark.parametrize("folder", ["manifests", "manifests/*"])
def test_a_link_in_a_folders_place_leads_nowhere(flat: StoreVector, folder: str, tmp_path: Path) -> None:
    (path,) = flat.root.glob(folder)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    answer = flat.lookup()
    assert (answer.outcome, answer.stage) == (LookupOutcome.CORRUPT, Stage.METADATA)


def test_the_objects_folder_may_be_a_link(flat: StoreVector, tmp_path: Path) -> None:
    (flat.root / "chunks").rename(tmp_path / "elsewhere")
    (flat.root / "chunks").symlink_to(tmp_path / "elsewhere")
    assert flat.verify().outcome is VerifyOutcome.VERIFIED


@pytest.mark.parametrize("folder", ["manifests", "manifests/*", "chunks"])
def test_a_file_in_a_folders_place(flat: StoreVector, folder: str, tmp_path: Path) -> None:
    (path,) = flat.root.glob(folder)
    path.rename(tmp_path / "elsewhere")
    path.write_bytes(b"")
    assert flat.lookup().outcome is LookupOutcome.CORRUPT


def test_an_empty_root_and_none_at_all(flat: StoreVector, tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "none"):
        assert replace(flat, files=RootFiles(root)).lookup().outcome is LookupOutcome.ABSENT


def test_a_hole_of_the_right_size(flat: StoreVector) -> None:
    path = object_of(flat)
    size = path.stat().st_size
    with path.open("wb") as file:
        file.truncate(size)
    assert flat.lookup(Depth.SIZE).outcome is LookupOutcome.HIT
    answer = flat.lookup(Depth.FULL)
    assert (answer.outcome, answer.stage) == (LookupOutcome.CORRUPT, Stage.CONTENT)


def test_a_document_of_a_terabyte_is_not_read(flat: StoreVector) -> None:
    path = flat.root / flat.document
    with path.open("wb") as file:
        file.truncate(1 << 40)
    answer = flat.lookup()
    assert answer.outcome is LookupOutcome.CORRUPT
    assert "at most 16777216 bytes" in (answer.detail or "")


def test_a_hard_link_is_a_file(flat: StoreVector, tmp_path: Path) -> None:
    (tmp_path / "second name").hardlink_to(object_of(flat))
    assert flat.verify().outcome is VerifyOutcome.VERIFIED


def test_hostile_names_are_passed_over(flat: StoreVector) -> None:
    folder = (flat.root / flat.document).parent
    names = ["..json", "a\nb.json", "\udcff.json", "x" * 255, f"{'0' * 64}.json.bak", f"{'0' * 63}G.json"]
    for name in [*names, f".{'0' * 64}.json.writing-{'0' * 32}"]:
        (folder / name).write_bytes(b"{}")
    assert flat.verify().outcome is VerifyOutcome.VERIFIED
    assert len(list(list_documents(flat.root))) == 1


@pytest.mark.parametrize(
    "digest",
    ["", "..", "../" * 30 + "etc/hostname", "A" * 64, "0" * 63, "0" * 64 + "\n", "0" * 65, "\0" * 64],
)
def test_no_question_reaches_the_files_that_is_no_digest(
    entries: dict[str, StoreVector], digest: str
) -> None:
    vector = entries["flat-v2-single"].in_memory()
    answer = vector.lookup(context_digest=digest)
    assert (answer.outcome, answer.stage) == (LookupOutcome.CORRUPT, Stage.METADATA)
    assert isinstance(vector.files, MemoryFiles)
    assert vector.files.opened == []


@dataclass(slots=True)
class LyingFiles(MemoryFiles):
    """Says one size and delivers another, or other bytes from the second opening on."""

    says: dict[str, int] = field(default_factory=dict)
    later: dict[str, bytes] = field(default_factory=dict)
    after: int = 0

    def file(self, path: str, content: bytes) -> StoredFile:
        if path in self.later and self.opened.count(path) > self.after:
            content = self.later[path]
        return MemoryFile(content, self.says.get(path, len(content)))


def lying(vector: StoreVector, **lies: object) -> StoreVector:
    return replace(vector, files=LyingFiles(vector.in_memory().memory, **lies))  # type: ignore[arg-type]


CHANGEABLE = [
    "flat-v2-tp4-rank0",
    "legacy-pages-chunks",
    "legacy-rows",
    "page-delta-v2-1024",
    "page-delta-v1-768",
]


@pytest.mark.parametrize("name", CHANGEABLE)
def test_a_file_that_shrinks_while_it_is_read(entries: dict[str, StoreVector], name: str) -> None:
    vector = entries[name].in_memory()
    for path, content in vector.memory.items():
        if not used(entries[name], path=path):
            continue
        shrunk = lying(vector, says={path: len(content)}, later={path: content[:-1]})
        found = shrunk.verify()
        assert found.outcome is VerifyOutcome.CORRUPT
        assert "an end after" in (found.detail or "")


@pytest.mark.parametrize("name", CHANGEABLE)
def test_a_file_that_grows_while_it_is_read_is_read_as_it_was(
    entries: dict[str, StoreVector], name: str
) -> None:
    vector = entries[name].in_memory()
    says = {path: len(content) for path, content in vector.memory.items()}
    later = {path: content + b"more" for path, content in vector.memory.items()}
    found = lying(vector, says=says, later=later).verify()
    assert content_of(found) == content_of(entries[name].verify())


@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.parametrize("name", CHANGEABLE)
def test_a_file_that_changes_between_two_readings(
    entries: dict[str, StoreVector], name: str, after: int
) -> None:
    """However late it changes, either it was not needed any more or the entry is not verified."""
    vector = entries[name].in_memory()
    sound = content_of(entries[name].verify())
    for path in [path for path in vector.memory if path.startswith("chunks/")]:
        content = vector.memory[path]
        changed = content[:-1] + bytes([content[-1] ^ 1])
        found = lying(vector, later={path: changed}, after=after).verify()
        assert found.outcome is VerifyOutcome.CORRUPT or content_of(found) == sound


def used(vector: StoreVector, *, path: str) -> bool:
    """Whether a verification of the entry reads this file."""
    files = vector.in_memory()
    files.verify()
    assert isinstance(files.files, MemoryFiles)
    assert files.files.open_now == 0
    return path in files.files.opened


def test_a_medium_that_fails(entries: dict[str, StoreVector]) -> None:
    class Failing:
        byte_count = 10

        def read_at(self, offset: int, *, memory: memoryview) -> int:
            raise OSError(5, "Input/output error")

    with pytest.raises(FormatError, match="Input/output error"):
        list(iterate_blocks(Failing(), start=0, end=10, subject="x", stage=Stage.SIZE))


@pytest.mark.parametrize("shortage", [23, 24, 12])
def test_a_shortage_of_the_machine_is_no_answer(
    flat: StoreVector, monkeypatch: pytest.MonkeyPatch, shortage: int
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(shortage, os.strerror(shortage))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ResourceError):
        flat.lookup()


def test_files_are_closed_whatever_happens(flat: StoreVector) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    object_of(flat, index=8).write_bytes(b"x")
    assert flat.verify().outcome is VerifyOutcome.CORRUPT
    object_of(flat, index=8).unlink()
    assert flat.verify().outcome is VerifyOutcome.CORRUPT
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_reading_leaves_no_access_time(flat: StoreVector) -> None:
    before = {path: path.stat().st_atime_ns for path in flat.root.rglob("*") if path.is_file()}
    flat.verify()
    assert {path: path.stat().st_atime_ns for path in before} == before


def test_a_document_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    path = tmp_path / "manifests" / "x"
    path.write_bytes(b"12345")
    relative = path.relative_to(tmp_path)
    assert read_whole(RootFiles(tmp_path), relative, subject="x") == b"12345"  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="at most 4 bytes"):
        read_whole(RootFiles(tmp_path), relative, subject="x", maximum=4)  # type: ignore[arg-type]
