"""Rows that look like a real installation, for the pages: four ranks restored, corrupt, running, waiting."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from argon2 import PasswordHasher
from sqlalchemy.orm import Session

from app.accounts import service as accounts
from app.core.canonical_json import encode_canonical
from app.core.digest import sha256
from app.core.restore.device import LayerDigest
from app.core.restore.report import RankReport
from app.core.store.manifest import FlatSnapshotManifest, parse_flat_manifest
from app.core.store.synth import SynthesizedSnapshot, synthesize_store
from app.db.session import database_time
from app.layouts import service as layouts
from app.models import (
    Device,
    Image,
    ManifestLocation,
    Node,
    RankAttempt,
    RankReadback,
    RankReportRow,
    Readback,
    Restore,
    RestoreEvent,
    RootDocument,
    SnapshotRow,
    SourceIdentityRow,
)
from app.web.auth import PRESETS
from tests.app.dashboard_reports import BYTES, OBJECTS, make_corrupt_report, make_layers, make_report

NAME, PASSWORD = "dana", "correct horse battery"
RANKS = 4
HOSTILE = "<script>alert('x')</script><b title=\"y\">"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The rows other rows refer to."""

    node: Node
    snapshot: SynthesizedSnapshot
    manifests: tuple[FlatSnapshotManifest, ...]
    now: datetime


@cache
def _password_hash() -> str:
    """As weak as it may be: these tests are not about its strength."""
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)


def add_people(session: Session) -> None:
    """dana may do everything, vera only looks."""
    for name, preset in ((NAME, "admin"), ("vera", "viewer")):
        account = accounts.create_account(session, name=name, password=None, scopes=PRESETS[preset])
        account.password_hash = _password_hash()


def add_installation(session: Session, *, folder: Path, node_name: str = "node-a") -> Installation:
    """One node with four host devices and a complete snapshot, its layout registered."""
    now = database_time(session)
    snapshot = synthesize_store(folder, ranks=RANKS, bytes_per_rank=200_000, object_bytes=16_384)
    layouts.register_layout(session, raw=snapshot.layout.canonical, by="dana")
    node = Node(name=node_name, last_seen_at=now, scanned_at=now, scan_problems=[])
    node.devices = [_device(node_name, number=number, now=now) for number in range(RANKS)]
    session.add(node)
    session.flush()
    manifests = []
    for root, published in zip(snapshot.roots, snapshot.published, strict=True):
        raw = (root / published.name.path).read_bytes()
        manifest = parse_flat_manifest(raw, identity=None, context_digest=published.name.context_digest)
        document, location = _stored(manifest, raw=raw, node=node, now=now)
        session.add(document)
        if document.rank == 0:
            session.add(_snapshot_row(document))
        session.flush()
        session.add(location)
        manifests.append(manifest)
    session.flush()
    return Installation(node=node, snapshot=snapshot, manifests=tuple(manifests), now=now)


def _device(node_name: str, *, number: int, now: datetime) -> Device:
    return Device(
        name=f"host{number}",
        kind="host",
        queue=f"gpu.{node_name}.host{number}",
        pool_bytes=2 * 2**30,
        generation=3,
        runtime={
            "engine": "sparkgate host engine",
            "engine_sha256": sha256(b"engine"),
            "source_tree_sha256": sha256(b"tree"),
            "python": "3.11.2",
            "numpy": "2.4.6",
            "pid": 4711,
        },
        worker_started_at=now - timedelta(hours=2),
        last_task_at=now - timedelta(minutes=4),
    )


def _snapshot_row(document: RootDocument) -> SnapshotRow:
    return SnapshotRow(
        context_digest=document.context_digest, rank_zero_storage_key=document.rank_zero_storage_key
    )


def _stored(
    manifest: FlatSnapshotManifest, *, raw: bytes, node: Node, now: datetime
) -> tuple[RootDocument, ManifestLocation]:
    """A root document as its node reports it, with the sizes of a large snapshot."""
    rank = manifest.identity.rank
    document = RootDocument(
        kind="page_snapshot",
        stream_sha256="e" * 64,
        sha256=str(manifest.sha256),
        document=raw,
        storage_key=str(manifest.identity.storage_key),
        rank_zero_storage_key=str(manifest.identity.rank_zero_storage_key),
        context_digest=str(manifest.context_digest),
        rank=rank,
        rank_count=RANKS,
        span_tokens=131_072,
        encoded_bytes=BYTES,
        object_count=OBJECTS,
    )
    location = ManifestLocation(
        node_id=node.id,
        root_path=f"/srv/sparkcache/glm/rank{rank}",
        storage_key=document.storage_key,
        context_digest=document.context_digest,
        root_document_sha256=document.sha256,
        last_seen_at=now,
    )
    return document, location


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
    document = {
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


def add_waiting(session: Session, *, on: Installation) -> UUID:
    """Ordered, its devices busy."""
    return add_restore(session, on=on, age=timedelta(seconds=20)).id


def add_images(session: Session) -> None:
    """One image registered here, one retold from a record."""
    source = SourceIdentityRow(
        repository="github.com/FujitsuPolycom/sparkcache",
        commit="eabe7fd" + "0" * 33,
        tree="737ed139" + "1" * 32,
        source_sha256=str(sha256(b"source")),
        created_by="dana",
    )
    session.add(source)
    session.flush()
    record = (
        "Four-reader image, semantic gate rejected: structural and placement checks passed, the model's "
        "answer differed from the control.\n"
        "sparkcache/evidence/…/flat-v2-four-reader-semantic-rejection-eabe7fd.json"
    )
    session.add_all(
        [
            Image(
                title="four readers with event fence",
                config_id=str(sha256(b"config")),
                index_digest=str(sha256(b"index")),
                origin="imported-record",
                record=record,
                source_id=source.id,
                created_by="demo",
            ),
            Image(
                title="candidate 7, single reader",
                manifest_digest=str(sha256(b"manifest 7")),
                origin="registered",
                created_by="dana",
            ),
        ]
    )


def add_everything(session: Session, *, folder: Path) -> dict[str, UUID]:
    """All of it; returns the restores by what they are."""
    add_people(session)
    add_images(session)
    return fill(session, folder=folder)


def fill(session: Session, *, folder: Path) -> dict[str, UUID]:
    """Four restores on node-a, and node-b which is away."""
    on = add_installation(session, folder=folder)
    found = {"corrupt": add_corrupt(session, on=on), "restored": add_restored(session, on=on)}
    found["running"] = add_running(session, on=on)
    found["waiting"] = add_waiting(session, on=on)
    away = Node(name="node-b", last_seen_at=on.now - timedelta(hours=5), scan_problems=[_scan_problem()])
    away.devices = [_device("node-b", number=0, now=on.now - timedelta(hours=6))]
    session.add(away)
    return found


def _scan_problem() -> dict[str, str]:
    return {"path": "/srv/sparkcache/old/manifests/zz", "detail": "root document: expected JSON, found 'P'"}
