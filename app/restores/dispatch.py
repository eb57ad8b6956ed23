"""Sending: one message per rank to the queue of its device. The database is what counts.

A message that is lost, doubled or late changes nothing but time: the claim decides, and what nobody claimed
is sent again. So a broker that is down costs a log line here, never a request. `decided` goes to no queue: it
shortens the wait of whoever listens.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol
from uuid import UUID

import redis
from celery import Celery
from kombu.exceptions import BatchPublishError, OperationalError
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from app.queue import CONNECT_TIMEOUT_S, DECIDED_CHANNEL, RANK_DISCARD, RANK_READBACK, RANK_RESTORE

log = logging.getLogger(__name__)

# After a failed send the broker is left alone for so long: a hundred ranks must not wait a second each.
PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCall:
    """One of several messages that are sent together: `word` is the message of that name."""

    word: Literal["restore", "discard"]
    queue: str
    attempt_id: UUID
    pause_s: float = 0.0


class RankMessages(Protocol):
    """What the services send to rank workers."""

    def send(self, calls: Sequence[RankCall]) -> None:
        """All ranks of a restore, or of several, called together."""

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

    def send(self, calls: Sequence[RankCall]) -> None:
        if len(calls) > 1 and self._try(lambda: self._send_batch(calls), what=f"{len(calls)} calls"):
            return
        for call in calls:
            arguments = _of(call.attempt_id, pause_s=call.pause_s)
            self._send(_TASKS[call.word], queue=call.queue, arguments=arguments)

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

    def _send_batch(self, calls: Sequence[RankCall]) -> None:
        """Every message as `send_task` makes it, on one connection and in one trip.

        Nothing is declared: a message for a queue of its own needs no exchange, and whoever consumes it
        declares it. That would be a trip for each queue.
        """
        with self._celery.producer_or_acquire() as producer, producer.batch():
            for call in calls:
                self._celery.send_task(
                    _TASKS[call.word],
                    kwargs=_of(call.attempt_id, pause_s=call.pause_s),
                    queue=call.queue,
                    ignore_result=True,
                    producer=producer,
                    declare=(),
                )

    def _try(self, send: Callable[[], object], *, what: str) -> bool:
        """Send unless the broker was away a moment ago; False where it may help to send one by one."""
        if self._clock() < self._not_before:
            return True
        try:
            send()
        except BatchPublishError as error:
            # Perhaps only this connection has died: one alone would have opened another. Twice is no harm.
            log.warning("broker: %s were not sent together: %s", what, error)
            return False
        except (OperationalError, RedisError, OSError) as error:
            self._not_before = self._clock() + PAUSE_S
            log.warning("broker: %s was not sent: %s", what, error)
        return True


_TASKS: Final = {"restore": RANK_RESTORE, "discard": RANK_DISCARD}


def _of(attempt_id: UUID, *, pause_s: float) -> dict[str, str | float]:
    """A worker of the version before knows no pause, and gets none where there is none."""
    arguments: dict[str, str | float] = {"attempt_id": str(attempt_id)}
    return arguments | {"pause_s": pause_s} if pause_s else arguments
