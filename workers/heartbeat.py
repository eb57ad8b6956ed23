"""Renew a lease beside the work: hashing must not be able to lose a device."""

import logging
import threading
from types import TracebackType
from typing import Final, Self

from app.core.restore.execute import Progress
from workers.control_client import Claimed, ControlClient, ControlError, ControlUnreachableError

log = logging.getLogger(__name__)

# The first beat comes soon, so that a restore shows how far it is; later ones as seldom as the lease allows,
# because a decision is called out and need not be asked for.
SHORTEST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 5.0
PER_LEASE: Final = 10
PACED_PER_LEASE: Final = 5
# The control plane no longer knows the attempt, or has given it up. Anything else may pass.
_OVER: Final = frozenset({404, 409})


class Heartbeat:
    """A thread that says every so often that the rank is alive and how far it has come.

    It hears whether the restore still wants the rank; a refusal means that the lease is lost, and
    then the work is for nothing too.
    """

    def __init__(self, client: ControlClient, *, claimed: Claimed) -> None:
        self._client = client
        self._claimed = claimed
        longest_s = min(max(claimed.lease_s / PER_LEASE, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)
        # The ranks of a large restore would drown the control plane in first beats.
        paced_s = min(claimed.pace_s, claimed.lease_s / PACED_PER_LEASE)
        self.longest_s = max(longest_s, paced_s)
        self.first_s = self.longest_s if claimed.pace_s else SHORTEST_PAUSE_S
        self._progress: dict[str, int] | None = None
        self._awaited = False
        self._called = threading.Event()
        self._wake = threading.Event()
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
        self._wake.set()
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

    def call(self) -> None:
        """Something is decided: whoever waits for it is woken, otherwise the next beat comes at once."""
        self._called.set()
        if not self._awaited:
            self._wake.set()

    def await_call(self, *, at_most_s: float) -> bool:
        """Return when something is decided (True) or after `at_most_s` seconds; the caller now asks."""
        self._awaited = True
        called = self._called.wait(at_most_s)
        self._called.clear()
        return called

    def _beat(self) -> None:
        pause_s = self.first_s
        while True:
            self._wake.wait(pause_s)
            self._wake.clear()
            if self._ended.is_set() or not self._say():
                return
            pause_s = min(pause_s * 2, self.longest_s)

    def _say(self) -> bool:
        """One beat; False once there is nothing left to say."""
        try:
            decision = self._client.heartbeat(self._claimed, progress=self._progress)
        except ControlUnreachableError as error:
            log.warning("attempt %s: heartbeat unanswered: %s", self._claimed.attempt_id, error)
            return True
        except ControlError as error:
            log.warning("attempt %s: heartbeat refused: %s", self._claimed.attempt_id, error)
            if error.status in _OVER:
                self._stop.set()
            return error.status not in _OVER
        if decision.decision == "retract":
            self._stop.set()
        return True
