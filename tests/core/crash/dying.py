"""``python -m tests.core.crash.dying SCENARIO FOLDER``: publish, and die at each system call in turn.

Each publication runs in a process of its own, below a copy of ``FOLDER/before``: ``FOLDER/whole`` to its end,
then ``FOLDER/1``, ``FOLDER/2`` … killed before that call, and ``FOLDER/7t`` killed half way through writing.
"""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from app.core.store.writer import SYSTEM_CALLS

from .recording import Call, dying, read_log
from .scenarios import SCENARIOS, Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A publication that was killed: where it ran, and what it had done."""

    step: int
    torn: bool
    base: Path

    @property
    def root(self) -> Path:
        """The rank-local root, two folders below what existed before."""
        return self.base / "below" / "root"

    @property
    def calls(self) -> list[Call]:
        """Every call that was finished."""
        return read_log(self.base.with_suffix(".log"))


def main(name: str, folder: str) -> None:
    """Kill the scenario's publication everywhere."""
    scenario, place = SCENARIOS[name], Path(folder)
    before = Death(step=0, torn=False, base=place / "before")
    before.base.mkdir(parents=True)
    if scenario.prepare is not None:
        scenario.prepare(before.root, SYSTEM_CALLS, "prepare")
    whole = Death(step=0, torn=False, base=place / "whole")
    if run(scenario, death=whole) != 0:
        sys.exit(f"{name}: expected to end when nobody kills it")
    for step, call in enumerate(whole.calls, start=1):
        for torn in (False, True) if call.name == "write" else (False,):
            death = Death(step=step, torn=torn, base=place / f"{step}{'t' if torn else ''}")
            if run(scenario, death=death) == 0:
                sys.exit(f"{name}: expected to be killed at call {step}, ended")


def run(scenario: Scenario, *, death: Death) -> int:
    """Publish in a child, beside what the preparation left, and say how the child ended."""
    shutil.copytree(death.base.with_name("before"), death.base)
    child = os.fork()
    if child == 0:
        calls = dying(death.step, torn=death.torn, log=death.base.with_suffix(".log"))
        scenario.publish(death.root, calls, "first")
        os._exit(0)
    return os.waitpid(child, 0)[1]


def deaths(folder: Path) -> list[Death]:
    """Everything that was killed below a folder, in order of its step."""
    found = []
    for log in folder.glob("[0-9]*.log"):
        torn = log.stem.endswith("t")
        found.append(Death(step=int(log.stem.rstrip("t")), torn=torn, base=log.with_suffix("")))
    return sorted(found, key=lambda death: (death.step, death.torn))


if __name__ == "__main__":
    main(*sys.argv[1:])
