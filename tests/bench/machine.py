"""What a figure was measured on."""

import os
import platform
import time
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


def others_cpu_ms() -> float:
    """CPU time of everybody but this process since the machine started; differences tell who disturbed."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _waiting, irq, soft_irq, *_ = ticks
    busy_ms = (user + nice + system + irq + soft_irq) * 1000 / os.sysconf("SC_CLK_TCK")
    return busy_ms - time.process_time_ns() / 1e6


def _first(path: str, *, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return "unknown"
