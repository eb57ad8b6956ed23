"""On many seeds the answer is the right one from right pages alone; nothing makes up for a wrong page."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import FormatError
from app.core.oracle import attention
from app.core.oracle.attention import rank_weights
from app.core.oracle.partials import SCALE
from app.core.oracle.question import OracleQuestion
from app.core.oracle.reference_decoder import (
    add_up,
    control_answer,
    expected_answer,
    most_votes,
    recomputed_logits,
    restored_logits,
)

from .oracle_rig import RANKS, Pages, logits_of, question_of, right_pages

SEEDS = range(100)
# The whole lead of a right answer is a quarter of a vote; rounding may take this much of it.
LEAD = SCALE // 4
SLACK = SCALE // 1000


def answer_of(question: OracleQuestion, partials: dict[int, dict[str, int]]) -> str:
    return add_up(question, partials=partials).word


@pytest.mark.parametrize("seed", SEEDS)
def test_the_needle_is_found_and_any_rank_removed_zeroed_or_swapped_is_noticed(seed: int) -> None:
    question = question_of(seed)
    pages = {rank: right_pages(question, rank=rank) for rank in range(RANKS)}
    right = {rank: logits_of(question, rank=rank, pages=pages[rank]) for rank in pages}
    answer = add_up(question, partials=right)
    assert (answer.word, abs(answer.margin - LEAD) < SLACK) == ("red", True)
    for rank in range(RANKS):
        missing = {other: logits for other, logits in right.items() if other != rank}
        with pytest.raises(FormatError, match=r"ranks 0 … 3, found"):
            add_up(question, partials=missing)
        nothing = (np.zeros_like(pages[rank][0]), np.zeros_like(pages[rank][1]))
        zeroed = logits_of(question, rank=rank, pages=nothing)
        assert answer_of(question, {**right, rank: zeroed}) == "spark"
        silent = dict.fromkeys(question.words, 0)
        assert answer_of(question, {**right, rank: silent}) == "spark"
        other = (rank + 1 + seed % (RANKS - 1)) % RANKS
        swapped = {
            rank: logits_of(question, rank=rank, pages=pages[other]),
            other: logits_of(question, rank=other, pages=pages[rank]),
        }
        assert answer_of(question, {**right, **swapped}) == "spark"
        assert answer_of(question, {**right, rank: swapped[rank]}) == "spark"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_control_answers_its_own_word(seed: int) -> None:
    question = question_of(seed)
    for word in ("red", "blue"):
        partials = {
            rank: recomputed_logits(np, question=question, rank=rank, word=word) for rank in range(RANKS)
        }
        assert answer_of(question, partials) == word


@pytest.mark.parametrize("seed", range(10))
def test_the_fast_way_is_the_slow_and_obvious_one(seed: int) -> None:
    question = question_of(seed)
    fast = {
        rank: logits_of(question, rank=rank, pages=right_pages(question, rank=rank)) for rank in range(RANKS)
    }
    slow = expected_answer(question)
    assert slow.word == question.expected == "red"
    assert control_answer(question).word == question.control == "blue"
    found = add_up(question, partials=fast).logits
    assert all(abs(found[word] - slow.logits[word]) < SLACK for word in question.words)


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_any_two_pages_swapped_and_any_page_of_another_are_noticed(seed: int) -> None:
    """One rank alone suffices: less than a quarter of a vote may be missing from all of them."""
    question = question_of(seed)
    keys, values = right_pages(question, rank=seed % RANKS)
    for one, other in combinations(range(question.lines), 2):
        order = list(range(question.lines))
        order[one], order[other] = other, one
        assert lost(question, rank=seed % RANKS, pages=(keys[order], values[order])) > LEAD
        order[other] = other
        assert lost(question, rank=seed % RANKS, pages=(keys[order], values[order])) > LEAD
    for step in (1, -1, 3):
        shifted = (np.roll(keys, step, axis=0), np.roll(values, step, axis=0))
        assert lost(question, rank=seed % RANKS, pages=shifted) > LEAD


@pytest.mark.parametrize("seed", range(20))
def test_a_decoy_votes_for_the_fallback(seed: int) -> None:
    """In a place that is not its own a mark does not only miss: it says the wrong thing."""
    question = question_of(seed)
    keys, values = right_pages(question, rank=0)
    right = logits_of(question, rank=0, pages=(keys, values))
    assert right["spark"] < SLACK
    order = [3, 1, 2, 0, *range(4, question.lines)]
    swapped = logits_of(question, rank=0, pages=(keys[order], values[order]))
    heads = question.heads_per_rank
    assert 2 * heads * SCALE // 2 - SLACK <= swapped["spark"] <= 2 * heads * 2 * SCALE + SLACK
    assert swapped["red"] <= right["red"] - heads * SCALE + SLACK


@pytest.mark.parametrize("seed", range(20))
def test_keys_or_values_alone_of_another_rank_or_generation_are_noticed(seed: int) -> None:
    question = question_of(seed)
    keys, values = right_pages(question, rank=1)
    foreign = right_pages(question, rank=2)
    older = right_pages(replace(question, generation=0), rank=1)
    for other_keys, other_values in (foreign, older):
        assert lost(question, rank=1, pages=(other_keys, values)) > LEAD
        assert lost(question, rank=1, pages=(keys, other_values)) > LEAD


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**63 - 1),
    block=st.integers(0, 7),
    layer=st.sampled_from(["keys", "values", "both"]),
    junk=st.binary(min_size=16, max_size=64),
)
def test_junk_in_any_page_is_noticed_whatever_it_is(seed: int, block: int, layer: str, junk: bytes) -> None:
    question = question_of(seed)
    keys, values = right_pages(question, rank=1)
    size = question.bytes_per_page
    page = np.frombuffer((junk * (size // len(junk) + 1))[:size], dtype=np.uint8)
    if layer != "values":
        keys[block] = page
    if layer != "keys":
        values[block] = page
    assert lost(question, rank=1, pages=(keys, values)) > LEAD


@pytest.mark.parametrize("byte", [0x00, 0x7C, 0x7E, 0xA5, 0xFC, 0xFF])
def test_pages_that_are_no_numbers_make_no_rank_larger_than_it_is(byte: int) -> None:
    question = question_of(8)
    keys, values = right_pages(question, rank=0)
    keys[2:5], values[:] = byte, byte
    logits = logits_of(question, rank=0, pages=(keys, values))
    assert max(logits.values()) <= 2 * most_votes(question)
    assert lost(question, rank=0, pages=(keys, values)) > LEAD


@pytest.mark.parametrize("seed", range(10))
def test_half_and_single_precision_pages_agree(seed: int) -> None:
    half, single = question_of(seed), question_of(seed, dtype="float32")
    for rank in range(RANKS):
        one = logits_of(half, rank=rank, pages=right_pages(half, rank=rank))
        other = logits_of(single, rank=rank, pages=right_pages(single, rank=rank))
        assert single.bytes_per_page == 2 * half.bytes_per_page
        assert one == other


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_any_number_of_ranks_shares_the_heads(ranks: int) -> None:
    question = question_of(11, ranks=ranks)
    partials = {
        rank: logits_of(question, rank=rank, pages=right_pages(question, rank=rank)) for rank in range(ranks)
    }
    assert answer_of(question, partials) == "red"


def test_pages_of_another_shape_and_a_foreign_rank_are_refused() -> None:
    question = question_of(1)
    keys, values = right_pages(question, rank=0)
    with pytest.raises(FormatError, match=r"pages of .*k_cache: expected \(8, 16384\), found \(7, 16384\)"):
        logits_of(question, rank=0, pages=(keys[:7], values))
    with pytest.raises(FormatError, match=r"pages of .*v_cache"):
        logits_of(question, rank=0, pages=(keys, values[:, :64]))
    for rank in (-1, RANKS):
        with pytest.raises(FormatError, match=r"oracle rank: expected 0 … 3"):
            restored_logits(np, question=question, rank=rank, keys=keys, values=values)
        with pytest.raises(FormatError, match=r"oracle rank"):
            recomputed_logits(np, question=question, rank=rank, word="red")


def test_no_two_marks_say_nearly_the_same() -> None:
    """Every two lines, words or both differ in a quarter of the code: the weight of every sum of its rows."""
    rows = attention._CODE
    sums = np.arange(1, 1 << len(rows))
    bits = (sums[:, None] >> np.arange(len(rows))) & 1
    weights = (bits @ rows % 2).sum(axis=1)
    assert len(rows) == 16
    assert weights.min() == attention.CODE_LENGTH // 4
    words = attention._WORD_CODE
    assert np.array_equal(words @ words.T, attention.CODE_LENGTH * np.eye(len(words)))


def test_heads_and_generations_have_weights_of_their_own() -> None:
    question = question_of(2)
    heads = [head for rank in range(RANKS) for head in rank_weights(question, rank=rank)]
    keys = np.stack([head.mark_key for head in heads])
    alike = keys @ keys.T - np.diag(np.diag(keys @ keys.T))
    assert len(heads) == question.heads == 8
    assert np.abs(alike).max() < question.head_dim * 0.75


def lost(question: OracleQuestion, *, rank: int, pages: Pages) -> int:
    """How many votes for the right word a rank's pages do not give, and give to the fallback."""
    logits = logits_of(question, rank=rank, pages=pages)
    return most_votes(question) - logits[question.expected] + logits[question.fallback]
