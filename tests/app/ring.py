"""A simulated ring of rank workers: it speaks HTTP as the real ones do, one step at a time."""

import json
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from fastapi.testclient import TestClient
from httpx2 import Response

from app.core.digest import sha256
from app.core.restore.buffers import BufferPool
from app.core.restore.execute import RankOrder, restore_rank
from app.core.restore.host_device import HostDevice
from app.core.restore.host_placement import HostProducer
from app.core.restore.reader import BoundedReader, list_documents, read_document
from app.core.store.snapshot import PageLayout
from app.core.store.synth import SynthesizedSnapshot

NODE = "node-a"
# Room for the pages of two resident restores.
POOL_BYTES = 1_000_000
# What every simulated worker measures of itself.
RUNTIME = {
    "schema": "sparkgate-runtime/v1",
    "engine": "simulated",
    "engine_sha256": "e" * 64,
    "engine_files": 1,
    "source_sha256": "f" * 64,
    "source_files": 2,
    "image_config_id": "none",
    "python": "CPython 3.11.7",
    "numpy": "2.4.6",
    "cupy": "none",
    "machine": "x86_64",
    "system": "Linux 6.11.0",
}


@dataclass
class SimulatedRank:
    """One claimed attempt."""

    ring: "Ring"
    attempt_id: str
    claim: dict[str, Any]

    @property
    def headers(self) -> dict[str, str]:
        return {**self.ring.worker_headers, "Fencing-Token": str(self.claim["token"])}

    def say(self, word: str, *, method: str = "PUT", **arguments: Any) -> Response:
        path = f"/api/v1/attempts/{self.attempt_id}/{word}"
        return self.ring.client.request(method, path, headers=self.headers, **arguments)

    def ready(self) -> Response:
        return self.say("ready", content=wire(self.ring.report(self.claim["rank"])))

    def fail(self, **changes: Any) -> Response:
        return self.say(
            "failure", content=wire(failed_report(self.ring.report(self.claim["rank"]), **changes))
        )

    def publish(self, epoch: int) -> Response:
        return self.say("publish", json={"epoch": epoch})

    def decision(self) -> dict[str, Any]:
        return self.say("decision", method="GET").json()  # type: ignore[no-any-return]


