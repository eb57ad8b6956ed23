"""``make soak``: many restores in one process; memory, threads and descriptors must stay where they are."""

import argparse
import shutil
import sys
import tempfile
import threading
from pathlib import Path

from app.core.digest import squeeze
from tests.bench.case import Case, make_stored, open_case

RESTORES = 100
SETTLED_AFTER = 10
ALLOWED_GROWTH_BYTES = 8 * 1024 * 1024
PAGE_BYTES = 4096


def take_stock() -> tuple[int, int, int]:
    """Resident bytes, open descriptors, threads."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * PAGE_BYTES, len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def soak(case: Case, *, restores: int) -> list[tuple[int, int, int]]:
    """Restore again and again, pinned and not in turn; every tenth time over a damaged object."""
    counts = []
    victim = case.stored.paths[-1]
    content = victim.read_bytes()
    for number in range(restores):
        if number % 10 == 9:
            victim.write_bytes(squeeze(b"damage", byte_count=len(content)))
            try:
                case.restore(pinned=True)
            except RuntimeError:
                victim.write_bytes(content)
            else:
                raise RuntimeError("a damaged object was restored")
        else:
            case.restore(pinned=bool(number % 2))
        counts.append(take_stock())
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=200_000_000)
    parser.add_argument("--restores", type=int, default=RESTORES)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sparkgate-soak-"))
    try:
        case = open_case(make_stored(folder, byte_count=chosen.bytes, object_bytes=16 * 1024 * 1024))
        counts = soak(case, restores=chosen.restores)
        case.device.close()
    finally:
        shutil.rmtree(folder)
    before, after = counts[SETTLED_AFTER], counts[-1]
    sys.stdout.write(f"resident, descriptors, threads: {before} after {SETTLED_AFTER}, {after} at the end\n")
    flat = after[0] - before[0] <= ALLOWED_GROWTH_BYTES and after[1:] == before[1:]
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
