"""A root made to hurt: a check gives a precise answer in bounded time, and never leaves the root."""

import json
import os
import resource
import shutil
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.store import store_app
from app.core.errors import ResourceError
from app.core.store.check import Problem, ProblemCode, RootCheck
from app.core.store.lookup import Depth

from .roots import WholeRoot, canonical, sha, whole_root

Code = ProblemCode


@pytest.fixture
def root(shared_dir: Path, tmp_path: Path) -> WholeRoot:
    return whole_root(shared_dir, folder=tmp_path)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("device: expected the right to make one, found none; run as root")


def unix_socket(path: Path) -> None:
    """By a short name, since an address has room for a hundred bytes only."""
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("s")
        Path("s").rename(path.name)
    finally:
        os.chdir(here)


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def link_to_zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    (path / "deep" / "er").mkdir(parents=True)


IMPOSTORS = (fifo, device, unix_socket, link_to_itself, link_to_zero, folder)


def code_of(problem: Problem) -> tuple[Code, str]:
    return problem.code, problem.path


@pytest.mark.parametrize("impostor", IMPOSTORS)
@pytest.mark.parametrize("depth", [Depth.SIZE, Depth.FULL])
def test_what_is_no_file_is_named_wherever_it_stands(
    root: WholeRoot, impostor: Callable[[Path], None], depth: Depth
) -> None:
    key = root.entries["legacy-rows"]["storage_key"]
    segment = next(
        path for path in (root.path / "prefix-index" / key).iterdir() if b":null" in path.read_bytes()
    )
    places = {
        root.object_file(
            root.read("page-delta-v3-512")["snapshot_objects"][0]["sha256"]
        ): Code.OBJECT_UNREADABLE,
        root.object_file(sha(b"nobody's")): Code.OBJECT_UNREADABLE,
        root.document("page-delta-v3-768"): Code.DOCUMENT_UNREADABLE,
        root.document("legacy-rows-alias-4096"): Code.DOCUMENT_UNREADABLE,
        segment: Code.SEGMENT_CORRUPT,
        root.path / ".maintenance.lock": Code.LOCK_UNSOUND,
        root.path / "chunks" / f".{sha(b'x')}.spcc.writing-{'0' * 32}": Code.UNKNOWN_NAME,
    }
    for path in places:
        path.unlink(missing_ok=True)
        impostor(path)
    wanted = {(code, str(path.relative_to(root.path))) for path, code in places.items()}
    problems = root.check(depth)
    assert {code_of(problem) for problem in problems} == wanted
    assert len(problems) == len(wanted)


@pytest.mark.parametrize("impostor", IMPOSTORS[:-1])
@pytest.mark.parametrize("name", ["manifests", "prefix-aliases", "prefix-index", "chunks"])
def test_what_is_no_folder_is_named(root: WholeRoot, impostor: Callable[[Path], None], name: str) -> None:
    shutil.rmtree(root.path / name)
    impostor(root.path / name)
    assert (Code.FOLDER_UNREADABLE, name) in {code_of(problem) for problem in root.check()}


