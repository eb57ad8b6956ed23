"""A whole installation for measurements: durable PostgreSQL and Valkey, real uvicorn, real workers."""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
from sqlalchemy import Engine, create_engine

from app.accounts import service as accounts
from app.accounts.bootstrap import LocalCredentials, bootstrap_local
from app.cli.services import WEB_COMMAND, agent_service, control_service, web_service, with_values
from app.config import Settings
from app.core.store.synth import SynthesizedSnapshot, synthesize_store
from app.db.migrate import upgrade
from app.db.session import open_database
from app.embedded import EmbeddedPostgres, EmbeddedValkey, make_home
from app.processes import Child
from app.web.auth import PRESETS
from tests.bench.control_client import BareClient
from tests.bench.control_figures import Record

NODE = "bench"
DEVICES = ("host0", "host1", "host2", "host3")
PATIENCE_S = 120.0


class Site:
    """The servers, and what a measurement needs of them."""

    def __init__(self, home: Path, *, port: int) -> None:
        self.home = home
        self.stores = home / "stores"
        self.children: dict[str, Child] = {}
        self._postgres = EmbeddedPostgres(home / "servers")
        self._valkey = EmbeddedValkey(home / "servers")
        self._port = port
        self.settings = Settings.model_validate({"home": home})
        self.admin_url = ""
        self.credentials: LocalCredentials | None = None
        self._engine: Engine | None = None

    def start(self) -> "Site":
        """PostgreSQL (durable), Valkey, the schema, one login, and the web process."""
        make_home(self.home / "servers")
        self.stores.mkdir()
        urls = self._postgres.start(lambda _line: None)
        self.admin_url = urls.admin.rsplit("/", 1)[0] + "/" + urls.owner.rsplit("/", 1)[1]
        upgrade(urls.owner, app_role="sparkgate_app", reader_role="sparkgate_reader")
        values = {
            "database_url": urls.app,
            "broker_url": self._valkey.start(),
            "port": self._port,
            "control_url": f"http://127.0.0.1:{self._port}",
            "node": NODE,
            "devices": DEVICES,
            "store_roots": (self.stores,),
            "pool_bytes": 200_000_000,
        }
        self.settings = with_values(self.settings, values)
        database = open_database(self.settings)
        self.credentials = bootstrap_local(database, home=self.home, node=NODE)
        database.dispose()
        files = {
            "secret_key_file": self.credentials.page_secret_file,
            "api_key_file": self.credentials.node_key_file,
        }
        self.settings = with_values(self.settings, files)
        self.start_child("web")
        self.wait_for(self._answers, what="web")
        return self

    def start_child(self, name: str) -> None:
        """Start web, control or agent; the web process with the header that tells its time."""
        spec = {"web": web_service, "control": control_service, "agent": agent_service}[name](self.settings)
        timed = {WEB_COMMAND[1]: "tests.bench.control_server:create_app"}
        spec = replace(spec, argv=tuple(timed.get(part, part) for part in spec.argv))
        self.children[name] = Child.start(spec, home=self.home)

    def stop_child(self, name: str) -> None:
        self.children.pop(name).stop()

    def stop(self) -> None:
        for child in reversed(self.children.values()):
            child.stop()
        if self._engine is not None:
            self._engine.dispose()
        self._valkey.stop()
        self._postgres.stop()

    @property
    def engine(self) -> Engine:
        """The database as the superuser."""
        if self._engine is None:
            self._engine = create_engine(self.admin_url)
        return self._engine

    def client(self, record: Record, *, api_key: str | None = None) -> BareClient:
        """A client with its own connection, as the operator unless a key is given."""
        if self.credentials is None:
            raise RuntimeError("site: expected one that was started")
        key = api_key or self.credentials.api_key
        return BareClient(self.settings.control_url, api_key=key, record=record)

    def node_keys(self, names: list[str]) -> dict[str, str]:
        """A worker's key for each of these nodes."""
        database = open_database(self.settings)
        try:
            with database.transaction() as session:
                return {
                    name: accounts.create_key(
                        session,
                        account_name="admin",
                        label=f"node-{name}",
                        scopes=PRESETS["worker"],
                        node_name=name,
                    )
                    for name in names
                }
        finally:
            database.dispose()

    def store(self, name: str, *, ranks: int, folder: Path | None = None) -> SynthesizedSnapshot:
        """A tiny snapshot: 64 kB per rank."""
        return synthesize_store(
            (folder or self.stores) / name,
            ranks=ranks,
            bytes_per_rank=65_536,
            object_bytes=16_384,
            seed=sum(name.encode()),
        )

    def wait_for(self, condition: Callable[[], Any], *, what: str, within_s: float = PATIENCE_S) -> Any:
        deadline = time.monotonic() + within_s
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}: not within {within_s} s\n{self.logs()}")
            time.sleep(0.005)
        return found

    def logs(self) -> str:
        """The end of every log."""
        files = sorted(self.home.rglob("log/*.log"))
        return "\n".join(f"== {file.name}\n{file.read_text(errors='replace')[-2000:]}" for file in files)

    def _answers(self) -> bool:
        with suppress(httpx2.TransportError):
            return httpx2.get(f"{self.settings.control_url}/health/ready").status_code == 200
        return False


def say(line: str) -> None:
    sys.stderr.write(line + "\n")
