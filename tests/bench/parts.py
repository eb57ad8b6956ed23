"""A benchmark of several parts: the chosen ones measured, kept after each, and said in the end."""

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.bench.machine import describe_machine

Run = Callable[[Path, argparse.Namespace, dict[str, Any]], None]


def measure_parts(parser: argparse.ArgumentParser, *, name: str, parts: Sequence[str], run: Run) -> int:
    """The command of such a benchmark; returns its exit code.

    Args:
        parser: knows the options of its own.
        run: measures the chosen parts in a folder that is removed afterwards, and adds to the result.
    """
    parser.add_argument("parts", nargs="*", default=parts, choices=parts, metavar="PART")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    result: dict[str, Any] = {"machine": describe_machine(), "commit": _commit_measured()}
    home = Path(tempfile.mkdtemp(prefix=f"sparkgate-{name}-"))
    home.chmod(0o711)
    try:
        run(home, chosen, result)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    result["machine_after"] = describe_machine()
    keep(result, at=chosen.json)
    sys.stdout.write(json.dumps(_rounded(result), indent=1) + "\n")
    return 0


def keep(result: dict[str, Any], *, at: Path | None) -> None:
    """After every part: a later one that fails must not take the earlier ones with it."""
    if at is not None:
        at.write_text(json.dumps(_rounded(result), indent=1) + "\n")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _commit_measured() -> str:
    """The commit measured, and whether files differ from it."""
    command = ("git", "describe", "--always", "--dirty", "--abbrev=12")
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 2) if isinstance(value, float) else value
