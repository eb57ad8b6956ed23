"""The table of kill points, the trips they lie on, and what must hold after each of them."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final
from uuid import uuid4

import httpx2

from app.core.store.synth import SynthesizedSnapshot
from tests.e2e.kill_ring import PATIENCE_S, KillRing
from tests.e2e.wire import Passing

OUTCOMES: Final = ("restored", "corrupt", "incomplete", "failed")
WORKER: Final = "worker"
EVERYBODY: Final = (WORKER, "control", "web", "valkey", "postgres")

# The words of each trip, in the order they are said.
HTTP: Final = {
    "restored": (
        *("order", "claim", "heartbeat", "ready", "decision", "publish"),
        *("readback", "layers", "discard", "released"),
    ),
    "corrupt": ("failure", "retracted"),
    "cancelled": ("cancel", "retry"),
}
SQL: Final = {
    "restored": ("order", "admission", "claim", "report", "publish", "readback", "layers", "discard"),
    "cancelled": ("cancel",),
}
TASKS: Final = ("restore", "readback", "discard")


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPoint:
    """Kill `target` before or after `word` passes on `wire`, on a trip."""

    trip: str
    wire: str
    word: str
    after: bool
    target: str

    def __str__(self) -> str:
        when = "after" if self.after else "before"
        return f"{self.target} {when} {self.wire} {self.word}"

    def wants(self, passing: Passing) -> bool:
        return (passing.wire, passing.word, passing.after) == (self.wire, self.word, self.after)

    @property
    def outcomes(self) -> frozenset[str]:
        """What the trip's restore may come to; only a killed rank worker may cost it anything."""
        usual = {"restored": "restored", "corrupt": "corrupt", "cancelled": "incomplete"}[self.trip]
        return frozenset({usual, "incomplete"} if self.target == WORKER else {usual})


