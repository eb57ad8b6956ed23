"""The heartbeat: soon, then seldom, at once when called; only a refusal that is final stops the work."""

import threading
from typing import Any, cast

import pytest

from tests.workers.test_control_client import claimed
from workers.control_client import ControlClient, ControlError, ControlUnreachableError, Decision
from workers.heartbeat import Heartbeat

PENDING = Decision(decision=None, epoch=0, outcome=None)
RETRACT = Decision(decision="retract", epoch=1, outcome=None)


class Listener:
    """A control plane that answers beats from a list, then the same for ever, and counts them."""

    def __init__(self, *answers: Decision | Exception) -> None:
        self._answers = list(answers)
        self.beats = 0
        self.beaten = threading.Condition()

    def heartbeat(self, claimed: Any, *, progress: Any) -> Decision:
        with self.beaten:
            self.beats += 1
            self.beaten.notify_all()
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wait_for(self, beats: int) -> None:
        with self.beaten:
            assert self.beaten.wait_for(lambda: self.beats >= beats, timeout=20)


def beat(listener: Listener) -> Heartbeat:
    return Heartbeat(cast(ControlClient, listener), claimed=claimed())


def stops(heartbeat: Heartbeat) -> bool:
    return heartbeat._stop.wait(20)


def refusal(status: int) -> ControlError:
    return ControlError(status=status, code="x", detail="x")


def test_call_brings_the_next_beat_at_once_and_with_it_the_retraction() -> None:
    listener = Listener(PENDING, RETRACT)
    with beat(listener) as heartbeat:
        listener.wait_for(1)
        assert not heartbeat.told_to_stop()
        heartbeat.call()
        assert stops(heartbeat)


def test_who_awaits_the_call_asks_himself() -> None:
    with beat(Listener(PENDING)) as heartbeat:
        heartbeat.await_call(at_most_s=0)
        heartbeat.call()
        assert not heartbeat._wake.is_set()
        heartbeat.await_call(at_most_s=20)


def test_call_before_the_wait_is_not_lost() -> None:
    with beat(Listener(PENDING)) as heartbeat:
        heartbeat.call()
        heartbeat.await_call(at_most_s=20)


@pytest.mark.parametrize("status", [404, 409])
def test_final_refusal_stops_the_work(status: int) -> None:
    with beat(Listener(refusal(status))) as heartbeat:
        assert stops(heartbeat)


@pytest.mark.parametrize(
    "trouble", [refusal(401), refusal(403), refusal(429), refusal(500), ControlUnreachableError("503")]
)
def test_anything_else_is_borne_and_beaten_again(trouble: Exception) -> None:
    listener = Listener(trouble)
    with beat(listener) as heartbeat:
        listener.wait_for(2)
        assert not heartbeat.told_to_stop()
