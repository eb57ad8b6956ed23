"""The CUDA source on the CPU: a few lines of C++ before it and a loop over blocks and threads behind it."""

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from workers.gpu.cuda_kernels import GATHER, SOURCE, THREADS
from workers.gpu.driver import Launch

COMPILER = shutil.which("g++") or shutil.which("c++")

BEFORE = """
struct Index { unsigned x, y, z; };
static thread_local Index threadIdx, blockIdx, blockDim, gridDim;
#define __global__
#define __device__
#define __forceinline__ inline
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline unsigned atomicCAS(unsigned* at, unsigned expected, unsigned value) {
    const unsigned found = *at;
    if (found == expected) *at = value;
    return found;
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)((((unsigned long long)high << 32) | low) >> (shift & 31));
}
"""

BEHIND = """
extern "C" void run_blocks(int gathers, const unsigned* order, unsigned blocks, unsigned threads,
                           PARAMETERS) {
    gridDim = {blocks, 1, 1};
    blockDim = {threads, 1, 1};
    for (unsigned number = 0; number < blocks; ++number) {
        blockIdx = {order[number], 0, 0};
        for (unsigned thread = 0; thread < threads; ++thread) {
            threadIdx = {thread, 0, 0};
            if (gathers) gather_spans(ARGUMENTS); else scatter_spans(ARGUMENTS);
        }
    }
}
"""

# A misaligned wide access, which only a GPU would refuse, ends the process here.
FLAGS = ("-std=c++17", "-O1", "-shared", "-fPIC", "-fno-strict-aliasing", "-Wno-unknown-pragmas")
CHECKS = ("-fsanitize=alignment,shift,bounds", "-fsanitize-undefined-trap-on-error")


@cache
def library(source: str = SOURCE) -> ctypes.CDLL:
    """The compiled source; compiled once in a process."""
    assert COMPILER is not None
    folder = Path(mkdtemp(prefix="sparkgate-kernels-"))
    try:
        text, built = folder / "kernels.cpp", folder / "kernels.so"
        text.write_text(BEFORE + source + BEHIND)
        command = [COMPILER, *FLAGS, *CHECKS, str(text), "-o", str(built)]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return ctypes.CDLL(str(built))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_compiled(
    launch: Launch, *, order: Sequence[int] | None = None, threads: int = THREADS, source: str = SOURCE
) -> None:
    """One launch over memory of this process, block after block in the given order."""
    blocks = list(range(launch.blocks)) if order is None else list(order)
    pages = launch.pages
    library(source).run_blocks(
        ctypes.c_int(launch.kernel == GATHER),
        (ctypes.c_uint32 * len(blocks))(*blocks),
        ctypes.c_uint32(len(blocks)),
        ctypes.c_uint32(threads),
        ctypes.c_uint64(launch.linear),
        ctypes.c_uint64(launch.used_bytes),
        ctypes.c_uint64(launch.spans),
        ctypes.c_uint64(launch.first_tiles),
        ctypes.c_uint32(launch.span_count),
        ctypes.c_uint64(pages.layers),
        ctypes.c_uint32(pages.layer_count),
        ctypes.c_uint64(pages.groups),
        ctypes.c_uint32(pages.group_count),
        ctypes.c_uint64(pages.slots),
        ctypes.c_uint64(pages.owners),
        ctypes.c_uint32(pages.owner),
        ctypes.c_uint64(pages.error),
    )
