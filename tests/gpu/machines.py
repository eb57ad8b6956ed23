"""Page tables and spans made at random, in memory of this process, for one launch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from app.core.restore.kernels import GROUP_RECORD, LAYER_RECORD, Bytes
from app.core.restore.plan import CopySpan
from workers.gpu.cuda_kernels import GATHER, SCATTER, SPAN_RECORD_BYTES, count_tiles, encode_table
from workers.gpu.driver import Launch, PageAddresses

from .cases import span
from .compiled import run_compiled
from .twin import run_twin

OWNER = 7
# Pages of more than one tile, in which spans begin anywhere.
LONG_PAGE_BYTES = [65_536, 65_540, 98_320]
PAGE_BYTES = [1, 3, 4, 10, 16, 20, 32, 36, 48, 132, 656, 1152, 4096, 18_432]


@dataclass
class Machine:
    """Memory of one launch; ``pools`` and ``linear`` are what it may change."""

    layers: Any
    groups: Any
    slots: Any
    owners: Any
    pools: list[Bytes]
    memory: Bytes
    linear: Bytes
    error: Any

    def copied(self) -> "Machine":
        memory = self.memory.copy()
        at = int(self.linear.ctypes.data - self.memory.ctypes.data)
        # Linear bytes start where they do modulo 16, whatever the copy's own start is.
        moved = int(self.memory.ctypes.data - memory.ctypes.data) % 16
        memory = np.roll(np.concatenate([memory, np.zeros(16, np.uint8)]), moved)
        linear = memory[at + moved : at + moved + self.linear.size]
        pools = [aligned(pool.size).reshape(pool.shape) for pool in self.pools]
        for new, old in zip(pools, self.pools, strict=True):
            np.copyto(new, old)
        layers = self.layers.copy()
        layers["base"] = [pool.ctypes.data for pool in pools]
        return replace(
            self, layers=layers, pools=pools, memory=memory, linear=linear, error=self.error.copy()
        )

    def launch(self, spans: Any, *, used_bytes: int, kernel: str = SCATTER) -> Launch:
        table = aligned(spans.size)
        np.copyto(table, spans)
        self.table = table
        count = (table.size - 4) // (SPAN_RECORD_BYTES + 4)
        address = int(table.ctypes.data)
        return Launch(
            kernel=kernel,
            blocks=max(1, count_tiles(table)),
            linear=int(self.linear.ctypes.data),
            used_bytes=used_bytes,
            spans=address,
            first_tiles=address + count * SPAN_RECORD_BYTES,
            span_count=count,
            pages=PageAddresses(
                block=0,
                layers=self.layers.ctypes.data,
                layer_count=len(self.layers),
                groups=self.groups.ctypes.data,
                group_count=len(self.groups),
                slots=self.slots.ctypes.data,
                owners=self.owners.ctypes.data,
                owner=OWNER,
                error=self.error.ctypes.data,
            ),
        )


def aligned(byte_count: int) -> Bytes:
    memory = np.zeros(byte_count + 256, dtype=np.uint8)
    start = -int(memory.ctypes.data) % 256
    return memory[start : start + byte_count]


@st.composite
def machines(draw: st.DrawFn, *, page_bytes_of: Sequence[int] = PAGE_BYTES) -> tuple[Machine, list[int]]:
    """Layers in one or two groups, and how many logical bytes each has."""
    group_of = draw(st.lists(st.integers(0, 1), min_size=1, max_size=3).map(sorted))
    counts = [draw(st.integers(1, 5)) for _ in range(2)]
    limits = [draw(st.integers(counts[group] + 1, 9)) for group in range(2)]
    layers = np.zeros(len(group_of), dtype=LAYER_RECORD)
    pools = []
    for record, group in zip(layers, group_of, strict=True):
        page_bytes = draw(st.sampled_from(page_bytes_of))
        stride = page_bytes + draw(st.sampled_from([0, 0, 1, 4, 12, 16, -page_bytes % 16]))
        pool = aligned(limits[group] * stride).reshape(limits[group], stride)
        pool[:] = 0xA5
        pools.append(pool)
        record["base"], record["pages"], record["stride"] = pool.ctypes.data, limits[group], stride
        record["page_bytes"], record["group"] = page_bytes, group
    groups = np.zeros(2, dtype=GROUP_RECORD)
    groups["slot_count"], groups["first_slot"] = counts, [0, counts[0]]
    groups["first_owner"] = [0, limits[0]]
    slots = [
        draw(st.permutations(range(1, limit)))[:count] for count, limit in zip(counts, limits, strict=True)
    ]
    owners = np.zeros(sum(limits), dtype="<u4")
    for first, given_slots in zip((0, limits[0]), slots, strict=True):
        owners[[first + slot for slot in given_slots]] = OWNER
    sizes = [counts[group] * int(layer["page_bytes"]) for layer, group in zip(layers, group_of, strict=True)]
    seed = draw(st.integers(0, 2**32 - 1))
    memory = np.random.default_rng(seed).integers(0, 256, sum(sizes) + 64, dtype=np.uint8)
    at = draw(st.integers(0, 31))
    machine = Machine(
        layers=layers,
        groups=groups,
        slots=np.array([slot for one in slots for slot in one], dtype="<u4"),
        owners=owners,
        pools=pools,
        memory=memory,
        linear=memory[at : at + sum(sizes)],
        error=np.zeros(4, dtype="<u4"),
    )
    return machine, sizes


@st.composite
def spans_over(draw: st.DrawFn, sizes: Sequence[int]) -> list[CopySpan]:
    """Every layer cut into consecutive pieces, in any order in linear memory, all of it covered."""
    pieces = []
    for number, size in enumerate(sizes):
        cuts = sorted({0, size, *draw(st.lists(st.integers(1, size), max_size=3))})
        pieces += [(number, start, end - start) for start, end in pairwise(cuts) if end > start]
    found, at = [], 0
    for number, offset, count in draw(st.permutations(pieces)):
        found.append(span(number, at=at, snapshot=at, offset=offset, count=count))
        at += count
    return found


def outcome(machine: Machine) -> tuple[list[bytes], bytes, int]:
    return [pool.tobytes() for pool in machine.pools], machine.linear.tobytes(), int(machine.error[0])


def compare_with_twin(data: st.DataObject, *, source: str, page_bytes_of: Sequence[int] = PAGE_BYTES) -> None:
    """Both ways, blocks in any order, with any number of threads."""
    twin, sizes = data.draw(machines(page_bytes_of=page_bytes_of))
    spans = data.draw(spans_over(sizes))
    table = encode_table(spans)
    compiled = twin.copied()
    order = data.draw(st.permutations(range(count_tiles(table))))
    threads = data.draw(st.sampled_from([1, 32, 256]))
    run_twin(twin.launch(table, used_bytes=sum(sizes)))
    scattered = compiled.launch(table, used_bytes=sum(sizes))
    run_compiled(scattered, order=order, threads=threads, source=source)
    assert outcome(compiled) == outcome(twin)
    gathered = compiled.copied()
    gathered.linear[:] = 0
    back = gathered.launch(table, used_bytes=sum(sizes), kernel=GATHER)
    run_compiled(back, order=order, threads=threads, source=source)
    assert gathered.linear.tobytes() == twin.linear.tobytes()
