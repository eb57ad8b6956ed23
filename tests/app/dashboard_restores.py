"""Restores in every state a page shows, with the reports, events and times they would have."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy.orm import Session

from app.core.canonical_json import JsonObject, encode_canonical
from app.core.digest import sha256
from app.core.restore.device import LayerDigest
from app.core.restore.report import RankReport
from app.models import RankAttempt, RankReadback, RankReportRow, Readback, Restore, RestoreEvent
from tests.app.dashboard_reports import BYTES, make_corrupt_report, make_layers, make_report

if TYPE_CHECKING:
    from tests.app.dashboard_rows import Installation

RANKS = 4


def add_restore(session: Session, *, on: Installation, age: timedelta, **values: Any) -> Restore:
    """A restore with one waiting attempt per rank."""
    first = on.manifests[0]
    restore = Restore(
        created_at=on.now - age,
        created_by="dana",
        context_digest=str(first.context_digest),
        rank_zero_storage_key=str(first.identity.rank_zero_storage_key),
        layout_sha256=str(on.snapshot.layout.sha256),
        rank_count=RANKS,
        span_tokens=131_072,
        resident_s=600,
        **values,
    )
    restore.attempts = [
        RankAttempt(
            rank=rank,
            number=1,
            device_id=on.node.devices[rank].id,
            root_document_sha256=str(manifest.sha256),
            root_path=f"/srv/sparkcache/glm/rank{rank}",
            pages_bytes=BYTES - 312,
        )
        for rank, manifest in enumerate(on.manifests)
    ]
    session.add(restore)
    session.flush()
    _event(session, restore=restore, after_ms=0, kind="requested", detail="requested by dana")
    return restore


def _event(
    session: Session, *, restore: Restore, after_ms: float, kind: str, detail: str, rank: int | None = None
) -> None:
    at = restore.created_at + timedelta(milliseconds=after_ms)
    session.add(RestoreEvent(restore_id=restore.id, at=at, kind=kind, rank=rank, detail=detail))


def admit(session: Session, *, restore: Restore) -> datetime:
    """Every rank claimed, each a little later than the one before."""
    admitted = restore.created_at + timedelta(milliseconds=64)
    restore.admitted_at = admitted
    _event(session, restore=restore, after_ms=64, kind="admitted", detail="holds node-a/host0 … host3")
    for attempt in restore.attempts:
        attempt.claimed_at = admitted + timedelta(milliseconds=21 + 9 * attempt.rank)
        attempt.token, attempt.device_generation = 100 + attempt.rank, 3
        attempt.runtime = attempt.device.runtime
        attempt.state = "running"
        detail = f"by node-a/host{attempt.rank}"
        _event(session, restore=restore, after_ms=85, kind="claimed", detail=detail, rank=attempt.rank)
    return admitted


def store_report(session: Session, *, attempt: RankAttempt, report: RankReport) -> datetime:
    """Keep a report as its worker sends it; returns when the service ended on the database's clock."""
    start_ns, trip_ns = 2_400_000 + 150_000 * attempt.rank, 700_000 + 90_000 * attempt.rank
    document: JsonObject = {
        "report": report.to_document(),
        "service_start_ns": start_ns,
        "claim_round_trip_ns": trip_ns,
        "pool_commit_ns": 1_100_000,
    }
    raw = encode_canonical(document)
    session.add(
        RankReportRow(
            attempt_id=attempt.id,
            document=raw,
            sha256=sha256(raw),
            service_start_ns=start_ns,
            claim_round_trip_ns=trip_ns,
            pool_commit_ns=1_100_000,
        )
    )
    assert attempt.claimed_at is not None
    return attempt.claimed_at + timedelta(microseconds=(start_ns + report.service_ns) // 1000)


def add_restored(
    session: Session, *, on: Installation, age: timedelta = timedelta(minutes=3), readback: bool = True
) -> UUID:
    """All four ranks restored and resident."""
    restore = add_restore(session, on=on, age=age)
    admit(session, restore=restore)
    for attempt in restore.attempts:
        report = make_report(rank=attempt.rank, layout=on.snapshot.layout)
        ended = store_report(session, attempt=attempt, report=report)
        attempt.ready_at = ended + timedelta(milliseconds=6)
    _publish(session, restore=restore)
    if readback:
        add_readback(session, on=on, restore=restore)
    session.flush()
    return restore.id


def _publish(session: Session, *, restore: Restore) -> None:
    decided = max(attempt.ready_at for attempt in restore.attempts if attempt.ready_at)
    restore.state, restore.outcome = "resident", "restored"
    restore.decision, restore.epoch, restore.decided_at = "publish", 1, decided
    for attempt in restore.attempts:
        assert attempt.ready_at is not None
        attempt.acknowledged_epoch = 1
        attempt.acknowledged_at = decided + timedelta(milliseconds=31 + 4 * attempt.rank)
        attempt.state, attempt.outcome = "reported", "restored"
        attempt.ended_at = decided + timedelta(milliseconds=46)
        after = (attempt.ready_at - restore.created_at).total_seconds() * 1000
        detail = f"{BYTES} bytes"
        _event(session, restore=restore, after_ms=after, kind="ready", detail=detail, rank=attempt.rank)
    after = (decided - restore.created_at).total_seconds() * 1000
    _event(session, restore=restore, after_ms=after, kind="decided", detail="publish, epoch 1")
    done = "4 acknowledgements of epoch 1"
    _event(session, restore=restore, after_ms=after + 46, kind="restored", detail=done)
    restore.ended_at = decided + timedelta(milliseconds=46)
    restore.resident_until = restore.ended_at + timedelta(seconds=600)


def add_readback(session: Session, *, on: Installation, restore: Restore) -> None:
    """A readback every rank has answered."""
    now = on.now
    readback = Readback(
        restore_id=restore.id, created_by="dana", created_at=now - timedelta(seconds=50), ended_at=now
    )
    readback.ranks = [
        RankReadback(rank=rank, layers=[_wire(layer) for layer in make_layers(on.snapshot.layout, rank=rank)])
        for rank in range(RANKS)
    ]
    session.add(readback)


def _wire(layer: LayerDigest) -> dict[str, Any]:
    return {"name": layer.name, "pages": layer.pages, "bytes": layer.bytes, "sha256": str(layer.sha256)}


def add_corrupt(session: Session, *, on: Installation, age: timedelta = timedelta(minutes=41)) -> UUID:
    """Rank 2 met a flipped byte; the others were ready or stopped on the way."""
    restore = add_restore(session, on=on, age=age)
    admit(session, restore=restore)
    subject = f"object {sha256(b'object')}"
    problem: dict[str, Any] = {}
    for attempt in restore.attempts:
        attempt.state, attempt.pages_released_at = "cancelled", on.now
        if attempt.rank == 2:
            report = make_corrupt_report(rank=2, subject=subject)
            ended = store_report(session, attempt=attempt, report=report)
            assert report.problem is not None
            told = report.problem
            problem = {name: str(getattr(told, name)) for name in ("code", "subject", "stage", "expected")}
            problem |= {"found": told.found, "detail": told.detail}
            attempt.state, attempt.outcome, attempt.problem = "reported", "corrupt", problem
            attempt.ended_at = restore.decided_at = ended + timedelta(milliseconds=4)
    assert restore.decided_at is not None
    for attempt in restore.attempts:
        attempt.ended_at = attempt.ended_at or restore.decided_at + timedelta(milliseconds=60 + attempt.rank)
    restore.decision, restore.epoch, restore.outcome, restore.state = "retract", 1, "corrupt", "finished"
    restore.problem = {"rank": 2, **problem}
    restore.ended_at = restore.released_at = restore.decided_at + timedelta(milliseconds=70)
    for kind, rank in (("reported", 2), ("decided", None), ("corrupt", None)):
        detail = "retract, epoch 1" if kind == "decided" else problem["detail"]
        _event(session, restore=restore, after_ms=700, kind=kind, detail=detail, rank=rank)
    session.flush()
    return restore.id


def add_running(session: Session, *, on: Installation, age: timedelta = timedelta(seconds=1)) -> UUID:
    """One rank ready, two at work, one not claimed yet."""
    restore = add_restore(session, on=on, age=age, state="running")
    admit(session, restore=restore)
    for attempt in restore.attempts:
        attempt.device.held_by = attempt.id
        attempt.progress = {"objects": 5, "bytes": 312_718_640, "total_bytes": BYTES}
    last = restore.attempts[3]
    last.state, last.claimed_at, last.progress = "waiting", None, None
    first = restore.attempts[0]
    store_report(session, attempt=first, report=make_report(rank=0))
    first.state = "ready"
    assert first.claimed_at is not None
    first.ready_at = first.claimed_at + timedelta(milliseconds=880)
    session.flush()
    return restore.id


def add_cancelled(session: Session, *, on: Installation, age: timedelta = timedelta(minutes=185)) -> UUID:
    """Called off while its ranks worked: every rank was told and stopped."""
    restore = add_restore(session, on=on, age=age)
    admit(session, restore=restore)
    asked = restore.created_at + timedelta(milliseconds=420)
    ended = _call_off(session, restore=restore, asked=asked)
    for attempt in restore.attempts:
        attempt.retract_heard_at = asked + timedelta(milliseconds=9 + attempt.rank)
        attempt.state, attempt.outcome = "cancelled", "cancelled"
        attempt.ended_at = attempt.pages_released_at = ended
    restore.state, restore.outcome = "finished", "incomplete"
    restore.ended_at = restore.released_at = ended
    restore.problem = {"code": "cancelled", "detail": "cancelled by dana: wrong snapshot"}
    _event(session, restore=restore, after_ms=480, kind="incomplete", detail=restore.problem["detail"])
    session.flush()
    return restore.id


def add_cancelling(session: Session, *, on: Installation) -> UUID:
    """Just called off: ranks 0 and 1 were told, rank 2 has heard nothing, rank 3 was never claimed."""
    restore = add_restore(session, on=on, age=timedelta(seconds=2))
    admit(session, restore=restore)
    asked = restore.created_at + timedelta(milliseconds=900)
    _call_off(session, restore=restore, asked=asked)
    restore.state = "retracting"
    for attempt in restore.attempts[:2]:
        attempt.retract_heard_at = asked + timedelta(milliseconds=11)
    last = restore.attempts[3]
    last.state, last.claimed_at, last.ended_at, last.pages_released_at = "cancelled", None, asked, asked
    session.flush()
    return restore.id


def _call_off(session: Session, *, restore: Restore, asked: datetime) -> datetime:
    """Write the wish down; returns when a restore so called off would have ended."""
    restore.cancel_requested_at, restore.cancel_requested_by = asked, "dana"
    restore.cancel_reason = "wrong snapshot"
    restore.decision, restore.epoch, restore.decided_at = "retract", 1, asked
    after = (asked - restore.created_at).total_seconds() * 1000
    detail = "by dana: wrong snapshot"
    _event(session, restore=restore, after_ms=after, kind="cancel requested", detail=detail)
    _event(session, restore=restore, after_ms=after, kind="decided", detail="retract, epoch 1")
    return asked + timedelta(milliseconds=60)


def add_retry(session: Session, *, on: Installation, of: UUID) -> UUID:
    """A second try, waiting for its devices."""
    restore = add_restore(session, on=on, age=timedelta(seconds=40), retry_of_id=of, try_number=2)
    for attempt in restore.attempts:
        attempt.number = 2
    session.flush()
    return restore.id


def add_waiting(session: Session, *, on: Installation) -> UUID:
    """Ordered, its devices busy."""
    return add_restore(session, on=on, age=timedelta(seconds=20)).id