def all_points() -> Iterator[KillPoint]:
    """Every process at every message, before and after."""
    for trip, words in HTTP.items():
        for word, target, after in product(words, EVERYBODY, (False, True)):
            yield KillPoint(trip=trip, wire="http", word=word, after=after, target=target)
    for trip, words in SQL.items():
        for word, target, after in product(words, ("web", "postgres"), (False, True)):
            yield KillPoint(trip=trip, wire="sql", word=word, after=after, target=target)
    for task, target in product(TASKS, ("web", "valkey")):
        yield KillPoint(trip="restored", wire="broker", word=f"send {task}", after=False, target=target)
    for task, target, after in product(TASKS, (WORKER, "valkey"), (False, True)):
        yield KillPoint(trip="restored", wire="broker", word=f"take {task}", after=after, target=target)
    for word, target in (("send call", "web"), ("send call", "valkey"), ("take call", WORKER)):
        yield KillPoint(trip="restored", wire="broker", word=word, after=False, target=target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What a trip has ordered: its restores in order, and the digests it read back, if it did."""

    restore_ids: tuple[str, ...]
    layers: dict[int, dict[str, str]] | None = None


class Traveller:
    """A client that does not give up: it asks again, with the same key, until it is answered."""

    def __init__(self, ring: KillRing, *, good: SynthesizedSnapshot, bad: SynthesizedSnapshot) -> None:
        self.ring = ring
        self.good = good
        self.bad = bad
        self.baseline: dict[int, dict[str, str]] | None = None

    # The trips

    def restored(self, point: KillPoint | None = None) -> Course:
        """Order, restore, read back, discard."""
        gate = None
        if point is not None and point.word == "heartbeat":
            gate = self.ring.tripwire.hold("ready", speaker="host1")
        restore_id = self.order(self.good)
        if gate is not None:
            self.ring.tripwire.fired.wait(7.0)
            gate.set()
        restore = self.finish(restore_id)
        layers = self.read_back(restore_id) if restore["outcome"] == "restored" else None
        if restore["outcome"] == "restored":
            self.discard(restore_id)
        return Course(restore_ids=(restore_id,), layers=layers)

    def corrupt(self, _point: KillPoint | None = None) -> Course:
        """Rank 1 finds a flipped byte when rank 0 has placed everything."""
        gate = self.ring.tripwire.hold("failure", speaker="host1")
        restore_id = self.order(self.bad)
        self._wait_until_ready(restore_id)
        gate.set()
        self.finish(restore_id)
        return Course(restore_ids=(restore_id,))

    def cancelled(self, _point: KillPoint | None = None) -> Course:
        """Called off while rank 0 is ready and rank 1 is not; then tried again."""
        gate = self.ring.tripwire.hold("ready", speaker="host1")
        restore_id = self.order(self.good)
        self._wait_until_ready(restore_id)
        self.say(f"/api/v1/restores/{restore_id}/cancel", body={"reason": "kill point"})
        gate.set()
        self.finish(restore_id)
        newer = str(self.say(f"/api/v1/restores/{restore_id}/retry", key=str(uuid4()))["id"])
        if self.finish(newer)["outcome"] == "restored":
            self.discard(newer)
        return Course(restore_ids=(restore_id, newer))

    # The words

    def say(self, path: str, *, body: object = None, key: str | None = None) -> dict[str, Any]:
        """POST until it is answered; a refusal is an error here."""
        headers = {} if key is None else {"Idempotency-Key": key}
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._try(path, body=body, headers=headers)
            if answer is not None and answer.is_success:
                return answer.json()  # type: ignore[no-any-return]
            assert time.monotonic() < deadline, f"{path}: not answered\n{self.ring.logs()}"
            passing = answer is None or answer.status_code >= 500
            passing = passing or answer.json()["code"] in {"idempotency-in-flight", "rate-limited"}
            assert passing, answer.text if answer is not None else ""
            time.sleep(0.05)

    def _try(self, path: str, *, body: object, headers: dict[str, str]) -> httpx2.Response | None:
        sent: dict[str, Any] = {} if body is None else {"json": body}
        try:
            return self.ring.api.post(path, headers=headers, **sent)
        except httpx2.TransportError:
            return None

    def order(self, store: SynthesizedSnapshot) -> str:
        body = {"context_digest": str(store.context_digest), "layout_sha256": str(store.layout.sha256)}
        return str(self.say("/api/v1/restores", body=body, key=str(uuid4()))["id"])

    def finish(self, restore_id: str) -> dict[str, Any]:
        def done() -> dict[str, Any] | None:
            restore = self.ring.get(f"/api/v1/restores/{restore_id}")
            return restore if restore and restore["done"] else None

        return self.ring.wait_for(done, what=f"end of restore {restore_id}")  # type: ignore[no-any-return]

    def read_back(self, restore_id: str) -> dict[int, dict[str, str]] | None:
        """Digests by rank and layer; None where a rank worker died with its pages."""
        answer = self._try_readback(restore_id)
        if answer is None:
            return None
        path = f"/api/v1/restores/{restore_id}/readbacks/{answer['id']}"

        def done() -> dict[str, Any] | None:
            shown = self.ring.get(path)
            return shown if shown and shown["done"] else None

        shown = self.ring.wait_for(done, what=f"readback of {restore_id}")
        if shown["problem"] is not None:
            assert shown["problem"]["code"] == "gone", shown["problem"]
            return None
        return {
            rank["rank"]: {layer["name"]: layer["sha256"] for layer in rank["layers"]}
            for rank in shown["ranks"]
        }

    def _try_readback(self, restore_id: str) -> dict[str, Any] | None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._try(f"/api/v1/restores/{restore_id}/readbacks", body=None, headers={})
            if answer is not None and answer.status_code == 202:
                return answer.json()  # type: ignore[no-any-return]
            if answer is not None and answer.status_code == 410:
                return None
            assert answer is None or answer.status_code >= 500, answer.text
            assert time.monotonic() < deadline, "readback: not answered"
            time.sleep(0.05)

    def discard(self, restore_id: str) -> None:
        self.say(f"/api/v1/restores/{restore_id}/discard")

        def gone() -> bool:
            restore = self.ring.get(f"/api/v1/restores/{restore_id}")
            return restore is not None and restore["state"] == "finished"

        self.ring.wait_for(gone, what=f"release of {restore_id}")

    def _wait_until_ready(self, restore_id: str) -> None:
        """Until rank 0 is ready, or the tripwire has fired, or 6 s have passed."""
        deadline = time.monotonic() + 6.0
        while time.monotonic() < deadline and not self.ring.tripwire.fired.is_set():
            restore = self.ring.get(f"/api/v1/restores/{restore_id}")
            if restore and restore["attempts"][0]["state"] == "ready":
                return
            time.sleep(0.02)


def pass_through(traveller: Traveller, point: KillPoint) -> None:
    """Go on the trip, kill at the point, and check that everything is as it must be."""
    ring = traveller.ring
    ring.clear()
    generations, killed = ring.generations(), []
    before = ring.rows("SELECT count(*) FROM restore")[0][0]

    def act(passing: Passing) -> bool:
        victim = point.target
        if victim == WORKER:
            victim = passing.speaker if passing.speaker.startswith("host") else "host1"
        killed.append(victim)
        return ring.kill_at(victim)(passing)

    ring.tripwire.arm(point.wants, action=act)
    trips: dict[str, Callable[[KillPoint | None], Course]] = {
        "restored": traveller.restored,
        "corrupt": traveller.corrupt,
        "cancelled": traveller.cancelled,
    }
    course = trips[point.trip](point)
    # What a trip's last message does can be seen before its answer has come back to the wire.
    fired = ring.tripwire.fired.wait(10.0)
    seen = {f"{one.wire} {one.word}" for one in ring.tripwire.seen}
    ring.tripwire.disarm()
    assert fired, f"{point}: never passed; seen {sorted(seen)}"
    ring.settle(generations=generations, replaced=killed[0])
    ordered = ring.rows("SELECT count(*) FROM restore")[0][0] - before
    assert ordered == len(course.restore_ids), f"{point}: {ordered} restores for {len(course.restore_ids)}"
    for restore_id in course.restore_ids:
        check_restore(ring, restore_id)
    found = ring.rows("SELECT outcome FROM restore WHERE id = %s", course.restore_ids[0])[0][0]
    assert found in point.outcomes, f"{point}: {found}\n{history(ring, course.restore_ids[0])}"
    if course.layers is not None:
        assert course.layers == traveller.baseline
    prove_empty(traveller)


def check_restore(ring: KillRing, restore_id: str) -> None:
    """Exactly one end, nothing lost, nothing doubled, nothing held, whatever was killed."""
    state, outcome, attempts = ring.rows(
        "SELECT state, outcome, (SELECT count(*) FROM rank_attempt WHERE restore_id = restore.id)"
        " FROM restore WHERE id = %s",
        restore_id,
    )[0]
    told = history(ring, restore_id)
    assert (state, attempts) == ("finished", 2), told
    events = ring.rows("SELECT kind, rank FROM restore_event WHERE restore_id = %s", restore_id)
    ends = [kind for kind, rank in events if rank is None and kind in OUTCOMES]
    assert ends == [outcome], told
    once = ("requested", "admitted", "claimed", "ready", "published", "reported", "lost", "cancelled")
    for event in set(events):
        assert events.count(event) == 1 or event[0] not in once, told
    open_ranks = ring.rows(
        "SELECT rank FROM rank_attempt WHERE restore_id = %s AND (ended_at IS NULL OR"
        " pages_released_at IS NULL OR lease_expires_at IS NOT NULL OR next_send_at IS NOT NULL)",
        restore_id,
    )
    assert open_ranks == [], told
    reports = ring.rows(
        "SELECT a.rank FROM rank_report r JOIN rank_attempt a ON a.id = r.attempt_id"
        " WHERE a.restore_id = %s ORDER BY a.rank",
        restore_id,
    )
    if outcome == "restored":
        assert reports == [(0,), (1,)], told
        acknowledged = ring.rows(
            "SELECT DISTINCT acknowledged_epoch FROM rank_attempt WHERE restore_id = %s", restore_id
        )
        assert len(acknowledged) == 1, told
        assert acknowledged[0][0] is not None, told
    assert ring.rows("SELECT name FROM device WHERE held_by IS NOT NULL") == [], told
    visible = ring.direct.post(f"/api/v1/restores/{restore_id}/readbacks")
    expected = (410, "gone") if outcome == "restored" else (409, "not-published")
    assert (visible.status_code, visible.json()["code"]) == expected, told


def prove_empty(traveller: Traveller) -> None:
    """A whole restore on the same devices: their pools hold one and no page more: none was left there."""
    restore_id = traveller.order(traveller.good)
    restore = traveller.finish(restore_id)
    assert restore["outcome"] == "restored", restore["problem"]
    layers = traveller.read_back(restore_id)
    assert layers is not None
    if traveller.baseline is None:
        traveller.baseline = layers
    assert layers == traveller.baseline
    traveller.discard(restore_id)
    check_restore(traveller.ring, restore_id)


def history(ring: KillRing, restore_id: str) -> str:
    """Everything that happened to a restore, for the message of a test that fails."""
    rows = ring.rows(
        "SELECT at, kind, rank, detail FROM restore_event WHERE restore_id = %s ORDER BY id", restore_id
    )
    return "\n".join(
        f"{at:%H:%M:%S.%f} {kind} {rank if rank is not None else ''} {detail}"
        for at, kind, rank, detail in rows
    )
