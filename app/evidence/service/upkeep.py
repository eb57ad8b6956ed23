"""Files that have lain long enough, and files nobody needs. Only names of our own exports are touched."""

import logging
import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

from app.config import Settings
from app.db.session import Database, database_time
from app.evidence.repository import exports
from app.evidence.service.reading import folder_of
from app.evidence.service.request import end_kept
from app.ledger import service as ledger

log = logging.getLogger(__name__)

AT_A_TIME: Final = 20
# A bundle, one that a worker is writing, and the folder in which it does.
_NAME: Final = re.compile(
    r"\.?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.([0-9]+))?\.tar(?:\.unfinished)?"
)


def expire(database: Database, *, settings: Settings) -> None:
    """Give up the files of bundles that were finished long enough ago."""
    with database.transaction() as session:
        until = database_time(session) - timedelta(days=settings.evidence_days)
        for export_id in exports.finished_before(session, until=until, limit=AT_A_TIME):
            export = exports.lock_export(session, export_id=export_id)
            if export is not None and export.state == "finished":
                end_kept(session, export=export, by=ledger.CONTROL_PLANE)


def sweep(database: Database, *, settings: Settings) -> list[str]:
    """Remove what lies in the folder of exports that keep no file, and what workers that died left behind.

    Whatever has a name we do not give, or that of an export we do not know, stays.

    Returns: the names that are gone.
    """
    found = {path: named for path in _files(folder_of(settings)) if (named := _NAME.fullmatch(path.name))}
    with database.reading() as session:
        standing = exports.standing(session, export_ids=[UUID(named[1]) for named in found.values()])
    removed = []
    for path, named in found.items():
        export_id, token = UUID(named[1]), named[2]
        if export_id in standing and not _is_wanted(*standing[export_id], token=token):
            _remove(path)
            removed.append(path.name)
            log.info("evidence export %s: %s was removed", export_id, path.name)
    return removed


def _is_wanted(state: str, current: int | None, *, token: str | None) -> bool:
    """A bundle of an export that has one or is just getting it; what the current worker writes."""
    if token is None:
        return state in {"running", "finished"}
    return state == "running" and int(token) == current


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
