"""A storm of legal and illegal words from many threads, with transactions killed at random; then it is calm.

Whatever happened, afterwards every restore has ended once, nothing is held, and the ledger tells all of it.
"""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.orm import Session

from app.config import Settings
from app.core.store.synth import SynthesizedSnapshot, synthesize_store
from app.db.session import Database
from app.errors import AppError
from app.models import RankAttempt, Restore
from app.nodes import service as nodes
from app.nodes.service import DeviceStatement
from app.restores.repository.plans import Place, Seatable, ask_plan
from app.restores.service import (
    attempts,
    cancellation,
    claims,
    readback,
    request,
    residency,
    retry,
    upkeep,
)
from app.restores.service.admission import admit_waiting
from app.restores.service.attempts import Speaker
from app.restores.service.claims import ClaimAsked
from app.restores.service.request import RestoreOrder
from app.web.auth import PRESETS, Principal
from tests.app.conftest import RecordedMessages
from tests.app.mortality import KilledError, Mortal, check_all_ended, check_leaves
from tests.app.ring import NODE, POOL_BYTES, RUNTIME, Ring, failed_report, wire
from tests.app.test_ledger_audit import audit

THREADS: Final = 8
WORDS_EACH: Final = 90
DEVICES: Final = tuple(f"host{number}" for number in range(6))
MOST_WAITING: Final = 4
WORKER: Final = Principal(name="ada/worker", scopes=PRESETS["worker"], account="ada", node_name=NODE)


