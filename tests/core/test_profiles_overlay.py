"""An image root under an overlay: every difference of a locked file named, every link judged
(profile-contract §10, §18.5, §18.15).
"""

import os
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.core.canonical_json import encode_canonical
from app.core.digest import Digest
from app.core.errors import ResourceError
from app.core.profiles.findings import CheckResult
from app.core.profiles.overlay_document import overlay_document, parse_overlay_check
from app.core.profiles.root_files import READERS, ReadProgress, Seen, observe_files, walk_names
from tests.core.profile_overlay_rig import (
    append,
    check,
    failed,
    flip_at_same_size,
    passed,
    to_circle,
    to_folder,
    to_link_inside,
    to_link_outside,
    to_link_to_folder,
    to_pipe,
)
from tests.core.profile_rig import Site, make_site, sha


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


def test_a_sound_site_passes(site: Site) -> None:
    result = check(site)
    assert [one for one in result.findings if one.blocks] == []
    assert result.result is CheckResult.PASS
    for code in ("SL_HASH", "SL_FILE_DRIFT", "OV_ROOT", "OV_ENTRYPOINT_MISSING", "OV_NOT_READONLY"):
        assert passed(result, code), code
    for code in ("OV_ENTRYPOINT_NOT_SELECTED", "OV_UNANCHORED", "CT_LOCK_HASH", "CT_PINS_HASH"):
        assert passed(result, code), code
    # Two contract files of the image are hidden by the overlay; four files of the overlay were read.
    assert result.checked_files == len(site.locked) - 2 + 4
    assert result.counts["same"] == result.checked_files
    assert result.byte_count > sum(len(raw) for path, raw in site.locked.items() if "nccl" in path)
    assert any("2 contract files inside the image" in one for one in result.not_covered)
    assert any("57,008 payload files" in one for one in result.not_covered)


def test_the_hidden_contract_of_the_image_is_not_read(site: Site) -> None:
    (site.image / "opt/sparkring/profile-contract/profile-contract.json").write_bytes(b"another")
    assert check(site).result is CheckResult.PASS


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (Path.unlink, "missing"),
        (append, "changed"),
        (flip_at_same_size, "changed"),
        (to_folder, "changed"),
        (to_pipe, "changed"),
        (to_link_outside, "symlinked"),
        (to_circle, "symlinked"),
        (to_link_to_folder, "symlinked"),
    ],
)
def test_each_damage_of_a_locked_file_is_named(
    site: Site, damage: Callable[[Path], None], reason: str
) -> None:
    # Outside the folder that is searched for more, so that nothing but the lock can tell.
    name = "opt/local-inference/nccl/lib/libnccl.so.2.31.2"
    damage(site.image / name)
    result = check(site)
    (found,) = failed(result, "SL_FILE_DRIFT")
    assert (found.pointer, found.reason, found.severity) == (name, reason, "B")
    assert found.expected == sha(site.locked[name])
    assert result.result is CheckResult.FAIL
    assert [(line.path, line.standing) for line in result.files if line.anchored_by == ""] == [(name, reason)]


