"""``RootCheck``: every problem of a root and no other, each once, whatever else is wrong beside it."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import Stage
from app.core.store.check import CheckProgress, ProblemCode, RootCheck
from app.core.store.lookup import Depth
from app.core.store.synth import StoreKind, synthesize_kind

from .roots import STORES, WholeRoot, canonical, problems_of, sha, standings_of, whole_root

Code = ProblemCode


@pytest.fixture
def root(shared_dir: Path, tmp_path: Path) -> WholeRoot:
    return whole_root(shared_dir, folder=tmp_path)


def segments_of(root: WholeRoot) -> list[Path]:
    key = root.entries["legacy-rows"]["storage_key"]
    return sorted((root.path / "prefix-index" / key).iterdir())


def damage_twelvefold(root: WholeRoot) -> set[tuple[Code, str]]:
    """One fault of each of twelve sorts; returns what each must be called, and where."""
    wanted = set()

    def fault(code: Code, path: Path) -> Path:
        wanted.add((code, str(path.relative_to(root.path)).replace("\n", "\\x0a")))
        return path

    # 1: a flipped bit, which one stream suffers from.
    flipped = root.object_file(root.read("flat-v2-tp4-rank0")["snapshot_objects"][4]["sha256"])
    content = bytearray(flipped.read_bytes())
    content[100] ^= 1
    fault(Code.OBJECT_CONTENT, flipped).write_bytes(content)
    # 2: an object is gone that four entries share.
    base = root.read("page-delta-v2-512")["snapshot_objects"][1]["sha256"]
    fault(Code.OBJECT_MISSING, root.object_file(base)).unlink()
    # 3: the end of an object is gone that two entries share.
    stage = root.read("page-delta-v3-1024")["delta_stages"][0]["delta_objects"][0]["sha256"]
    os.truncate(fault(Code.OBJECT_SIZE, root.object_file(stage)), 17)
    # 4: a FIFO stands at a chunk's name.
    chunk = fault(
        Code.OBJECT_UNREADABLE, root.object_file(root.read("legacy-pages-chunks")["chunks"][1]["sha256"])
    )
    chunk.unlink()
    os.mkfifo(chunk)
    # 5: a document states one key twice.
    twice = fault(Code.DOCUMENT_CORRUPT, root.document("flat-v2-single"))
    twice.write_bytes(twice.read_bytes().replace(b'"format_abi":1', b'"format_abi":1,"format_abi":1'))
    # 6: a document is filed under the key of another rank.
    misfiled = root.document("flat-v2-tp4-rank1")
    key = sha(canonical(root.read("flat-v2-tp4-rank1")["identity"] | {"tp_shard_rank": 3}))
    (root.path / "manifests" / key).mkdir()
    misfiled.rename(fault(Code.DOCUMENT_MISPLACED, root.path / "manifests" / key / misfiled.name))
    # 7: a segment is damaged that two aliases share.
    segment = fault(Code.SEGMENT_CORRUPT, next(p for p in segments_of(root) if b":null" in p.read_bytes()))
    segment.write_bytes(segment.read_bytes().replace(b'"bytes":', b'"bytes": ', 1))
    # 8: an object nobody needs.
    fault(Code.OBJECT_UNREFERENCED, root.object_file(sha(b"nobody's"))).write_bytes(b"nobody's")
    # 9: what a writer that died has left.
    name = f".{sha(b'x')}.spcc.writing-{'0' * 32}"
    fault(Code.DEBRIS, root.path / "chunks" / name).write_bytes(b"half of it")
    # 10: a foreign name that breaks lines.
    fault(Code.UNKNOWN_NAME, root.path / "manifests" / "what\nis this").touch()
    # 11: an object nobody needs, with another content than its name says.
    fault(Code.OBJECT_CONTENT, root.object_file(sha(b"one thing"))).write_bytes(b"another")
    # 12: a document of an ABI to come, signed properly.
    root.rewrite("rows-tail-cow-tail", lambda document: document.update(format_abi=2))
    fault(Code.DOCUMENT_INCOMPATIBLE, root.document("rows-tail-cow-tail"))
    return wanted


def test_twelve_simultaneous_faults_yield_exactly_those_twelve(root: WholeRoot) -> None:
    wanted = damage_twelvefold(root)
    problems = root.check()
    assert len(problems) == len(wanted) == 12
    assert {(problem.code, problem.path) for problem in problems} == wanted


def test_twelve_faults_leave_exactly_the_others_restorable(root: WholeRoot) -> None:
    assert all(standing.restorable for standing in standings_of(root.path))
    damage_twelvefold(root)
    standings = standings_of(root.path)
    sound = {
        "legacy-rows",
        "legacy-rows-partial",
        "rows-tail-cow-base",
        "page-delta-v3-512",
        "release-0.1.0a2-chunks",
    }
    unsound = {
        "flat-v2-tp4-rank0",
        "legacy-pages-chunks",
        "legacy-rows-alias-4096",
        *(f"page-delta-v2-{span}" for span in (512, 768, 1024, 1280)),
        *(f"page-delta-v3-{span}" for span in (768, 1024)),
    }
    for names, wanted in ((sound, True), (unsound, False)):
        contexts = {root.entries[name]["context_digest"] for name in names}
        manifests = [item for item in standings if item.name.context_digest in contexts]
        assert {item.name.context_digest for item in manifests if item.restorable is wanted} == contexts


@pytest.mark.parametrize("depth", Depth)
def test_the_vectors_are_clean(root: WholeRoot, depth: Depth) -> None:
    check = RootCheck(root.path, depth=depth)
    standings = list(check.findings())
    assert check.totals.clean
    assert check.totals.problems == {}
    assert check.totals.entries == {
        "legacy": 5,
        "sparkcache-page-snapshot-manifest/v2": 5,
        "sparkcache-page-delta-manifest/v2": 3,
        "sparkcache-page-delta-manifest/v3": 2,
        "sparkcache-prefix-alias/v1": 2,
        "sparkcache-tail-manifest/v1": 1,
    }
    assert check.totals.restorable == len(standings)


@pytest.mark.parametrize("store", STORES)
def test_sums_count_shared_objects_once(shared_dir: Path, store: str) -> None:
    folder = shared_dir / "vectors" / store
    sizes = {path.name: path.stat().st_size for path in folder.glob("chunks/*")}
    check = RootCheck(folder)
    assert all(standing.restorable for standing in check.findings() if hasattr(standing, "restorable"))
    totals = check.totals
    assert (totals.referenced_objects, totals.referenced_bytes) == (len(sizes), sum(sizes.values()))
    assert totals.objects.files == len(sizes)
    assert totals.objects.byte_count == sum(sizes.values())
    assert totals.objects.stored_bytes == sum(path.stat().st_blocks * 512 for path in folder.glob("chunks/*"))
    assert totals.unreferenced.files == 0


def test_each_depth_looks_as_far_as_it_says(root: WholeRoot) -> None:
    damage_twelvefold(root)
    metadata = {problem.code for problem in root.check(Depth.METADATA)}
    size = [problem.code for problem in root.check(Depth.SIZE)]
    assert metadata == {
        Code.DOCUMENT_CORRUPT,
        Code.DOCUMENT_MISPLACED,
        Code.SEGMENT_CORRUPT,
        Code.UNKNOWN_NAME,
        Code.DOCUMENT_INCOMPATIBLE,
    }
    # Number 1 is not seen, number 11 only as an object that nobody needs.
    assert len(size) == 11
    assert size.count(Code.OBJECT_UNREFERENCED) == 2
    assert Code.OBJECT_CONTENT not in size


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["identity"].update(dcp_degree=True),
        lambda document: document.update(identity=None),
        lambda document: (document["identity"].update(tp_shard_rank=1), document.update(committed_tokens=-1)),
    ],
    ids=["no valid identity", "no identity", "another one, and no geometry"],
)
def test_a_document_of_another_identity_is_misplaced_whatever_else_it_is(
    root: WholeRoot, change: Callable[[Any], object]
) -> None:
    """As a look-up under that key answers: incompatible, not corrupt (store-format §8.3)."""
    root.rewrite("flat-v2-single", change)
    problems = [one for one in root.check(Depth.METADATA) if not one.code.is_leftover]
    assert [one.code for one in problems] == [Code.DOCUMENT_MISPLACED]


def test_nothing_is_written_and_no_access_time_changes(root: WholeRoot) -> None:
    damage_twelvefold(root)
    paths = [root.path, *root.path.rglob("*")]
    for path in paths:
        # An access before the last change is what a file system would bring up to date.
        os.utime(path, ns=(1, 2), follow_symlinks=False)
    before = [path.lstat() for path in paths]
    root.check()
    assert [path.lstat() for path in paths] == before
    assert {status.st_atime_ns for status in before} == {1}
    assert sorted(root.path.rglob("*")) == sorted(paths[1:])


@pytest.mark.parametrize("kind", StoreKind)
def test_what_our_own_writer_makes_is_clean(tmp_path: Path, kind: StoreKind) -> None:
    made = synthesize_kind(tmp_path, kind=kind, ranks=2)
    for path in made.roots:
        check = RootCheck(path, depth=Depth.FULL)
        standings = list(check.findings())
        assert check.totals.problems == {}
        assert check.totals.restorable == len(standings) > 0


def test_a_missing_root_is_an_empty_one(tmp_path: Path) -> None:
    assert problems_of(tmp_path / "none") == []


def test_lock_and_markers_are_known(root: WholeRoot) -> None:
    markers = root.path / ".sparkcache-clear-once"
    markers.mkdir()
    (markers / f"{sha(b'token')}.json").write_bytes(b"{}")
    (markers / f".{sha(b'token')}.json.writing-{'a' * 32}").touch()
    (markers / "other.json").touch()
    found = {(problem.code, problem.path.rsplit("/", 1)[-1]) for problem in root.check(Depth.METADATA)}
    assert found == {
        (Code.DEBRIS, f".{sha(b'token')}.json.writing-{'a' * 32}"),
        (Code.UNKNOWN_NAME, "other.json"),
    }
    (root.path / ".maintenance.lock").write_bytes(b"1")
    assert Code.LOCK_UNSOUND in {problem.code for problem in root.check(Depth.METADATA)}


def test_rows_under_an_unknown_rule_are_sound_but_not_restorable(root: WholeRoot) -> None:
    """§20.4: another interleave size than 1 can be read; where its rows belong is not known."""
    entry = root.entries["legacy-rows-partial"]
    document = root.read("legacy-rows-partial")
    document["identity"]["cp_kv_cache_interleave_size"] = 2
    key = sha(canonical(document["identity"]))
    (root.path / "manifests" / key).mkdir()
    root.document("legacy-rows-partial").unlink()
    (root.path / "manifests" / key / f"{entry['context_digest']}.json").write_bytes(canonical(document))
    assert root.check() == []
    (standing,) = [item for item in standings_of(root.path) if item.name.storage_key == key]
    assert not standing.restorable
    assert "cp_kv_cache_interleave_size 2" in standing.obstacles[0]


def test_a_problem_names_the_entry_the_stage_and_both_sides(root: WholeRoot) -> None:
    digest = root.read("flat-v2-single")["snapshot_objects"][0]["sha256"]
    os.truncate(root.object_file(digest), 5)
    (problem,) = root.check(Depth.SIZE)
    assert problem.code is Code.OBJECT_SIZE
    assert problem.stage is Stage.SIZE
    assert (problem.expected, problem.found) == ("10371 bytes", "5 bytes")
    assert problem.entry is not None
    assert problem.entry.context_digest == root.entries["flat-v2-single"]["context_digest"]
    (standing,) = [item for item in standings_of(root.path) if not item.restorable]
    assert standing.obstacle_count == 1
    assert standing.objects == 1


def test_findings_come_as_they_are_found(root: WholeRoot) -> None:
    """The first does not wait for the last, and what was told of totals grows."""
    told: list[CheckProgress] = []
    check = RootCheck(root.path, depth=Depth.FULL, progress=told.append)
    findings = check.findings()
    next(findings)
    assert 0 < sum(check.totals.entries.values()) < 18
    rest = list(findings)
    assert len(rest) == 17
    assert [item.entries for item in told] == sorted(item.entries for item in told)
    assert told[-1].entries == 18
    assert told[-1].read_bytes > check.totals.referenced_bytes
    assert replace(told[-1], entries=0).entries == 0
