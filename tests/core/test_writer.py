"""Objects first, root document last; equal adopted, damage repaired, anything else left alone (§12, §14)."""

import fcntl
import json
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.core.digest import Digest
from app.core.errors import IntegrityError, ResourceError
from app.core.store.writer import SYSTEM_CALLS, FileCalls, PublishedSnapshot, publish_flat

from .crash.recording import Call, recorded, watched
from .crash.scenarios import flat
from .rig import Vector, flip_byte


def republish(vector: Vector, root: Path, *, calls: FileCalls = SYSTEM_CALLS) -> PublishedSnapshot:
    """Write a vector's own stream again, as its first writer did."""
    stream = memoryview(b"".join(path.read_bytes() for path in _object_files(vector)))
    size = vector.entry["snapshot_object_bytes"]
    objects = [stream[at : at + size] for at in range(0, len(stream), size)]
    numbers = iter(range(10_000))
    return publish_flat(
        root,
        identity=vector.identity,
        context_digest=Digest(vector.entry["context_digest"]),
        committed_tokens=vector.entry["span_tokens"],
        object_bytes=size,
        batches=[objects[at : at + 2] for at in range(0, len(objects), 2)],
        new_id=lambda: f"{next(numbers):032x}",
        calls=calls,
    )


def _object_files(vector: Vector) -> Iterator[Path]:
    for item in json.loads((vector.root / vector.entry["manifest"]).read_bytes())["snapshot_objects"]:
        yield vector.root / "chunks" / f"{item['sha256']}.spcc"


@pytest.fixture
def single(vectors: dict[str, Vector]) -> Vector:
    """An entry of one object."""
    return vectors["flat-v2-single"]


@pytest.fixture
def published(single: Vector, tmp_path: Path) -> Path:
    """The file of its only object, published."""
    republish(single, tmp_path)
    (path,) = tmp_path.rglob("*.spcc")
    return path


