"""Hear at once that something is decided: the control plane calls over the broker, the rank then asks it.

A call carries the restore's id and nothing else, and may be missed: whoever waits polls as well, only slowly.
So a retraction reaches a rank within milliseconds although 512 ranks ask no more often than leases need.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from app.queue import CONNECT_TIMEOUT_S, DECIDED_CHANNEL

log = logging.getLogger(__name__)

# How long the broker is left alone after a lost connection; calls made meanwhile are missed.
RECONNECT_S: Final = 1.0


class DecisionCalls:
    """One connection of this process to the broker, and who wants to be called for which restore."""

    def __init__(self, broker_url: str) -> None:
        """Name the broker; `start` connects."""
        self._broker_url = broker_url
        self._lock = threading.Lock()
        self._callbacks: dict[str, Callable[[], None]] = {}

    def start(self) -> None:
        """Listen from now on, in a thread that ends with the process."""
        threading.Thread(target=self._listen_on, name="decision-calls", daemon=True).start()

    @contextmanager
    def listening(self, restore_id: str, call: Callable[[], None]) -> Iterator[None]:
        """Have `call` run, on another thread, whenever something is decided for the restore."""
        with self._lock:
            self._callbacks[restore_id] = call
        try:
            yield
        finally:
            with self._lock:
                del self._callbacks[restore_id]

    def _listen_on(self) -> None:
        while True:
            try:
                self._listen()
            except (RedisError, OSError) as error:
                log.warning("broker: no calls for %s s: %s", RECONNECT_S, error)
            time.sleep(RECONNECT_S)

    def _listen(self) -> None:
        connection = redis.Redis.from_url(
            self._broker_url,
            decode_responses=True,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
        )
        # redis-py states no types for what follows.
        with connection, connection.pubsub(ignore_subscribe_messages=True) as channel:  # type: ignore[no-untyped-call]
            channel.subscribe(DECIDED_CHANNEL)
            # What was decided while nobody listened is asked for now.
            self._call(list(self._callbacks))
            for message in channel.listen():
                self._call([message["data"]])

    def _call(self, restore_ids: list[str]) -> None:
        with self._lock:
            called = [self._callbacks[one] for one in restore_ids if one in self._callbacks]
        for call in called:
            call()
