"""Calls over a real broker: heard by whom they concern, made up for after a lost connection."""

import threading
from uuid import uuid4

import redis

from app.config import Settings
from app.queue import create_queue
from app.restores.dispatch import CeleryRankMessages
from workers.decision_calls import DecisionCalls


def test_only_the_restore_that_is_decided_is_called(valkey_url: str) -> None:
    calls, heard, other = DecisionCalls(valkey_url), threading.Event(), threading.Event()
    messages = CeleryRankMessages(create_queue(Settings.model_validate({"broker_url": valkey_url})))
    restore_id = uuid4()
    with calls.listening(str(restore_id), heard.set), calls.listening(str(uuid4()), other.set):
        calls.start()
        # The subscription itself calls everybody once.
        assert heard.wait(20)
        assert other.wait(20)
        heard.clear()
        other.clear()
        messages.decided(restore_id=restore_id)
        assert heard.wait(20)
        assert not other.is_set()


def test_lost_connection_is_made_up_for(valkey_url: str) -> None:
    calls, heard = DecisionCalls(valkey_url), threading.Event()
    with calls.listening(str(uuid4()), heard.set), redis.Redis.from_url(valkey_url) as broker:
        calls.start()
        assert heard.wait(20)
        heard.clear()
        broker.client_kill_filter(_type="pubsub", skipme=True)
        assert heard.wait(20)


def test_broker_that_is_away_costs_nothing_but_calls() -> None:
    messages = CeleryRankMessages(
        create_queue(Settings.model_validate({"broker_url": "redis://127.0.0.1:1/0"}))
    )
    messages.decided(restore_id=uuid4())
