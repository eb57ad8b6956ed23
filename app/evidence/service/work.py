"""Who builds what: an export is taken with a fencing token and a lease, and ended once.

Whoever falls silent loses it to the next; a stale token ends nothing. Two that build the same export write
the same bytes, so that even the file does not care who was first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.db.session import database_time
from app.evidence.repository import exports
from app.evidence.service.order import BundleOrder
from app.evidence.service.request import end_failed
from app.ledger import service as ledger
from app.models import EvidenceExport

# So many workers may lose an export; what ends every one of them would end the next too.
MOST_TRIES: Final = 5


class ExportLost(Exception):
    """Somebody else has the export now, or it was called off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """An export that somebody has taken to build."""

    export_id: UUID
    token: int
    order: BundleOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A bundle as it was written: digest and size of the file, digest of its manifest, what it holds."""

    bundle_sha256: str
    bundle_bytes: int
    manifest_sha256: str
    contents: Mapping[str, int]


def take_next(session: Session, *, lease_s: float) -> Taken | None:
    """Take the oldest export nobody builds, if there is one. One that was lost too often is given up."""
    now = database_time(session)
    export = exports.lock_next_due(session, now=now)
    if export is None:
        return None
    if export.try_count >= MOST_TRIES:
        problem = {
            "code": "worker-lost",
            "detail": f"{export.try_count} workers took it and fell silent; see the control worker's log",
        }
        end_failed(session, export=export, problem=problem, by=ledger.CONTROL_PLANE)
        return None
    export.state = "running"
    export.token = exports.next_token(session)
    export.try_count += 1
    export.started_at = now
    export.progress = None
    export.lease_expires_at = now + timedelta(seconds=lease_s)
    return Taken(export_id=export.id, token=export.token, order=BundleOrder.of(export))


def keep(session: Session, *, taken: Taken, progress: Mapping[str, int], lease_s: float) -> None:
    """Say that it is still being built, and how far it is.

    Raises:
        ExportLost: it is not this worker's any more.
    """
    export = _held(session, taken)
    export.lease_expires_at = database_time(session) + timedelta(seconds=lease_s)
    export.progress = dict(progress)


def finish(session: Session, *, taken: Taken, finished: Finished) -> None:
    """Write down what was built.

    Raises:
        ExportLost: it is not this worker's any more.
    """
    export = _held(session, taken)
    now = database_time(session)
    export.state = "finished"
    export.ended_at = now
    export.lease_expires_at = None
    export.bundle_sha256 = finished.bundle_sha256
    export.bundle_bytes = finished.bundle_bytes
    export.manifest_sha256 = finished.manifest_sha256
    export.contents = dict(finished.contents)
    ledger.record(
        session,
        kind="evidence-exported",
        by=ledger.CONTROL_PLANE,
        rows={"evidence_export.result": [export]},
        facts={"export": str(export.id), "bundle": finished.bundle_sha256},
    )


def fail(session: Session, *, taken: Taken, code: str, detail: str) -> None:
    """Write down why it cannot be built.

    Raises:
        ExportLost: it is not this worker's any more.
    """
    problem: dict[str, Any] = {"code": code, "detail": detail[:1000]}
    end_failed(session, export=_held(session, taken), problem=problem, by=ledger.CONTROL_PLANE)


def _held(session: Session, taken: Taken) -> EvidenceExport:
    export = exports.lock_export(session, export_id=taken.export_id)
    if export is None or export.state != "running" or export.token != taken.token:
        found = "none" if export is None else f"{export.state}, token {export.token}"
        raise ExportLost(f"evidence export {taken.export_id}: expected token {taken.token}, found {found}")
    return export
