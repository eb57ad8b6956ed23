"""Rows that look like a real installation, for the pages."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from argon2 import PasswordHasher
from sqlalchemy.orm import Session

from app.accounts import service as accounts
from app.core.digest import sha256
from app.core.store.manifest import FlatSnapshotManifest, parse_flat_manifest
from app.core.store.synth import SynthesizedSnapshot, synthesize_store
from app.db.session import database_time
from app.images import repository as images
from app.layouts import service as layouts
from app.ledger import service as ledger
from app.models import (
    Device,
    Image,
    ManifestLocation,
    Node,
    Restore,
    RootDocument,
    SnapshotRow,
    SourceIdentityRow,
)
from app.web.auth import PRESETS
from tests.app.dashboard_reports import BYTES, OBJECTS
from tests.app.dashboard_restores import (
    RANKS,
    add_cancelled,
    add_cancelling,
    add_corrupt,
    add_restored,
    add_retry,
    add_running,
    add_waiting,
)
from tests.app.evidence_rows import add_papers, own_papers

NAME, PASSWORD = "dana", "correct horse battery"
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
    node.devices = [make_device(node_name, number=number, now=now) for number in range(RANKS)]
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


def make_device(node_name: str, *, number: int, now: datetime) -> Device:
    """A host device that consumed a task four minutes ago."""
    return Device(
        name=f"host{number}",
        kind="host",
        queue=f"gpu.{node_name}.host{number}",
        pool_bytes=3 * 2**30,
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
    for image in (
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
    ):
        images.add_image(session, image=image)


def add_everything(session: Session, *, folder: Path) -> dict[str, UUID]:
    """All of it; returns the restores by what they are."""
    add_people(session)
    add_images(session)
    add_papers(session, own_papers())
    return fill(session, folder=folder)


def fill(session: Session, *, folder: Path) -> dict[str, UUID]:
    """A restore in every state on node-a, and node-b which is away."""
    on = add_installation(session, folder=folder)
    found = {"corrupt": add_corrupt(session, on=on), "restored": add_restored(session, on=on)}
    found["running"] = add_running(session, on=on)
    found["waiting"] = add_waiting(session, on=on)
    away = Node(name="node-b", last_seen_at=on.now - timedelta(hours=5), scan_problems=[_scan_problem()])
    away.devices = [make_device("node-b", number=0, now=on.now - timedelta(hours=6))]
    session.add(away)
    found |= {"cancelled": add_cancelled(session, on=on), "cancelling": add_cancelling(session, on=on)}
    found["retried"] = add_retry(session, on=on, of=found["corrupt"])
    _record(session, restores=[found[name] for name in ("corrupt", "cancelled", "restored")])
    return found


def _record(session: Session, *, restores: list[UUID]) -> None:
    """The results in the ledger, as the services write them."""
    for restore_id in restores:
        outcome = session.get_one(Restore, restore_id).outcome
        facts: dict[str, Any] = {"restore": str(restore_id), "outcome": outcome}
        covered: dict[str, list[ledger.RowKey]] = {
            "restore.result": [restore_id],
            "rank_attempt.result": [ledger.all_of(restore_id)],
        }
        ledger.record(session, kind="restore-ended", by=ledger.CONTROL_PLANE, rows=covered, facts=facts)


def _scan_problem() -> dict[str, str]:
    return {"path": "/srv/sparkcache/old/manifests/zz", "detail": "root document: expected JSON, found 'P'"}
