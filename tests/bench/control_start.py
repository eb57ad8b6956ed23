"""From POST to the start of the ranks, and a hundred POSTs at once beside heartbeats."""

import json
import threading
import time
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from app.core.store.synth import SynthesizedSnapshot
from tests.bench.control_client import BareClient
from tests.bench.control_figures import Record, spread
from tests.bench.control_ring import Ring
from tests.bench.control_site import DEVICES, NODE, Site

PARALLEL: Final = 100
BEATING: Final = 16
BEAT_S: Final = 0.2


def measure_start(site: Site, *, rounds: int) -> dict[str, Any]:
    """One restore after the other over Celery and real rank workers: how long until the ranks begin."""
    for name in ("control", "agent"):
        site.start_child(name)
    record = Record()
    client = site.client(record)
    result = {}
    for ranks in (1, 4):
        stored = site.store(f"start-{ranks}", ranks=ranks)
        _know(site, client, stored=stored)
        found = [_one_start(site, client, stored=stored) for _ in range(rounds + 1)][1:]
        names = ("post", "first_claim", "last_claim", "first_service")
        result[f"{ranks}_ranks"] = {name: spread([one[name] for one in found]) for name in names}
    client.close()
    for name in ("agent", "control"):
        site.stop_child(name)
    return result


def _know(site: Site, client: BareClient, *, stored: SynthesizedSnapshot) -> None:
    """Register the layout; wait until every worker is up and the node's scan has found the snapshot."""
    client.need("layout", "POST", "/api/v1/layouts", body=stored.layout.canonical)
    path = f"/api/v1/snapshots/{stored.context_digest}"

    def known() -> bool:
        status, answer = client.ask("snapshot", "GET", path)
        return status == 200 and bool(answer["complete"])

    def up() -> bool:
        status, answer = client.ask("node", "GET", f"/api/v1/nodes/{NODE}")
        return status == 200 and sum(one["generation"] > 0 for one in answer["devices"]) == len(DEVICES)

    site.wait_for(up, what="rank workers")
    site.wait_for(known, what="snapshot")


def _one_start(site: Site, client: BareClient, *, stored: SynthesizedSnapshot) -> dict[str, float]:
    """Milliseconds from the POST; the database's clock is this machine's, so both may be compared."""
    posted, started = time.time(), time.perf_counter()
    answer = _post(client, stored=stored)
    post_ms = (time.perf_counter() - started) * 1e3
    path = f"/api/v1/restores/{answer['id']}"

    def in_state(state: str) -> dict[str, Any] | None:
        time.sleep(0.02)
        found: dict[str, Any] = client.need("follow", "GET", path)
        return found if found["state"] == state else None

    restore = site.wait_for(lambda: in_state("resident"), what="resident")
    claims = [_since(posted, attempt["claimed_at"]) for attempt in restore["attempts"]]
    admitted_ms = _since(posted, restore["admitted_at"])
    services = [admitted_ms + one["report"]["service_start_ns"] / 1e6 for one in restore["attempts"]]
    client.need("discard", "POST", f"{path}/discard")
    site.wait_for(lambda: in_state("finished"), what="finished")
    return {
        "post": post_ms,
        "first_claim": min(claims),
        "last_claim": max(claims),
        "first_service": min(services),
    }


def _since(posted: float, instant: str) -> float:
    return (datetime.fromisoformat(instant).timestamp() - posted) * 1e3


def _post(client: BareClient, *, stored: SynthesizedSnapshot) -> Any:
    order = {"context_digest": str(stored.context_digest), "layout_sha256": str(stored.layout.sha256)}
    body = json.dumps(order).encode()
    return client.need("post", "POST", "/api/v1/restores", body=body, Idempotency_Key=str(uuid4()))


def measure_storm(site: Site, *, rounds: int) -> dict[str, Any]:
    """A hundred orders at once for the four devices of one node, beside ranks that beat on other devices."""
    busy, wanted = Ring(site, name="busy", nodes=4, per_node=4), Ring(site, name="storm", nodes=1, per_node=4)
    for ring in (busy, wanted):
        ring.join()
    ranks = busy.claim_all(busy.order()["id"])
    quiet, stormy = Record(), Record()
    heartbeats = {}
    for name, record in (("alone", quiet), ("beside", stormy)):
        stop = threading.Event()
        beating = [
            threading.Thread(target=_beat, args=(site, rank, record, stop)) for rank in ranks[:BEATING]
        ]
        for thread in beating:
            thread.start()
        time.sleep(1.0)
        for _ in range(rounds if name == "beside" else 3):
            if name == "beside":
                wanted.heard()
                _hundred(site, wanted, record=record)
            time.sleep(1.0)
        stop.set()
        for thread in beating:
            thread.join()
        heartbeats[name] = record.summary()["heartbeat"]
    return {
        "posts": stormy.summary()["post"],
        "heartbeats_alone": heartbeats["alone"],
        "heartbeats_beside": heartbeats["beside"],
    }


def _beat(site: Site, rank: Any, record: Record, stop: threading.Event) -> None:
    client = site.client(record, api_key=rank.api_key)
    while not stop.wait(BEAT_S):
        rank.say(client, "heartbeat", method="POST", body=b'{"progress": null}')
    client.close()


def _hundred(site: Site, ring: Ring, *, record: Record) -> None:
    start = threading.Barrier(PARALLEL)
    failed: list[Exception] = []

    def order() -> None:
        client = site.client(record)
        client.connect()
        start.wait()
        try:
            client.ask("post", "POST", "/api/v1/restores", body=ring.order_body, Idempotency_Key=str(uuid4()))
        except OSError as error:
            failed.append(error)
        client.close()

    threads = [threading.Thread(target=order) for _ in range(PARALLEL)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise RuntimeError(f"POST: {len(failed)} of {PARALLEL} were not answered, the first: {failed[0]}")
