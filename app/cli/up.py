"""``sparkgate up``: the whole installation in the foreground, until Ctrl-C."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import httpx2
import typer
from rich.console import Console
from sqlalchemy.engine import make_url

from app.accounts.bootstrap import LocalCredentials, bootstrap_local, ensure_ledger_key
from app.cli.services import (
    LOCAL_DEVICES,
    agent_service,
    control_service,
    service_environment,
    web_service,
    with_values,
)
from app.cli.supervisor import Report, Supervisor
from app.config import Secret, Settings
from app.db.migrate import ensure_role, upgrade
from app.db.session import open_database
from app.embedded import EmbeddedError, EmbeddedPostgres, EmbeddedValkey, make_home, port_is_free
from app.processes import Child, ChildSpec, reap_leftovers, stop_pids, write_private

_TICK_S: Final = 0.25
_WEB_TIMEOUT_S: Final = 90.0
_PORTS_TRIED: Final = 100
_DEMO_COMMAND: Final = ("-c", "from app.cli import main; main()", "demo")


class UpError(Exception):
    """The installation cannot be started; the message says what was expected and found."""


class StopRequested(Exception):
    """Ctrl-C, SIGTERM or a closed terminal came while something was being started."""


class StopFlag:
    """Remembers a request to stop. A flag, because an exception between two lines could lose a child."""

    def __init__(self) -> None:
        """Listen from now on; children have their own session, so a Ctrl-C reaches only this process."""
        self.requested = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)

    def check(self) -> None:
        """Raise if a stop was requested."""
        if self.requested:
            raise StopRequested

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True


class Installation:
    """One start of the local installation: what was asked for, what runs, and its credentials."""

    def __init__(self, settings: Settings, *, report: Report, stop: StopFlag) -> None:
        """Prepare to start what `settings` do not already name."""
        self.settings = settings
        self.credentials: LocalCredentials | None = None
        self.supervisor = Supervisor(report)
        self._report = report
        self._stop = stop

    @property
    def address(self) -> str:
        """Where a browser finds the dashboard."""
        return f"http://127.0.0.1:{self.settings.port}"

    def start(self) -> None:
        """Start everything in order.

        Raises:
            EmbeddedError, UpError: Something does not come up.
            StopRequested: The user lost patience.
        """
        owner_url = self._start_database()
        self._start_broker()
        with self._step("schema and accounts"):
            self._prepare_database(owner_url)
        self._start_web()
        self._start_workers()

    def stop(self) -> None:
        """Stop everything, also what a child left behind."""
        self.supervisor.stop()
        for line in _reap_all(self.settings.home):
            self._report(line)

    def tend(self) -> None:
        """Restart what has ended; keep ``up.json`` true."""
        if self.supervisor.tend():
            self.write_status()

    def write_status(self) -> None:
        """Say for programs where we are and what runs."""
        status = {"address": self.address, "pid": os.getpid(), "children": self.supervisor.pids()}
        write_private(_status_path(self.settings.home), text=json.dumps(status, indent=1))

    def _progress(self, line: str) -> None:
        self._report(line)
        self._stop.check()

    def _set(self, **values: object) -> None:
        self.settings = with_values(self.settings, values)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        self._stop.check()
        started = time.monotonic()
        yield
        self._report(f"{name:<20} ready after {time.monotonic() - started:.1f} s")

    def _start_database(self) -> str:
        given = self.settings.database_url
        if given is not None:
            self._report("PostgreSQL           as SPARKGATE_DATABASE_URL says")
            return (self.settings.owner_database_url or given).get_secret_value()
        server = EmbeddedPostgres(self.settings.home)

        def launch() -> Child:
            urls = server.start(self._progress)
            self._set(database_url=urls.app, owner_database_url=urls.owner)
            return _child_of(server)

        with self._step("PostgreSQL"):
            self.supervisor.start("postgres", launch=launch)
        return _text_of(self.settings.owner_database_url)

    def _start_broker(self) -> None:
        if self.settings.broker_url is not None:
            self._report("broker               as SPARKGATE_BROKER_URL says")
            return
        server = EmbeddedValkey(self.settings.home)

        def launch() -> Child:
            self._set(broker_url=server.start())
            return _child_of(server)

        with self._step("Valkey"):
            self.supervisor.start("valkey", launch=launch)

    def _prepare_database(self, owner_url: str) -> None:
        app_url = _text_of(self.settings.database_url)
        ensure_role(owner_url, role_url=app_url)
        upgrade(owner_url, app_role=str(make_url(app_url).username))
        database = open_database(self.settings)
        try:
            self.credentials = bootstrap_local(database, home=self.settings.home, node=self.settings.node)
        finally:
            database.dispose()
        self._set(
            secret_key_file=self.credentials.page_secret_file,
            api_key_file=self.credentials.node_key_file,
            ledger_key_file=self.settings.ledger_key_file
            or ensure_ledger_key(self.settings.home, origin=self.settings.ledger_origin),
        )

    def _start_web(self) -> None:
        port = _first_free_port(self.settings.port)
        if port != self.settings.port:
            self._report(f"Port {self.settings.port} is taken; using {port}")
        self._set(port=port, host=self.settings.host)
        with self._step("web"):
            child = self._start_program(web_service(self.settings))
            self._wait_for_web(child)

    def _start_workers(self) -> None:
        given = self.settings.model_fields_set
        store = self.settings.home / "stores"
        store.mkdir(exist_ok=True)
        self._set(
            control_url=self.address,
            node=self.settings.node,
            devices=self.settings.devices if "devices" in given else LOCAL_DEVICES,
            store_roots=self.settings.store_roots if "store_roots" in given else (store,),
        )
        with self._step("control worker"):
            self._start_program(control_service(self.settings))
        with self._step("node agent"):
            self._start_program(agent_service(self.settings))

    def _start_program(self, spec: ChildSpec) -> Child:
        return self.supervisor.start(spec.name, launch=lambda: Child.start(spec, home=self.settings.home))

    def _wait_for_web(self, child: Child) -> None:
        deadline = time.monotonic() + _WEB_TIMEOUT_S
        while not _is_healthy(self.address):
            self._stop.check()
            if (status := child.poll()) is not None or time.monotonic() > deadline:
                log = "\n".join(child.last_lines(count=20))
                found = f"status {status}" if status is not None else "no answer"
                raise UpError(
                    f"web: expected 200 from {self.address}/health, found {found}; {child.log}:\n{log}"
                )
            time.sleep(0.05)


def up(
    *,
    demo: Annotated[bool, typer.Option(help="Run the demo once, after the first start.")] = True,
    port: Annotated[
        int | None, typer.Option(help="Port of the dashboard; the next free one if taken.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object when everything runs.")
    ] = False,
) -> None:
    """Start PostgreSQL, Valkey, web, workers and demo here; Ctrl-C stops all of them."""
    settings = with_values(
        Settings(), {"home": Settings().home.absolute(), **({"port": port} if port else {})}
    )
    make_home(settings.home)
    say = _reporter(Console(stderr=as_json, highlight=False, markup=False, soft_wrap=True))
    with _locked(settings.home / "up.lock") as alone:
        if not alone:
            say(f"sparkgate is already running at {_known_address(settings.home)} (home {settings.home})")
            raise typer.Exit(1)
        raise typer.Exit(_run(settings, demo=demo, as_json=as_json, say=say))


def _run(settings: Settings, *, demo: bool, as_json: bool, say: Report) -> int:
    for line in _reap_all(settings.home):
        say(f"Found: {line}")
    installation = Installation(settings, report=say, stop=(stop := StopFlag()))
    try:
        installation.start()
        installation.write_status()
        if demo:
            _run_demo(installation, stop=stop, say=say)
        _announce(installation, as_json=as_json, say=say)
        while not stop.requested:
            installation.tend()
            time.sleep(_TICK_S)
    except StopRequested:
        say("Stop requested while starting")
    except (EmbeddedError, UpError) as error:
        say(f"Cannot start. {error}")
        return 1
    finally:
        say("Stopping …")
        _status_path(settings.home).unlink(missing_ok=True)
        installation.stop()
    say("Everything stopped")
    return 0


def _run_demo(installation: Installation, *, stop: StopFlag, say: Report) -> None:
    """Run the demo in its own process on this terminal, once in the life of the home."""
    done = installation.settings.home / "demo.done"
    if done.exists():
        say("demo                 ran before; `sparkgate demo` runs it again")
        return
    process = subprocess.Popen(
        [sys.executable, *_DEMO_COMMAND],
        env=service_environment(installation.settings),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    while process.poll() is None and not stop.requested:
        installation.tend()
        time.sleep(_TICK_S)
    if process.returncode is None:
        stop_pids([process.pid], number=signal.SIGTERM, timeout_s=10.0)
        process.wait()
    elif process.returncode == 0:
        done.touch()
    else:
        say(f"demo: expected status 0, found {process.returncode}; everything else keeps running")
    stop.check()


def _announce(installation: Installation, *, as_json: bool, say: Report) -> None:
    credentials = installation.credentials
    if credentials is None:
        raise UpError("credentials: expected from the bootstrap, found none")
    shown = {
        "address": installation.address,
        "login": credentials.login_name,
        "password": credentials.password,
        "api_key": credentials.api_key,
    }
    if as_json:
        Console(highlight=False, markup=False, soft_wrap=True).print(json.dumps(shown))
    say("")
    for name, value in shown.items() if not as_json else ():
        say(f"  {name.replace('_', ' '):<9} {value}")
    say("Ctrl-C stops everything; the data stay in " + str(installation.settings.home))


def _reap_all(home: Path) -> list[str]:
    """Stop what is left of an earlier start: first our children, then those of node agents."""
    return [line for folder in (home, *home.glob("node-*")) for line in reap_leftovers(folder)]


def _child_of(server: EmbeddedPostgres | EmbeddedValkey) -> Child:
    if server.child is None:
        raise UpError(f"{type(server).__name__}: expected a child after its start, found none")
    return server.child


def _reporter(console: Console) -> Report:
    def say(line: str) -> None:
        with suppress(OSError):  # the terminal may be gone; the children must be stopped all the same
            console.print(line)

    return say


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the lock of the home; yields False when another `up` holds it."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _text_of(secret: Secret | None) -> str:
    if secret is None:
        raise UpError("database URL: expected one after the start of PostgreSQL, found none")
    return secret.get_secret_value()


def _status_path(home: Path) -> Path:
    return home / "up.json"


def _known_address(home: Path) -> str:
    try:
        return str(json.loads(_status_path(home).read_text())["address"])
    except (OSError, ValueError, KeyError):
        return "an address it has not told yet"


def _first_free_port(wanted: int) -> int:
    for port in range(wanted, wanted + _PORTS_TRIED):
        if port_is_free(port):
            return port
    raise UpError(f"port: expected a free one from {wanted} to {wanted + _PORTS_TRIED - 1}, found none")


def _is_healthy(address: str) -> bool:
    try:
        return httpx2.get(f"{address}/health", timeout=5.0, trust_env=False).status_code == httpx2.codes.OK
    except httpx2.TransportError:
        return False
