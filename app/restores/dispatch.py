"""Sending: one message per rank to the queue of its device. The database is what counts.

A message that is lost, doubled or late changes nothing but time: the claim decides, and what nobody claimed
is sent again. So a broker that is down costs a log line here, never a request. `decided` goes to no queue: it
shortens the wait of whoever listens.
"""

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol
from uuid import UUID

import redis
from celery import Celery
from kombu.exceptions import OperationalError
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from app.queue import CONNECT_TIMEOUT_S, DECIDED_CHANNEL, RANK_DISCARD, RANK_READBACK, RANK_RESTORE

log = logging.getLogger(__name__)

# After a failed send the broker is left alone for so long: a hundred ranks must not wait a second each.
PAUSE_S: Final = 1.0


class RankMessages(Protocol):
    """What the services send to rank workers."""

    def restore(self, queue: str, *, attempt_id: UUID, pause_s: float = 0.0) -> None:
        """Wake the worker of `queue` to claim and run a rank attempt, in `pause_s` seconds."""

    def readback(self, queue: str, *, attempt_id: UUID, readback_id: UUID) -> None:
        """Have the worker digest the pages of an attempt."""

    def discard(self, queue: str, *, attempt_id: UUID, pause_s: float = 0.0) -> None:
        """Have the worker give the pages of an attempt back, and say so in `pause_s` seconds."""

    def decided(self, *, restore_id: UUID) -> None:
        """Call the ranks of a restore that wait for its decision; none has to hear it."""


class CeleryRankMessages:
    """Rank messages over Celery."""

    def __init__(self, celery: Celery, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._celery = celery
        self._clock = clock
        self._not_before = 0.0
        self._broker = redis.Redis.from_url(
            celery.conf.broker_url,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_timeout=CONNECT_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )

    def restore(self, queue: str, *, attempt_id: UUID, pause_s: float = 0.0) -> None:
        self._send(RANK_RESTORE, queue=queue, arguments=_of(attempt_id, pause_s=pause_s))

    def readback(self, queue: str, *, attempt_id: UUID, readback_id: UUID) -> None:
        arguments: dict[str, str | float] = {
            "attempt_id": str(attempt_id),
            "readback_id": str(readback_id),
        }
        self._send(RANK_READBACK, queue=queue, arguments=arguments)

    def discard(self, queue: str, *, attempt_id: UUID, pause_s: float = 0.0) -> None:
        self._send(RANK_DISCARD, queue=queue, arguments=_of(attempt_id, pause_s=pause_s))

    def decided(self, *, restore_id: UUID) -> None:
        self._try(
            lambda: self._broker.publish(DECIDED_CHANNEL, str(restore_id)), what=f"decided {restore_id}"
        )

    def _send(self, task: str, *, queue: str, arguments: dict[str, str | float]) -> None:
        self._try(
            lambda: self._celery.send_task(task, kwargs=arguments, queue=queue, ignore_result=True),
            what=f"{task} for {queue}",
        )

    def _try(self, send: Callable[[], object], *, what: str) -> None:
        if self._clock() < self._not_before:
            return
        try:
            send()
        except (OperationalError, RedisError, OSError) as error:
            self._not_before = self._clock() + PAUSE_S
            log.warning("broker: %s was not sent: %s", what, error)


def _of(attempt_id: UUID, *, pause_s: float) -> dict[str, str | float]:
    """A worker of the version before knows no pause, and gets none where there is none."""
    arguments: dict[str, str | float] = {"attempt_id": str(attempt_id)}
    return arguments | {"pause_s": pause_s} if pause_s else arguments
