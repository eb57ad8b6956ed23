"""Simulated nodes that speak to the real API as rank workers do, at the workers' own pace.

Each node is one thread with one connection; it takes its devices' messages from Valkey, claims, beats, is
ready after a while that stands for the reading, polls for the decision, publishes and gives the pages back.
"""

import base64
import heapq
import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from http.client import HTTPException
from itertools import count
from typing import Any, Final, cast
from uuid import uuid4

import redis

from app.core.store.synth import SynthesizedSnapshot
from app.queue import DECIDED_CHANNEL
from tests.app.ring import RUNTIME, real_report, wire
from tests.bench.control_client import BareClient
from tests.bench.control_figures import Record
from tests.bench.control_inventory import report_inventory
from tests.bench.control_site import Site
from workers import heartbeat, rank_restore
from workers.control_client import Claimed, ControlClient

WORK_S: Final = (3.0, 8.0)
POOL_BYTES: Final = 4_000_000
GIVE_UP_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A claimed attempt and what its worker shows."""

    attempt_id: str
    token: int
    api_key: str
    claim: dict[str, Any]

    def say(self, client: BareClient, word: str, *, method: str = "PUT", body: bytes | None = None) -> Any:
        path = f"/api/v1/attempts/{self.attempt_id}/{word}"
        return client.need(word, method, path, body=body, Fencing_Token=str(self.token))


class Ring:
    """Nodes with devices, and one snapshot over all of them."""

    def __init__(self, site: Site, *, name: str, nodes: int, per_node: int) -> None:
        self.site = site
        self.nodes = [f"{name}-{number}" for number in range(nodes)]
        self.devices = [f"host{number}" for number in range(per_node)]
        self.stored: SynthesizedSnapshot = site.store(
            name, ranks=nodes * per_node, folder=site.home / "simulated"
        )
        self.keys: dict[str, str] = {}
        self.setup = Record()
        self.report = wire(real_report(self.stored.roots[0], self.stored.layout))

    def join(self) -> None:
        """Register nodes, workers, documents and the layout."""
        self.keys = self.site.node_keys(self.nodes)
        operator = self.site.client(self.setup)
        operator.need("layout", "POST", "/api/v1/layouts", body=self.stored.layout.canonical)
        for number, node in enumerate(self.nodes):
            client = self.site.client(self.setup, api_key=self.keys[node])
            self._register(client, node)
            for device in self.devices:
                path = f"/api/v1/nodes/{node}/devices/{device}/workers"
                client.need("worker", "POST", path, body=json.dumps({"runtime": RUNTIME}).encode())
            first = number * len(self.devices)
            roots = self.stored.roots[first : first + len(self.devices)]
            report_inventory(client, node=node, roots=roots)
            client.close()
        operator.close()

    def heard(self) -> None:
        """Every node says that it is there, as agents do every few seconds."""
        for node in self.nodes:
            client = self.site.client(self.setup, api_key=self.keys[node])
            self._register(client, node)
            client.close()

    def _register(self, client: BareClient, node: str) -> None:
        devices = [{"name": name, "kind": "host", "pool_bytes": POOL_BYTES} for name in self.devices]
        client.need("node", "PUT", f"/api/v1/nodes/{node}", body=json.dumps({"devices": devices}).encode())

    @property
    def order_body(self) -> bytes:
        order = {
            "context_digest": str(self.stored.context_digest),
            "layout_sha256": str(self.stored.layout.sha256),
        }
        return json.dumps(order).encode()

    def order(self, record: Record | None = None) -> dict[str, Any]:
        """A restore, as the API answers it."""
        self.heard()
        client = self.site.client(record or self.setup)
        answer: dict[str, Any] = client.need(
            "order", "POST", "/api/v1/restores", body=self.order_body, Idempotency_Key=str(uuid4())
        )
        client.close()
        return answer

    def claim_all(self, restore_id: str) -> list[Rank]:
        """Claim every rank of an admitted restore, one after the other."""
        operator = self.site.client(self.setup)
        restore = operator.need("follow", "GET", f"/api/v1/restores/{restore_id}")
        operator.close()
        ranks = []
        for attempt in restore["attempts"]:
            client = self.site.client(self.setup, api_key=self.keys[attempt["node"]])
            ranks.append(claim(client, attempt["id"], api_key=self.keys[attempt["node"]]))
            client.close()
        return ranks


def claim(client: BareClient, attempt_id: str, *, api_key: str) -> Rank:
    """Claim one attempt; every simulated device is in its first generation."""
    answer = client.need("claim", "POST", f"/api/v1/attempts/{attempt_id}/claim", body=b'{"generation": 1}')
    return Rank(attempt_id=attempt_id, token=answer["token"], api_key=api_key, claim=answer)


def pauses_s(rank: Rank) -> tuple[float, float]:
    """The worker's own first and longest pause between two beats."""
    claimed = Claimed(
        **{field.name: rank.claim[field.name] for field in fields(Claimed) if field.name in rank.claim}
    )
    beats = heartbeat.Heartbeat(cast(ControlClient, None), claimed=claimed)
    return beats.first_s, beats.longest_s


