"""A client that costs little: the load is made on the cores the server runs on."""

import http.client
import json
import time
from typing import Any
from urllib.parse import urlsplit

from tests.bench.control_figures import Record, Sample

TIMEOUT_S = 60.0


class BareClient:
    """One kept connection; not for several threads."""

    def __init__(self, base_url: str, *, api_key: str, record: Record) -> None:
        parts = urlsplit(base_url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
        self._headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
        self._record = record

    def connect(self) -> None:
        self._connection.connect()

    def close(self) -> None:
        self._connection.close()

    def ask(
        self, kind: str, method: str, path: str, *, body: bytes | None = None, **headers: str
    ) -> tuple[int, Any]:
        """One request, measured under `kind`: its status and its JSON (None without a body)."""
        status, raw = self.ask_bytes(kind, method, path, body=body, **headers)
        return status, json.loads(raw) if raw else None

    def ask_bytes(
        self, kind: str, method: str, path: str, *, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes]:
        """The same, whatever is in the answer's body."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        started = time.perf_counter()
        try:
            response = self._sent(method, path, body=body, headers=named)
        except (http.client.RemoteDisconnected, ConnectionError):
            # Closed while it rested: every client opens another one then.
            self._connection.close()
            response = self._sent(method, path, body=body, headers=named)
        raw = response.read()
        elapsed_ms = (time.perf_counter() - started) * 1e3
        server_ms = float(response.headers.get("x-server-ms", "nan"))
        self._record.add(kind, Sample(elapsed_ms, server_ms, response.status))
        return response.status, raw

    def _sent(
        self, method: str, path: str, *, body: bytes | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        self._connection.request(method, path, body=body, headers={**self._headers, **headers})
        return self._connection.getresponse()

    def need(self, kind: str, method: str, path: str, *, body: bytes | None = None, **headers: str) -> Any:
        """`ask`, where anything but success ends the measurement."""
        status, answer = self.ask(kind, method, path, body=body, **headers)
        if not 200 <= status < 300:
            raise RuntimeError(f"{method} {path}: expected 2xx, found {status}: {answer}")
        return answer
