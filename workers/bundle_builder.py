"""Build the bundles that wait, one at a time, on a thread beside the timetable.

The timetable renews the lease and hears that an export was called off; the thread only builds. If this
process dies, the lease runs out and whoever keeps the timetable next takes the export again.
"""

import errno
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from app.config import Settings
from app.core.bundle.build import Built, rename_for_good
from app.core.errors import CoreError
from app.core.ledger.checkpoint import NoteSigner
from app.db.session import Database
from app.errors import AppError
from app.evidence.service import upkeep, work
from app.evidence.service.bundle import write_bundle
from app.evidence.service.reading import bundle_path
from app.evidence.service.work import ExportLost, Finished, Taken

log = logging.getLogger(__name__)

UPKEEP_S: Final = 60.0
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class BundleBuilder:
    """What builds here, if anything does.

    Args:
        signer: the ledger's key; without one every export fails with that reason.
    """

    def __init__(
        self,
        database: Database,
        *,
        settings: Settings,
        signer: NoteSigner | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._settings = settings
        self._signer = signer
        self._clock = clock
        self._upkeep_at = 0.0
        self._thread: threading.Thread | None = None
        self._taken: Taken | None = None
        self._progress: dict[str, int] = {}
        self._is_lost = threading.Event()

    def tend(self) -> None:
        """One tick: renew the lease of what is being built, or take the next; now and then clear away."""
        if self._thread is not None and self._thread.is_alive():
            self._renew()
        else:
            self._take()
        if self._clock() >= self._upkeep_at:
            self._upkeep_at = self._clock() + UPKEEP_S
            upkeep.expire(self._database, settings=self._settings)
            upkeep.sweep(self._database, settings=self._settings)

    def wait(self, timeout_s: float | None = None) -> None:
        """Return once nothing is being built."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _take(self) -> None:
        with self._database.transaction() as session:
            self._taken = work.take_next(session, lease_s=self._settings.lease_s)
        if self._taken is None:
            return
        self._progress = {}
        self._is_lost.clear()
        self._thread = threading.Thread(target=self._run, args=(self._taken,), name="bundle", daemon=True)
        self._thread.start()

    def _renew(self) -> None:
        if self._taken is None or self._is_lost.is_set():
            return
        try:
            with self._database.transaction() as session:
                work.keep(session, taken=self._taken, progress=self._progress, lease_s=self._settings.lease_s)
        except ExportLost:
            self._is_lost.set()

    def _run(self, taken: Taken) -> None:
        try:
            with suppress(ExportLost):
                self._build(taken)
        except SQLAlchemyError:
            log.exception("evidence export %s: left until its lease has run out", taken.export_id)

    def _build(self, taken: Taken) -> None:
        try:
            built = self._write(taken)
        except OSError as error:
            self._fail(taken, code="disk-full" if error.errno in _FULL else "write-failed", detail=str(error))
        except (CoreError, AppError) as error:
            self._fail(taken, code=getattr(error, "code", "ledger-inconsistent"), detail=str(error))
        else:
            with self._database.transaction() as session:
                work.finish(session, taken=taken, finished=_finished(built))
            log.info("evidence export %s: %s bytes", taken.export_id, built.byte_count)

    def _write(self, taken: Taken) -> Built:
        if self._signer is None:
            raise AppError(
                "evidence: expected a key to sign with (SPARKGATE_LEDGER_KEY_FILE) in the control worker, "
                "found none",
                code="ledger-key-missing",
            )
        target = bundle_path(self._settings, export_id=taken.export_id)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # What a worker that died left of this export may be what fills the disk.
        upkeep.sweep(self._database, settings=self._settings)
        # Under a name of this try: one that fell silent and wakes up again is in nobody's way.
        drafted = target.with_name(f"{taken.export_id}.{taken.token}.tar")
        try:
            with self._database.reading() as session:
                built = write_bundle(
                    session, order=taken.order, target=drafted, signer=self._signer, progress=self._note
                )
            rename_for_good(drafted, target)
        finally:
            drafted.unlink(missing_ok=True)
        return built

    def _note(self, what: str, count: int) -> None:
        if self._is_lost.is_set():
            raise ExportLost
        self._progress[what] = count

    def _fail(self, taken: Taken, *, code: str, detail: str) -> None:
        log.warning("evidence export %s: %s: %s", taken.export_id, code, detail)
        with self._database.transaction() as session:
            work.fail(session, taken=taken, code=code, detail=detail)


def _finished(built: Built) -> Finished:
    return Finished(
        bundle_sha256=str(built.sha256),
        bundle_bytes=built.byte_count,
        manifest_sha256=str(built.manifest_sha256),
        contents=built.counts,
    )
