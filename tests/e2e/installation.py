"""A whole control plane of real processes for one test module: web, control worker, agent, rank workers."""

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2

from app.accounts.bootstrap import LocalCredentials, bootstrap_local, ensure_ledger_key
from app.cli.services import agent_service, control_service, web_service, with_values
from app.config import Settings
from app.db.session import open_database
from app.embedded import DatabaseUrls
from app.processes import Child

DEVICES = ("host0", "host1", "host2", "host3")
PATIENCE_S = 60.0
LEASE_S = 6.0


class Installation:
    """Real processes on the run's PostgreSQL and Valkey; `api` speaks to them as an operator."""

    def __init__(self, home: Path, *, urls: DatabaseUrls, broker_url: str, stores: Path, port: int) -> None:
        settings = Settings.model_validate({"home": home})
        self.settings = with_values(
            settings,
            {
                "database_url": urls.app,
                "broker_url": broker_url,
                "port": port,
                "control_url": f"http://127.0.0.1:{port}",
                "node": "ring",
                "devices": DEVICES,
                "store_roots": (stores,),
                "scan_s": 1.0,
                "lease_s": LEASE_S,
                "node_silence_s": 20.0,
                "housekeeping_s": 0.25,
                "resend_first_s": 1.0,
                "pool_bytes": 500_000_000,
            },
        )
        self.stores = stores
        self.home = home
        self.children: dict[str, Child] = {}
        self.api = httpx2.Client()

    def start(self) -> "Installation":
        self.prepare()
        for name in ("web", "control", "agent"):
            self.start_child(name)
        self.wait_for(self._answers, what="web")
        self.wait_for(self._devices_ready, what="four rank workers")
        return self

    def start_web(self) -> None:
        """Only the web process: for what no rank takes part in."""
        self.prepare()
        self.start_child("web")
        self.wait_for(self._answers, what="web")

    def prepare(self) -> None:
        """People and keys, and a client that has one."""
        credentials = self._bootstrap()
        files = {
            "secret_key_file": credentials.page_secret_file,
            "api_key_file": credentials.node_key_file,
            "ledger_key_file": ensure_ledger_key(self.home, origin="example.org/ring"),
        }
        self.settings = with_values(self.settings, files)
        self.api = httpx2.Client(
            base_url=self.settings.control_url,
            headers={"Authorization": f"Bearer {credentials.api_key}"},
            timeout=30.0,
        )

    def start_child(self, name: str) -> None:
        spec = {"web": web_service, "control": control_service, "agent": agent_service}[name](self.settings)
        self.children[name] = Child.start(spec, home=self.home)

    def stop(self) -> None:
        for child in reversed(self.children.values()):
            child.stop()
        self.api.close()

    def _bootstrap(self) -> LocalCredentials:
        database = open_database(self.settings)
        try:
            return bootstrap_local(database, home=self.home, node="ring")
        finally:
            database.dispose()

    def _answers(self) -> bool:
        with suppress(httpx2.TransportError):
            return self.api.get("/health/ready").status_code == 200
        return False

    def _devices_ready(self) -> bool:
        answer = self.api.get("/api/v1/nodes/ring")
        if answer.status_code != 200:
            return False
        return all(device["generation"] > 0 for device in answer.json()["devices"])

    # What tests do

    def wait_for(self, condition: Callable[[], Any], *, what: str, within_s: float = PATIENCE_S) -> Any:
        deadline = time.monotonic() + within_s
        while not (found := condition()):
            assert time.monotonic() < deadline, f"{what}: not within {within_s} s\n{self.logs()}"
            time.sleep(0.02)
        return found

    def wait_for_snapshot(self, context: str) -> None:
        self.wait_for(lambda: self.snapshot_complete(context), what=f"snapshot {context}")

    def snapshot_complete(self, context: str) -> bool:
        answer = self.api.get(f"/api/v1/snapshots/{context}")
        return answer.status_code == 200 and bool(answer.json()["complete"])

    def register_layout(self, document: bytes) -> str:
        answer = self.api.post("/api/v1/layouts", content=document).raise_for_status()
        return str(answer.json()["sha256"])

    def post(self, context: str, *, layout: str, **more: Any) -> httpx2.Response:
        body = {"context_digest": context, "layout_sha256": layout, **more}
        return self.api.post("/api/v1/restores", json=body, headers={"Idempotency-Key": str(uuid4())})

    def start_restore(self, context: str, *, layout: str, **more: Any) -> str:
        answer = self.post(context, layout=layout, **more)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def restore(self, restore_id: str) -> dict[str, Any]:
        return self.api.get(f"/api/v1/restores/{restore_id}").raise_for_status().json()  # type: ignore[no-any-return]

    def finish(self, restore_id: str, *, within_s: float = PATIENCE_S) -> dict[str, Any]:
        def done() -> dict[str, Any] | None:
            restore = self.restore(restore_id)
            return restore if restore["done"] else None

        return self.wait_for(done, what=f"end of restore {restore_id}", within_s=within_s)  # type: ignore[no-any-return]

    def attempt_state(self, restore_id: str, rank: int) -> str:
        return str(self.restore(restore_id)["attempts"][rank]["state"])

    def read_back(self, restore_id: str) -> dict[int, dict[str, str]]:
        """{rank: {layer: sha256}} of the published pages."""
        asked = self.api.post(f"/api/v1/restores/{restore_id}/readbacks")
        assert asked.status_code == 202, asked.text
        path = asked.headers["location"]
        answer = self.wait_for(lambda: self._done(path), what="readback")
        return {
            rank["rank"]: {layer["name"]: layer["sha256"] for layer in rank["layers"]}
            for rank in answer["ranks"]
        }

    def _done(self, path: str) -> dict[str, Any] | None:
        answer = self.api.get(path).raise_for_status().json()
        return answer if answer["done"] else None

    def discard(self, restore_id: str) -> None:
        assert self.api.post(f"/api/v1/restores/{restore_id}/discard").status_code == 202
        self.wait_for(lambda: self.restore(restore_id)["state"] == "finished", what="released pages")

    def devices_free(self) -> bool:
        devices = self.api.get("/api/v1/nodes/ring").json()["devices"]
        return not any(device["busy"] for device in devices)

    def worker_pid(self, device: str) -> int:
        record = self.home / "node-ring" / "run" / f"rank-worker-{device}.json"
        return int(json.loads(record.read_text())["pid"])

    def signal_worker(self, device: str, number: signal.Signals) -> int:
        pid = self.worker_pid(device)
        os.kill(pid, number)
        return pid

    def logs(self) -> str:
        files = sorted(self.home.rglob("log/*.log"))
        return "\n".join(f"== {file.name}\n" + "\n".join(_last_lines(file)) for file in files)


def _last_lines(file: Path) -> list[str]:
    return file.read_text(errors="replace").splitlines()[-15:]
