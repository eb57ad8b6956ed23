"""The control plane under load: start of ranks, a storm of orders, long lists, a restore over 512 ranks.

    make bench BENCH=control JSON=FILE

The load is made by this process on the same cores the servers run on; client figures include that, server
figures count from the moment the event loop takes a request until its answer begins.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.bench.control_lists import measure_lists
from tests.bench.control_ring import measure_ring
from tests.bench.control_site import Site, say
from tests.bench.control_start import measure_start, measure_storm
from tests.bench.parts import free_port, keep, measure_parts

PARTS: Final = ("start", "storm", "ring", "lists")


def _parts(chosen: argparse.Namespace) -> dict[str, Callable[[Site], dict[str, Any]]]:
    return {
        "start": lambda site: measure_start(site, rounds=chosen.rounds),
        "storm": lambda site: measure_storm(site, rounds=max(chosen.rounds // 10, 1)),
        "ring": lambda site: measure_ring(site, nodes=chosen.nodes, per_node=chosen.per_node),
        "lists": lambda site: measure_lists(site, rows=chosen.rows, rounds=max(chosen.rounds // 10, 1)),
    }


def run(home: Path, chosen: argparse.Namespace, result: dict[str, Any]) -> None:
    """Each part in an installation of its own, so that none inherits another's rows or processes."""
    for name in chosen.parts:
        say(f"{name} …")
        started = time.monotonic()
        folder = home / name
        folder.mkdir()
        site = Site(folder, port=free_port())
        try:
            result[name] = _parts(chosen)[name](site.start())
        finally:
            site.stop()
        result[name]["took_s"] = time.monotonic() - started
        keep(result, at=chosen.json)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--per-node", type=int, default=8)
    return measure_parts(parser, name="control", parts=PARTS, run=run)


if __name__ == "__main__":
    sys.exit(main())