def test_unreadable_is_named_whoever_reads(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuse(path: Any, *rest: Any, **more: Any) -> int:
        if path == "empty":
            raise PermissionError(13, "Permission denied", path)
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    (found,) = failed(check(site), "SL_FILE_DRIFT")
    assert (found.pointer, found.reason, found.detail) == ("opt/empty", "unreadable", "permission denied")


def test_a_link_inside_at_the_right_bytes_warns(site: Site) -> None:
    name = "opt/local-inference/nccl/lib/libnccl.so.2.31.2"
    to_link_inside(site.image / name)
    result = check(site)
    (found,) = failed(result, "SL_FILE_DRIFT")
    assert (found.pointer, found.reason, found.severity) == (name, "symlinked", "W")
    assert "moved" in found.detail
    assert result.result is CheckResult.PASS


def test_a_link_inside_at_other_bytes_fails(site: Site) -> None:
    name = "opt/local-inference/nccl/lib/libnccl.so.2.31.2"
    to_link_inside(site.image / name)
    append(site.image / "opt/local-inference/nccl/lib/moved")
    (found,) = failed(check(site), "SL_FILE_DRIFT")
    assert (found.reason, found.severity) == ("symlinked", "B")


@pytest.mark.parametrize("target", ["/opt/real", "../real", "../opt/./real", "hop"])
def test_links_on_the_way_end_inside(site: Site, target: str) -> None:
    """A folder that is a link: absolute targets start at the image's root, as inside the container."""
    (site.image / "opt/local-inference").rename(site.image / "opt/real")
    (site.image / "opt/hop").symlink_to("real")
    if target == "../real":
        target = "../opt/real"
    (site.image / "opt/local-inference").symlink_to(target)
    (found,) = failed(check(site), "SL_FILE_DRIFT")
    assert (found.reason, found.severity) == ("symlinked", "W")


@pytest.mark.parametrize("target", ["../../..", "/../x", "/nowhere", "hop"])
def test_links_that_leave_are_no_files(site: Site, target: str) -> None:
    (site.image / "opt/local-inference").rename(site.image.parent / "x")
    (site.image / "opt/hop").symlink_to("local-inference")
    (site.image / "opt/local-inference").symlink_to(target)
    (found,) = failed(check(site), "SL_FILE_DRIFT")
    assert (found.reason, found.severity) == ("symlinked", "B")


def test_extra_names_below_the_checked_folder(site: Site) -> None:
    below = site.image / "opt/sparkring"
    (below / "bin/more").write_bytes(b"x")
    (below / "bin/link").symlink_to("sparkring-r33")
    os.mkfifo(below / "pipe")
    (below / "deep/er").mkdir(parents=True)
    (below / "deep/er/file").write_bytes(b"")
    # Not looked for: beside the folder, inside the contract's folder, at the mount target.
    (site.image / "opt/other").write_bytes(b"x")
    (below / "profile-contract/more").write_bytes(b"x")
    (below / "bin/sparkring-r33-overlay").write_bytes(b"x")
    found = {one.pointer: one.reason for one in failed(check(site), "SL_FILE_DRIFT")}
    names = ("bin/more", "bin/link", "pipe", "deep/er/file")
    assert found == {f"opt/sparkring/{name}": "extra" for name in names}


def test_names_that_are_no_text_are_told_and_written(site: Site) -> None:
    with open(os.fsencode(site.image) + b"/opt/sparkring/\xff\n", "wb"):  # noqa: PTH123  # bytes
        pass
    result = check(site)
    (found,) = failed(result, "SL_FILE_DRIFT")
    assert found.pointer == "opt/sparkring/\\xff\\x0a"
    parse_overlay_check(encode_canonical(overlay_document(result)))


def test_a_file_that_changes_meanwhile_is_noticed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same size, and the old time put back: the change of the inode still shows."""
    place = site.image / "opt/local-inference/nccl/lib/libnccl.so.2.31.2"
    real, done = os.readv, threading.Event()

    def read(descriptor: int, buffers: Any) -> int:
        got = real(descriptor, buffers)
        if got > 1000 and not done.is_set():
            done.set()
            times = place.stat()
            flip_at_same_size(place)
            os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))
        return got

    monkeypatch.setattr(os, "readv", read)
    (found,) = failed(check(site), "SL_FILE_DRIFT")
    assert (found.reason, found.detail) == ("changed", "changed while it was read")


def test_a_file_replaced_meanwhile_is_noticed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    place = site.image / "opt/local-inference/nccl/lib/libnccl.so.2.31.2"
    real, done = os.readv, threading.Event()

    def read(descriptor: int, buffers: Any) -> int:
        got = real(descriptor, buffers)
        if got > 1000 and not done.is_set():
            done.set()
            twin = place.with_name("twin")
            twin.write_bytes(b"evil" * 100_000)
            twin.rename(place)
        return got

    monkeypatch.setattr(os, "readv", read)
    (found,) = failed(check(site), "SL_FILE_DRIFT")
    assert (found.reason, found.detail) == ("changed", "changed while it was read")


def test_the_lock_must_be_the_expected_one(site: Site) -> None:
    (found,) = failed(check(site, lock_sha256=Digest("ab" * 32)), "SL_HASH")
    assert (found.expected, found.found) == ("ab" * 32, site.lock_sha256)
    open_check = check(site, lock_sha256=None)
    assert [one.result for one in open_check.findings if one.code == "SL_HASH"] == [CheckResult.NOT_TESTED]
    assert any("no expected digest" in one for one in open_check.not_covered)


@pytest.mark.parametrize(
    "lock",
    [
        b"",
        b"[]",
        b'{"schema":"other"}',
        b'{"schema":"sparkring-r33-candidate-source-lock/v1"}',
        b'{"schema":"sparkring-r33-candidate-source-lock/v1","installed_files":{}}',
        b'{"schema":"sparkring-r33-candidate-source-lock/v1","installed_files":{"a":"b"}}',
        b'{"schema":"sparkring-r33-candidate-source-lock/v1","installed_files":{"../a":"'
        + b"a" * 64
        + b'"}}',
        b'{"schema":"sparkring-r33-candidate-source-lock/v1","installed_files":{"/a":"' + b"a" * 64 + b'"}}',
    ],
)
def test_a_lock_that_is_none(site: Site, lock: bytes) -> None:
    site.lock_path.write_bytes(lock)
    result = check(site)
    assert failed(result, "SL_HASH")
    assert result.result is CheckResult.FAIL
    assert result.not_covered[0].startswith("every file of the image")


@pytest.mark.parametrize("damage", [Path.unlink, to_folder, to_circle])
def test_a_lock_that_is_not_there(site: Site, damage: Callable[[Path], None]) -> None:
    damage(site.lock_path)
    assert failed(check(site), "SL_HASH")


def test_the_baked_entrypoint_is_told(site: Site) -> None:
    untouched = [one for one in check(site).findings if one.detail == "untouched"]
    names = ("opt/sparkring/bin/sparkring-r33", "opt/sparkring/bin/verify-candidate")
    assert tuple(one.pointer for one in untouched) == names
    append(site.image / names[0])
    result = check(site)
    assert [one.pointer for one in result.findings if one.detail == "untouched"] == [names[1]]
    assert [one.pointer for one in failed(result, "SL_FILE_DRIFT")] == [names[0]]


def test_a_root_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for root in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(ResourceError, match="expected a folder that can be opened"):
            list(observe_files(root, ["a"]))
        with pytest.raises(ResourceError):
            list(walk_names(root))


def test_many_files_in_order_in_bounded_memory_with_progress(tmp_path: Path) -> None:
    site = make_site(tmp_path, more=4_000)
    told: list[ReadProgress] = []
    paths = sorted(site.locked)
    tracemalloc.start()
    names = [one.path for one in observe_files(site.image, paths, progress=told.append)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert names == paths
    assert told[-1] == ReadProgress(
        files=len(paths), byte_count=sum(len(raw) for raw in site.locked.values())
    )
    assert len(told) >= len(paths) // 128
    # A block for each reader, some batches of names, the names this test keeps.
    assert peak < (4 + 2 * READERS) * (1 << 20)


def test_differences_are_counted_when_there_are_too_many_to_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.core.profiles.overlay_files.MOST_NAMED", 10)
    site = make_site(tmp_path, more=100)
    for number in range(100):
        (site.image / f"opt/venv/lib/p{number % 97}/f{number}.py").unlink()
    result = check(site)
    assert (result.counts["missing"], result.files_left_out) == (100, 90)
    assert "90 more files, not named" in [one.detail for one in result.findings]
    assert not [one for one in result.findings if one.detail == "untouched"]


def test_walk_tells_what_it_cannot_enter(site: Site) -> None:
    assert [one.seen for one in walk_names(site.image, below="none")] == [Seen.MISSING]
    (site.image / "link").symlink_to("opt")
    assert [one.seen for one in walk_names(site.image, below="link")] == [Seen.MISSING]