def bell(node: str) -> str:
    """The list at which a simulated node hears that something is decided, beside its devices' queues."""
    return f"bench.called.{node}"


class Bells:
    """One connection that listens to the calls as workers do, and passes each on to all nodes."""

    def __init__(self, ring: Ring) -> None:
        broker = ring.site.settings.broker_url
        self._broker = redis.Redis.from_url(broker.get_secret_value() if broker else "")
        self._bells = [bell(node) for node in ring.nodes]
        self._channel = self._broker.pubsub(ignore_subscribe_messages=True)
        self._channel.subscribe(**{DECIDED_CHANNEL: self._ring})
        self._thread = self._channel.run_in_thread(sleep_time=0.05, daemon=True)

    def _ring(self, _message: Any) -> None:
        with self._broker.pipeline(transaction=False) as batch:
            for name in self._bells:
                batch.lpush(name, "called")
            batch.execute()

    def stop(self) -> None:
        self._thread.stop()
        self._thread.join()
        self._broker.close()


class SimulatedNode:
    """One node's devices, driven by a queue of what is due next."""

    def __init__(self, ring: Ring, node: str, *, record: Record) -> None:
        self._ring = ring
        self._client = ring.site.client(record, api_key=ring.keys[node])
        self._key = ring.keys[node]
        broker = ring.site.settings.broker_url
        self._broker = redis.Redis.from_url(broker.get_secret_value() if broker else "")
        self._devices = len(ring.devices)
        self._bell = bell(node)
        self._queues = [*(f"gpu.{node}.{device}" for device in ring.devices), self._bell]
        self._random = random.Random(node)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._ranks: dict[str, Rank] = {}
        self._released = 0
        self._gone: set[str] = set()
        self._waiting: dict[str, tuple[object, Callable[[], None]]] = {}

    def run(self) -> None:
        """Until every device has given its pages back."""
        give_up = time.monotonic() + GIVE_UP_S
        self._client.connect()
        while self._released < self._devices:
            now = time.monotonic()
            if now > give_up:
                raise RuntimeError(f"{self._queues[0]}: expected the end within {GIVE_UP_S} s, found none")
            if self._due and self._due[0][0] <= now:
                heapq.heappop(self._due)[2]()
                continue
            pause_s = min(self._due[0][0] - now, 0.5) if self._due else 0.5
            self._hear(pause_s)
        self._client.close()
        self._broker.close()

    def _hear(self, pause_s: float) -> None:
        """Wait for a message, at most until something else is due."""
        found: Any = self._broker.brpop(self._queues, timeout=max(pause_s, 0.01))
        if found is None:
            return
        if found[0].decode() == self._bell:
            self._called()
            return
        message = json.loads(found[1])
        arguments = json.loads(base64.b64decode(message["body"]))[1]
        task, attempt_id = message["headers"]["task"], arguments["attempt_id"]
        turn_s = float(arguments.get("pause_s", 0.0))
        if task.endswith("restore"):
            self._later(turn_s, lambda: self._claim(attempt_id))
        elif task.endswith("discard"):
            self._later(turn_s, lambda: self._release(attempt_id))

    def _later(self, pause_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time.monotonic() + pause_s, next(self._order), action))

    def _claim(self, attempt_id: str) -> None:
        try:
            rank = claim(self._client, attempt_id, api_key=self._key)
        except RuntimeError:
            # A second message for a claimed rank: the worker says so in its log and goes on.
            if attempt_id not in self._ranks:
                raise
            return
        self._ranks[attempt_id] = rank
        self._later(self._random.uniform(*WORK_S), lambda: self._ready(rank))
        first_s, _ = pauses_s(rank)
        self._later(first_s, lambda: self._beat(rank, first_s))

    def _beat(self, rank: Rank, pause_s: float) -> None:
        """A beat, and the next one after twice the pause, up to the longest: as the worker does."""
        if rank.attempt_id in self._gone:
            return
        rank.say(self._client, "heartbeat", method="POST", body=b'{"progress": null}')
        longer_s = min(pause_s * 2, pauses_s(rank)[1])
        self._later(longer_s, lambda: self._beat(rank, longer_s))

    def _ready(self, rank: Rank) -> None:
        self._follow(rank, rank.say(self._client, "ready", body=self._ring.report), published=False)

    def _follow(self, rank: Rank, decision: dict[str, Any], *, published: bool, waited: int = 0) -> None:
        """Publish once it is decided; then poll until it is final. The worker's own back-off."""
        if decision["outcome"] is not None:
            self._gone.add(rank.attempt_id)
            return
        if decision["decision"] == "publish" and not published:
            body = json.dumps({"epoch": decision["epoch"]}).encode()
            self._follow(rank, rank.say(self._client, "publish", body=body), published=True)
            return
        own = min(rank_restore.FIRST_POLL_S * 1.5**waited, rank_restore.LONGEST_POLL_S)
        turn = object()

        def poll() -> None:
            # The call and the pause both wake a rank; the first of them does.
            if self._waiting.get(rank.attempt_id, (None, None))[0] is turn:
                del self._waiting[rank.attempt_id]
                answer = rank.say(self._client, "decision", method="GET")
                self._follow(rank, answer, published=published, waited=waited + 1)

        self._waiting[rank.attempt_id] = (turn, lambda: self._later(rank.claim["turn_s"], poll))
        self._later(max(own, rank.claim["pace_s"]), poll)

    def _called(self) -> None:
        """Something is decided: every rank that waits asks when it has its turn."""
        for _, wake in list(self._waiting.values()):
            wake()

    def _release(self, attempt_id: str) -> None:
        self._ranks[attempt_id].say(self._client, "released")
        self._released += 1