class Storm:
    """What all threads share: which restores and attempts there are, and the tokens that claims gave."""

    def __init__(
        self, ring: Ring, *, database: Database, messages: RecordedMessages, settings: Settings
    ) -> None:
        self.ring, self.database, self.messages, self.settings = ring, database, messages, settings
        self.restores: list[UUID] = []
        self.readbacks: list[UUID] = []
        self.tokens: dict[UUID, int] = {}
        self.reports = {rank: wire(ring.report(rank)) for rank in range(len(ring.stored.roots))}
        self.failures = {
            rank: [wire(failed_report(ring.report(rank), outcome=one)) for one in ("corrupt", "cancelled")]
            for rank in self.reports
        }
        self.order = RestoreOrder(
            context_digest=str(ring.stored.context_digest),
            layout_sha256=str(ring.stored.layout.sha256),
            rank_zero_storage_key=None,
            resident_s=3600,
        )
        self.words: dict[str, Callable[[Database, random.Random], None]] = {
            name.removeprefix("say_"): getattr(self, name) for name in dir(type(self)) if name[:4] == "say_"
        }

    def _attempt(self, session: Session) -> RankAttempt | None:
        open_ones = select(RankAttempt).join(Restore).where(Restore.state != "finished")
        found = list(session.scalars(open_ones.order_by(func.random()).limit(1)))
        return found[0] if found else None

    def _speaker(self, attempt: RankAttempt, chance: random.Random) -> Speaker:
        token = self.tokens.get(attempt.id, 1) + (1 if chance.random() < 0.05 else 0)
        return Speaker(attempt_id=attempt.id, principal=WORKER, token=token)

    def _chosen(self, database: Database, chance: random.Random) -> tuple[int, Speaker] | None:
        """A rank of a restore that goes on, and its worker, which mostly knows its token."""
        with database.reading() as session:
            attempt = self._attempt(session)
            return None if attempt is None else (attempt.rank, self._speaker(attempt, chance))

    def say_order(self, database: Database, _: random.Random) -> None:
        with database.transaction() as session:
            waiting = select(func.count()).where(Restore.state == "waiting")
            if session.execute(waiting).scalar_one() > MOST_WAITING:
                return
            made = request.request_restore(session, order=self.order, by="ada", silence_s=3600)
            restore_id = made.restore.id
        self.restores.append(restore_id)

    def say_look(self, database: Database, _: random.Random) -> None:
        with database.transaction() as session:
            admit_waiting(session, messages=self.messages, settings=self.settings)

    def say_tick(self, database: Database, _: random.Random) -> None:
        upkeep.run(database, messages=self.messages, settings=self.settings)

    def say_claim(self, database: Database, chance: random.Random) -> None:
        with database.reading() as session:
            attempt = self._attempt(session)
            if attempt is None:
                return
            generation = attempt.device.generation - (1 if chance.random() < 0.05 else 0)
            attempt_id, token = attempt.id, chance.choice([None, attempt.rank + 1])
        self._claim(database, attempt_id, asked=ClaimAsked(generation=generation, token=token))

    def _claim(self, database: Database, attempt_id: UUID, *, asked: ClaimAsked) -> None:
        lease_s = self.settings.lease_s
        with database.single() as session:
            got = claims.claim_at_once(
                session, attempt_id=attempt_id, principal=WORKER, asked=asked, lease_s=lease_s
            )
        if got is None:
            with database.transaction() as session:
                got = claims.claim(
                    session, attempt_id=attempt_id, principal=WORKER, asked=asked, lease_s=lease_s
                )
        self.tokens[attempt_id] = got.granted.token

    def say_serve(self, database: Database, _: random.Random) -> None:
        """All ranks of one running restore do what their workers would do next."""
        with database.reading() as session:
            going = select(Restore).where(Restore.state.in_(("running", "publishing", "retracting")))
            restore = session.scalars(going.order_by(func.random()).limit(1)).one_or_none()
            if restore is None:
                return
            told = restore.decision, restore.epoch
            ranks = [(one.id, one.rank, one.state, one.device.generation) for one in restore.attempts]
        for attempt_id, rank, state, generation in ranks:
            with suppress(AppError):
                self._serve(database, attempt_id, rank=rank, state=state, generation=generation, told=told)

    def _serve(
        self,
        database: Database,
        attempt_id: UUID,
        *,
        rank: int,
        state: str,
        generation: int,
        told: tuple[str | None, int],
    ) -> None:
        if state == "waiting":
            self._claim(database, attempt_id, asked=ClaimAsked(generation=generation))
        speaker = Speaker(attempt_id=attempt_id, principal=WORKER, token=self.tokens.get(attempt_id, 1))
        with database.transaction() as session:
            if told[0] == "publish":
                attempts.acknowledge_publish(session, speaker, epoch=told[1], messages=self.messages)
            elif told[0] == "retract":
                attempts.record_retracted(session, speaker, messages=self.messages)
            else:
                attempts.record_ready(session, speaker, raw=self.reports[rank], messages=self.messages)

    def say_heartbeat(self, database: Database, chance: random.Random) -> None:
        if chosen := self._chosen(database, chance):
            with database.transaction() as session:
                attempts.heartbeat(session, chosen[1], progress=None, lease_s=self.settings.lease_s)

    def say_ready(self, database: Database, chance: random.Random) -> None:
        if chosen := self._chosen(database, chance):
            with database.transaction() as session:
                attempts.record_ready(session, chosen[1], raw=self.reports[chosen[0]], messages=self.messages)

    def say_failure(self, database: Database, chance: random.Random) -> None:
        if chosen := self._chosen(database, chance):
            raw = chance.choice(self.failures[chosen[0]])
            with database.transaction() as session:
                attempts.record_failure(session, chosen[1], raw=raw, messages=self.messages)

    def say_publish(self, database: Database, chance: random.Random) -> None:
        if chosen := self._chosen(database, chance):
            with database.transaction() as session:
                attempts.acknowledge_publish(
                    session, chosen[1], epoch=chance.choice([1, 1, 1, 2]), messages=self.messages
                )

    def say_retracted(self, database: Database, chance: random.Random) -> None:
        if chosen := self._chosen(database, chance):
            with database.transaction() as session:
                attempts.record_retracted(session, chosen[1], messages=self.messages)

    def say_released(self, database: Database, chance: random.Random) -> None:
        if chosen := self._chosen(database, chance):
            with database.transaction() as session:
                held = attempts.held_rank(session, chosen[1])
                residency.report_gone(session, held, messages=self.messages, settings=self.settings)

    def say_cancel(self, database: Database, chance: random.Random) -> None:
        if self.restores and chance.random() < 0.15:
            with database.transaction() as session:
                restore = cancellation.locked_restore(session, restore_id=chance.choice(self.restores))
                cancellation.request_cancel(
                    session, restore=restore, by="ada", reason=None, messages=self.messages
                )

    def say_retry(self, database: Database, chance: random.Random) -> None:
        if self.restores:
            with database.transaction() as session:
                made = retry.retry_restore(
                    session, restore_id=chance.choice(self.restores), by="ada", settings=self.settings
                )
                restore_id = made.restore.id
            self.restores.append(restore_id)

    def say_discard(self, database: Database, chance: random.Random) -> None:
        if self.restores and chance.random() < 0.15:
            with database.transaction() as session:
                residency.discard(
                    session,
                    restore_id=chance.choice(self.restores),
                    by="ada",
                    messages=self.messages,
                    settings=self.settings,
                )

    def say_read_back(self, database: Database, chance: random.Random) -> None:
        with database.reading() as session:
            resident = list(session.scalars(select(Restore.id).where(Restore.state == "resident")))
        if resident:
            with database.transaction() as session:
                made = readback.request_readback(
                    session,
                    restore_id=chance.choice(resident),
                    by="ada",
                    messages=self.messages,
                    settings=self.settings,
                )
                readback_id = made.id
            self.readbacks.append(readback_id)

    def say_layers(self, database: Database, chance: random.Random) -> None:
        if (chosen := self._chosen(database, chance)) and self.readbacks:
            layers: list[dict[str, Any]] = [{"name": "k0", "pages": 1, "bytes": 1, "sha256": "a" * 64}]
            with database.transaction() as session:
                attempt = attempts.locked_attempt(session, chosen[1])
                residency.check_resident(attempt.restore)
                readback.record_rank(
                    session, readback_id=chance.choice(self.readbacks), attempt=attempt, layers=layers
                )

    def say_worker(self, database: Database, chance: random.Random) -> None:
        if chance.random() < 0.2:
            self.start_worker(database, device=chance.choice(DEVICES))

    def say_register(self, database: Database, chance: random.Random) -> None:
        pools = [POOL_BYTES, POOL_BYTES + chance.randrange(3)]
        statements = [
            DeviceStatement(name=name, kind="host", pool_bytes=chance.choice(pools)) for name in DEVICES
        ]
        with database.transaction() as session:
            nodes.register_node(session, name=NODE, devices=statements, by="ada/worker")

    def say_nothing(self, database: Database, chance: random.Random) -> None:
        """Time goes by: a lease runs out, a message is due, a readback is late."""
        column = chance.choice(["lease_expires_at", "next_send_at"])
        with suppress(DBAPIError), database.transaction() as session:
            attempt = self._attempt(session)
            if attempt is not None and chance.random() < 0.3:
                session.execute(
                    text(f"UPDATE rank_attempt SET {column} = {column} - interval '1 day' WHERE id = :id"),
                    {"id": attempt.id},
                )

    def start_worker(self, database: Database, *, device: str) -> None:
        with database.transaction() as session:
            nodes.start_worker(session, node_name=NODE, device_name=device, runtime=RUNTIME)


