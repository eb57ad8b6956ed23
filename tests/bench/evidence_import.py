"""Imports: folders of receipts through the command line and the web process, each a process of its own."""

import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from app.core.digest import sha256
from tests.app.evidence_documents import raw, receipt
from tests.bench.control_site import Site

PER_FOLDER: Final = 1000
PER_IMAGE: Final = 10


def document(number: int, *, of: str) -> bytes:
    """A receipt of four ranks; ten about one image."""
    image = sha256(f"{of}{number // PER_IMAGE}".encode())
    return raw(receipt(artifact__image_id=f"sha256:{image}", profile__profile_id=f"{of}{number}"))


def write_folder(folder: Path, *, count: int, of: str) -> None:
    """So many documents as files, a thousand in a folder."""
    for number in range(count):
        place = folder / f"{number // PER_FOLDER:04}"
        if number % PER_FOLDER == 0:
            place.mkdir(parents=True)
        (place / f"{number:07}.json").write_bytes(document(number, of=of))


def start_import(site: Site, folder: Path) -> "subprocess.Popen[bytes]":
    """``sparkgate import`` of a folder, running."""
    if site.credentials is None:
        raise RuntimeError("site: expected one that was started")
    key = site.home / "import.key"
    key.write_text(site.credentials.api_key)
    command = Path(sys.executable).parent / "sparkgate"
    argv = [str(command), "import", str(folder), "--repository", "example/bench", "--json"]
    argv += ["--url", site.settings.control_url, "--api-key-file", str(key)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def measure_imports(site: Site, *, counts: list[int]) -> dict[str, Any]:
    """Receipts a second and the most memory of either side, for each number of files."""
    measured: dict[str, Any] = {}
    for count in counts:
        folder = site.home / f"import{count}"
        write_folder(folder, count=count, of=f"import{count}-")
        started = time.perf_counter()
        running = start_import(site, folder)
        command_mib = _watched(running)
        told = json.loads(running.stdout.read() if running.stdout else b"")
        seconds = time.perf_counter() - started
        if (running.returncode, told["new"]) != (0, count):
            raise RuntimeError(f"import: expected {count} new documents, found {told}")
        measured[f"{count} files"] = {
            "seconds": seconds,
            "receipts_per_second": count / seconds,
            "command_peak_mib": command_mib,
            "web_peak_mib": _peak_mib(site.children["web"].pid),
        }
    return measured


def _watched(running: "subprocess.Popen[bytes]") -> float:
    """Wait for a process; the most memory that it held a moment before it ended."""
    peak = 0.0
    while running.poll() is None:
        with suppress(OSError, StopIteration):
            peak = max(peak, _peak_mib(running.pid))
        time.sleep(0.1)
    return peak


def _peak_mib(pid: int) -> float:
    """The most memory that a process, or one that it started, ever held."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = next(
        int(line.split()[1]) / 1024
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return max([own, *(_peak_mib(int(child)) for child in children)])
