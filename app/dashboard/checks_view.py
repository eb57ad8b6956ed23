"""Checks of profiles as every page shows them: what stands against it first, what passed last."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from app.core.profiles.codes import CODES, Severity
from app.core.profiles.findings import CheckResult, ProfileFinding, overall
from app.dashboard.raw_text import AT

# What each result looks like: the name of its icon and colour, and the word beside it.
MARKS: Final = {
    CheckResult.PASS: "demonstrated",
    CheckResult.FAIL: "rejected",
    CheckResult.INDETERMINATE: "inconclusive",
    CheckResult.NOT_TESTED: "not-tested",
    CheckResult.NOT_APPLICABLE: "not-applicable",
}
WORDS: Final = {
    CheckResult.PASS: "pass",
    CheckResult.FAIL: "fail",
    CheckResult.INDETERMINATE: "indeterminate",
    CheckResult.NOT_TESTED: "not tested",
    CheckResult.NOT_APPLICABLE: "not applicable",
}
SENTENCES: Final = {
    CheckResult.PASS: "Nothing stands against it: every check that could be made passed, or warns only",
    CheckResult.FAIL: "A check that blocks failed",
    CheckResult.INDETERMINATE: "A check that blocks came to no answer",
    CheckResult.NOT_TESTED: "Nothing could be checked",
    CheckResult.NOT_APPLICABLE: "There is nothing to check",
}
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
# Of one group so many lines are shown; the rest is counted.
MOST_LINES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLine:
    """One finding; `link` leads to its place in a stored document, empty where there is none."""

    code: str
    mark: str
    word: str
    says: str
    pointer: str
    detail: str
    expected: str
    found: str
    rank: int | None
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckGroup:
    """Findings of one result; `is_open` whether they are unfolded at first."""

    title: str
    lines: tuple[CheckLine, ...]
    more: int
    is_open: bool

    @property
    def count(self) -> int:
        return len(self.lines) + self.more


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """All findings of one thing."""

    result: CheckResult
    groups: tuple[CheckGroup, ...]

    @property
    def mark(self) -> str:
        return MARKS[self.result]

    @property
    def word(self) -> str:
        return WORDS[self.result]

    @property
    def sentence(self) -> str:
        return SENTENCES[self.result]


def checks_of(findings: Sequence[ProfileFinding], *, stored: Iterable[str] = ()) -> Checks:
    """The findings in the order they matter.

    Args: stored: digests of documents that have a page; pointers into them become links.
    """
    pages = frozenset(stored)
    groups = []
    for title, is_open, chosen in _split(findings):
        if chosen:
            lines = tuple(_line(one, pages=pages) for one in chosen[:MOST_LINES])
            more = max(0, len(chosen) - MOST_LINES)
            groups.append(CheckGroup(title=title, lines=lines, more=more, is_open=is_open))
    return Checks(result=overall(findings), groups=tuple(groups))


def document_link(sha256: str, pointer: str) -> str:
    """The address of a place in a stored profile document."""
    return f"/profiles/documents/{sha256}?{urlencode({'at': pointer}, safe='/')}#{AT}"


def short_digests(text: str) -> str:
    """A sentence with its digests cut: they stand in full where it links to."""
    return _DIGEST.sub(lambda found: f"{found[0][:12]}…", text)


def _split(findings: Sequence[ProfileFinding]) -> list[tuple[str, bool, list[ProfileFinding]]]:
    def of(result: CheckResult, severity: Severity | None = None) -> list[ProfileFinding]:
        return [one for one in findings if one.result is result and severity in (None, one.severity)]

    return [
        ("What stands against it", True, of(CheckResult.FAIL, Severity.BLOCKS)),
        ("Warnings", True, of(CheckResult.FAIL, Severity.WARNS)),
        ("Without an answer", True, of(CheckResult.INDETERMINATE)),
        ("Not tested: something is missing", False, of(CheckResult.NOT_TESTED)),
        ("Passed", False, of(CheckResult.PASS)),
        ("Not applicable", False, of(CheckResult.NOT_APPLICABLE)),
    ]


def _line(one: ProfileFinding, *, pages: frozenset[str]) -> CheckLine:
    warns = one.result is CheckResult.FAIL and one.severity is Severity.WARNS
    known = one.document_sha256 in pages and one.pointer.startswith("/")
    return CheckLine(
        code=one.code,
        mark="warning" if warns else MARKS[one.result],
        word="warns" if warns else WORDS[one.result],
        says=CODES[one.code].says,
        pointer=one.pointer,
        detail=f"{one.reason}: {one.detail}" if one.reason and one.detail else one.reason or one.detail,
        expected=one.expected,
        found=one.found,
        rank=one.rank,
        link=document_link(one.document_sha256, one.pointer) if known and one.document_sha256 else "",
    )
