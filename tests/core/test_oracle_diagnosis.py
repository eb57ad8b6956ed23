"""Wrong pages get a name that holds for all of them, or none; parts and judgements are judged themselves."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.core.errors import FormatError
from app.core.oracle.diagnosis import PageCheck, check_pages
from app.core.oracle.judgement import judge_partials
from app.core.oracle.partials import (
    MOST_BLOCKS,
    SCALE,
    CheckedLayer,
    Finding,
    RankPartials,
    SemanticFault,
    parse_partials,
)
from app.core.oracle.question import OracleQuestion
from app.core.oracle.reference_decoder import expected_answer, most_votes, recomputed_logits, restored_logits
from app.core.oracle.synthesis import pose_question

from .oracle_rig import RANKS, Pages, layout_of, question_of, right_pages

FAULT = SemanticFault


def check(question: OracleQuestion, pages: Pages, *, rank: int = 0) -> PageCheck:
    keys, values = pages
    return check_pages(question, rank=rank, keys=keys, values=values)


def part(question: OracleQuestion, *, rank: int, pages: Pages | None = None) -> RankPartials:
    keys, values = pages or right_pages(question, rank=rank)
    found = check_pages(question, rank=rank, keys=keys, values=values)
    return RankPartials(
        question_sha256=question.sha256,
        rank=rank,
        restored=restored_logits(np, question=question, rank=rank, keys=keys, values=values),
        control=recomputed_logits(np, question=question, rank=rank, word=question.control),
        most=most_votes(question),
        layers=found.layers,
        wrong_pages=len(found.wrong),
        finding=found.finding,
    )


@pytest.fixture(scope="module")
def question() -> OracleQuestion:
    return question_of(21)


@pytest.fixture
def pages(question: OracleQuestion) -> Pages:
    return right_pages(question, rank=0)


def test_right_pages_have_no_finding(question: OracleQuestion, pages: Pages) -> None:
    found = check(question, pages)
    assert (found.wrong, found.finding) == ((), None)


@pytest.mark.parametrize(
    ("order", "fault", "wrong"),
    [
        ([1, 0, 2, 3, 4, 5, 6, 7], FAULT.SWAP_PAGES, (0, 1)),
        ([7, 1, 2, 3, 4, 5, 6, 0], FAULT.SWAP_PAGES, (0, 7)),
        ([7, 0, 1, 2, 3, 4, 5, 6], FAULT.SLOTS_OFF_BY_ONE, tuple(range(8))),
        ([1, 2, 3, 4, 5, 6, 7, 0], FAULT.SLOTS_OFF_BY_ONE, tuple(range(8))),
        ([1, 2, 0, 3, 4, 5, 6, 7], FAULT.UNKNOWN, (0, 1, 2)),
        ([1, 0, 3, 2, 4, 5, 6, 7], FAULT.UNKNOWN, (0, 1, 2, 3)),
        ([5, 1, 2, 3, 4, 5, 6, 7], FAULT.UNKNOWN, (0,)),
    ],
)
def test_pages_of_other_blocks(
    question: OracleQuestion, pages: Pages, order: list[int], fault: FAULT, wrong: tuple[int, ...]
) -> None:
    found = check(question, (pages[0][order], pages[1][order]))
    assert found.finding is not None
    assert (found.finding.fault, found.wrong, found.finding.blocks) == (fault, wrong, wrong)


def test_a_shift_that_leaves_the_first_page_unwritten(question: OracleQuestion, pages: Pages) -> None:
    shifted = tuple(np.roll(one, 1, axis=0) for one in pages)
    for one in shifted:
        one[0] = 0xA5
    found = check(question, (shifted[0], shifted[1]))
    assert found.finding is not None
    assert found.finding.fault is FAULT.SLOTS_OFF_BY_ONE
    assert found.finding.detail == "7 of 8 blocks hold the pages of the block before them"


def test_keys_alone_in_other_places_are_not_called_swapped(question: OracleQuestion, pages: Pages) -> None:
    order = [0, 3, 2, 1, 4, 5, 6, 7]
    found = check(question, (pages[0], pages[1][order]))
    assert found.finding is not None
    assert found.finding.fault is FAULT.UNKNOWN
    assert [layer.wrong for layer in found.layers] == [0, 2]


@pytest.mark.parametrize(
    ("byte", "fault", "detail"),
    [
        (0x00, FAULT.SKIPPED_FENCE, "3 of 8 blocks were overwritten with byte 0x00"),
        (0x5A, FAULT.SKIPPED_FENCE, "3 of 8 blocks were overwritten with byte 0x5a"),
        (0xA5, FAULT.FOREIGN_SLOTS, "3 of 8 blocks were never written: the copies went elsewhere"),
    ],
)
def test_one_byte_everywhere(
    question: OracleQuestion, pages: Pages, byte: int, fault: FAULT, detail: str
) -> None:
    pages[0][[1, 4, 5]] = byte
    pages[1][[1, 4], 100:900] = byte
    found = check(question, pages)
    assert found.finding is not None
    assert (found.finding.fault, found.finding.detail) == (fault, detail)


def test_two_bytes_are_no_overwriting(question: OracleQuestion, pages: Pages) -> None:
    pages[0][1], pages[0][4] = 0x11, 0x22
    found = check(question, pages)
    assert found.finding is not None
    assert found.finding.fault is FAULT.UNKNOWN
    assert found.finding.detail == "2 of 8 blocks hold something else"


@pytest.mark.parametrize(("first", "last", "fault"), [(2, 5, FAULT.STALE_BATCH), (0, 8, FAULT.UNKNOWN)])
def test_what_was_there_before(
    question: OracleQuestion, pages: Pages, first: int, last: int, fault: FAULT
) -> None:
    before = right_pages(question_of(22), rank=0)
    for one, old in zip(pages, before, strict=True):
        one[first:last] = old[first:last]
    found = check(question, pages)
    assert found.finding is not None
    assert found.finding.fault is fault


@pytest.mark.parametrize("generation", [0, 2, 4])
def test_older_generations_are_looked_for(question: OracleQuestion, generation: int) -> None:
    newest = replace(question, generation=5)
    found = check(newest, right_pages(replace(question, generation=generation), rank=0))
    assert found.finding is not None
    expected = FAULT.STALE_GENERATION if generation >= 1 else FAULT.UNKNOWN
    assert found.finding.fault is expected


def test_a_long_prompt_is_named_over_many_lines_and_lists_some(question: OracleQuestion) -> None:
    """More lines than are asked about at once, and more than a window."""
    layout, span_tokens = layout_of(byte_count=30_000_000)
    long = pose_question(layout, span_tokens=span_tokens, ranks=2, seed=4)
    assert long.lines == 256
    every = [part(long, rank=rank) for rank in range(2)]
    judged = judge_partials(long, partials=every)
    assert (judged.right, judged.answer.word) == (True, "red")
    slow = expected_answer(long)
    assert all(abs(slow.logits[word] - judged.answer.logits[word]) < SCALE // 100 for word in long.words)
    keys, values = right_pages(long, rank=1)
    for one, other in ((70, 75), (3, 250)):
        order = list(range(long.lines))
        order[one], order[other] = other, one
        swapped = part(long, rank=1, pages=(keys[order], values[order]))
        judged = judge_partials(long, partials=[every[0], swapped])
        assert judged.answer.word == "spark"
        assert judged.diagnosis is not None
        assert judged.diagnosis.detail == f"rank 1: blocks {one} and {other} hold each other's pages"
    shifted = part(long, rank=1, pages=(np.roll(keys, -1, axis=0), np.roll(values, -1, axis=0)))
    assert shifted.finding is not None
    assert (shifted.finding.fault, len(shifted.finding.blocks)) == (FAULT.SLOTS_OFF_BY_ONE, MOST_BLOCKS)
    assert len(json.dumps(shifted.to_document())) < 8192


def test_a_wrong_page_that_the_answer_does_not_see_is_not_right_either(question: OracleQuestion) -> None:
    keys, values = right_pages(question, rank=3)
    row = (question.mark_offset + 1) % question.block_tokens
    size = question.bytes_per_page // question.block_tokens
    keys[2, row * size : (row + 1) * size] = 0
    every = [part(question, rank=rank) for rank in range(3)]
    every.append(part(question, rank=3, pages=(keys, values)))
    judged = judge_partials(question, partials=every)
    assert (judged.answer.word, judged.agreement.qualifies) == ("red", True)
    assert judged.right is False
    assert judged.diagnosis is not None
    assert judged.diagnosis.ranks == (3,)


def test_two_faults_at_once_are_unknown_and_their_ranks_are_told(question: OracleQuestion) -> None:
    every = [part(question, rank=rank) for rank in range(RANKS)]
    keys, values = right_pages(question, rank=1)
    every[1] = part(question, rank=1, pages=(np.roll(keys, 1, axis=0), np.roll(values, 1, axis=0)))
    keys, values = right_pages(question, rank=3)
    keys[:], values[:] = 0, 0
    every[3] = part(question, rank=3, pages=(keys, values))
    diagnosis = judge_partials(question, partials=every).diagnosis
    assert diagnosis is not None
    assert (diagnosis.fault, diagnosis.ranks) == (FAULT.UNKNOWN, (1, 3))
    same = [*every[:3], replace(part(question, rank=3), finding=every[1].finding, wrong_pages=8)]
    diagnosis = judge_partials(question, partials=same).diagnosis
    assert diagnosis is not None
    assert (diagnosis.fault, diagnosis.ranks) == (FAULT.SLOTS_OFF_BY_ONE, (1, 3))


def test_a_wrong_answer_from_right_pages_is_unknown(question: OracleQuestion) -> None:
    every = [part(question, rank=rank) for rank in range(RANKS)]
    every[2] = replace(every[2], restored=dict.fromkeys(question.words, 0))
    judged = judge_partials(question, partials=every)
    assert judged.answer.word == "spark"
    assert judged.diagnosis is not None
    assert (judged.diagnosis.fault, judged.diagnosis.ranks) == (FAULT.UNKNOWN, ())
    assert judged.to_document()["diagnosis"] == {
        "fault": "unknown",
        "ranks": [],
        "detail": "every page is right and the answer is not",
    }


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"question_sha256": "ab" * 32}, "of rank 2: expected question"),
        ({"rank": 1}, "every rank once"),
        ({"rank": 4}, r"ranks 0 … 3, found \[0, 1, 3, 4\]"),
        ({"restored": {"red": 1}}, "of rank 2: expected the words"),
        ({"control": {}}, "of rank 2: expected the words"),
        ({"most": 1}, "votes at most"),
        ({"restored": {"red": 17 * SCALE}}, "more for red"),
        ({"restored": {"spark": 33 * SCALE}}, "votes at most, doubts twice"),
    ],
)
def test_a_part_that_does_not_belong_is_refused(
    question: OracleQuestion, changes: dict[str, Any], named: str
) -> None:
    every = [part(question, rank=rank) for rank in range(RANKS)]
    every[2] = replace(every[2], **changes)
    with pytest.raises(FormatError, match=named):
        judge_partials(question, partials=every)


def test_a_missing_part_is_no_answer(question: OracleQuestion) -> None:
    every = [part(question, rank=rank) for rank in range(RANKS)]
    for rank in range(RANKS):
        with pytest.raises(FormatError, match="oracle partials: expected ranks 0 … 3"):
            judge_partials(question, partials=[one for one in every if one.rank != rank])
    with pytest.raises(FormatError, match="every rank once"):
        judge_partials(question, partials=[*every, every[0]])


LAYER = CheckedLayer(
    name="k", pages=8, wrong=2, expected_sha256=question_of(0).sha256, found_sha256=question_of(1).sha256
)
PART = RankPartials(
    question_sha256=question_of(0).sha256,
    rank=1,
    restored={"red": 5, "spark": -7},
    control={"red": 0, "spark": 9},
    most=16 * SCALE,
    layers=(LAYER, replace(LAYER, name="v", wrong=1)),
    wrong_pages=3,
    finding=Finding(fault=FAULT.UNKNOWN, blocks=(1, 4, 6), detail="3 of 8 blocks hold something else"),
)


def test_parts_cross_a_border_unchanged() -> None:
    assert parse_partials(json.loads(json.dumps(PART.to_document()))) == PART
    right = replace(LAYER, wrong=0, found_sha256=LAYER.expected_sha256)
    clean = replace(PART, layers=(right, replace(right, name="v")), wrong_pages=0, finding=None)
    assert parse_partials(clean.to_document()) == clean


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("schema",), "x", r"oracle partials\.schema"),
        (("rank",), -1, r"\.rank"),
        (("rank",), True, r"\.rank"),
        (("most",), 0.5, r"\.most"),
        (("restored", "red"), 0.5, r"\.restored\.red"),
        (("restored", "red"), 2**53 + 1, r"\.restored\.red"),
        (("control",), [], r"\.control"),
        (("layers",), [], r"\.layers"),
        (("layers", 0, "wrong"), 9, r"\.layers\.wrong|wrong_pages"),
        (("layers", 0, "found_sha256"), LAYER.expected_sha256, r"\.layers\.wrong"),
        (("layers", 1, "extra"), 1, r"extra \['extra'\]"),
        (("wrong_pages",), 1, r"\.wrong_pages"),
        (("wrong_pages",), 4, r"\.wrong_pages"),
        (("finding",), None, r"\.wrong_pages"),
        (("finding", "fault"), "gremlin", r"\.finding\.fault"),
        (("finding", "blocks"), [], r"\.finding\.blocks"),
        (("finding", "blocks"), list(range(17)), r"\.finding\.blocks"),
        (("finding", "detail"), "x" * 301, r"\.finding\.detail"),
    ],
)
def test_a_part_that_is_not_in_form_is_named(path: tuple[Any, ...], value: Any, named: str) -> None:
    document: Any = PART.to_document()
    at = document
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(FormatError, match=named):
        parse_partials(document)
