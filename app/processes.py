"""Start, identify and stop child processes so that none is ever lost or mistaken for another.

A child runs in its own session, writes to its own log file and is recorded in ``<home>/run/<name>.json``
with its pid *and* its start time. A record that is still there when nobody supervises `home` is the trace
of a supervisor that was killed; `reap_leftovers` stops what it names and says so. Linux only: identity comes
from ``/proc``. Standard library only, because the agent on a GPU node uses it too.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO, Self

_PROC = Path("/proc")
_POLL_S = 0.02
_LOG_LIMIT_BYTES = 20_000_000  # a log longer than this is set aside as .log.1 at the next start
_TAIL_BYTES = 64 * 1024
_KILL_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """What to start, and how to ask it to stop. `env` is the complete environment of the child."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: Path
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout_s: float = 15.0
    port: int | None = None
    user_id: int | None = None
    group_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRecord:
    """One started process, told apart from a later stranger with the same pid by boot and start time."""

    name: str
    pid: int
    start_ticks: int
    boot_id: str
    argv0: str
    port: int | None
    stop_signal: int
    stop_timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStat:
    """The fields of ``/proc/<pid>/stat`` that identify a process."""

    pid: int
    state: str
    session: int
    start_ticks: int


class Child:
    """A process this one started and supervises."""

    def __init__(
        self, spec: ChildSpec, *, home: Path, process: "subprocess.Popen[bytes]", log_start: int
    ) -> None:
        """Take over a just started process; use `Child.start`."""
        self.spec = spec
        self.home = home
        self.record = _record_of(spec, pid=process.pid)
        self._process = process
        self._log_start = log_start

    @classmethod
    def start(cls, spec: ChildSpec, *, home: Path) -> Self:
        """Start `spec` in its own session, log to ``<home>/log/<name>.log``, and record it."""
        with _open_log(log_path(home, name=spec.name)) as log:
            log_start = log.tell()
            process = subprocess.Popen(
                spec.argv,
                env=dict(spec.env),
                cwd=spec.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=spec.user_id,
                group=spec.group_id,
                extra_groups=None if spec.user_id is None else [],
            )
        child = cls(spec, home=home, process=process, log_start=log_start)
        write_private(record_path(home, name=spec.name), text=json.dumps(asdict(child.record)))
        return child

    @property
    def pid(self) -> int:
        """The process id."""
        return self.record.pid

    @property
    def log(self) -> Path:
        """The file that holds the output."""
        return log_path(self.home, name=self.spec.name)

    def last_lines(self, *, count: int = 12) -> list[str]:
        """Return the last lines this process has written; earlier starts of the program do not count."""
        with self.log.open("rb") as file:
            file.seek(max(self._log_start, self.log.stat().st_size - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()[-count:]

    def poll(self) -> int | None:
        """Return the exit status (negative: the signal that ended it), or None while it runs."""
        return self._process.poll()

    def ask_to_stop(self) -> None:
        """Send the stop signal and return; `stop` waits. Several children can so stop side by side."""
        if is_alive(self.record):
            _send(self.record.pid, number=self.record.stop_signal)

    def stop(self) -> None:
        """Ask, wait, then kill; whatever the process left in its session is killed and the record removed."""
        stop_process(self.record)
        self._process.wait()
        record_path(self.home, name=self.spec.name).unlink(missing_ok=True)


def log_path(home: Path, *, name: str) -> Path:
    """Where the output of the child `name` goes."""
    return home / "log" / f"{name}.log"


def record_path(home: Path, *, name: str) -> Path:
    """Where the child `name` is recorded while it runs."""
    return home / "run" / f"{name}.json"


def inherited_environment() -> dict[str, str]:
    """Return this process's environment without sparkgate's own settings: those are passed on one by one."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SPARKGATE_")}


def write_private(path: Path, *, text: str) -> None:
    """Write a file only its owner can read; a reader sees the old or the new text, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_record(path: Path) -> ChildRecord:
    """Read one record.

    Raises:
        ValueError: The file is not a record (a write torn by a power cut, or another version's).
    """
    try:
        return ChildRecord(**json.loads(path.read_text()))
    except (TypeError, ValueError) as error:
        raise ValueError(f"process record {path}: expected the fields of a record, found {error}") from error


def is_alive(record: ChildRecord) -> bool:
    """Say whether the very process that was recorded still runs; a later one with its pid is not it."""
    found = read_stat(record.pid)
    return found is not None and found.state not in "ZX" and _is_same(found, record=record)


def stop_process(record: ChildRecord) -> None:
    """Stop the recorded process (signal, wait, SIGKILL), then kill what is left of its session."""
    if is_alive(record):
        _send(record.pid, number=record.stop_signal)
        if not _wait_until(lambda: not is_alive(record), timeout_s=record.stop_timeout_s):
            _send(record.pid, number=signal.SIGKILL)
            _wait_until(lambda: not is_alive(record), timeout_s=_KILL_TIMEOUT_S)
    _kill(_session_members(record))


def reap_leftovers(home: Path, *, prefix: str = "") -> list[str]:
    """Stop every recorded child whose name starts with `prefix` and tell, one line each, what was found.

    Call it only while nobody else supervises these children.
    """
    paths = sorted((home / "run").glob(f"{prefix}*.json"))
    return [_reap(path) for path in paths]


def processes_in(folder: Path) -> list[int]:
    """Return the pids of all running processes whose working folder is `folder`."""
    return [pid for pid in _pids() if _works_in(pid, folder=folder)]


def stop_pids(pids: list[int], *, number: signal.Signals, timeout_s: float) -> None:
    """Signal processes that are not our children, wait for them, and kill those that stay."""
    before = [stat for pid in pids if (stat := read_stat(pid))]
    for stat in before:
        _send(stat.pid, number=number)
    if not _wait_until(lambda: not _remaining(before), timeout_s=timeout_s):
        _kill(_remaining(before))


def read_stat(pid: int) -> ProcessStat | None:
    """Return who `pid` is now, or None when there is no such process."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the command name before it may hold blanks and brackets
    return ProcessStat(pid=pid, state=fields[0], session=int(fields[3]), start_ticks=int(fields[19]))


def _record_of(spec: ChildSpec, *, pid: int) -> ChildRecord:
    stat = read_stat(pid)
    return ChildRecord(
        name=spec.name,
        pid=pid,
        start_ticks=stat.start_ticks if stat else 0,
        boot_id=_boot_id(),
        argv0=spec.argv[0],
        port=spec.port,
        stop_signal=int(spec.stop_signal),
        stop_timeout_s=spec.stop_timeout_s,
    )


def _open_log(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > _LOG_LIMIT_BYTES:
        path.replace(path.with_suffix(".log.1"))
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def _boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def _is_same(found: ProcessStat, *, record: ChildRecord) -> bool:
    return found.start_ticks == record.start_ticks and record.boot_id == _boot_id()


def _send(pid: int, *, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _kill(stats: list[ProcessStat]) -> None:
    for stat in stats:
        _send(stat.pid, number=signal.SIGKILL)
    _wait_until(lambda: not _remaining(stats), timeout_s=_KILL_TIMEOUT_S)


def _wait_until(done: Callable[[], bool], *, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _session_members(record: ChildRecord) -> list[ProcessStat]:
    """List what runs in the session that the process led; its number stays taken while one member lives."""
    leader = read_stat(record.pid)
    if record.boot_id != _boot_id() or (leader and not _is_same(leader, record=record)):
        return []
    stats = (read_stat(pid) for pid in _pids())
    return [stat for stat in stats if stat and stat.session == record.pid and stat.state not in "ZX"]


def _remaining(before: list[ProcessStat]) -> list[ProcessStat]:
    now = {stat.pid: read_stat(stat.pid) for stat in before}
    return [
        stat
        for stat in before
        if (found := now[stat.pid]) and found.start_ticks == stat.start_ticks and found.state not in "ZX"
    ]


def _reap(path: Path) -> str:
    try:
        record = read_record(path)
    except ValueError as error:
        path.unlink()
        return f"{error}; removed it"
    alive = is_alive(record)
    stop_process(record)
    path.unlink(missing_ok=True)
    if alive:
        return f"{record.name} (pid {record.pid}) still ran without its supervisor; stopped it"
    return f"{record.name} (pid {record.pid}) ended without a clean stop; removed its record"


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _works_in(pid: int, *, folder: Path) -> bool:
    try:
        return (_PROC / str(pid) / "cwd").readlink() == folder
    except OSError:  # ended meanwhile, or another user's
        return False