def test_publishing_again_changes_nothing(vectors: dict[str, Vector], tmp_path: Path) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    republish(vector, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.spcc")}
    assert republish(vector, tmp_path).objects == 9
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.spcc")} == before


def test_what_is_adopted_is_made_durable(vectors: dict[str, Vector], tmp_path: Path) -> None:
    """Whoever wrote it may not have come that far (store-format §12.3)."""
    vector = vectors["flat-v2-tp4-rank0"]
    republish(vector, tmp_path)
    synced: set[str] = set()

    def watched_fsync(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        os.fsync(descriptor)

    republish(vector, tmp_path, calls=replace(SYSTEM_CALLS, fsync=watched_fsync))
    files = {path.name for path in tmp_path.rglob("*.*") if path.suffix in {".spcc", ".json"}}
    assert len(files) == 10
    assert files < synced


@pytest.mark.parametrize("growth", [b"", b"more"])
def test_a_file_that_grows_while_it_is_compared_is_another(
    single: Vector, published: Path, tmp_path: Path, growth: bytes
) -> None:
    """And the comparison ends, however fast it grows."""
    sound = published.read_bytes()

    def growing_read(descriptor: int, size: int) -> bytes:
        if Path(f"/proc/self/fd/{descriptor}").readlink() == published:
            with published.open("ab") as file:
                file.write(growth)
        return os.read(descriptor, size)

    republish(single, tmp_path, calls=replace(SYSTEM_CALLS, read=growing_read))
    assert published.read_bytes() == sound


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_lock_that_is_no_file_is_reported(single: Vector, tmp_path: Path, kind: str) -> None:
    lock = tmp_path / ".maintenance.lock"
    if kind == "link":
        lock.symlink_to(tmp_path / "elsewhere")
    else:
        lock.mkdir()
    with pytest.raises(ResourceError, match=r"maintenance\.lock"):
        republish(single, tmp_path)
    assert not (tmp_path / "elsewhere").exists()
    assert not list(tmp_path.rglob("*.spcc"))


@pytest.mark.parametrize("name", ["chunks", "manifests"])
def test_a_folder_that_is_a_file_is_reported(single: Vector, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ResourceError, match=name):
        republish(single, tmp_path)


def test_the_objects_folder_may_lie_elsewhere(single: Vector, tmp_path: Path) -> None:
    """The operator's own choice (store-format §13.2)."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "chunks").symlink_to(tmp_path / "disk")
    republish(single, tmp_path / "root")
    assert len(list((tmp_path / "disk").glob("*.spcc"))) == 1


def test_another_document_at_the_name_is_never_overwritten(
    vectors: dict[str, Vector], tmp_path: Path
) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    path = tmp_path / vector.entry["manifest"]
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{}")
    with pytest.raises(IntegrityError, match="found 2 bytes"):
        republish(vector, tmp_path)
    assert path.read_bytes() == b"{}"
    assert not list(tmp_path.rglob(".*.writing-*"))


def test_a_document_of_equal_size_is_compared_by_its_bytes(
    single: Vector, published: Path, tmp_path: Path
) -> None:
    path = tmp_path / single.entry["manifest"]
    other = path.read_bytes()[:-2] + b"x}"
    path.write_bytes(other)
    with pytest.raises(IntegrityError, match="found SHA-256"):
        republish(single, tmp_path)
    assert path.read_bytes() == other


def flipped(path: Path) -> None:
    flip_byte(path)


def truncated(path: Path) -> None:
    os.truncate(path, 5)


def extended(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [flipped, truncated, extended, emptied])
def test_a_damaged_object_is_replaced_whole_and_open_readers_keep_theirs(
    single: Vector, published: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    sound = published.read_bytes()
    damage(published)
    damaged = published.read_bytes()
    with published.open("rb") as reader:
        assert republish(single, tmp_path).objects == 1
        assert reader.read() == damaged
    assert published.read_bytes() == sound
    assert published.stat().st_nlink == 1
    assert not list(tmp_path.rglob(".*.writing-*"))


def a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as bound:
        here = Path.cwd()
        os.chdir(path.parent)
        try:
            bound.bind(f"./{path.name}")
        finally:
            os.chdir(here)


@pytest.mark.parametrize("change", [a_link, a_folder, a_fifo, a_socket])
def test_what_is_no_file_at_an_objects_name_is_never_replaced(
    single: Vector, published: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    change(published)
    before = published.lstat()
    with pytest.raises(IntegrityError, match=published.name):
        republish(single, tmp_path)
    assert published.lstat().st_ino == before.st_ino
    assert not list(tmp_path.rglob(".*.writing-*"))


@pytest.mark.parametrize("kind", ["object", "document"])
@pytest.mark.parametrize("equal", [True, False])
def test_a_file_that_appears_meanwhile_is_compared_too(
    single: Vector, tmp_path: Path, kind: str, equal: bool
) -> None:
    suffix = {"object": ".spcc", "document": ".json"}[kind]

    def beaten(source: Path, target: Path) -> None:
        if target.suffix == suffix:
            target.write_bytes(source.read_bytes() if equal else b"somebody else")
        os.link(source, target)

    calls = FileCalls(link=beaten)
    if kind == "document" and not equal:
        with pytest.raises(IntegrityError, match="found 13 bytes"):
            republish(single, tmp_path, calls=calls)
        (path,) = tmp_path.rglob("*.json")
        assert path.read_bytes() == b"somebody else"
    else:
        republish(single, tmp_path, calls=calls)
        (path,) = tmp_path.rglob(f"*{suffix}")
        assert path.read_bytes() != b"somebody else"
    assert not list(tmp_path.rglob(".*.writing-*"))


def test_a_temporary_name_that_is_taken_is_passed_over(single: Vector, tmp_path: Path) -> None:
    """A process that died may have had the same number as this one."""
    (name,) = (path.name for path in single.root.rglob("*.spcc"))
    left = tmp_path / "chunks" / f".{name}.writing-{0:032x}"
    left.parent.mkdir()
    left.write_bytes(b"left behind")
    assert republish(single, tmp_path).objects == 1
    assert left.read_bytes() == b"left behind"


def test_the_order_is_objects_synced_linked_folder_synced_document_last(
    single: Vector, vectors: dict[str, Vector], tmp_path: Path
) -> None:
    """Per batch of two: sync, sync, link, link, sync of the folder; the document's own batch comes last."""
    steps: list[str] = []

    def watched_fsync(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        os.fsync(descriptor)

    def watched_link(source: Path, target: Path) -> None:
        steps.append("document" if str(target).endswith(".json") else "object")
        os.link(source, target)

    republish(single, tmp_path)
    calls = replace(SYSTEM_CALLS, fsync=watched_fsync, link=watched_link)
    republish(vectors["flat-v2-tp4-rank0"], tmp_path, calls=calls)
    pair = ["file", "file", "object", "object", "folder"]
    # Once per publication: that the folders which exist are durable.
    assert steps[:2] == ["folder", "folder"]
    last = ["file", "object", "folder"]
    new_folder = ["folder", "folder", "folder"]
    assert steps[2:] == [*pair * 4, *last, *new_folder, "file", "document", "folder"]


def test_a_failure_at_any_call_is_reported_and_leaves_no_temporary_file(
    tmp_path: Path,
) -> None:
    """Once the document has its name, only a sync or close can still fail, and the entry stays."""
    whole: list[Call] = []
    flat(tmp_path / "whole", recorded(whole), "whole")
    fallible = [step for step, call in enumerate(whole) if call.name not in {"exists", "unlink"}]
    named = next(step for step, call in enumerate(whole) if call.name == "link" and is_document(call))
    assert len(fallible) > 60
    for failing in fallible:
        root = tmp_path / str(failing)
        steps = iter(range(failing + 1))

        def fail(
            name: str, _arguments: object, *, failing: int = failing, steps: Iterator[int] = steps
        ) -> None:
            # The order of calls of two threads differs from run to run: the next one that can fail does.
            if next(steps, failing) == failing and name not in {"exists", "unlink"}:
                raise OSError(28, "No space left on device")

        with pytest.raises(ResourceError, match="No space left on device"):
            flat(root, watched(before=fail, after=lambda _call: None), "failing")
        assert len(list(root.rglob("*.json"))) == (failing > named)
        assert not list(root.rglob(".*.writing-*"))
        flat(root, SYSTEM_CALLS, "again")


def is_document(call: Call) -> bool:
    """Whether a link gives a root document its name."""
    return str(call.arguments[1]).endswith(".json")


def test_a_publication_waits_for_exclusive_maintenance_and_holds_its_own_lock_shared(
    single: Vector, tmp_path: Path
) -> None:
    asked, held = threading.Event(), threading.Event()
    seen: list[bool] = []

    def watched_flock(descriptor: int, operation: int) -> None:
        assert operation == fcntl.LOCK_SH
        asked.set()
        fcntl.flock(descriptor, operation)
        held.set()

    def watched_link(source: Path, target: Path) -> None:
        seen.append(is_shared(tmp_path / ".maintenance.lock"))
        os.link(source, target)

    calls = replace(SYSTEM_CALLS, flock=watched_flock, link=watched_link)
    with (tmp_path / ".maintenance.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        writer = threading.Thread(target=republish, args=(single, tmp_path), kwargs={"calls": calls})
        writer.start()
        assert asked.wait(10)
        assert not held.wait(0.1)
        assert not list(tmp_path.rglob("*.spcc"))
        fcntl.flock(lock, fcntl.LOCK_UN)
        writer.join(10)
        assert seen == [True, True]
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert len(list(tmp_path.rglob("*.json"))) == 1


def is_shared(path: Path) -> bool:
    """Whether somebody holds the lock, and would share it."""
    with path.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    with path.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_two_writers_of_one_entry_converge(vectors: dict[str, Vector], tmp_path: Path) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    made: list[PublishedSnapshot] = []
    start = threading.Barrier(4)

    def write(number: int) -> None:
        start.wait(10)
        root = tmp_path / "root"
        stream = memoryview(b"".join(path.read_bytes() for path in _object_files(vector)))
        size = vector.entry["snapshot_object_bytes"]
        objects = [stream[at : at + size] for at in range(0, len(stream), size)]
        numbers = iter(range(number * 10_000, (number + 1) * 10_000))
        made.append(
            publish_flat(
                root,
                identity=vector.identity,
                context_digest=Digest(vector.entry["context_digest"]),
                committed_tokens=vector.entry["span_tokens"],
                object_bytes=size,
                batches=[objects[at : at + 2] for at in range(0, len(objects), 2)],
                new_id=lambda: f"{next(numbers):032x}",
            )
        )

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    assert len(made) == 4
    assert len(set(made)) == 1
    assert len(list(tmp_path.rglob("*.spcc"))) == 9
    assert not list(tmp_path.rglob(".*.writing-*"))
