"""The Celery object, the queue names and the task names. No task body, no database.

The database is the queue that counts: a message only wakes a worker, and a lost or doubled message
changes nothing (the claim over HTTP decides). So there is no result backend and no publish retry.
"""

import logging
from typing import Any, Final

from celery import Celery
from kombu.entity import Exchange, Queue
from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as over_redis

from app.config import Settings

log = logging.getLogger(__name__)

RANK_RESTORE: Final = "rank.restore"
RANK_READBACK: Final = "rank.readback"
RANK_DISCARD: Final = "rank.discard"
HOUSEKEEPING: Final = "control.housekeeping"

CONTROL_QUEUE: Final = "control"
# Published without a queue: whoever does not listen now has missed it, and polls.
DECIDED_CHANNEL: Final = "sparkgate.decided"

# A broker that does not answer must not hold a request: what was not sent now is re-sent.
CONNECT_TIMEOUT_S: Final = 1.0


class PatientChannel(over_redis.Channel):
    """A channel that throws away what is no message: kombu's ends the worker, and its pages with it."""

    def _brpop_read(self, **options: Any) -> bool:
        try:
            return bool(super()._brpop_read(**options))  # type: ignore[no-untyped-call]  # kombu states no types
        except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, no base64
            log.error("queue: what is no message was thrown away: %s", type(error).__name__)
            return True


class PatientTransport(over_redis.Transport):
    """Valkey as kombu speaks to it, but nothing that lies in a queue ends a worker."""

    Channel = PatientChannel

    def _deliver(self, message: Any, queue: str) -> None:
        try:
            super()._deliver(message, queue)  # type: ignore[no-untyped-call]
        except (KeyError, TypeError, AttributeError, ValueError):
            # Well-formed JSON that is no message, or a task without an id or with another form of arguments.
            log.exception("queue %s: what is no message was thrown away", queue)


# kombu takes the transport of a URL from this table and from nowhere else.
TRANSPORT_ALIASES["redis"] = f"{__name__}:{PatientTransport.__name__}"


def device_queue(node: str, device: str) -> str:
    """Name of the one queue of one device: ``gpu.<node>.<device>``."""
    return f"gpu.{node}.{device}"


def create_queue(settings: Settings) -> Celery:
    """The Celery application for one process.

    Raises:
        ValueError: no broker URL is set.
    """
    if settings.broker_url is None:
        raise ValueError("SPARKGATE_BROKER_URL: expected redis://…, found nothing")
    celery = Celery("sparkgate", broker=settings.broker_url.get_secret_value(), set_as_current=False)
    celery.conf.update(
        task_ignore_result=True,
        task_acks_late=False,
        task_publish_retry=False,
        task_serializer="json",
        accept_content=["json"],
        task_default_queue=CONTROL_QUEUE,
        task_queues=_queues(settings),
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=CONNECT_TIMEOUT_S,
        broker_transport_options={
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
            "socket_timeout": 5.0,
            "max_retries": 0,
        },
        beat_schedule={
            "housekeeping": {
                "task": HOUSEKEEPING,
                "schedule": settings.housekeeping_s,
                "options": {"queue": CONTROL_QUEUE, "expires": settings.housekeeping_s * 5},
            }
        },
    )
    return celery


def _queues(settings: Settings) -> list[Queue]:
    """The queues a worker of these settings may consume, none of them with acknowledgements.

    A lost message is sent again by the timetable, so an acknowledgement protects nothing. It does harm: when
    the broker dies before it arrives, kombu counts the message as unfinished, and at a prefetch of one the
    worker never asks for another message, nor notices that its connection is gone.
    """
    names = [CONTROL_QUEUE]
    if settings.device is not None:
        names.append(device_queue(settings.node, settings.device))
    # kombu states no types.
    return [Queue(name, Exchange(name), routing_key=name, no_ack=True) for name in names]  # type: ignore[no-untyped-call]
