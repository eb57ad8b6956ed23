"""An installation whose every process can be killed at a message and is started again at once.

Two rank workers, the web process, the control worker, PostgreSQL and Valkey, all on wires with one tripwire.
The test plays the node agent's part that matters here: it registers the node, reports the stores and starts
rank workers again.
"""

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx2
import psycopg

from app.accounts.bootstrap import bootstrap_local, ensure_ledger_key
from app.cli.services import control_service, web_service, with_values
from app.config import Settings
from app.core.store.synth import SynthesizedSnapshot
from app.db.migrate import upgrade
from app.db.session import open_database
from app.embedded import DatabaseUrls, EmbeddedPostgres, EmbeddedValkey
from app.processes import Child, ChildSpec
from tests.e2e.wire import BrokerWire, HttpWire, Passing, SqlWire, Tripwire
from workers.agent import worker_spec
from workers.control_client import ControlClient
from workers.inventory import scan

DEVICES: Final = ("host0", "host1")
PROCESSES: Final = (*DEVICES, "control", "web", "valkey", "postgres")
PATIENCE_S: Final = 60.0
# Longer than a web process takes to start on a busy machine: only a killed rank worker may lose a rank.
LEASE_S: Final = 60.0


class KillRing:
    """The processes, the wires between them, and what stands in the database."""

    def __init__(self, home: Path, *, stores: Path, web_port: int, pool_bytes: int) -> None:
        self.home = home
        self.stores = stores
        self.web_port = web_port
        self.pool_bytes = pool_bytes
        self.tripwire = Tripwire()
        self.postgres = EmbeddedPostgres(home / "postgres-home")
        self.valkey = EmbeddedValkey(home / "valkey-home")
        self.children: dict[str, Child] = {}
        self.specs: dict[str, ChildSpec] = {}
        self.wires: list[SqlWire | BrokerWire | HttpWire] = []
        self.api = httpx2.Client()
        self.direct = httpx2.Client()
        self._reviving: list[threading.Thread] = []
        self._troubles: list[str] = []

    # Start and stop

    def start(self) -> "KillRing":
        urls = self.postgres.start(lambda _: None)
        upgrade(urls.owner)
        self.owner_url = urls.owner.replace("+psycopg", "")
        self.broker_url = broker_url = self.valkey.start()
        settings = self._bootstrap(urls, broker_url=broker_url)
        self._wire(settings, urls=urls, broker_url=broker_url)
        for name in ("web", "control"):
            self._launch(name)
        self.wait_for(self._web_answers, what="web")
        self._join()
        for name in DEVICES:
            self._launch(name)
        self.wait_for(lambda: min(self.generations().values()) > 0, what="rank workers")
        return self

    def stop(self) -> None:
        for thread in self._reviving:
            thread.join()
        for child in self.children.values():
            child.stop()
        self.valkey.stop()
        self.postgres.stop()
        for wire in self.wires:
            wire.close()
        self.api.close()
        self.direct.close()

    def _bootstrap(self, urls: DatabaseUrls, *, broker_url: str) -> Settings:
        settings = with_values(
            Settings.model_validate({"home": self.home}),
            {
                "database_url": urls.app,
                "broker_url": broker_url,
                "port": self.web_port,
                "node": "ring",
                "devices": DEVICES,
                "store_roots": (self.stores,),
                "lease_s": LEASE_S,
                "node_silence_s": 3600.0,
                "housekeeping_s": 0.2,
                "resend_first_s": 0.5,
                "resend_cap_s": 2.0,
                "resend_limit": 50,
                "try_limit": 1000,
                "pool_bytes": self.pool_bytes,
            },
        )
        database = open_database(settings)
        try:
            credentials = bootstrap_local(database, home=self.home, node="ring")
        finally:
            database.dispose()
        self.node_key = Path(credentials.node_key_file).read_text().strip()
        self.operator_key = credentials.api_key
        files: dict[str, object] = {
            "secret_key_file": credentials.page_secret_file,
            "api_key_file": credentials.node_key_file,
            "ledger_key_file": str(ensure_ledger_key(self.home, origin=None)),
        }
        known = {name: value for name, value in files.items() if name in Settings.model_fields}
        return with_values(settings, known)

    def _wire(self, settings: Settings, *, urls: DatabaseUrls, broker_url: str) -> None:
        """Everybody gets ports of wires instead of the servers' own."""
        database_port, broker_port = _port_of(urls.app), _port_of(broker_url)
        for name, service in (("web", web_service), ("control", control_service)):
            sql = SqlWire(self.tripwire, port=database_port, speaker=name, listener="postgres")
            broker = BrokerWire(self.tripwire, port=broker_port, speaker=name, listener="valkey")
            self.wires += [sql, broker]
            values = {
                "database_url": _with_port(urls.app, port=sql.port),
                "broker_url": _with_port(broker_url, port=broker.port),
            }
            self.specs[name] = service(with_values(settings, values))
        for name in DEVICES:
            http = HttpWire(self.tripwire, port=self.web_port, speaker=name, listener="web")
            broker = BrokerWire(self.tripwire, port=broker_port, speaker=name, listener="valkey")
            self.wires += [http, broker]
            own = with_values(
                settings,
                {
                    "control_url": f"http://127.0.0.1:{http.port}",
                    "broker_url": _with_port(broker_url, port=broker.port),
                },
            )
            self.specs[name] = worker_spec(own, device=name)
        client = HttpWire(self.tripwire, port=self.web_port, speaker="client", listener="web")
        self.wires.append(client)
        headers = {"Authorization": f"Bearer {self.operator_key}"}
        self.api = httpx2.Client(base_url=f"http://127.0.0.1:{client.port}", headers=headers, timeout=30)
        self.direct = httpx2.Client(base_url=f"http://127.0.0.1:{self.web_port}", headers=headers, timeout=30)

    def _join(self) -> None:
        node = ControlClient(f"http://127.0.0.1:{self.web_port}", api_key=self.node_key)
        devices = [{"name": name, "kind": "host", "pool_bytes": self.pool_bytes} for name in DEVICES]
        node.register_node("ring", devices=devices)
        found = scan((self.stores,)).found
        manifests = [one.to_wire() for one in found]
        for _ in range(2):
            wanted = node.record_inventory("ring", manifests=manifests, problems=[])
            for one in found:
                if one.sha256 in wanted.missing:
                    node.send_document(
                        "ring", sha256=one.sha256, context_digest=one.name.context_digest, raw=one.raw
                    )
        node.close()

    def register_layout(self, store: SynthesizedSnapshot) -> None:
        self.direct.post("/api/v1/layouts", content=store.layout.canonical).raise_for_status()

    # Kill and start again

    def kill(self, name: str) -> None:
        """SIGKILL, and return when the process is gone; it is started again meanwhile."""
        child = self._child(name)
        os.kill(child.pid, signal.SIGKILL)
        while child.poll() is None:
            time.sleep(0.002)
        self.revive(name)

    def revive(self, name: str) -> None:
        """Start a process that has ended again, beside the caller, as its supervisor would."""
        thread = threading.Thread(target=self._revive, args=(name,), daemon=True)
        self._reviving.append(thread)
        thread.start()

    def kill_at(self, name: str) -> Callable[[Passing], bool]:
        """An action for the tripwire: what passes between others than the killed one goes on."""

        def act(passing: Passing) -> bool:
            self.kill(name)
            return name not in {passing.speaker, passing.listener}

        return act

    def _child(self, name: str) -> Child:
        child = {"postgres": self.postgres.child, "valkey": self.valkey.child}.get(
            name, self.children.get(name)
        )
        assert child is not None
        return child

    def _revive(self, name: str) -> None:
        try:
            if name == "postgres":
                self._move("postgres", port=_port_of(self.postgres.start(lambda _: None).app))
            elif name == "valkey":
                self._move("valkey", port=_port_of(self.valkey.start()))
            else:
                self.children[name].stop()
                self._launch(name)
        except Exception as error:  # noqa: BLE001  # told by the test that waits for the process
            self._troubles.append(f"{name}: {type(error).__name__}: {error}")

    def _move(self, server: str, *, port: int) -> None:
        """A server whose port somebody took meanwhile has another one now."""
        for wire in self.wires:
            if wire.listener == server:
                wire.upstream_port = port
        if server == "postgres":
            self.owner_url = _with_port(self.owner_url, port=port)

    def _launch(self, name: str) -> None:
        self.children[name] = Child.start(self.specs[name], home=self.home)

    def settle(self, *, generations: dict[str, int], replaced: str | None) -> None:
        """Return when every process runs again, nothing is open and every device is free."""
        for thread in self._reviving:
            thread.join(PATIENCE_S)
        self._reviving.clear()
        assert not self._troubles, self._troubles
        self.wait_for(self._web_answers, what="web")
        if replaced in DEVICES:
            self.wait_for(
                lambda: self.generations()[replaced] > generations[replaced],
                what=f"a new worker of {replaced}",
            )
        open_rows = "SELECT count(*) FROM restore WHERE state <> 'finished'"
        self.wait_for(lambda: self.rows(open_rows) == [(0,)], what="the end of every restore")

    def clear(self) -> None:
        """End what a point that failed has left open, so that it is not held against the next one."""
        self.tripwire.disarm()
        for restore_id, decision in self.rows("SELECT id, decision FROM restore WHERE state <> 'finished'"):
            word = "discard" if decision == "publish" else "cancel"
            self.wait_for(
                lambda word=word, one=restore_id: self._accepted(f"/api/v1/restores/{one}/{word}"),
                what=f"{word} of {restore_id}",
            )
        self.settle(generations={}, replaced=None)

    def _accepted(self, path: str) -> bool:
        with suppress(httpx2.TransportError):
            return self.direct.post(path).status_code in {202, 409}
        return False

    # Look

    def wait_for(self, condition: Callable[[], Any], *, what: str, within_s: float = PATIENCE_S) -> Any:
        deadline = time.monotonic() + within_s
        while not (found := condition()):
            assert time.monotonic() < deadline, f"{what}: not within {within_s} s\n{self.logs()}"
            time.sleep(0.02)
        return found

    def get(self, path: str) -> dict[str, Any] | None:
        """A resource as the web process shows it, or None while it does not answer."""
        try:
            answer = self.direct.get(path)
        except httpx2.TransportError:
            return None
        return answer.json() if answer.status_code == 200 else None

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What stands in the database, asked as its owner and beside every wire."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with psycopg.connect(self.owner_url, connect_timeout=5) as connection:
                    return connection.execute(query, values or None).fetchall()  # type: ignore[call-overload,no-any-return]
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, "PostgreSQL: away"
                time.sleep(0.05)

    def generations(self) -> dict[str, int]:
        return dict(self.rows("SELECT name, generation FROM device"))

    def logs(self) -> str:
        files = sorted(self.home.rglob("log/*.log"))
        return "\n".join(f"== {file.name}\n" + "\n".join(_last_lines(file)) for file in files)

    def _web_answers(self) -> bool:
        return self.get("/health/ready") is not None


def _last_lines(file: Path) -> list[str]:
    return file.read_text(errors="replace").splitlines()[-12:]


def quiet_port() -> int:
    """A free port below those the kernel gives to outgoing connections: it stays free while web is down."""
    while True:
        port = random.randrange(15_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _port_of(url: str) -> int:
    return int(url.rsplit(":", 1)[1].partition("/")[0])


def _with_port(url: str, *, port: int) -> str:
    return url.replace(f":{_port_of(url)}/", f":{port}/")
