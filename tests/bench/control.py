"""The control plane under load: start of ranks, a storm of orders, long lists, a restore over 512 ranks.

    make bench BENCH=control JSON=FILE

The load is made by this process on the same cores the servers run on; client figures include that, server
figures count from the moment the event loop takes a request until its answer begins.
"""

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.bench.control_lists import measure_lists
from tests.bench.control_ring import measure_ring
from tests.bench.control_site import Site, say
from tests.bench.control_start import measure_start, measure_storm
from tests.bench.machine import describe_machine

PARTS: Final = ("start", "storm", "ring", "lists")


def _parts(chosen: argparse.Namespace) -> dict[str, Callable[[Site], dict[str, Any]]]:
    return {
        "start": lambda site: measure_start(site, rounds=chosen.rounds),
        "storm": lambda site: measure_storm(site, rounds=max(chosen.rounds // 10, 1)),
        "ring": lambda site: measure_ring(site, nodes=chosen.nodes, per_node=chosen.per_node),
        "lists": lambda site: measure_lists(site, rows=chosen.rows, rounds=max(chosen.rounds // 10, 1)),
    }


def run(home: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """Each part in an installation of its own, so that none inherits another's rows or processes."""
    result: dict[str, Any] = {"machine": describe_machine(), "commit": commit_measured()}
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
    result["machine_after"] = describe_machine()
    return result


def keep(result: dict[str, Any], *, at: Path | None) -> None:
    """After every part: a later one that fails must not take the earlier ones with it."""
    if at is not None:
        at.write_text(json.dumps(rounded(result), indent=1) + "\n")


def commit_measured() -> str:
    """The commit measured, and whether files differ from it."""
    command = ("git", "describe", "--always", "--dirty", "--abbrev=12")
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(value, 2) if isinstance(value, float) else value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS, choices=PARTS, metavar="PART")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--per-node", type=int, default=8)
    chosen = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="sparkgate-control-"))
    home.chmod(0o711)
    try:
        result = run(home, chosen)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    keep(result, at=chosen.json)
    sys.stdout.write(json.dumps(rounded(result), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
