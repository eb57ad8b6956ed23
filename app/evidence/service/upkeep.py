"""Files that have lain long enough, and files nobody needs. Only names of our own exports are touched."""

import logging
from datetime import timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.config import Settings
from app.core.bundle.build import clear_leftovers
from app.db.session import Database, database_time
from app.evidence.repository import exports
from app.evidence.service.reading import bundle_path, folder_of
from app.evidence.service.request import end_kept
from app.ledger import service as ledger

log = logging.getLogger(__name__)

AT_A_TIME: Final = 20
_SUFFIX: Final = ".tar"


def expire(database: Database, *, settings: Settings) -> None:
    """Give up the files of bundles that were finished long enough ago."""
    with database.transaction() as session:
        until = database_time(session) - timedelta(days=settings.evidence_days)
        for export_id in exports.finished_before(session, until=until, limit=AT_A_TIME):
            export = exports.lock_export(session, export_id=export_id)
            if export is not None and export.state == "finished":
                end_kept(session, export=export, by=ledger.CONTROL_PLANE)


def sweep(database: Database, *, settings: Settings) -> list[Path]:
    """Remove what lies in the folder of exports that have no file any more; what was removed.

    A file whose name is no export's stays, whatever it is.
    """
    named = {export_id: path for path in _files(folder_of(settings)) if (export_id := _export_of(path))}
    with database.reading() as session:
        needless = _needless(session, list(named))
    removed = []
    for export_id in needless:
        path = bundle_path(settings, export_id=export_id)
        clear_leftovers(path)
        if path.is_file() and not path.is_symlink():
            path.unlink()
            removed.append(path)
            log.info("evidence export %s: its file was removed", export_id)
    return removed


def _needless(session: Session, export_ids: list[UUID]) -> list[UUID]:
    """Those that are over and keep no file."""
    found = exports.standing(session, export_ids=export_ids)
    return sorted(one for one, (state, _) in found.items() if state in {"failed", "expired"})


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _export_of(path: Path) -> UUID | None:
    """The export whose bundle, or half of one, has this name: ``<id>.tar`` or ``.<id>.tar.…``."""
    name, dot, _ = path.name.removeprefix(".").partition(_SUFFIX)
    try:
        found = UUID(name)
    except ValueError:
        return None
    return found if dot and str(found) == name else None
