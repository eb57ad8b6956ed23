"""Fixtures with real processes."""

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.core.store.synth import SynthesizedSnapshot, synthesize_store
from app.db.migrate import upgrade
from app.embedded import DatabaseUrls, create_database
from tests.conftest import database_urls
from tests.e2e.installation import Installation
from tests.e2e.page_site import chromium, site

__all__ = ["chromium", "installation", "site"]

# Large enough that four ranks on two cores are still reading when a test looks.
LARGE_BYTES = 250_000_000


@pytest.fixture(scope="module")
def installation(
    postgres_server: DatabaseUrls,
    valkey_url: str,
    worker_id: str,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Installation]:
    name = f"e2e_{worker_id}_{request.module.__name__.rsplit('.', 1)[-1]}"
    create_database(postgres_server.admin, name=name)
    urls = database_urls(postgres_server, name=name)
    upgrade(urls.owner)
    home = tmp_path_factory.mktemp("home")
    stores = tmp_path_factory.mktemp("stores")
    running = Installation(home, urls=urls, broker_url=valkey_url, stores=stores, port=free_port())
    try:
        yield running.start()
    finally:
        running.stop()
        shutil.rmtree(stores, ignore_errors=True)


@pytest.fixture(scope="module")
def large_store(installation: Installation) -> SynthesizedSnapshot:
    """A four-rank store that takes a while to restore, found by the node."""
    made = synthesize_store(installation.stores / "large", ranks=4, bytes_per_rank=LARGE_BYTES)
    installation.register_layout(made.layout.canonical)
    installation.wait_for_snapshot(str(made.context_digest))
    return made


@pytest.fixture
def small_store(installation: Installation, request: pytest.FixtureRequest) -> SynthesizedSnapshot:
    """A small four-rank store of this test's own."""
    folder: Path = installation.stores / request.node.name[:40]
    seed = sum(request.node.name.encode())
    made = synthesize_store(folder, ranks=4, bytes_per_rank=2_000_000, object_bytes=262_144, seed=seed)
    installation.register_layout(made.layout.canonical)
    installation.wait_for_snapshot(str(made.context_digest))
    return made


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
