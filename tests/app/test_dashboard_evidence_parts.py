"""Bytes with an anchor per value, recorded times as bars, facts as rows: no page, no database."""

import json
from decimal import Decimal

import pytest

from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import Timing
from app.dashboard.parsed_facts import fact_groups
from app.dashboard.rank_bars import RankBars, time_chart
from app.dashboard.raw_text import MOST_CHARACTERS, RawText, anchor_of, places, raw_link, raw_text
from app.dashboard.verdict_words import code_words, short_words, why
from tests.app.evidence_rows import CORPUS, corpus
from tests.core import evidence_documents as made

TEXT = '{"a": 1,\n  "b": {"c d": ["x", {"e/f": null}]},\r\n "b2":\n  "y" }'


def shown(text: RawText) -> str:
    return "\n".join("".join(piece.text for piece in line) for line in text.lines)


def test_every_value_has_its_place_and_a_key_on_the_same_line_belongs_to_it() -> None:
    found = {place.pointer: TEXT[place.start : place.end] for place in places(TEXT)}
    assert found == {
        "": "{",
        "/a": '"a": 1',
        "/b": '"b": {',
        "/b/c d": '"c d": [',
        "/b/c d/0": '"x"',
        "/b/c d/1": "{",
        "/b/c d/1/e~1f": '"e/f": null',
        "/b2": '"y"',
    }


def test_lines_are_those_of_the_bytes_and_one_value_is_marked() -> None:
    text = raw_text(TEXT.encode(), asked="/b/c d/0")
    assert shown(text) == TEXT.replace("\r\n", "\n")
    assert [piece.text for line in text.lines for piece in line if piece.is_asked] == ['"x"']
    assert (text.nearest, text.is_missing, text.is_cut) == ("/b/c d/0", False, False)


@pytest.mark.parametrize(
    ("asked", "nearest"), [("/b/nothing/here", "/b"), ("/zz", ""), ("/b/c d/7", "/b/c d"), ("junk", "")]
)
def test_a_place_that_is_missing_marks_what_should_hold_it(asked: str, nearest: str) -> None:
    text = raw_text(TEXT.encode(), asked=asked)
    assert (text.nearest, text.is_missing) == (nearest, True)
    assert sum(piece.is_asked for line in text.lines for piece in line) == 1


def test_an_anchor_has_no_sign_that_an_id_may_not_have() -> None:
    assert anchor_of("") == "document"
    assert anchor_of('/a b/"c"/<d>/é') == "/a%20b/%22c%22/%3Cd%3E/%C3%A9"
    assert raw_link("e" * 64, "/a b&c") == f"/receipts/{'e' * 64}?at=/a+b%26c#at"


def test_a_long_document_is_shown_where_it_was_asked_for() -> None:
    rows = {f"k{number}": "v" * 60 for number in range(10_000)}
    raw = json.dumps(rows, indent=1).encode()
    first, last = raw_text(raw), raw_text(raw, asked="/k9999")
    assert first.is_cut
    assert len(shown(first)) <= MOST_CHARACTERS
    assert last.first_line > 1
    assert '"k9999"' in shown(last)
    assert raw.decode().splitlines()[last.first_line - 1] == shown(last).splitlines()[0]
    one_line = raw_text(json.dumps(rows).encode(), asked="/k9999")
    assert '"k9999"' in shown(one_line)


def vector(pointer: str, *values: str, unit: str = "ms") -> Timing:
    return Timing(
        pointer=pointer,
        name=pointer.rpartition("/")[2],
        unit=unit,
        ranks=tuple(range(len(values))),
        values=tuple(map(Decimal, values)),
    )


def parts(rank: RankBars) -> list[tuple[str, str]]:
    return [(bar.kind, str(bar.ms)) for bar in rank.bars]


def test_what_no_phase_claims_is_a_bar_of_its_own() -> None:
    at = "/observations/0/rank_records/*/payload"
    chart = time_chart(
        [
            vector(f"{at}/queue_wait_ms", "1.5", "2"),
            vector(f"{at}/service_ms", "100", "90"),
            vector(f"{at}/end_to_end_ms", "101.5", "92"),
            vector(f"{at}/phase_ms/restore_read", "40", "95"),
            vector(f"{at}/phase_ms/h2d_submit", "30.25", "5"),
        ]
    )
    assert chart is not None
    assert [group.title for group in chart.groups] == ["observations / 0"]
    first, second = chart.groups[0].ranks
    assert parts(first) == [
        ("queue_wait", "1.5"),
        ("restore_read", "40"),
        ("h2d_submit", "30.25"),
        ("unattributed", "29.75"),
    ]
    assert (first.total_ms, first.excess_ms) == (Decimal("101.5"), Decimal(0))
    assert parts(second) == [("queue_wait", "2"), ("restore_read", "95"), ("h2d_submit", "5")]
    assert second.excess_ms == 10
    assert chart.groups[0].remainder == "service less its phases"
    assert chart.longest_ms == Decimal(102)
    assert first.bars[1].x == pytest.approx(1.5 / 102 * 100)


