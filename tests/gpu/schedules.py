"""Which queued work of the stream model runs ahead of anybody waiting: all, none, some, every way."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol


class Schedule(Protocol):
    """What runs ahead of anybody waiting for it."""

    def choose(self, ready: list[int]) -> int | None:
        """One of the streams whose next work may run now, or nothing more for the moment."""


class Lazy:
    """Nothing runs before it is waited for."""

    def choose(self, ready: list[int]) -> int | None:
        return None


class Eager:
    """Everything runs as soon as it may."""

    def choose(self, ready: list[int]) -> int | None:
        return ready[0] if ready else None


class Seeded:
    """Now and then something runs, somewhere."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, ready: list[int]) -> int | None:
        return self._random.choice([*ready, None]) if ready else None


class Late:
    """Everything runs as soon as it may, except what is on one stream: nobody knows why that one is so slow.

    Args:
        stream: which one, in the order they were made.
    """

    def __init__(self, stream: int) -> None:
        self._stream = stream

    def choose(self, ready: list[int]) -> int | None:
        return next((stream for stream in ready if stream != self._stream), None)


@dataclass
class Chosen:
    """Wherever two streams could run on, what runs is given; ``widths`` tells how many choices there were."""

    choices: tuple[int, ...]
    widths: list[int] = field(default_factory=list)

    def choose(self, ready: list[int]) -> int | None:
        if len(ready) < 2 or len(self.widths) == len(self.choices):
            return None
        number = self.choices[len(self.widths)]
        self.widths.append(len(ready) + 1)
        return None if number == 0 else ready[number - 1]


def every_schedule(depth: int) -> Iterator[Chosen]:
    """All ways to run ahead at the first ``depth`` choices; the caller runs its case before the next one."""
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        prefix = waiting.pop()
        schedule = Chosen((*prefix, *([0] * (depth - len(prefix)))))
        yield schedule
        for at in range(len(prefix), len(schedule.widths)):
            given = schedule.choices[:at]
            waiting += [(*given, number) for number in range(1, schedule.widths[at])]
