"""Fixtures of the control plane's tests: a real database, emptied before each test, and a simulated ring."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest
from argon2 import PasswordHasher
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import Engine, create_engine, text

from app.accounts import service as accounts
from app.accounts.service import people
from app.config import Settings
from app.core.oracle.synthesis import SynthesizedOracle, synthesize_oracle
from app.core.store.synth import SynthesizedSnapshot, synthesize_store
from app.db.session import Database, open_database
from app.embedded import DatabaseUrls
from app.main import build_routes, connect
from app.models import Base
from app.restores.dispatch import RankCall
from app.web.auth import PRESETS
from tests.app import dashboard_rows as rows
from tests.app.asked import AskedRing
from tests.app.evidence_client import Evidence
from tests.app.ring import Ring

PASSWORD = "correct horse battery"


@dataclass
class RecordedMessages:
    """What would have been sent to rank workers, in order."""

    sent: list[tuple[str, str, UUID]] = field(default_factory=list)
    decisions: list[UUID] = field(default_factory=list)

    def send(self, calls: Sequence[RankCall]) -> None:
        for call in calls:
            getattr(self, call.word)(call.queue, attempt_id=call.attempt_id, pause_s=call.pause_s)

    def restore(self, queue: str, *, attempt_id: UUID, pause_s: float = 0.0) -> None:
        self.sent.append(("restore", queue, attempt_id))

    def readback(self, queue: str, *, attempt_id: UUID, readback_id: UUID) -> None:
        self.sent.append(("readback", queue, attempt_id))

    def discard(self, queue: str, *, attempt_id: UUID, pause_s: float = 0.0) -> None:
        self.sent.append(("discard", queue, attempt_id))

    def decided(self, *, restore_id: UUID) -> None:
        self.decisions.append(restore_id)


@pytest.fixture(scope="session", autouse=True)
def _cheap_passwords() -> Iterator[None]:
    """A password costs a fifth of a second of a core, on purpose; here every test would pay it twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "passwords", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        yield


@pytest.fixture(scope="session")
def owner_engine(postgres_urls: DatabaseUrls) -> Iterator[Engine]:
    engine = create_engine(postgres_urls.owner)
    yield engine
    engine.dispose()


@pytest.fixture
def settings(postgres_urls: DatabaseUrls) -> Settings:
    return Settings.model_validate(
        {"database_url": postgres_urls.app, "broker_url": "redis://127.0.0.1:1/0", "pool_connections": 12}
    )


@pytest.fixture
def database(settings: Settings, owner_engine: Engine) -> Iterator[Database]:
    """The app role's database with no rows in it."""
    empty_tables(owner_engine)
    opened = open_database(settings)
    yield opened
    opened.dispose()


def empty_tables(engine: Engine) -> None:
    """Leave no row in any table; a table that never had one is not touched, which takes most of the time."""
    names = [table.name for table in Base.metadata.sorted_tables]
    written = text(
        "SELECT name FROM unnest(CAST(:names AS text[])) AS name"
        " WHERE pg_relation_size(to_regclass(name)) > 0"
    )
    with engine.begin() as connection:
        quoted = ", ".join(f'"{name}"' for name in connection.scalars(written, {"names": names}))
        if quoted:
            connection.execute(text(f"TRUNCATE {quoted} RESTART IDENTITY CASCADE"))


@pytest.fixture
def messages() -> RecordedMessages:
    return RecordedMessages()


@pytest.fixture(scope="session")
def routed() -> FastAPI:
    """Routes are made once; every test puts its own settings and database behind them."""
    return build_routes()


@pytest.fixture
def client(
    routed: FastAPI, settings: Settings, database: Database, messages: RecordedMessages
) -> Iterator[TestClient]:
    app = connect(routed, settings=settings, database=database, messages=messages)
    with TestClient(app, raise_server_exceptions=False) as opened:
        yield opened


@pytest.fixture
def empty(client: TestClient, database: Database) -> TestClient:
    """dana's browser on an installation without anything."""
    with database.transaction() as session:
        rows.add_people(session)
    client.headers["Accept"] = "text/html"
    client.follow_redirects = False
    client.post("/login", data={"name": rows.NAME, "password": rows.PASSWORD})
    return client


@pytest.fixture
def restores(empty: TestClient, database: Database, tmp_path: Path) -> dict[str, UUID]:
    """Restores in several states beside registered images, by what came of them."""
    with database.transaction() as session:
        rows.add_images(session)
        return rows.fill(session, folder=tmp_path)


@pytest.fixture
def filled(empty: TestClient, restores: dict[str, UUID]) -> TestClient:
    """The same browser, with those restores there."""
    return empty


@pytest.fixture
def keys(database: Database) -> dict[str, str]:
    """One API key per preset; the worker's speaks for node-a."""
    with database.transaction() as session:
        accounts.create_account(session, name="ada", password=PASSWORD, scopes=PRESETS["admin"])
        return {
            preset: accounts.create_key(
                session,
                account_name="ada",
                label=preset,
                scopes=PRESETS[preset] if preset == "worker" else PRESETS[preset] - PRESETS["worker"],
                node_name="node-a" if preset == "worker" else None,
            )
            for preset in PRESETS
        }


@pytest.fixture
def evidence(client: TestClient, keys: dict[str, str]) -> Evidence:
    return Evidence(client, keys)


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> SynthesizedSnapshot:
    """A small four-rank store."""
    folder: Path = tmp_path_factory.mktemp("store")
    return synthesize_store(folder, ranks=4, bytes_per_rank=400_000, object_bytes=65_536)


@pytest.fixture(scope="session")
def asked_store(tmp_path_factory: pytest.TempPathFactory) -> SynthesizedOracle:
    """A small four-rank store with a question."""
    return synthesize_oracle(tmp_path_factory.mktemp("asked"), ranks=4, object_bytes=65_536)


@pytest.fixture
def asked(client: TestClient, keys: dict[str, str], asked_store: SynthesizedOracle) -> AskedRing:
    """Four devices of node-a with a store whose question is registered."""
    joined = AskedRing(Ring(client, keys=keys, stored=asked_store.snapshot).join(), made=asked_store)
    joined.register().raise_for_status()
    return joined


@pytest.fixture
def ring(client: TestClient, keys: dict[str, str], stored: SynthesizedSnapshot) -> Ring:
    """Four devices of node-a with the store of four ranks, and a registered layout."""
    return Ring(client, keys=keys, stored=stored).join()
