"""The system's page cache: objects put into it or out of it, and how much of them really is there.

Linux only. ``mincore`` tells the truth about files the caller owns or may write; of others it says that every
page is present (Linux 5.2 and later), so that "cold" is never claimed for them.
"""

import ctypes
import mmap
import os
from collections.abc import Iterable

import numpy as np

from app.core.errors import ResourceError, Stage
from app.core.restore.conditions import CacheMode, CacheState
from app.core.restore.plan import Source
from app.core.store.files import RootFiles
from app.core.store.layout import object_path

_PRESENT = 1
_BLOCK_BYTES = 1024 * 1024


def prepare_cache(files: RootFiles, *, sources: Iterable[Source], mode: CacheMode) -> CacheState:
    """Drop or read the objects of an entry as ``mode`` says, then measure what is resident.

    Pages that were never written back cannot be dropped and show as resident.

    Raises:
        AbsentError, FormatError: an object is missing or no regular file.
        ResourceError: out of descriptors or memory, or a page cache that cannot be asked.
    """
    resident = total = 0
    objects = {source.descriptor.sha256: source for source in sources}
    for digest, source in objects.items():
        path = object_path(digest)
        with files.open(path, subject=source.subject, stage=Stage.SIZE) as file:
            if mode is CacheMode.COLD:
                os.posix_fadvise(file.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            if mode is CacheMode.WARM:
                _read_through(file.descriptor, byte_count=file.byte_count)
            found, there = resident_pages(file.descriptor, byte_count=file.byte_count)
        resident += found * mmap.PAGESIZE
        total += there * mmap.PAGESIZE
    return CacheState(mode=mode, resident_bytes=resident, object_bytes=total)


def resident_pages(descriptor: int, *, byte_count: int) -> tuple[int, int]:
    """How many pages of an open file are in memory, and how many it has.

    Raises:
        ResourceError: the system does not say.
    """
    if byte_count == 0:
        return 0, 0
    pages = -(-byte_count // mmap.PAGESIZE)
    flags = np.zeros(pages, dtype=np.uint8)
    with mmap.mmap(descriptor, byte_count, prot=mmap.PROT_READ) as mapped:
        view = np.frombuffer(mapped, dtype=np.uint8)
        failed = ctypes.CDLL(None, use_errno=True).mincore(
            ctypes.c_void_p(view.ctypes.data),
            ctypes.c_size_t(byte_count),
            ctypes.c_void_p(flags.ctypes.data),
        )
        # A mapping cannot be closed while an array looks into it.
        del view
    if failed:
        raise ResourceError("mincore", expected="an answer", found=os.strerror(ctypes.get_errno()))
    return int(np.count_nonzero(flags & _PRESENT)), pages


def _read_through(descriptor: int, *, byte_count: int) -> None:
    block = bytearray(min(_BLOCK_BYTES, byte_count))
    for offset in range(0, byte_count, _BLOCK_BYTES):
        os.preadv(descriptor, [block], offset)
