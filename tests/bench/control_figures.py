"""Figures from many measured requests: percentiles by kind, on the client's and the server's clock."""

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

PERCENTS: Final = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Sample:
    """One request: how long the client waited, how long the application worked, what it answered."""

    client_ms: float
    server_ms: float
    status: int


@dataclass
class Record:
    """What was asked and how long it took, by kind; safe to use from many threads."""

    samples: dict[str, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, sample: Sample) -> None:
        with self._lock:
            self.samples[kind].append(sample)

    def summary(self) -> dict[str, Any]:
        """{kind: figures}, and "all" over every kind."""
        kinds = {kind: _figures(samples) for kind, samples in sorted(self.samples.items())}
        everything = [sample for samples in self.samples.values() for sample in samples]
        return {**kinds, "all": _figures(everything)}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Percentiles of some milliseconds: the smallest value that so many per cent do not exceed."""
    ordered = sorted(values)
    if not ordered:
        return {"count": 0}
    at = {f"p{percent}": ordered[-(-len(ordered) * percent // 100) - 1] for percent in PERCENTS}
    return {"count": len(ordered), **at, "max": ordered[-1]}


def _figures(samples: Sequence[Sample]) -> dict[str, Any]:
    statuses: dict[str, int] = defaultdict(int)
    for sample in samples:
        statuses[str(sample.status)] += 1
    return {
        "client_ms": spread([sample.client_ms for sample in samples]),
        "server_ms": spread([sample.server_ms for sample in samples]),
        "statuses": dict(statuses),
    }
