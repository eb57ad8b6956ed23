"""The system calls of a publication, as values: everything that reaches the disk goes through them.

Production uses the operating system's own, untouched. A test replaces all of them at once, to count, to
record, or to die at any one.
"""

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCalls:
    """One callable per system call, with the arguments of its name in ``os`` or ``fcntl``."""

    exists: Callable[[Path], bool] = os.path.lexists
    open: Callable[[Path, int, int], int] = os.open
    read: Callable[[int, int], bytes] = os.read
    write: Callable[[int, memoryview], int] = os.write
    fstat: Callable[[int], os.stat_result] = os.fstat
    fsync: Callable[[int], None] = os.fsync
    close: Callable[[int], None] = os.close
    mkdir: Callable[[Path], None] = os.mkdir
    link: Callable[[Path, Path], None] = os.link
    replace: Callable[[Path, Path], None] = os.replace
    unlink: Callable[[Path], None] = os.unlink
    flock: Callable[[int, int], None] = fcntl.flock


SYSTEM_CALLS = FileCalls()
