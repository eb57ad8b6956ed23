"""The complete check that pins a root document."""

from pathlib import Path
from threading import Event

import pytest

from app.core.store.layout import OBJECTS_FOLDER
from app.core.store.synth import SynthesizedSnapshot, synthesize_store
from workers.deep_check import Checked, DeepChecker, check
from workers.inventory import Found, scan


@pytest.fixture
def stored(tmp_path: Path) -> SynthesizedSnapshot:
    return synthesize_store(tmp_path / "stores", ranks=1, bytes_per_rank=300_000, object_bytes=65_536)


def only(stored: SynthesizedSnapshot) -> Found:
    (found,) = scan([stored.path]).found
    return found


def test_sound_entry_gives_its_stream_digest(stored: SynthesizedSnapshot) -> None:
    checked = check(only(stored))
    assert checked.problem is None
    assert checked.stream_sha256 == stored.published[0].snapshot_sha256


def test_flipped_byte_is_told_and_not_pinned(stored: SynthesizedSnapshot) -> None:
    found = only(stored)
    path = sorted((stored.roots[0] / OBJECTS_FOLDER).iterdir())[1]
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content)
    checked = check(found)
    assert checked.stream_sha256 is None
    assert checked.problem is not None
    assert path.stem in checked.problem


def test_document_that_changed_meanwhile_is_not_pinned(stored: SynthesizedSnapshot) -> None:
    found = only(stored)
    (stored.roots[0] / found.name.path).unlink()
    assert check(found).stream_sha256 is None


def test_each_document_is_checked_once_and_again_only_when_asked(stored: SynthesizedSnapshot) -> None:
    found, runs, ran = only(stored), [], Event()

    def counted(one: Found) -> Checked:
        runs.append(one)
        ran.set()
        return Checked(found=one, stream_sha256=None, problem="no")

    checker = DeepChecker(check=counted)
    checker.give(found)
    checker.give(found)
    assert ran.wait(5)
    checker.again(found)
    ran.clear()
    checker.give(found)
    assert ran.wait(5)
    assert len(runs) == 2
