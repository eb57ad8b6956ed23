"""The queues as workers consume them."""

import time
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest
import redis

from app.config import Settings
from app.queue import CONTROL_QUEUE, create_queue, device_queue


def test_no_queue_of_a_worker_has_acknowledgements() -> None:
    """With them, a broker that dies before one arrives leaves the worker deaf for ever (see `_queues`)."""
    settings = {"broker_url": "redis://127.0.0.1:1/0", "node": "ring", "device": "host0"}
    celery = create_queue(Settings.model_validate(settings))
    consumed = {name: queue.no_ack for name, queue in celery.amqp.queues.items()}
    assert consumed == {CONTROL_QUEUE: True, "gpu.ring.host0": True}


NO_MESSAGES = (
    b"\x00\xff",
    b"{",
    b"",
    b"[]",
    b"1",
    b"null",
    b'{"properties": {}}',
    b'{"properties": []}',
    b'{"body": "%", "properties": {"body_encoding": "base64", "delivery_tag": "x"}}',
    b'{"body": 1, "properties": {"body_encoding": "base64", "delivery_tag": "x"}}',
    b'{"body": "e30=", "properties": {"delivery_tag": "x"}, "headers": []}',
    b"[" * 100_000,
)


def test_what_is_no_message_is_thrown_away_and_the_next_one_is_heard(
    valkey_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that ended with it would take its resident pages along."""
    settings = {"broker_url": valkey_url, "node": f"n{uuid4().hex[:8]}", "device": "host0"}
    celery = create_queue(Settings.model_validate(settings))
    name = device_queue(settings["node"], "host0")
    heard: list[Any] = []

    def hear(_: Any, message: Any) -> None:
        heard.append(message.headers["task"])

    with redis.Redis.from_url(valkey_url) as broker, celery.connection_for_read() as connection:
        consumer = connection.Consumer([celery.amqp.queues[name]], callbacks=[hear], accept=["json"])
        with consumer:
            for raw in NO_MESSAGES:
                broker.lpush(name, raw)
            celery.send_task("rank.restore", kwargs={"attempt_id": "a"}, queue=name, ignore_result=True)
            give_up = time.monotonic() + 20
            while not heard:
                assert time.monotonic() < give_up
                with suppress(TimeoutError):
                    connection.drain_events(timeout=1)
    assert heard == ["rank.restore"]
    assert caplog.text.count("thrown away") >= len(NO_MESSAGES) - 2
