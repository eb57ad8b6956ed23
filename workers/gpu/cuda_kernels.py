"""CUDA forms of the array kernels: one source text, its tables and the geometry of a launch.

The text compiles under NVRTC and, behind a few lines of C++, on a CPU; ``move_spans`` in
``app.core.restore.kernels`` says the same in NumPy. Source: restore-contract §4.2 (records, and the checks
that are made again in a kernel), §4.3 (where a byte goes, and the error word: the first error wins).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from app.core.restore.kernels import Bytes
from app.core.restore.plan import CopySpan, encode_spans

SCATTER: Final = "scatter_spans"
GATHER: Final = "gather_spans"
THREADS: Final = 256
# Two waves of blocks for a 64 MiB filling on a large device; a small one has enough for every processor.
TILE_BYTES: Final = 32 * 1024
SPAN_RECORD_BYTES: Final = 40

SOURCE: Final = r"""
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// restore-contract 4.2 and 4.3; sizes are part of the contract.
struct Span { u64 arena_offset, snapshot_offset, destination_offset, byte_count; u32 destination, flags; };
struct Layer { u64 base, pages; u32 stride, page_bytes, group, flags; };
struct Group { u32 first_slot, slot_count, first_owner, reserved; };
static_assert(sizeof(Span) == 40 && sizeof(Layer) == 32 && sizeof(Group) == 16, "sizes of the contract");

enum { TILE = 32 * 1024, BATCH = 4 };
enum { SPAN_BOUNDS = 1, RECORD_BOUNDS = 2, SLOT_BOUNDS = 3, DESTINATION_BOUNDS = 4, FOREIGN_PAGE = 5 };

__device__ __forceinline__ void report(u32* error, u32 code) { atomicCAS(error, 0u, code); }

// One layer of one page set; a byte outside it has no address.
struct Pages {
    Layer layer;
    Group group;
    const u32* slots;
    const u32* owners;
    u32 owner;
    u32* error;

    __device__ __forceinline__ u8* at(u64 page) const {
        const u32 slot = slots[group.first_slot + page];
        if (slot == 0 || slot >= layer.pages) {
            report(error, SLOT_BOUNDS);
            return 0;
        }
        if (owners[group.first_owner + slot] != owner) {
            report(error, FOREIGN_PAGE);
            return 0;
        }
        return (u8*)layer.base + (u64)slot * layer.stride;
    }
};

// A unit from wherever it lies: linear bytes need not start where words do.
template <class Unit> struct Load;
template <> struct Load<u8> {
    static __device__ __forceinline__ u8 from(const u8* at) { return *at; }
};
template <> struct Load<u32> {
    static __device__ __forceinline__ u32 from(const u8* at) {
        const u32 shift = 8 * (u32)((u64)at & 3);
        const u32* words = (const u32*)((u64)at & ~3ull);
        return shift ? __funnelshift_r(words[0], words[1], shift) : words[0];
    }
};
template <> struct Load<uint4> {
    static __device__ __forceinline__ uint4 from(const u8* at) {
        if (((u64)at & 15) == 0) return *(const uint4*)at;
        const u32 shift = 8 * (u32)((u64)at & 3);
        const u32* words = (const u32*)((u64)at & ~3ull);
        uint4 unit = {words[0], words[1], words[2], words[3]};
        if (shift) {
            const u32 last = words[4];
            unit.x = __funnelshift_r(unit.x, unit.y, shift);
            unit.y = __funnelshift_r(unit.y, unit.z, shift);
            unit.z = __funnelshift_r(unit.z, unit.w, shift);
            unit.w = __funnelshift_r(unit.w, last, shift);
        }
        return unit;
    }
};

// `units` units between linear bytes and pages; the first one's place in its page is a multiple of a unit.
// ITEMS of them are loaded before the first is stored, so that enough loads are under way.
template <class Unit, u32 ITEMS, bool GATHERS>
__device__ __forceinline__ void move_units(u8* linear, const Pages& pages, u64 offset, u32 units) {
    const u64 page = offset / pages.layer.page_bytes;
    const u32 inside = (u32)(offset % pages.layer.page_bytes);
    for (u32 first = threadIdx.x; first < units; first += ITEMS * blockDim.x) {
        Unit held[ITEMS];
        u8* target[ITEMS];
#pragma unroll
        for (u32 item = 0; item < ITEMS; ++item) {
            const u32 unit = first + item * blockDim.x;
            target[item] = 0;
            if (unit >= units) continue;
            const u32 along = inside + unit * (u32)sizeof(Unit);
            const u32 skipped = along / pages.layer.page_bytes;
            u8* const base = pages.at(page + skipped);
            if (!base) continue;
            u8* const place = base + (along - skipped * pages.layer.page_bytes);
            u8* const here = linear + unit * (u32)sizeof(Unit);
            if (GATHERS) {
                held[item] = *(const Unit*)place;
                target[item] = here;
            } else {
                held[item] = Load<Unit>::from(here);
                target[item] = place;
            }
        }
#pragma unroll
        for (u32 item = 0; item < ITEMS; ++item)
            if (target[item]) *(Unit*)target[item] = held[item];
    }
}

template <class Unit, bool GATHERS>
__device__ __forceinline__ void move_aligned(u8* linear, const Pages& pages, u64 offset, u32 bytes) {
    const u32 before = (u32)(-offset) & (sizeof(Unit) - 1);
    const u32 head = before < bytes ? before : bytes;
    const u32 units = (bytes - head) / sizeof(Unit);
    const u32 body = units * (u32)sizeof(Unit);
    const u32 tail = bytes - head - body;
    if (head) move_units<u8, 1, GATHERS>(linear, pages, offset, head);
    if (units) move_units<Unit, BATCH, GATHERS>(linear + head, pages, offset + head, units);
    if (tail) move_units<u8, 1, GATHERS>(linear + head + body, pages, offset + head + body, tail);
}

