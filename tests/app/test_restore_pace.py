"""Turns of the ranks of a large restore: even, told with the message and the claim, none for few ranks."""

from itertools import pairwise
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest

from app.queue import RANK_DISCARD, RANK_RESTORE
from app.restores.dispatch import CeleryRankMessages
from app.restores.service.pace import CROWD, RANKS_PER_S, pace_s, turn_s
from tests.app.ring import Ring
from workers.control_client import Claimed, ControlClient
from workers.heartbeat import LONGEST_PAUSE_S, SHORTEST_PAUSE_S, Heartbeat


@pytest.mark.parametrize("ranks", [1, 4, CROWD])
def test_few_ranks_wait_for_nobody(ranks: int) -> None:
    assert pace_s(ranks) == 0
    assert {turn_s(rank, rank_count=ranks) for rank in range(ranks)} == {0}


def test_many_ranks_speak_evenly_one_after_the_other() -> None:
    turns = [turn_s(rank, rank_count=512) for rank in range(512)]
    gaps = {round(later - earlier, 9) for earlier, later in pairwise(turns)}
    assert turns[0] == 0
    assert gaps == {1 / RANKS_PER_S}
    assert turns[-1] < pace_s(512) == pytest.approx(12.8)


def test_a_claim_tells_the_turn(ring: Ring) -> None:
    rank = ring.claim_all(ring.start_restore())[3]
    assert (rank.claim["pace_s"], rank.claim["turn_s"]) == (0, 0)


@pytest.mark.parametrize(("task", "word"), [(RANK_RESTORE, "restore"), (RANK_DISCARD, "discard")])
@pytest.mark.parametrize("pause_s", [0.0, 2.5])
def test_a_message_carries_its_pause_if_there_is_one(task: str, word: str, pause_s: float) -> None:
    """A worker of the version before takes no such argument."""
    sent = []

    class Celery:
        class conf:  # noqa: N801
            broker_url = "redis://127.0.0.1:1/0"

        def send_task(self, name: str, **given: object) -> None:
            sent.append((name, given["kwargs"]))

    attempt_id = uuid4()
    send = getattr(CeleryRankMessages(Celery()), word)
    send("gpu.a.b", attempt_id=attempt_id, pause_s=pause_s)
    assert sent == [(task, {"attempt_id": str(attempt_id)} | ({"pause_s": pause_s} if pause_s else {}))]


@pytest.mark.parametrize(
    ("pace", "first_s", "longest_s"), [(0.0, SHORTEST_PAUSE_S, 3.0), (5.12, 5.12, 5.12), (60.0, 6.0, 6.0)]
)
def test_a_paced_rank_beats_seldom_and_well_within_its_lease(
    pace: float, first_s: float, longest_s: float
) -> None:
    claimed = Claimed(
        attempt_id="a",
        restore_id="r",
        token=1,
        lease_s=30.0,
        rank=0,
        root_path=Path("/"),
        storage_key="0" * 64,
        context_digest="0" * 64,
        root_document_sha256="0" * 64,
        span_tokens=1,
        layout={},
        pace_s=pace,
    )
    beats = Heartbeat(cast(ControlClient, None), claimed=claimed)
    assert (beats.first_s, beats.longest_s) == (first_s, longest_s)
    assert LONGEST_PAUSE_S < 30.0 / 5
