"""A writer that dies anywhere leaves its root as it was, or as it meant it (store-format §12)."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from app.core.digest import sha256

from .disk import Disk
from .dying import Death, deaths
from .recording import Call, recorded
from .scenarios import SCENARIOS, Scenario

REPOSITORY = Path(__file__).parents[3]
BELOW = PurePosixPath("below", "root")


@dataclass(frozen=True, kw_only=True)
class Aftermath:
    """One killed publication: what it left, and the run that completed it."""

    death: Death
    left: dict[str, bytes]
    again: list[Call]
    completed: dict[str, bytes]


@dataclass(frozen=True, kw_only=True)
class Killing:
    """A publication that was killed at every system call.

    Attributes:
        before: a tree in which only the preparation ran.
        whole: the files after a publication that nobody interrupted.
    """

    name: str
    before: Path
    whole: dict[str, bytes]
    aftermaths: list[Aftermath]


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory where there is one: no disk is asked to sync what a model judges."""
    place = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=place if os.access(place, os.W_OK) else None) as folder:
        yield Path(folder)


def kill_everywhere(name: str, *, folder: Path) -> Killing:
    """Run a scenario's publication in processes that die, and complete each by a second run."""
    command = [sys.executable, "-m", "tests.core.crash.dying", name, str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return Killing(
        name=name,
        before=folder / "before",
        whole=files_of(folder / "whole" / BELOW),
        aftermaths=[complete(SCENARIOS[name], death=death) for death in deaths(folder)],
    )


def complete(scenario: Scenario, *, death: Death) -> Aftermath:
    """The same publication once more, over what the killed one left."""
    left, again = files_of(death.root), list[Call]()
    scenario.publish(death.root, recorded(again), "second")
    return Aftermath(death=death, left=left, again=again, completed=files_of(death.root))


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_writer_that_dies_anywhere_leaves_the_root_before_or_after(
    name: str, memory: Path, record_property: Callable[[str, object], None]
) -> None:
    """By a kill or by a power cut; a second run then completes it to the same bytes."""
    killing = kill_everywhere(name, folder=memory)
    record_property(f"kill points of {name}", len(killing.aftermaths))
    assert len(killing.aftermaths) > 30
    check_kills(killing)
    check_power_cuts(killing)


def check_kills(killing: Killing) -> None:
    """What a killed writer leaves, and what the second run makes of it."""
    whole, before = killing.whole, files_of(killing.before / BELOW)
    repairs = SCENARIOS[killing.name].repairs
    assert not missing_from(whole)
    assert whole != before
    for aftermath in killing.aftermaths:
        left, death = aftermath.left, aftermath.death
        assert left.items() <= whole.items() | before.items(), death
        assert repairs or not missing_from(left), death
        assert before.keys() <= left.keys(), death
        assert aftermath.completed == whole, death


def check_power_cuts(killing: Killing) -> None:
    """At every call of every killed writer, and of the one that completes its work."""
    needs = needs_of(killing.whole)
    for aftermath in killing.aftermaths:
        death = aftermath.death
        disk = Disk(death.base, like=killing.before)
        check_all(disk, calls=death.calls, needs=needs, death=death)
        disk.restart()
        check_all(disk, calls=aftermath.again, needs=needs, death=death)
        unsure = [path for path in killing.whole if not disk.is_sure(BELOW / path)]
        assert not unsure, death


def check_all(
    disk: Disk, *, calls: list[Call], needs: dict[PurePosixPath, set[PurePosixPath]], death: Death
) -> None:
    """After each call: a document that may survive is whole, and so is everything it needs."""
    for call in disk.apply(calls):
        for document, needed in needs.items():
            if disk.is_possible(document):
                assert disk.is_written(document), (death, call)
                unsure = [path for path in sorted(needed) if not disk.is_sure(path)]
                assert not unsure, (death, call)


def files_of(root: Path) -> dict[str, bytes]:
    """All files but temporary ones and the empty lock."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".writing-" not in path.name and path.name != ".maintenance.lock"
    }


def missing_from(files: dict[str, bytes]) -> list[str]:
    """What documents refer to and is not there, and objects that are not what their names say."""
    damaged = [
        path
        for path, content in files.items()
        if path.endswith((".spcc", ".spix")) and sha256(content) != Path(path).stem
    ]
    wanted = {
        str(needed)
        for path, content in files.items()
        if path.endswith(".json")
        for needed in references(path, json.loads(content), files=files)
    }
    return damaged + sorted(wanted - files.keys())


def needs_of(files: dict[str, bytes]) -> dict[PurePosixPath, set[PurePosixPath]]:
    """For each document: everything it refers to, below the base of a publication."""
    return {
        BELOW / path: {BELOW / needed for needed in references(path, json.loads(content), files=files)}
        for path, content in files.items()
        if path.endswith(".json")
    }


def references(path: str, value: Any, *, files: dict[str, bytes]) -> Iterator[PurePosixPath]:
    """Objects by their descriptors, segments by their digests, at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from references(path, item, files=files)
    elif isinstance(value, dict):
        if {"sha256", "bytes"} <= value.keys():
            yield PurePosixPath("chunks", f"{value['sha256']}.spcc")
        for key, item in value.items():
            if key.endswith("segment_sha256") or key == "parent_sha256":
                yield from _segment(path, item, files=files)
            else:
                yield from references(path, item, files=files)


def _segment(path: str, digest: str | None, *, files: dict[str, bytes]) -> Iterator[PurePosixPath]:
    if digest is None:
        return
    segment = PurePosixPath("prefix-index", PurePosixPath(path).parent.name, f"{digest}.spix")
    yield segment
    if str(segment) in files:
        yield from references(path, json.loads(files[str(segment)]), files=files)
