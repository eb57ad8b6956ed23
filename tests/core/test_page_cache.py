"""What is said of the page cache was measured: dropped objects are gone, read ones are there."""

import mmap
import os
from pathlib import Path

import pytest

from app.core.errors import AbsentError
from app.core.restore.conditions import CacheMode, Conditions
from app.core.restore.lookup import observe
from app.core.restore.page_cache import prepare_cache, resident_pages
from app.core.restore.page_plan import plan_restore
from app.core.restore.plan import Source
from app.core.restore.reader import RootReader
from app.core.store.files import RootFiles
from app.core.store.manifest import parse_flat_manifest

from .rig import Vector


@pytest.fixture
def sources(vector: Vector) -> tuple[Source, ...]:
    raw = (vector.root / vector.entry["manifest"]).read_bytes()
    manifest = parse_flat_manifest(raw, identity=None, context_digest=vector.order().context_digest)
    for path in vector.root.glob("chunks/*"):
        # Pages that were never written back cannot be dropped.
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    return plan_restore(manifest, layout=vector.layout).sources


def test_cold_and_warm_are_what_they_say(vector: Vector, sources: tuple[Source, ...]) -> None:
    files = RootFiles(vector.root)
    whole = sum(-(-source.descriptor.byte_count // mmap.PAGESIZE) * mmap.PAGESIZE for source in sources)
    warm = prepare_cache(files, sources=sources, mode=CacheMode.WARM)
    assert (warm.mode, warm.resident_bytes, warm.object_bytes) == (CacheMode.WARM, whole, whole)
    cold = prepare_cache(files, sources=sources, mode=CacheMode.COLD)
    if cold.resident_bytes == whole:
        pytest.skip("this file system keeps its pages whatever it is told")
    assert (cold.mode, cold.resident_bytes, cold.object_bytes) == (CacheMode.COLD, 0, whole)
    as_is = prepare_cache(files, sources=sources, mode=CacheMode.AS_IS)
    assert (as_is.mode, as_is.resident_bytes) == (CacheMode.AS_IS, 0)


def test_a_file_named_twice_counts_once(vector: Vector, sources: tuple[Source, ...]) -> None:
    files = RootFiles(vector.root)
    once = prepare_cache(files, sources=sources, mode=CacheMode.AS_IS)
    assert prepare_cache(files, sources=sources + sources, mode=CacheMode.AS_IS) == once


def test_an_empty_file_has_no_pages(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    descriptor = os.open(path, os.O_RDONLY)
    assert resident_pages(descriptor, byte_count=0) == (0, 0)
    os.close(descriptor)


def test_a_missing_object(vector: Vector, sources: tuple[Source, ...]) -> None:
    next(vector.root.glob("chunks/*")).unlink()
    with pytest.raises(AbsentError):
        prepare_cache(RootFiles(vector.root), sources=sources, mode=CacheMode.AS_IS)


def test_what_a_restore_is_about_to_find(vector: Vector, sources: tuple[Source, ...]) -> None:
    state = prepare_cache(RootFiles(vector.root), sources=sources, mode=CacheMode.AS_IS)
    found = observe(RootReader(vector.root), order=vector.order(), cores=2)
    assert found == Conditions(cache=state, cores=2)


def test_what_cannot_be_found_is_for_the_restore_to_say(vector: Vector, sources: tuple[Source, ...]) -> None:
    next(vector.root.glob("chunks/*")).unlink()
    assert observe(RootReader(vector.root), order=vector.order(), cores=2) == Conditions(cores=2)
    nowhere = RootReader(vector.root / "nowhere")
    assert observe(nowhere, order=vector.order(), cores=2) == Conditions(cores=2)
