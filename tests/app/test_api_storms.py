"""Storms against a real server: afterwards the pool is free, memory as it was, everybody is answered."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx2
import pytest
import uvicorn
from fastapi.testclient import TestClient

from app.db.session import Database

CONNECTIONS: Final = 200
SLOW: Final = 60
CANCELLED: Final = 60
BODIES: Final = 3
BODY_BYTES: Final = 100 * 1024 * 1024
# Far above what an allocator keeps, far below one body.
GROWTH_BYTES: Final = 48 * 1024 * 1024


class Served:
    """The application behind a real socket."""

    def __init__(self, client: TestClient, *, key: str) -> None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS)
        self.port = listener.getsockname()[1]
        self.headers = {"Authorization": f"Bearer {key}"}
        config = uvicorn.Config(client.app, log_level="warning", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(timeout=20)
        assert not self._thread.is_alive()


@pytest.fixture
def served(client: TestClient, keys: dict[str, str]) -> Iterator[Served]:
    server = Served(client, key=keys["viewer"])
    yield server
    server.stop()


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def check_as_before(served: Served, database: Database, *, before: int) -> None:
    """Within ten seconds the pool is free; the server answers; the memory has not grown."""
    give_up = time.monotonic() + 10
    while database.engine.pool.checkedout() and time.monotonic() < give_up:  # type: ignore[attr-defined]
        time.sleep(0.05)
    assert database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert httpx2.get(f"{served.url}/health/ready", timeout=10).status_code == 200
    assert httpx2.get(f"{served.url}/api/v1/restores", headers=served.headers, timeout=10).status_code == 200
    assert resident_bytes() - before < GROWTH_BYTES


def raw_request(
    served: Served, *, length: int = 0, method: str = "GET", path: str = "/api/v1/restores"
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: {served.headers['Authorization']}"]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


def test_a_storm_of_connections_is_answered(served: Served, database: Database) -> None:
    before = resident_bytes()

    async def storm() -> list[int]:
        async with httpx2.AsyncClient(timeout=50, limits=httpx2.Limits(max_connections=CONNECTIONS)) as http:
            asked = [
                http.get(f"{served.url}/api/v1/restores", headers=served.headers) for _ in range(CONNECTIONS)
            ]
            return [answer.status_code for answer in await asyncio.gather(*asked)]

    assert set(asyncio.run(storm())) == {200}
    check_as_before(served, database, before=before)


def test_slow_clients_hold_no_connection_of_the_pool(served: Served, database: Database) -> None:
    """Half a head, and a body that never comes: neither takes a database connection."""
    before = resident_bytes()
    waiting = []
    for number in range(SLOW):
        client = socket.create_connection(("127.0.0.1", served.port))
        whole = raw_request(served, length=100, method="POST", path="/api/v1/sources")
        client.sendall(whole[:40] if number % 2 else whole + b'{"repository"')
        waiting.append(client)
    check_as_before(served, database, before=before)
    for client in waiting:
        client.close()
    check_as_before(served, database, before=before)


def test_cancelled_requests_give_everything_back(served: Served, database: Database) -> None:
    before = resident_bytes()
    for _ in range(CANCELLED):
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.sendall(raw_request(served))
    check_as_before(served, database, before=before)


@pytest.mark.parametrize("path", ["/api/v1/layouts", "/api/v1/sources"])
def test_bodies_of_100_mb_are_refused_and_not_kept(served: Served, database: Database, path: str) -> None:
    before = resident_bytes()
    part = b" " * 1_000_000
    for _ in range(BODIES):
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as client:
            client.sendall(raw_request(served, length=BODY_BYTES, method="POST", path=path))
            try:
                for _ in range(BODY_BYTES // len(part)):
                    client.sendall(part)
                answer = client.recv(4096)
            except OSError:
                # The server has answered and closed while we were sending; it has read no further.
                continue
            assert b" 413 " in answer.split(b"\r\n")[0] or b" 403 " in answer.split(b"\r\n")[0]
    check_as_before(served, database, before=before)
