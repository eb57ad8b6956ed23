"""``sparkgate up`` with real processes: ready, alone, stopped without a trace, repaired after kills."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.embedded import DatabaseUrls, create_database, drop_database
from app.processes import inherited_environment, read_stat, reap_leftovers

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

READY_S = 90.0
STOP_S = 60.0


class Up:
    """One `sparkgate up` on a home."""

    def __init__(self, home: Path, *, port: int, **settings: str) -> None:
        self.home = home
        self.output = Path(tempfile.mkstemp(dir=home.parent, suffix=".out")[1])
        command = [
            sys.executable,
            "-c",
            "from app.cli import main; main()",
            "up",
            "--no-demo",
            "--port",
            str(port),
        ]
        env = {**inherited_environment(), "SPARKGATE_HOME": str(home), **settings}
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                command, env=env, stdout=output, stderr=output, start_new_session=True
            )

    @property
    def said(self) -> str:
        return self.output.read_text()

    def ready(self) -> dict[str, Any]:
        """Wait until everything runs; return what ``up.json`` says."""
        status = self.home / "up.json"
        self._wait(lambda: status.exists() and self._is_ours(status), timeout_s=READY_S)
        return self.status()

    def status(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.home / "up.json").read_text())
        return content

    def wait_for(self, line: str) -> None:
        self._wait(lambda: line in self.said, timeout_s=READY_S)

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(STOP_S)

    def _is_ours(self, status: Path) -> bool:
        with suppress(FileNotFoundError, ValueError):
            return bool(json.loads(status.read_text())["pid"] == self.process.pid)
        return False

    def _wait(self, done: Callable[[], bool], *, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.1)


@pytest.fixture
def home() -> Iterator[Path]:
    """A home that the unprivileged PostgreSQL user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="sparkgate-up-"))
    folder.chmod(0o711)
    yield folder / "home"
    reap_leftovers(folder / "home")
    shutil.rmtree(folder)


@pytest.fixture
def start(home: Path, free_port: int) -> Iterator[Callable[..., Up]]:
    """Start `sparkgate up`; what still runs after the test is stopped."""
    started: list[Up] = []

    def start_one(**settings: str) -> Up:
        started.append(Up(home, port=free_port, **settings))
        return started[-1]

    yield start_one
    for each in started:
        if each.process.poll() is None:
            each.stop()


@pytest.fixture
def free_port() -> int:
    """A port for the dashboard, away from the default so that a running sparkgate does not matter."""
    return 20_000 + os.getpid() % 10_000


Start = Callable[..., Up]


def processes_of(home: Path) -> list[str]:
    """Return every running process that was started for a home, by environment, arguments or folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and _belongs(entry, home=str(home)):
                found.append(f"{entry.name} {(entry / 'cmdline').read_text()}")
    return found


def _belongs(entry: Path, *, home: str) -> bool:
    stat = read_stat(int(entry.name))
    if stat is None or stat.state in "ZX":
        return False
    texts = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
    return home.encode() in texts or str((entry / "cwd").readlink()).startswith(home)


def test_starts_tells_a_second_one_and_stops_without_a_trace(home: Path, start: Start) -> None:
    first = start()
    status = first.ready()
    assert httpx2.get(f"{status['address']}/health").status_code == 200
    assert set(status["children"]) == {"postgres", "valkey", "web", "control", "agent"}
    credentials = (home / "credentials.json").read_text()
    first.wait_for("Ctrl-C stops everything")
    for value in (status["address"], json.loads(credentials)["password"], json.loads(credentials)["api_key"]):
        assert value in first.said
    assert (home / "up.json").stat().st_mode & 0o777 == 0o600

    second = Up(home, port=1)
    assert second.process.wait(30) == 1
    assert f"already running at {status['address']}" in second.said

    assert first.stop() == 0
    assert processes_of(home) == []
    assert not (home / "up.json").exists()
    assert list((home / "run").glob("*.json")) == []

    again = start()
    assert again.ready()["address"] == status["address"]
    assert (home / "credentials.json").read_text() == credentials
    assert "Found:" not in again.said
    assert again.stop(signal.SIGTERM) == 0
    assert processes_of(home) == []


def test_what_is_killed_runs_again(home: Path, start: Start) -> None:
    running = start()
    before = running.ready()["children"]
    for name, pid in before.items():
        os.kill(pid, signal.SIGKILL)
        running.wait_for(f"{name} (pid {pid}) ended by signal 9")
    for name in before:
        running.wait_for(f"{name} runs again")
    deadline = time.monotonic() + READY_S
    while not _is_healthy(running.status()["address"]):
        assert time.monotonic() < deadline, running.said
        time.sleep(0.2)
    assert set(running.status()["children"].values()).isdisjoint(before.values())
    assert running.stop() == 0
    assert processes_of(home) == []


@pytest.mark.parametrize("killed", [(), ("postgres", "web"), ("valkey", "control", "agent")])
def test_a_killed_supervisor_is_repaired_and_told(home: Path, start: Start, killed: tuple[str, ...]) -> None:
    first = start()
    children = first.ready()["children"]
    first.process.kill()
    first.process.wait()
    for name in killed:
        os.kill(children[name], signal.SIGKILL)
    second = start()
    second.ready()
    for name, pid in children.items():
        how = "ended without a clean stop" if name in killed else "still ran without its supervisor"
        assert f"Found: {name} (pid {pid}) {how}" in second.said
    assert second.stop() == 0
    assert processes_of(home) == []


def test_given_servers_replace_the_embedded_ones(
    home: Path, start: Start, postgres_server: DatabaseUrls, valkey_url: str
) -> None:
    name = f"up_{os.getpid()}"
    create_database(postgres_server.admin, name=name)
    urls = {key: f"{getattr(postgres_server, key).rsplit('/', 1)[0]}/{name}" for key in ("owner", "app")}
    running = start(
        SPARKGATE_DATABASE_URL=urls["app"],
        SPARKGATE_OWNER_DATABASE_URL=urls["owner"],
        SPARKGATE_BROKER_URL=valkey_url,
    )
    assert set(running.ready()["children"]) == {"web", "control", "agent"}
    assert running.stop() == 0
    assert not (home / "postgres").exists()
    drop_database(postgres_server.admin, name=name)


def test_a_start_that_fails_says_why_and_leaves_nothing(home: Path, start: Start) -> None:
    first = start()
    first.ready()
    first.stop()
    (home / "postgres/data/PG_VERSION").write_text("17\n")
    second = start()
    assert second.process.wait(READY_S) == 1
    assert "expected PostgreSQL 18, found PostgreSQL 17" in second.said
    assert processes_of(home) == []


def test_a_taken_port_is_replaced_by_the_next_free_one(home: Path, start: Start, free_port: int) -> None:
    import socket

    with socket.create_server(("127.0.0.1", free_port)):
        running = start()
        assert running.ready()["address"] == f"http://127.0.0.1:{free_port + 1}"
        assert f"Port {free_port} is taken; using {free_port + 1}" in running.said
        assert running.stop() == 0


def _is_healthy(address: str) -> bool:
    try:
        return httpx2.get(f"{address}/health").status_code == 200
    except httpx2.TransportError:
        return False