@dataclass
class Ring:
    """A node with four devices and one rank of the snapshot for each."""

    client: TestClient
    keys: dict[str, str]
    stored: SynthesizedSnapshot
    generations: dict[str, int] = field(default_factory=dict)

    @property
    def worker_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys['worker']}"}

    @property
    def operator_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys['operator']}"}

    def join(self) -> "Ring":
        devices = [{"name": f"host{n}", "kind": "host", "pool_bytes": POOL_BYTES} for n in range(4)]
        put(self.client, f"/api/v1/nodes/{NODE}", headers=self.worker_headers, json={"devices": devices})
        for number in range(4):
            self.start_worker(f"host{number}")
        self.report_inventory(self.stored.roots)
        self.client.post(
            "/api/v1/layouts", headers=self.operator_headers, content=self.stored.layout.canonical
        ).raise_for_status()
        return self

    def start_worker(self, device: str) -> int:
        path = f"/api/v1/nodes/{NODE}/devices/{device}/workers"
        answer = self.client.post(path, headers=self.worker_headers, json={"runtime": RUNTIME})
        self.generations[device] = answer.raise_for_status().json()["generation"]
        return self.generations[device]

    def report_inventory(self, roots: tuple[Path, ...]) -> None:
        sightings, documents = [], {}
        for root in roots:
            for name in list_documents(root):
                raw = read_document(root, name=name)
                digest = str(sha256(raw))
                documents[digest] = (str(name.context_digest), raw)
                sightings.append(
                    {
                        "root_path": str(root),
                        "storage_key": str(name.storage_key),
                        "context_digest": str(name.context_digest),
                        "root_document_sha256": digest,
                    }
                )
        path, body = f"/api/v1/nodes/{NODE}/inventory", {"manifests": sightings, "problems": []}
        for digest in put(self.client, path, headers=self.worker_headers, json=body)["missing_documents"]:
            context, raw = documents[digest]
            target = f"/api/v1/nodes/{NODE}/documents/{digest}?context_digest={context}"
            put(self.client, target, headers=self.worker_headers, content=raw)
        put(self.client, path, headers=self.worker_headers, json=body)

    def pin(self, rank: int, **changes: Any) -> Response:
        published = self.stored.published[rank]
        body = {
            "root_path": str(self.stored.roots[rank]),
            "stream_sha256": str(published.snapshot_sha256),
            **changes,
        }
        path = f"/api/v1/nodes/{NODE}/documents/{published.manifest_sha256}/pin"
        return self.client.put(path, headers=self.worker_headers, json=body)

    def order(self, **changes: Any) -> dict[str, Any]:
        return {
            "context_digest": str(self.stored.context_digest),
            "layout_sha256": str(self.stored.layout.sha256),
            **changes,
        }

    def post_restore(self, *, key: str | None = None, **changes: Any) -> Response:
        headers = {**self.operator_headers, "Idempotency-Key": key or str(uuid4())}
        return self.client.post("/api/v1/restores", headers=headers, json=self.order(**changes))

    def restore(self, restore_id: str) -> dict[str, Any]:
        answer = self.client.get(f"/api/v1/restores/{restore_id}", headers=self.operator_headers)
        return answer.raise_for_status().json()  # type: ignore[no-any-return]

    def start_restore(self, **changes: Any) -> dict[str, Any]:
        """An admitted restore."""
        answer = self.post_restore(**changes)
        assert answer.status_code == 202, answer.text
        return self.restore(answer.json()["id"])

    def claim(self, attempt: dict[str, Any], *, token: int | None = None) -> Response:
        body = {"generation": self.generations[attempt["device"]], **({"token": token} if token else {})}
        return self.client.post(
            f"/api/v1/attempts/{attempt['id']}/claim", headers=self.worker_headers, json=body
        )

    def claim_all(self, restore: dict[str, Any]) -> list[SimulatedRank]:
        return [
            SimulatedRank(self, attempt["id"], self.claim(attempt).raise_for_status().json())
            for attempt in restore["attempts"]
        ]

    def run_to_resident(self, **changes: Any) -> tuple[str, list[SimulatedRank]]:
        """A restore that every rank has acknowledged."""
        restore = self.start_restore(**changes)
        ranks = self.claim_all(restore)
        for rank in ranks:
            rank.ready().raise_for_status()
        epoch = ranks[0].decision()["epoch"]
        for rank in ranks:
            rank.publish(epoch).raise_for_status()
        return restore["id"], ranks

    def report(self, rank: int) -> dict[str, Any]:
        """The report of a real restore of this rank."""
        return json.loads(json.dumps(real_report(self.stored.roots[rank], self.stored.layout)))  # type: ignore[no-any-return]


def put(client: TestClient, path: str, **arguments: Any) -> dict[str, Any]:
    return client.put(path, **arguments).raise_for_status().json()  # type: ignore[no-any-return]


@cache
def real_report(root: Path, layout: PageLayout) -> dict[str, Any]:
    name = next(iter(list_documents(root)))
    order = RankOrder(
        identity=None, storage_key=name.storage_key, context_digest=name.context_digest, layout=layout
    )
    buffers = BufferPool(buffer_bytes=65_536)
    with (
        HostDevice("host0", pool_bytes=POOL_BYTES, arena_bytes=65_536) as device,
        BoundedReader(root, buffers=buffers) as reader,
    ):
        done = restore_rank(
            order, reader=reader, device=device, clock=time.monotonic_ns, producer=HostProducer()
        )
    return done.report.to_document()


def failed_report(report: dict[str, Any], *, outcome: str = "corrupt", **problem: Any) -> dict[str, Any]:
    return {
        **report,
        "outcome": outcome,
        "statistics": None,
        "stream_digest": "not_reached",
        "problem": {
            "code": "integrity" if outcome == "corrupt" else outcome,
            "subject": "object 3 (ab)",
            "stage": "content",
            "expected": "SHA-256 ab",
            "found": "SHA-256 cd",
            "detail": "object 3 (ab): expected SHA-256 ab, found SHA-256 cd",
            **problem,
        },
    }


def wire(report: dict[str, Any], *, runtime: dict[str, Any] = RUNTIME) -> bytes:
    times = {"service_start_ns": 1_000_000, "claim_round_trip_ns": 500_000, "pool_commit_ns": 200_000}
    return json.dumps({"report": report, "runtime": runtime, **times}).encode()
