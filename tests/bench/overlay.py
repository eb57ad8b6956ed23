"""What an overlay check costs beside hashing the same files plainly: ``make bench BENCH=overlay``.

A synthetic root of 60,000 files, with sizes like those of an installed Python environment and some large
libraries. Both read the same files in the same order in the same process, each first on a cold page cache
where that can be asked for, then warm.
"""

import argparse
import hashlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from app.core.canonical_json import encode_canonical
from app.core.digest import Digest, sha256, squeeze
from app.core.profiles.overlay import OverlayOrder, check_overlay
from app.core.profiles.root_files import observe_files
from tests.bench.machine import describe_machine, others_cpu_ms

FOLDERS = 6_000
LARGE_BYTES = 64 << 20


def make_root(folder: Path, *, files: int, large: int) -> tuple[Path, Digest, list[str]]:
    """An image root with its lock; returns it, the lock's digest and the locked paths, sorted."""
    random, root = Random(33), folder / "image"
    filler = squeeze(b"overlay", byte_count=LARGE_BYTES)
    locked: dict[str, str] = {}
    for number in range(files):
        size = min(int(random.lognormvariate(8.5, 1.6)), 4 << 20) if number >= large else LARGE_BYTES
        start = random.randrange(0, LARGE_BYTES - size + 1)
        raw = memoryview(filler)[start : start + size]
        path = f"opt/venv/lib/p{number % FOLDERS:04d}/m{number:05d}.py"
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(raw)
        locked[path] = sha256(raw)
    lock = {"schema": "sparkring-r33-candidate-source-lock/v1", "installed_files": dict(locked)}
    raw_lock = encode_canonical(lock)  # type: ignore[arg-type]
    place = root / "opt/sparkring/receipts/source-lock.json"
    place.parent.mkdir(parents=True)
    place.write_bytes(raw_lock)
    return root, sha256(raw_lock), sorted(locked)


def hash_plainly(root: Path, paths: list[str]) -> int:
    """Open, read, hash, nothing else; returns the bytes."""
    total = 0
    for path in paths:
        with open(root / path, "rb") as stream:  # noqa: PTH123  # the plainest way there is
            raw = stream.read()
        hashlib.sha256(raw).hexdigest()
        total += len(raw)
    return total


def evict(root: Path, paths: list[str]) -> None:
    """Ask the kernel to forget the files' pages."""
    for path in paths:
        descriptor = os.open(root / path, os.O_RDONLY)
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def timed(name: str, work: Callable[[], int], *, files: int) -> dict[str, Any]:
    """Rates of one reading; ``others_cpu_ms`` is what everybody else took meanwhile."""
    others, started, used = others_cpu_ms(), time.perf_counter(), time.process_time()
    byte_count = work()
    seconds = time.perf_counter() - started
    return {
        "what": name,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(time.process_time() - used, 2),
        "files_per_second": round(files / seconds),
        "mb_per_second": round(byte_count / seconds / 1e6, 1),
        "others_cpu_ms": round(others_cpu_ms() - others),
    }


def run(*, files: int, large: int, folder: Path) -> dict[str, Any]:
    """Both ways, cold and warm, with the memory the check took on top."""
    root, lock_sha256, paths = make_root(folder, files=files, large=large)
    overlay = folder / "overlay"
    (overlay / "profiles").mkdir(parents=True)
    order = OverlayOrder(lock_sha256=lock_sha256)

    def observed() -> int:
        return sum(one.byte_count for one in observe_files(root, paths))

    def checked() -> int:
        result = check_overlay(root, overlay, order=order)
        if result.counts["same"] != files:
            raise RuntimeError(f"overlay: expected {files} files as locked, found {result.counts}")
        return result.byte_count

    ways = (("sha256 of the same files", lambda: hash_plainly(root, paths)), ("overlay check", checked))
    measured = []
    for state in ("cold", "warm"):
        for name, work in ways:
            if state == "cold":
                evict(root, paths)
            measured.append(timed(f"{name}, {state}", work, files=files))
    measured.append(timed("observing alone, warm", observed, files=files))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "machine": describe_machine(),
        "files": files,
        "bytes": hash_plainly(root, paths),
        "folders": FOLDERS,
        "measured": measured,
        "peak_rss_mib": round(peak / 1024),
    }


def main() -> None:
    """Measure and print; with --json also into a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=60_000)
    parser.add_argument("--large", type=int, default=8)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with TemporaryDirectory(prefix="sparkgate-overlay-", dir=asked.folder) as folder:
        figures = json.dumps(run(files=asked.files, large=asked.large, folder=Path(folder)), indent=1)
    sys.stdout.write(figures + "\n")
    if asked.json is not None:
        asked.json.write_text(figures + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