@pytest.fixture
def storm(
    client: TestClient,
    keys: dict[str, str],
    database: Database,
    messages: RecordedMessages,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Storm:
    """Gangs of three ranks over six devices, in another order each."""
    stored: SynthesizedSnapshot = synthesize_store(
        tmp_path / "store", ranks=3, bytes_per_rank=200_000, object_bytes=65_536
    )
    ring = Ring(client, keys=keys, stored=stored).join()
    made = Storm(ring, database=database, messages=messages, settings=settings)
    made.say_register(database, random.Random(0))
    for device in DEVICES:
        made.start_worker(database, device=device)

    def in_any_order(session: Session, **chosen: Any) -> tuple[list[Place], list[Seatable]]:
        places, devices = ask_plan(session, **chosen)
        random.shuffle(devices)
        return places, devices

    monkeypatch.setattr("app.restores.service.planning.ask_plan", in_any_order)
    return made


def bluster(storm: Storm, *, seed: int, unexpected: list[str], said: Counter[str]) -> None:
    """One thread of the storm; whatever is not a refusal or a kill is noted."""
    chance = random.Random(seed)
    database = Mortal(storm.database.engine, chance=chance)
    for _ in range(WORDS_EACH):
        name = chance.choice(list(storm.words))
        try:
            storm.words[name](database, chance)
            said[f"{name} done"] += 1
        except (AppError, KilledError) as error:
            said[f"{name} {type(error).__name__}"] += 1
        except PendingRollbackError:
            said[f"{name} killed"] += 1
        except DBAPIError as error:
            if isinstance(error.orig, psycopg.errors.AdminShutdown) or error.connection_invalidated:
                said[f"{name} killed"] += 1
            else:
                unexpected.append(f"{name}: {error}")
        except Exception as error:  # noqa: BLE001  whatever it is, the test names it
            unexpected.append(f"{name}: {error!r}")


def calm(storm: Storm) -> None:
    """Nobody orders any more; every worker is replaced, what waits is called off, what stays is discarded."""
    for _ in range(12):
        with storm.database.reading() as session:
            left = list(session.execute(select(Restore.id, Restore.state).where(Restore.state != "finished")))
        if not left:
            return
        for restore_id, state in left:
            with suppress(AppError), storm.database.transaction() as session:
                restore = cancellation.locked_restore(session, restore_id=restore_id)
                if state == "resident":
                    residency.discard(
                        session,
                        restore_id=restore_id,
                        by="ada",
                        messages=storm.messages,
                        settings=storm.settings,
                    )
                else:
                    cancellation.request_cancel(
                        session, restore=restore, by="ada", reason=None, messages=storm.messages
                    )
        for device in DEVICES:
            storm.start_worker(storm.database, device=device)
        upkeep.run(storm.database, messages=storm.messages, settings=storm.settings)


@pytest.mark.timeout(120)
def test_after_a_storm_everything_has_ended_once_and_nothing_is_held(
    storm: Storm, database: Database
) -> None:
    seed = random.randrange(2**32)
    unexpected: list[str] = []
    said: Counter[str] = Counter()
    with ThreadPoolExecutor(THREADS) as pool:
        for number in range(THREADS):
            pool.submit(bluster, storm, seed=seed + number, unexpected=unexpected, said=said)
    assert (seed, unexpected) == (seed, [])
    calm(storm)
    with database.reading() as session:
        endings = check_all_ended(session)
        check_leaves(session, restores=endings.total())
    assert [str(one) for one in audit(database)] == []
    # The storm was one: restores came to every end, and transactions died.
    assert endings["restored"] > 0
    assert endings["incomplete"] > 0
    assert sum(count for what, count in said.items() if what.endswith(("killed", "KilledError"))) > THREADS