def test_a_restore_of_our_own_is_drawn_in_its_own_phases() -> None:
    chart = time_chart(
        [
            vector("/ranks/*/end_to_end_ns", "3000000", "3500000", unit="ns"),
            vector("/ranks/*/phases_ns/prior_device_work", "20000", "0", unit="ns"),
            vector("/ranks/*/phases_ns/read_authenticate", "1500000", "2000000", unit="ns"),
            vector("/ranks/*/service_ns", "2000000", "2250000", unit="ns"),
            vector("/ranks/*/unattributed_ns", "480000", "250000", unit="ns"),
        ]
    )
    assert chart is not None
    assert [group.title for group in chart.groups] == ["the restore"]
    first, second = chart.groups[0].ranks
    assert [(bar.kind, bar.ms) for bar in first.bars] == [
        ("prior_device_work", Decimal("0.02")),
        ("read_authenticate", Decimal("1.5")),
        ("unattributed", Decimal("0.48")),
    ]
    assert (second.total_ms, second.excess_ms) == (Decimal("2.25"), 0)


def test_without_phases_the_remainder_is_what_lies_outside_the_service() -> None:
    chart = time_chart([vector("/r/*/end_to_end_ms", "10.5"), vector("/r/*/service_ms", "10.25")])
    assert chart is not None
    assert parts(chart.groups[0].ranks[0]) == [("service", "10.25"), ("unattributed", "0.25")]
    assert chart.groups[0].remainder == "end to end less service"


def test_every_other_vector_is_on_the_same_scale_in_ms() -> None:
    chart = time_chart(
        [vector("/a/restore_ms_by_rank", "500", "250"), vector("/b/load_seconds_by_rank", "1", "2", unit="s")]
    )
    assert chart is not None
    assert [group.title for group in chart.groups] == ["a / restore", "b / load"]
    assert [bar.width for group in chart.groups for rank in group.ranks for bar in rank.bars] == [
        25,
        12.5,
        50,
        100,
    ]
    assert chart.ticks[-1] == (100.0, "2,000")


@pytest.mark.parametrize("value", ["-1", "1e999999", "1e13"])
def test_a_number_that_can_be_no_time_is_counted_and_not_drawn(value: str) -> None:
    chart = time_chart([vector("/a/x_ms", "1", value), vector("/b/y_ms", "3")])
    assert chart is not None
    assert (len(chart.groups), chart.left_out) == (1, 1)
    assert time_chart([vector("/a/x_ms", value)]) is None
    assert time_chart([]) is None


def test_facts_keep_value_place_and_basis_and_say_what_is_missing() -> None:
    groups = {group.title: group for group in fact_groups(made.facts(made.single_restore()))}
    assert list(groups)[:4] == [
        "Kind of document",
        "What it is about",
        "Status words",
        "Case “document”, for restore",
    ]
    subject = {row.name: row for row in groups["What it is about"].rows}
    assert (subject["image"].value, subject["image"].pointer) == (made.IMAGE, "/artifact/image_id")
    assert subject["target alias"].basis == "attested"
    words = groups["Status words"].rows[0]
    assert words.value == "qualified (claims qualification; of the whole document)"
    assert [row.gap for row in groups["About other documents"].missing] == ["not said"]
    sentences = [(row.name, row.value) for row in groups["Its own words"].rows]
    assert sentences == [("not established", "performance: unsupported")]


def test_sentences_for_people() -> None:
    said = why("rejected", reason="The answer is not the expected one. The cause is unknown.", value="'a'")
    assert said == "The answer is not the expected one: 'a'. The cause is unknown."
    assert why("incomplete", reason="Nothing at all is said per rank.", value="absent") == (
        "Nothing at all is said per rank."
    )
    assert why("qualified", reason="Qualified for this.", value="document") == "Qualified for this."
    assert why("none", reason="", value="") == "carries no verdict."
    assert code_words("IDENTITY_INCOMPLETE:model") == "model: Not said which one it was."
    assert code_words("rejected") == "a check that decides went wrong"
    assert code_words("A_NEW_CODE") == "A_NEW_CODE"
    assert short_words(f"commit={'a' * 40} x") == "commit=aaaaaaaa… x"


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"the corpus of real documents is not at {CORPUS}")
def test_the_corpus_is_shown_byte_for_byte_and_its_times_add_up() -> None:
    drawn = 0
    for paper in corpus():
        text = raw_text(paper.raw)
        assert text.is_cut or shown(text) == paper.raw.decode().replace("\r\n", "\n").removesuffix("\n")
        facts = document_facts(read_document(paper.raw))
        assert all(group.more == 0 for group in fact_groups(facts)), paper.path
        chart = time_chart(facts.timings)
        for rank in (rank for group in (chart.groups if chart else ()) for rank in group.ranks):
            drawn += 1
            assert sum(bar.ms for bar in rank.bars) == rank.total_ms
            assert rank.bars[-1].x + rank.bars[-1].width <= 100.0001
    assert drawn > 300
