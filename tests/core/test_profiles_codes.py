"""The table of codes against the specification, and what a list of findings comes to."""

import re
from pathlib import Path

import pytest

from app.core.profiles.codes import CODES, Severity
from app.core.profiles.findings import CheckResult, blocking, finding, finding_object, overall
from tests.data.profiles_page import PAGE, page

OURS = {"DOC_FIELD"}
# §15 gives two severities by case; the table holds the one for the first case named there.
BY_CASE = {"ACT_EXTRA_SHAPE": "B", "ACT_DCP_UNBOUND": "B", "KV_POOL_WINDOW": "W"}


@pytest.fixture(scope="module")
def specification(shared_dir: Path) -> str:
    place = shared_dir / "spec/profile-contract.md"
    if not place.is_file():
        pytest.skip(f"reference data: expected {place}, found none")
    return place.read_text()


def test_every_code_of_the_specification_is_in_the_table_and_no_other(specification: str) -> None:
    listed = specification.partition("## 15.")[2].partition("## 16.")[0]
    further = specification.partition("1. **Paths.**")[2].partition("4. **Codes of")[0]
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", listed + further))
    assert named | OURS == set(CODES)


def test_severities_are_those_of_the_specification(specification: str) -> None:
    listed = specification.partition("## 15.")[2].partition("## 16.")[0]
    told = dict(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)` ([BW])\b", listed)) | BY_CASE
    assert {name: CODES[name].severity.value for name in told} == told


@pytest.mark.parametrize("name", CODES)
def test_every_code_says_one_sentence(name: str) -> None:
    assert re.fullmatch(r"[A-Z].*\.", CODES[name].says)


def test_a_blocking_failure_fails_the_whole() -> None:
    passed = finding("CT_SOURCES", CheckResult.PASS)
    failed = finding("CT_LOCK_HASH", CheckResult.FAIL)
    assert overall([passed, failed]) is CheckResult.FAIL
    assert blocking([passed, failed]) == (failed,)


def test_a_warning_never_fails_the_whole() -> None:
    warned = finding("DOC_UNPINNED", CheckResult.FAIL)
    assert overall([finding("CT_SOURCES", CheckResult.PASS), warned]) is CheckResult.PASS


def test_what_could_not_be_tested_is_no_pass_and_no_failure() -> None:
    untested = finding("CT_SOURCES", CheckResult.NOT_TESTED)
    assert overall([untested]) is CheckResult.NOT_TESTED
    assert overall([]) is CheckResult.NOT_TESTED
    assert overall([untested, finding("CT_LOCK_HASH", CheckResult.PASS)]) is CheckResult.PASS


def test_a_blocking_check_without_an_answer_is_told() -> None:
    open_question = finding("GUARD_GRAPH_DERIVED", CheckResult.INDETERMINATE)
    assert overall([open_question, finding("CT_SOURCES", CheckResult.PASS)]) is CheckResult.INDETERMINATE


def test_a_finding_may_carry_another_severity_than_its_code() -> None:
    blocks = finding("KV_POOL_WINDOW", CheckResult.FAIL, severity=Severity.BLOCKS)
    assert blocks.blocks
    assert not finding("KV_POOL_WINDOW", CheckResult.FAIL).blocks


def test_long_values_are_cut_in_the_document() -> None:
    told = finding_object(finding("TPL_VALUE", CheckResult.FAIL, found="x" * 1_000_000))
    assert len(str(told["found"])) < 300


def test_the_page_of_profiles_is_made_from_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.data.profiles_page"