@pytest.mark.parametrize("name", ["manifests", "prefix-aliases", "prefix-index", ".sparkcache-clear-once"])
def test_no_folder_is_looked_for_outside_the_root(root: WholeRoot, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    (root.path / name).mkdir(exist_ok=True)
    (root.path / name).rename(outside)
    (outside / "secret").touch()
    (root.path / name).symlink_to(outside)
    problems = root.check()
    assert (Code.FOLDER_UNREADABLE, name) in {code_of(problem) for problem in problems}
    assert not any("secret" in problem.path for problem in problems)


def test_the_objects_folder_may_lie_elsewhere(root: WholeRoot, tmp_path: Path) -> None:
    (root.path / "chunks").rename(tmp_path / "elsewhere")
    (root.path / "chunks").symlink_to(tmp_path / "elsewhere")
    assert root.check() == []


HOSTILE_NAMES = {
    b"line\nfeed": "line\\x0afeed",
    b"not \xff\xfe utf-8": "not \\xff\\xfe utf-8",
    b"back\\slash": "back\\\\slash",
    b"...": "...",
    b"..json": "..json",
    b"esc\x1b[31m": "esc\\x1b[31m",
    b"n" * 255: "n" * 255,
    "ü€😀".encode(): "ü€😀",
    b" ": " ",
    b"-rf": "-rf",
    "\u202egnp".encode(): "\\xe2\\x80\\xaegnp",
    b"\xed\xb3\xbf": "\\xed\\xb3\\xbf",
    b"0" * 64 + b".spcc\n": "0" * 64 + ".spcc\\x0a",
    b"A" * 64 + b".spcc": "A" * 64 + ".spcc",
    b"0" * 65 + b".spcc": "0" * 65 + ".spcc",
    b".json": ".json",
    b"0" * 64: "0" * 64,
}


@pytest.mark.parametrize("place", ["chunks", "manifests/key", "prefix-index/key", "."])
def test_hostile_names_are_listed_printable_and_distinct(root: WholeRoot, place: str) -> None:
    where = root.path / place.replace("key", root.entries["legacy-rows"]["storage_key"])
    for name in HOSTILE_NAMES:
        descriptor = os.open(os.fsencode(where) + b"/" + name, os.O_CREAT | os.O_WRONLY)
        os.close(descriptor)
    problems = root.check()
    assert {problem.code for problem in problems} == {Code.UNKNOWN_NAME}
    assert sorted(problem.path.rsplit("/", 1)[-1] for problem in problems) == sorted(HOSTILE_NAMES.values())
    assert all(problem.path.isprintable() for problem in problems)


def test_a_hole_of_the_right_size_is_no_object(root: WholeRoot) -> None:
    path = root.object_file(root.read("flat-v2-single")["snapshot_objects"][0]["sha256"])
    path.write_bytes(b"")
    os.truncate(path, 10371)
    assert root.check(Depth.SIZE) == []
    assert [code_of(problem) for problem in root.check()] == [
        (Code.OBJECT_CONTENT, str(path.relative_to(root.path)))
    ]


def test_a_huge_hole_is_not_read(root: WholeRoot) -> None:
    """An exabyte-sized lie costs nothing: sizes come before contents, documents have a limit."""
    path = root.object_file(root.read("flat-v2-single")["snapshot_objects"][0]["sha256"])
    os.truncate(path, 1 << 42)
    os.truncate(root.document("page-delta-v3-512"), 1 << 42)
    found = {(problem.code, problem.found) for problem in root.check()}
    assert (Code.OBJECT_SIZE, f"{1 << 42} bytes") in found
    assert (Code.DOCUMENT_UNREADABLE, f"{1 << 42} bytes") in found


def test_hard_links_are_files_like_others(root: WholeRoot, tmp_path: Path) -> None:
    shutil.copytree(root.path, tmp_path / "links", copy_function=os.link)
    assert root.check() == []


def test_a_root_that_vanishes_meanwhile_ends_the_walk(root: WholeRoot) -> None:
    check = RootCheck(root.path, depth=Depth.METADATA)
    findings = check.findings()
    next(findings)
    shutil.rmtree(root.path)
    rest = list(findings)
    assert not [finding for finding in rest if isinstance(finding, Problem)]


def test_an_entry_deleted_meanwhile_has_no_problems(root: WholeRoot) -> None:
    """Documents go first, their objects later: whoever deletes an entry does not make it corrupt."""
    findings = RootCheck(root.path, depth=Depth.FULL).findings()
    first = next(findings)
    for path in (*root.path.glob("manifests/*/*.json"), *root.path.glob("prefix-aliases/*/*.json")):
        path.unlink()
    for path in root.path.glob("chunks/*"):
        path.unlink()
    rest = [finding for finding in findings if isinstance(finding, Problem)]
    assert not isinstance(first, Problem)
    assert {problem.code for problem in rest} <= {Code.OBJECT_MISSING, Code.SEGMENT_UNREFERENCED}
    assert all(problem.entry is None for problem in rest)


def test_an_entry_published_meanwhile_has_its_objects(root: WholeRoot, tmp_path: Path) -> None:
    """Objects that came after the listing are looked for again before they are called missing."""
    last = max(root.path.glob("manifests/*"), key=lambda path: path.name)
    later = tmp_path / "later"
    shutil.copytree(root.path, later)
    shutil.rmtree(root.path / "chunks")
    findings = RootCheck(root.path).findings()
    found = [next(findings)]
    shutil.copytree(later / "chunks", root.path / "chunks")
    found += list(findings)
    problems = [finding for finding in found if isinstance(finding, Problem)]
    entries = {problem.entry.storage_key for problem in problems if problem.entry is not None}
    assert last.name not in entries
    assert len(entries) == 1


def test_a_file_that_changes_all_the_time_is_sound_or_not(root: WholeRoot) -> None:
    path = root.object_file(root.read("flat-v2-single")["snapshot_objects"][0]["sha256"])
    content = path.read_bytes()
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            os.truncate(path, 0)
            path.write_bytes(content)
            path.write_bytes(content[:-1] + b"x")
            path.write_bytes(content)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(30):
            problems = root.check()
            assert {problem.path for problem in problems} <= {
                str(path.relative_to(root.path)),
                str(root.document("flat-v2-single").relative_to(root.path)),
            }
            assert len(problems) <= 1
    finally:
        done.set()
        changing.join()


def test_a_document_that_names_100000_objects_is_over_the_limit(root: WholeRoot) -> None:
    def multiply(document: dict[str, object]) -> None:
        document["snapshot_objects"] = [
            {"bytes": 1, "encoded_end": at + 1, "encoded_start": at, "sha256": sha(b"%d" % at)}
            for at in range(100_000)
        ]

    root.rewrite("flat-v2-single", multiply)
    (problem,) = [problem for problem in root.check() if problem.code is not Code.OBJECT_UNREFERENCED]
    assert problem.code is Code.DOCUMENT_CORRUPT
    assert problem.found == "100000 elements"


def test_thousands_of_missing_objects_of_one_document_are_all_told(root: WholeRoot) -> None:
    document = root.read("flat-v2-single")
    count = 8_192
    document["snapshot_objects"] = [
        {"bytes": 1, "encoded_end": at + 1, "encoded_start": at, "sha256": sha(b"%d" % at)}
        for at in range(count)
    ]
    document |= {"snapshot_object_bytes": 1, "snapshot_encoded_bytes": count}
    del document["metadata_sha256"]
    document["metadata_sha256"] = sha(canonical(document))
    root.document("flat-v2-single").write_bytes(canonical(document))
    missing = [problem for problem in root.check() if problem.code is Code.OBJECT_MISSING]
    assert len(missing) == count


def test_chains_that_go_in_circles_end(root: WholeRoot) -> None:
    """Segments that name each other cannot be content-named, but somebody may write them all the same."""
    key = root.entries["legacy-rows"]["storage_key"]
    first, second = sorted((root.path / "prefix-index" / key).iterdir())
    for path, other in ((first, second), (second, first)):
        text = path.read_bytes().replace(b'"parent_sha256":null', b'"parent_sha256":"%s"' % b"0" * 64)
        path.write_bytes(text + other.stem.encode())
    codes = [problem.code for problem in root.check()]
    assert codes.count(Code.SEGMENT_CORRUPT) == 2
    assert set(codes) == {Code.SEGMENT_CORRUPT}


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Only so many more files can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open("/", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("count", [0, 1])
def test_a_machine_out_of_descriptors_is_no_fault_of_the_root(root: WholeRoot, count: int) -> None:
    with descriptors_left(count), pytest.raises(ResourceError):
        root.check()


def test_a_walk_that_breaks_off_leaves_whole_json(root: WholeRoot) -> None:
    runner = CliRunner()
    with descriptors_left(1):
        result = runner.invoke(store_app, ["check", str(root.path), "--json"])
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert document["outcome"] == "unreadable"
    assert "Too many open files" in document["error"]
