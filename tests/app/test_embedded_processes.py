"""Child processes: recorded, recognised, stopped with all they started, never mistaken for a stranger."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.supervisor import Supervisor
from app.processes import (
    Child,
    ChildSpec,
    inherited_environment,
    is_alive,
    read_record,
    read_stat,
    reap_leftovers,
    record_path,
    stop_process,
    write_private,
)

Start = Callable[..., Child]
STUBBORN = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('deaf', flush=True)\ntime.sleep(60)"
)
PARENT = "import subprocess, time\nprint(subprocess.Popen(['sleep', '60']).pid, flush=True)\ntime.sleep(60)"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a Python program as a child; all are ended after the test."""
    started: list[Child] = []

    def start_one(code: str = "import time; time.sleep(60)", *, name: str = "program") -> Child:
        spec = ChildSpec(
            name=name,
            argv=(sys.executable, "-c", code),
            env=inherited_environment(),
            cwd=tmp_path,
            stop_timeout_s=0.3,
        )
        started.append(Child.start(spec, home=tmp_path))
        return started[-1]

    yield start_one
    for child in started:
        child.stop()


def _wait_for_line(child: Child) -> str:
    deadline = time.monotonic() + 10
    while not (lines := child.last_lines()):
        assert time.monotonic() < deadline, "no output"
        time.sleep(0.01)
    return lines[-1]


def _is_gone(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is None or stat.state in "ZX"


def test_a_child_is_recorded_while_it_runs(tmp_path: Path, start: Start) -> None:
    child = start()
    path = record_path(tmp_path, name="program")
    record = read_record(path)
    assert record == child.record
    assert is_alive(record)
    assert (path.stat().st_mode & 0o777) == 0o600
    child.stop()
    assert not path.exists()
    assert not is_alive(record)
    assert child.poll() == -signal.SIGTERM


def test_a_child_does_not_get_our_signals(start: Start) -> None:
    assert os.getsid(start().pid) != os.getsid(0)


def test_a_child_that_ignores_the_signal_is_killed(start: Start) -> None:
    child = start(STUBBORN)
    assert _wait_for_line(child) == "deaf"
    child.stop()
    assert child.poll() == -signal.SIGKILL


def test_what_a_child_started_is_stopped_with_it(start: Start) -> None:
    child = start(PARENT)
    grandchild = int(_wait_for_line(child))
    child.stop()
    assert _is_gone(grandchild)


def test_what_a_killed_child_started_is_stopped_too(tmp_path: Path, start: Start) -> None:
    child = start(PARENT)
    grandchild = int(_wait_for_line(child))
    os.kill(child.pid, signal.SIGKILL)
    while child.poll() is None:
        time.sleep(0.01)
    assert not _is_gone(grandchild)
    assert reap_leftovers(tmp_path) == [
        f"program (pid {child.pid}) ended without a clean stop; removed its record"
    ]
    assert _is_gone(grandchild)


def test_a_child_without_supervisor_is_stopped_and_told(tmp_path: Path, start: Start) -> None:
    child = start()
    found = reap_leftovers(tmp_path)
    assert found == [f"program (pid {child.pid}) still ran without its supervisor; stopped it"]
    assert child.poll() == -signal.SIGTERM
    assert reap_leftovers(tmp_path) == []


def test_only_leftovers_of_the_prefix_are_stopped(tmp_path: Path, start: Start) -> None:
    web, rank = start(name="web"), start(name="rank-host0")
    assert len(reap_leftovers(tmp_path, prefix="rank-")) == 1
    assert web.poll() is None
    assert rank.poll() is not None


@pytest.mark.parametrize("changed", [{"start_ticks": 1}, {"boot_id": "another boot"}])
def test_a_stranger_with_the_recorded_pid_is_left_alone(start: Start, changed: dict[str, object]) -> None:
    stranger = start()
    record = replace(stranger.record, **changed)
    assert not is_alive(record)
    stop_process(record)
    assert stranger.poll() is None


def test_a_torn_record_is_removed_and_told(tmp_path: Path) -> None:
    path = record_path(tmp_path, name="web")
    write_private(path, text='{"name": "we')
    (found,) = reap_leftovers(tmp_path)
    assert str(path) in found
    assert not path.exists()


def test_a_zombie_counts_as_ended(start: Start) -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(replace(start().record, pid=process.pid))
    process.wait()


def test_a_long_log_is_set_aside(tmp_path: Path, start: Start) -> None:
    log = tmp_path / "log/program.log"
    log.parent.mkdir()
    with log.open("wb") as file:
        file.truncate(20_000_001)
    start()
    assert log.stat().st_size < 1000
    assert log.with_suffix(".log.1").stat().st_size == 20_000_001


def test_own_settings_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKGATE_DATABASE_URL", "secret")
    assert "SPARKGATE_DATABASE_URL" not in inherited_environment()
    assert "PATH" in inherited_environment()


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_ended_program_is_told_and_started_again_later_and_later(start: Start) -> None:
    clock, said = _Clock(), list[str]()
    supervisor = Supervisor(said.append, clock=clock)
    child = supervisor.start(
        "web", launch=lambda: start("print('no database'); raise SystemExit(3)", name="web")
    )
    pauses = []
    for _ in range(7):
        child._process.wait()
        assert supervisor.tend()
        assert f"web (pid {child.pid}) ended with status 3" in said[-2]
        assert said[-1] == "  web: no database"
        assert supervisor.pids() == {}
        pauses.append(int(said[-2].removesuffix(" s").rsplit(" ", 1)[1]))
        clock.now += pauses[-1] - 0.1
        assert not supervisor.tend()
        clock.now += 0.2
        assert supervisor.tend()
        child = supervisor._programs[0].child or child
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    supervisor.stop()


def test_programs_stop_in_reverse_order(tmp_path: Path) -> None:
    order = tmp_path / "order"
    code = "import signal, sys, time\nname = sys.argv[1]\n"
    code += f"def end(*_):\n    open({str(order)!r}, 'a').write(name)\n    sys.exit()\n"
    code += "signal.signal(signal.SIGTERM, end)\nprint(name, flush=True)\ntime.sleep(60)"
    supervisor = Supervisor(lambda _line: None)
    for name in "abc":
        spec = ChildSpec(
            name=name, argv=(sys.executable, "-c", code, name), env=inherited_environment(), cwd=tmp_path
        )
        child = supervisor.start(name, launch=lambda spec=spec: Child.start(spec, home=tmp_path))
        _wait_for_line(child)
    supervisor.stop()
    assert order.read_text() == "cba"
