"""A plain reference: four readers, fresh zero-filled buffers per batch, a barrier per batch, no overlap.

It recomputes no stream digest. Written from the contract's description of the four-reader path
(restore-contract §3, §7.2, §7.4), not from anybody's code, to be measured beside ours in the same process.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from app.core.digest import sha256
from app.core.restore.page_plan import PagePlan
from app.core.store.entry import FileDescriptor
from app.core.store.layout import object_path

READERS = 4


class ReferencePlacement:
    """Two arenas and a pool of pages as one flat array: a copy into the arena, then a copy into the pool."""

    def __init__(self, *, arena_bytes: int, pool_bytes: int) -> None:
        self._arenas = (bytearray(arena_bytes), bytearray(arena_bytes))
        self._pool = bytearray(pool_bytes)
        self._at = 0

    def place(self, index: int, *, payload: memoryview) -> None:
        arena = memoryview(self._arenas[index % 2])[: len(payload)]
        arena[:] = payload
        memoryview(self._pool)[self._at : self._at + len(payload)] = arena
        self._at += len(payload)

    def reset(self) -> None:
        self._at = 0


def restore(root: Path, *, plan: PagePlan, placement: ReferencePlacement) -> None:
    """Object 0 first, then batches of four: allocate all, read and hash all, then place all."""
    placement.reset()
    objects = [source.descriptor for source in plan.sources]
    with ThreadPoolExecutor(READERS) as readers:
        first = bytearray(objects[0].byte_count)
        _read(root, objects[0], first)
        placement.place(0, payload=memoryview(first)[len(plan.header) :])
        del first
        for start in range(1, len(objects), READERS):
            batch = objects[start : start + READERS]
            # Before its reads begin: what lies outside every timer in §7.2 is this.
            buffers = [bytearray(descriptor.byte_count) for descriptor in batch]
            # All are authentic before any is placed: another of the batch may still turn out wrong (§3.8).
            for _ in readers.map(lambda one: _read(root, *one), zip(batch, buffers, strict=True)):
                pass
            for offset, buffer in enumerate(buffers):
                placement.place(start + offset, payload=memoryview(buffer))
            del buffers


def _read(root: Path, descriptor: FileDescriptor, buffer: bytearray) -> None:
    with (root / object_path(descriptor.sha256)).open("rb", buffering=0) as file:
        view = memoryview(buffer)
        done = 0
        while done < len(buffer):
            count = file.readinto(view[done:])
            if not count:
                raise EOFError(str(descriptor.sha256))
            done += count
    if sha256(buffer) != descriptor.sha256:
        raise ValueError(f"object {descriptor.sha256}: other bytes")