// Every check of the host once more: what arrives here may be something else than what was checked there.
__device__ __forceinline__ u32 judge(const Span& span, u64 used_bytes, const Layer* layers, u32 layer_count,
                                     const Group* groups, u32 group_count) {
    if (span.byte_count == 0 || span.flags != 0 || span.arena_offset > used_bytes ||
        span.byte_count > used_bytes - span.arena_offset)
        return SPAN_BOUNDS;
    if (span.destination >= layer_count) return RECORD_BOUNDS;
    const Layer layer = layers[span.destination];
    // Below 2^31 a place within a tile's pages is a 32-bit number.
    if (layer.group >= group_count || layer.page_bytes == 0 || layer.page_bytes > layer.stride ||
        layer.stride >> 31)
        return RECORD_BOUNDS;
    const u64 logical = (u64)groups[layer.group].slot_count * layer.page_bytes;
    if (span.destination_offset > logical || span.byte_count > logical - span.destination_offset)
        return DESTINATION_BOUNDS;
    return 0;
}

// One block per tile: bytes of one span that end where 16 byte units of its layer end.
template <bool GATHERS>
__device__ __forceinline__ void move_tiles(u8* linear, u64 used_bytes, const Span* spans,
                                           const u32* first_tiles, u32 span_count, const Layer* layers,
                                           u32 layer_count, const Group* groups, u32 group_count,
                                           const u32* slots, const u32* owners, u32 owner, u32* error) {
    for (u32 tile = blockIdx.x; tile < first_tiles[span_count]; tile += gridDim.x) {
        u32 low = 0, high = span_count;
        while (high - low > 1) {
            const u32 middle = low + (high - low) / 2;
            if (first_tiles[middle] <= tile) low = middle; else high = middle;
        }
        const Span span = spans[low];
        const u32 code = judge(span, used_bytes, layers, layer_count, groups, group_count);
        if (code) {
            if (threadIdx.x == 0) report(error, code);
            continue;
        }
        const u32 number = tile - first_tiles[low];
        const u32 lead = (u32)(span.destination_offset & 15);
        const u64 start = number ? (u64)number * TILE - lead : 0;
        const u64 full = (u64)(number + 1) * TILE - lead;
        const u64 end = full < span.byte_count ? full : span.byte_count;
        if (start >= end) continue;
        const Layer layer = layers[span.destination];
        const Pages pages = {layer, groups[layer.group], slots, owners, owner, error};
        u8* const from = linear + span.arena_offset + start;
        const u64 offset = span.destination_offset + start;
        const u32 geometry = (u32)(layer.base | layer.stride | layer.page_bytes);
        // Stores need whole words; loads do not. Linear bytes are stored to when they are gathered only.
        const u32 fit = GATHERS ? geometry | (u32)((u64)from - offset) : geometry;
        const u32 bytes = (u32)(end - start);
        if ((fit & 15) == 0) move_aligned<uint4, GATHERS>(from, pages, offset, bytes);
        else if ((fit & 3) == 0) move_aligned<u32, GATHERS>(from, pages, offset, bytes);
        else move_aligned<u8, GATHERS>(from, pages, offset, bytes);
    }
}

#define PARAMETERS                                                                                     \
    u8 *linear, u64 used_bytes, const Span *spans, const u32 *first_tiles, u32 span_count,             \
        const Layer *layers, u32 layer_count, const Group *groups, u32 group_count, const u32 *slots,  \
        const u32 *owners, u32 owner, u32 *error
#define ARGUMENTS                                                                                      \
    linear, used_bytes, spans, first_tiles, span_count, layers, layer_count, groups, group_count,      \
        slots, owners, owner, error

extern "C" __global__ void scatter_spans(PARAMETERS) { move_tiles<false>(ARGUMENTS); }
extern "C" __global__ void gather_spans(PARAMETERS) { move_tiles<true>(ARGUMENTS); }
"""


def table_bytes(span_count: int) -> int:
    """Bytes that ``encode_table`` takes for so many spans."""
    return span_count * SPAN_RECORD_BYTES + (span_count + 1) * 4


def encode_table(spans: Sequence[CopySpan]) -> Bytes:
    """The spans of a launch as records, then for each the number of its first tile, then their total.

    Inner tiles end where 16-byte units of the layer end: only the first and the last one of a span may have
    bytes that stand alone.
    """
    counts = np.array([span.byte_count for span in spans], dtype=np.int64)
    leads = np.array([span.destination_offset % 16 for span in spans], dtype=np.int64)
    tiles = np.maximum(1, -(-(counts + leads) // TILE_BYTES))
    first = np.zeros(len(spans) + 1, dtype="<u4")
    first[1:] = np.cumsum(tiles)
    records = np.frombuffer(encode_spans(spans), dtype=np.uint8)
    return np.concatenate([records, first.view(np.uint8)])


def count_tiles(table: Bytes) -> int:
    """Blocks that a launch over this table keeps busy."""
    return int(table[-4:].view("<u4")[0])


def shift_to_align(spans: Sequence[CopySpan]) -> int:
    """By how many bytes a staged filling is moved so that its longest span lies as its pages do, mod 16."""
    longest = max(spans, key=lambda span: span.byte_count, default=None)
    return 0 if longest is None else (longest.destination_offset - longest.arena_offset) % 16
