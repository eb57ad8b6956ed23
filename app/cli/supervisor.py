"""Keep programs running: start them in order, start again what ends, stop them in reverse order."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.embedded import EmbeddedError
from app.processes import Child

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
_STEADY_S: Final = 60.0  # a program that ran so long starts again with the first pause

Report = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Program:
    """One supervised program and how its last starts went."""

    name: str
    launch: Callable[[], Child]
    child: Child | None = None
    started_at: float = 0.0
    pause_s: float = _FIRST_PAUSE_S
    retry_at: float = 0.0


class Supervisor:
    """The programs of one `up`, in the order they were started."""

    def __init__(self, report: Report, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Say what happens through `report`."""
        self._report = report
        self._clock = clock
        self._programs: list[Program] = []

    def start(self, name: str, *, launch: Callable[[], Child]) -> Child:
        """Start a program and keep it running from now on; a failure of this first start is raised."""
        child = launch()
        self._programs.append(Program(name=name, launch=launch, child=child, started_at=self._clock()))
        return child

    def pids(self) -> dict[str, int]:
        """Return the process id of every program that runs now."""
        return {program.name: program.child.pid for program in self._programs if program.child}

    def tend(self) -> bool:
        """Look at every program once; say whether any was started again or was found ended."""
        changed = [self._tend_one(program) for program in self._programs]
        return any(changed)

    def stop(self) -> None:
        """Stop all programs, the last started first."""
        for program in reversed(self._programs):
            if program.child is not None:
                program.child.stop()
                program.child = None

    def _tend_one(self, program: Program) -> bool:
        if program.child is None:
            return self._clock() >= program.retry_at and self._start_again(program)
        status = program.child.poll()
        if status is None:
            return False
        self._note_end(program, child=program.child, status=status)
        return True

    def _note_end(self, program: Program, *, child: Child, status: int) -> None:
        steady = self._clock() - program.started_at >= _STEADY_S
        program.pause_s = _FIRST_PAUSE_S if steady else program.pause_s
        ended = f"by signal {-status}" if status < 0 else f"with status {status}"
        self._report(
            f"{program.name} (pid {child.pid}) ended {ended}; starting again in {program.pause_s:.0f} s"
        )
        for line in child.last_lines(count=5):
            self._report(f"  {program.name}: {line}")
        child.stop()  # also ends what it left in its session
        program.child = None
        self._put_off(program)

    def _start_again(self, program: Program) -> bool:
        try:
            program.child = program.launch()
        except (EmbeddedError, OSError) as error:
            self._report(f"{program.name} did not start again: {error}; next try in {program.pause_s:.0f} s")
            self._put_off(program)
            return False
        program.started_at = self._clock()
        self._report(f"{program.name} runs again (pid {program.child.pid})")
        return True

    def _put_off(self, program: Program) -> None:
        program.retry_at = self._clock() + program.pause_s
        program.pause_s = min(program.pause_s * 2, _LONGEST_PAUSE_S)
