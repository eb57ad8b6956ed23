"""What a figure was measured on."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path


def describe_machine() -> dict[str, str | int]:
    """Processor, cores, memory, system and the time of the measurement."""
    return {
        "processor": _first("/proc/cpuinfo", key="model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory": _first("/proc/meminfo", key="MemTotal"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_before": f"{os.getloadavg()[0]:.2f}",
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _first(path: str, *, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return "unknown"
