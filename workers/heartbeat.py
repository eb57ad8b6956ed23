"""Renew a lease beside the work: hashing must not be able to lose a device."""

import logging
import threading
from types import TracebackType
from typing import Final, Self

from app.core.restore.execute import Progress
from workers.control_client import Claimed, ControlClient, ControlError, ControlUnreachableError

log = logging.getLogger(__name__)

SHORTEST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 5.0
PER_LEASE: Final = 30


class Heartbeat:
    """A thread that says every so often that the rank is alive and how far it has come.

    It hears whether the restore still wants the rank; a refusal means that the lease is lost, and
    then the work is for nothing too.
    """

    def __init__(self, client: ControlClient, *, claimed: Claimed) -> None:
        self._client = client
        self._claimed = claimed
        self._pause_s = min(max(claimed.lease_s / PER_LEASE, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)
        self._progress: dict[str, int] | None = None
        self._ended = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def note(self, progress: Progress) -> None:
        """Remember how far the restore has come, for the next beat."""
        self._progress = {
            "objects": progress.objects_done,
            "bytes": progress.bytes_done,
            "total_bytes": progress.bytes_total,
        }

    def told_to_stop(self) -> bool:
        """Whether the rank's work is no longer wanted."""
        return self._stop.is_set()

    def _beat(self) -> None:
        while not self._ended.wait(self._pause_s):
            try:
                decision = self._client.heartbeat(self._claimed, progress=self._progress)
            except ControlUnreachableError as error:
                log.warning("attempt %s: heartbeat unanswered: %s", self._claimed.attempt_id, error)
                continue
            except ControlError as error:
                log.warning("attempt %s: heartbeat refused: %s", self._claimed.attempt_id, error)
                self._stop.set()
                return
            if decision.decision == "retract":
                self._stop.set()
