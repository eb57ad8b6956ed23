"""The rule that moves a restore forward, over every combination of what ranks can be in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.restores.service.completion import Asking, RankState, Step, next_step


def rank(state: str = "running", *, epoch: int | None = None, ended: bool = False) -> RankState:
    return RankState(state=state, outcome=None, acknowledged_epoch=epoch, ended=ended)


READY, RUNNING, LOST = rank("ready"), rank(), rank("lost", ended=True)
RANKS = st.lists(
    st.builds(
        rank,
        st.sampled_from(["waiting", "claimed", "running", "ready", "reported", "lost"]),
        epoch=st.sampled_from([None, 1, 2]),
        ended=st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize(
    ("decision", "ranks", "expected"),
    [
        (None, [READY, RUNNING], Step.WAIT),
        (None, [READY, READY], Step.PUBLISH),
        (None, [READY, LOST], Step.RETRACT),
        ("publish", [rank("ready", epoch=1), READY], Step.WAIT),
        ("publish", [rank("ready", epoch=1), rank("ready", epoch=1)], Step.RESTORED),
        ("publish", [rank("ready", epoch=1), LOST], Step.RETRACT),
        ("retract", [READY, LOST], Step.WAIT),
        ("retract", [LOST, LOST], Step.END),
    ],
)
def test_next_step(decision: str | None, ranks: list[RankState], expected: Step) -> None:
    assert next_step(decision=decision, epoch=1, ranks=ranks) is expected


@pytest.mark.parametrize(
    ("decision", "ranks", "expected"),
    [
        (None, [READY, RUNNING], Step.RETRACT),
        (None, [rank("waiting"), rank("waiting")], Step.RETRACT),
        ("publish", [rank("ready", epoch=1), READY], Step.WAIT),
        ("publish", [rank("ready", epoch=1), rank("ready", epoch=1)], Step.RESTORED),
        ("retract", [READY, LOST], Step.WAIT),
        ("retract", [LOST, LOST], Step.END),
    ],
)
def test_cancellation_retracts_until_publish_is_decided_and_never_after(
    decision: str | None, ranks: list[RankState], expected: Step
) -> None:
    assert next_step(decision=decision, epoch=1, ranks=ranks, cancelled=True) is expected


@given(decision=st.sampled_from([None, "publish", "retract"]), epoch=st.integers(1, 2), ranks=RANKS)
def test_restored_needs_every_acknowledgement_of_this_epoch(
    decision: str | None, epoch: int, ranks: list[RankState]
) -> None:
    step = next_step(decision=decision, epoch=epoch, ranks=ranks)
    if step is Step.RESTORED:
        assert decision == "publish"
        assert all(one.acknowledged_epoch == epoch and not one.ended for one in ranks)


@given(decision=st.sampled_from([None, "publish"]), ranks=RANKS)
def test_one_rank_ended_early_retracts_all(decision: str | None, ranks: list[RankState]) -> None:
    step = next_step(decision=decision, epoch=1, ranks=ranks)
    assert (step is Step.RETRACT) == any(one.ended for one in ranks)


@given(ranks=RANKS)
def test_a_retracted_restore_is_never_published_again(ranks: list[RankState]) -> None:
    assert next_step(decision="retract", epoch=2, ranks=ranks) in {Step.WAIT, Step.END}


ASKINGS = st.builds(
    Asking,
    semantic=st.sampled_from([None, "right", "wrong", "unanswered", "not asked"]),
    barred=st.booleans(),
)


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        (Asking(), Step.PUBLISH),
        (Asking(semantic="right"), Step.PUBLISH),
        (Asking(semantic=None), Step.ANSWER),
        (Asking(semantic=None, barred=True), Step.ANSWER),
        (Asking(semantic="wrong"), Step.RETRACT),
        (Asking(semantic="unanswered"), Step.RETRACT),
        (Asking(semantic="right", barred=True), Step.RETRACT),
    ],
)
def test_every_rank_ready_is_answered_before_it_is_decided(asking: Asking, expected: Step) -> None:
    assert next_step(decision=None, epoch=0, ranks=[READY, READY], asking=asking) is expected
    assert next_step(decision=None, epoch=0, ranks=[READY, RUNNING], asking=asking) is Step.WAIT
    called_off = next_step(decision=None, epoch=0, ranks=[READY, READY], asking=asking, cancelled=True)
    assert called_off is Step.RETRACT


@given(
    decision=st.sampled_from([None, "publish", "retract"]),
    ranks=RANKS,
    cancelled=st.booleans(),
    asking=ASKINGS,
)
def test_nothing_but_a_right_answer_or_none_asked_for_is_published(
    decision: str | None, ranks: list[RankState], cancelled: bool, asking: Asking
) -> None:
    step = next_step(decision=decision, epoch=1, ranks=ranks, cancelled=cancelled, asking=asking)
    if step is Step.PUBLISH:
        assert asking.semantic in {"right", "not asked"}
        assert not asking.barred
    if step is Step.ANSWER:
        assert asking.semantic is None
        assert all(one.state == "ready" and not one.ended for one in ranks)