def measure_ring(site: Site, *, nodes: int, per_node: int) -> dict[str, Any]:
    """One restore over all devices of the simulated nodes, from the order to the last page given back."""
    site.start_child("control")
    ring = Ring(site, name="ring", nodes=nodes, per_node=per_node)
    ring.join()
    record, failed = Record(), []

    def run(node: str) -> None:
        try:
            SimulatedNode(ring, node, record=record).run()
        except (RuntimeError, OSError, HTTPException) as error:
            failed.append(error)

    bells = Bells(ring)
    threads = [threading.Thread(target=run, args=(node,)) for node in ring.nodes]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    started = time.monotonic()
    restore = ring.order(record)
    outcome = _until_resident(site, restore["id"], failed=failed)
    resident_s = time.monotonic() - started
    operator = site.client(record)
    operator.need("discard", "POST", f"/api/v1/restores/{restore['id']}/discard")
    operator.close()
    for thread in threads:
        thread.join()
    bells.stop()
    site.stop_child("control")
    if failed:
        raise RuntimeError(f"{len(failed)} nodes failed, the first: {failed[0]}\n{site.logs()}")
    return {
        "ranks": nodes * per_node,
        "nodes": nodes,
        "outcome": outcome,
        "resident_s": resident_s,
        "whole_s": time.monotonic() - started,
        "requests": record.summary(),
    }


def _until_resident(site: Site, restore_id: str, *, failed: list[Exception]) -> str:
    aside = Record()
    client = site.client(aside)
    while True:
        time.sleep(2.0)
        found = client.need("list", "GET", "/api/v1/restores?page_size=1")["restores"][0]
        if found["id"] != restore_id or failed:
            raise RuntimeError(f"restore {restore_id}: {found['state']}, failed: {failed[:1]}")
        if found["outcome"] is not None:
            client.close()
            return str(found["outcome"])
