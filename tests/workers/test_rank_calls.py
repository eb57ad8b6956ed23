"""Many messages in one trip over a real broker: those that one by one would have sent, heard by a worker."""

import base64
import json
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
from celery.contrib.testing.worker import start_worker

from app.config import Settings
from app.queue import RANK_DISCARD, RANK_RESTORE, create_queue, device_queue
from app.restores.dispatch import CeleryRankMessages, RankCall

MANY = 40


@pytest.fixture
def settings(valkey_url: str) -> Settings:
    values = {"broker_url": valkey_url, "node": f"n{uuid4().hex[:8]}", "device": "host0"}
    return Settings.model_validate(values)


@pytest.fixture
def broker(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url) as opened:
        yield opened


def calls_for(settings: Settings, count: int) -> list[RankCall]:
    queue = device_queue(settings.node, "host0")
    calls = [RankCall(word="restore", queue=queue, attempt_id=uuid4(), pause_s=n / 8) for n in range(count)]
    return [*calls, RankCall(word="discard", queue=queue, attempt_id=uuid4())]


def told(message: bytes) -> Any:
    """A message without what is different in each: its ids and tags, and when and by whom it was made."""
    found = json.loads(message)
    found["body"] = json.loads(base64.b64decode(found["body"]))
    for name in ("id", "root_id"):
        assert UUID(found["headers"].pop(name))
    for name in ("correlation_id", "delivery_tag"):
        assert UUID(found["properties"].pop(name))
    return found


def test_together_they_are_what_each_would_have_been_alone(settings: Settings, broker: redis.Redis) -> None:
    messages, queue = CeleryRankMessages(create_queue(settings)), device_queue(settings.node, "host0")
    calls = calls_for(settings, 3)
    messages.send(calls)
    together: list[bytes] = broker.lrange(queue, 0, -1)  # type: ignore[assignment]
    broker.delete(queue)
    for call in calls:
        getattr(messages, call.word)(call.queue, attempt_id=call.attempt_id, pause_s=call.pause_s)
    alone: list[bytes] = broker.lrange(queue, 0, -1)  # type: ignore[assignment]
    assert [told(one) for one in together] == [told(one) for one in alone]
    assert len({json.loads(one)["headers"]["id"] for one in together}) == len(calls)
    broker.delete(queue)


def test_a_worker_hears_all_of_them_in_order(settings: Settings) -> None:
    celery = create_queue(settings)
    heard: list[tuple[str, str, float]] = []
    all_heard = threading.Event()
    calls = calls_for(settings, MANY)

    def hear(word: str, attempt_id: str, pause_s: float) -> None:
        heard.append((word, attempt_id, pause_s))
        if len(heard) == len(calls):
            all_heard.set()

    @celery.task(name=RANK_RESTORE)  # type: ignore[untyped-decorator]
    def restore(attempt_id: str, pause_s: float = 0.0) -> None:
        hear("restore", attempt_id, pause_s)

    @celery.task(name=RANK_DISCARD)  # type: ignore[untyped-decorator]
    def discard(attempt_id: str, pause_s: float = 0.0) -> None:
        hear("discard", attempt_id, pause_s)

    with start_worker(celery, pool="solo", perform_ping_check=False, shutdown_timeout=30):
        CeleryRankMessages(create_queue(settings)).send(calls)
        assert all_heard.wait(30)
    assert heard == [(one.word, str(one.attempt_id), one.pause_s) for one in calls]


def test_a_connection_that_died_meanwhile_loses_none(settings: Settings, broker: redis.Redis) -> None:
    messages, queue = CeleryRankMessages(create_queue(settings)), device_queue(settings.node, "host0")
    messages.send(calls_for(settings, 2))
    broker.delete(queue)
    broker.client_kill_filter(_type="normal", skipme=True)
    messages.send(calls_for(settings, 5))
    sent: list[bytes] = broker.lrange(queue, 0, -1)  # type: ignore[assignment]
    assert len({told(one)["body"][1]["attempt_id"] for one in sent}) == 6
    broker.delete(queue)


def test_a_broker_that_is_away_is_tried_once_and_left_alone_for_a_while() -> None:
    now = [100.0]
    celery = create_queue(Settings.model_validate({"broker_url": "redis://127.0.0.1:1/0"}))
    tried: list[object] = []
    acquire = celery.producer_or_acquire

    def counted(producer: Any = None) -> Any:
        tried.append(producer)
        return acquire(producer)

    celery.producer_or_acquire = counted
    messages = CeleryRankMessages(celery, clock=lambda: now[0])
    calls = [RankCall(word="restore", queue="gpu.a.b", attempt_id=uuid4()) for _ in range(MANY)]
    messages.send(calls)
    first = len(tried)
    assert first < MANY
    messages.send(calls)
    messages.send(calls[:1])
    assert len(tried) == first
    now[0] += 1.5
    messages.send(calls[:1])
    assert len(tried) == first + 1
