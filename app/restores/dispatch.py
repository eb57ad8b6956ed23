"""Sending: one message per rank to the queue of its device. The database is what counts.

A message that is lost, doubled or late changes nothing but time: the claim decides, and what nobody claimed
is sent again. So a broker that is down costs a log line here, never a request.
"""

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol
from uuid import UUID

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from app.queue import RANK_DISCARD, RANK_READBACK, RANK_RESTORE

log = logging.getLogger(__name__)

# After a failed send the broker is left alone for so long: a hundred ranks must not wait a second each.
PAUSE_S: Final = 1.0


class RankMessages(Protocol):
    """What the services send to rank workers."""

    def restore(self, queue: str, *, attempt_id: UUID) -> None:
        """Wake the worker of `queue` to claim and run a rank attempt."""

    def readback(self, queue: str, *, attempt_id: UUID, readback_id: UUID) -> None:
        """Have the worker digest the pages of an attempt."""

    def discard(self, queue: str, *, attempt_id: UUID) -> None:
        """Have the worker give the pages of an attempt back."""


class CeleryRankMessages:
    """Rank messages over Celery."""

    def __init__(self, celery: Celery, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._celery = celery
        self._clock = clock
        self._not_before = 0.0

    def restore(self, queue: str, *, attempt_id: UUID) -> None:
        self._send(RANK_RESTORE, queue=queue, arguments={"attempt_id": str(attempt_id)})

    def readback(self, queue: str, *, attempt_id: UUID, readback_id: UUID) -> None:
        arguments = {"attempt_id": str(attempt_id), "readback_id": str(readback_id)}
        self._send(RANK_READBACK, queue=queue, arguments=arguments)

    def discard(self, queue: str, *, attempt_id: UUID) -> None:
        self._send(RANK_DISCARD, queue=queue, arguments={"attempt_id": str(attempt_id)})

    def _send(self, task: str, *, queue: str, arguments: dict[str, str]) -> None:
        if self._clock() < self._not_before:
            return
        try:
            self._celery.send_task(task, kwargs=arguments, queue=queue, ignore_result=True)
        except (OperationalError, RedisError, OSError) as error:
            self._not_before = self._clock() + PAUSE_S
            log.warning("broker: %s for %s was not sent, will be sent again: %s", task, queue, error)
