"""Exports read: one, a list, where the file lies."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from sqlalchemy.orm import Session

from app.config import Settings
from app.errors import Conflict, Gone, NotFound
from app.evidence.repository import exports
from app.models import EvidenceExport
from app.web.paging import Cursor, Total


def get_export(session: Session, *, export_id: UUID, lock: bool = False) -> EvidenceExport:
    """One export; its row is held if `lock`.

    Raises:
        NotFound: none has this id.
    """
    find = exports.lock_export if lock else exports.get_export
    export = find(session, export_id=export_id)
    if export is None:
        raise NotFound(f"evidence export {export_id}: not found")
    return export


def list_exports(session: Session, *, after: Cursor | None, limit: int) -> Sequence[EvidenceExport]:
    """Exports, newest first."""
    return exports.list_exports(session, after=after, limit=limit)


def count_exports(session: Session) -> Total:
    """How many there are, counted up to a bound."""
    return exports.count_exports(session)


def folder_of(settings: Settings) -> Path:
    """Where bundles lie."""
    return settings.evidence_folder or settings.home / "evidence"


def bundle_path(settings: Settings, *, export_id: UUID) -> Path:
    """Where the bundle of an export lies once it is there."""
    return folder_of(settings) / f"{export_id}.tar"


def kept_until(export: EvidenceExport, *, settings: Settings) -> datetime | None:
    """When the file of a finished export is given up."""
    if export.state != "finished" or export.ended_at is None:
        return None
    return export.ended_at + timedelta(days=settings.evidence_days)


def bundle_file(export: EvidenceExport, *, settings: Settings) -> Path:
    """The file of a finished export.

    Raises:
        Conflict: there is none yet, or there will be none.
        Gone: it was given up, or is not what was written.
    """
    if export.state == "expired":
        raise Gone(
            f"evidence export {export.id}: its file is not kept any more; the same request makes it again",
            code="evidence-gone",
        )
    if export.state != "finished":
        raise Conflict(
            f"evidence export {export.id}: expected a finished one, found {export.state}",
            code="evidence-not-ready",
        )
    path = bundle_path(settings, export_id=export.id)
    try:
        found = path.stat().st_size
    except OSError as error:
        raise Gone(f"evidence export {export.id}: its file: {error.strerror}", code="evidence-gone") from None
    if found != export.bundle_bytes:
        raise Gone(
            f"evidence export {export.id}: expected a file of {export.bundle_bytes} bytes, found {found}",
            code="evidence-gone",
        )
    return path
