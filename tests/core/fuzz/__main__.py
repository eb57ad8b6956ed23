"""Fuzz by hand: ``python -m tests.core.fuzz --minutes 10 [--seed N] [--only ENTRY]``; exit 1 if it finds.

A finding is printed with its seed: ``--seed N --once --only ENTRY`` shows it again.
"""

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

from .cases import NAMES, FuzzCase, read_case
from .properties import examine, examine_on_disk

# One store in so many is written to a disk and checked as a whole root.
_DISK_SHARE = 16


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.core.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=NAMES, action="append")
    parser.add_argument("--once", action="store_true", help="one example only, with its traceback")
    given = parser.parse_args()
    shared = Path(os.environ.get("SPARKGATE_SHARED", Path(__file__).parents[4] / "shared"))
    cases = [read_case(shared, name=name) for name in given.only or NAMES]
    if given.once:
        _say(_run(cases[0], seed=given.seed))
        return 0
    return _fuzz(cases, seed=given.seed, seconds=given.minutes * 60)


def _fuzz(cases: list[FuzzCase], *, seed: int, seconds: float) -> int:
    ends, examples, findings = time.monotonic() + seconds, 0, Counter[str]()
    while time.monotonic() < ends:
        for case in cases:
            lines = _trace(case, seed=seed)
            if lines:
                if not findings[lines[-1]]:
                    _say("\n  ".join((f"{case.name} seed {seed}:", *lines[-6:])))
                findings[lines[-1]] += 1
            examples += 1
        seed += 1
    _say(f"{examples:,} stores, {findings.total()} findings of {len(findings)} kinds, next seed {seed}")
    return 1 if findings else 0


def _trace(case: FuzzCase, *, seed: int) -> list[str]:
    """What an example raised, nothing if it did not."""
    try:
        _run(case, seed=seed)
    except Exception:  # noqa: BLE001  # whatever it is, it is what we are looking for
        return traceback.format_exc().strip().splitlines()
    return []


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _run(case: FuzzCase, *, seed: int) -> str:
    random = Random(f"{case.name}/{seed}")
    if seed % _DISK_SHARE:
        return examine(case, random=random)
    with tempfile.TemporaryDirectory(prefix="sparkgate-fuzz-") as folder:
        return examine_on_disk(case, folder=Path(folder), random=random)


if __name__ == "__main__":
    sys.exit(main())
