"""The orchestrating thread's time, cut into disjoint phases; what no phase claims is shown, not hidden."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType

Clock = Callable[[], int]


class Phase(StrEnum):
    """What the orchestrating thread does or waits for (restore-contract §7.1). The list is closed.

    ``manifest_lookup`` reads and judges the root document, twice; ``planning`` is arithmetic over it;
    ``reservation`` takes pages of the pool; ``prior_device_work`` is the fence; ``buffer_wait`` waits
    for a free pooled buffer, that is for the digest or the copies of an earlier object, and starts to read;
    ``read_authenticate`` waits for the readers of a batch; ``arena_wait`` waits for the copies of the filling
    two positions earlier, where the arena's own memory is used again; ``host_copy`` fills the arena;
    ``submission`` checks and queues its spans;
    ``stream_digest_wait`` waits for the rest of the stream digests; ``final_completion`` waits for both
    arenas and checks coverage, error word and statistics; ``clean_up`` follows a failure: what still runs is
    waited for, buffers and pages are given back.
    """

    MANIFEST_LOOKUP = "manifest_lookup"
    PLANNING = "planning"
    RESERVATION = "reservation"
    PRIOR_DEVICE_WORK = "prior_device_work"
    BUFFER_WAIT = "buffer_wait"
    READ_AUTHENTICATE = "read_authenticate"
    ARENA_WAIT = "arena_wait"
    HOST_COPY = "host_copy"
    SUBMISSION = "submission"
    STREAM_DIGEST_WAIT = "stream_digest_wait"
    FINAL_COMPLETION = "final_completion"
    CLEAN_UP = "clean_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """``[start_ns, end_ns)`` of one phase, in ns since the service began."""

    phase: Phase
    start_ns: int
    end_ns: int


class Timeline:
    """Intervals that cannot overlap: a phase may only begin where none is open.

    Args:
        clock: monotonic ns; a step backwards is read as no step.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._origin = clock()
        self._last = self._origin
        self._open: Phase | None = None
        self._intervals: list[Interval] = []

    def phase(self, phase: Phase) -> "_OpenPhase":
        """A ``with`` block whose time belongs to ``phase``."""
        return _OpenPhase(self, phase=phase)

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """The closed intervals so far, in order."""
        return tuple(self._intervals)

    def since_start(self, moment_ns: int) -> int:
        """A moment of the same clock, in ns since the service began; never negative."""
        return max(0, moment_ns - self._origin)

    def elapsed_ns(self) -> int:
        """Time since the service began, in ns, never decreasing."""
        self._last = max(self._last, self._clock())
        return self._last - self._origin

    def enter(self, phase: Phase) -> int:
        """Open a phase and return its start; use ``phase`` instead.

        Raises:
            RuntimeError: another phase is open.
        """
        if self._open is not None:
            raise RuntimeError(f"phase {phase} begins inside phase {self._open}")
        self._open = phase
        return self.elapsed_ns()

    def leave(self, phase: Phase, *, start_ns: int) -> None:
        """Close the phase that ``enter`` opened."""
        self._open = None
        self._intervals.append(Interval(phase=phase, start_ns=start_ns, end_ns=self.elapsed_ns()))


class _OpenPhase:
    """One ``with timeline.phase(…)`` block."""

    __slots__ = ("_phase", "_start_ns", "_timeline")

    def __init__(self, timeline: Timeline, *, phase: Phase) -> None:
        self._timeline = timeline
        self._phase = phase
        self._start_ns = 0

    def __enter__(self) -> None:
        self._start_ns = self._timeline.enter(self._phase)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timeline.leave(self._phase, start_ns=self._start_ns)
