"""Observed files held against the lock and the anchors; every difference is a line with its reason
(profile-contract §10, §18.3, §18.5).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from app.core.digest import Digest
from app.core.profiles.anchors import Anchors
from app.core.profiles.codes import Severity
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.root_files import Observed, Seen
from app.core.profiles.source_lock import CONTRACT_FOLDER, SourceLock
from app.core.store.folders import shown_path

MOST_NAMED: Final = 10_000
"""So many files are named one by one; the rest is counted."""


class Standing(StrEnum):
    """How a file compares; all but ``SAME`` are reasons of a drift (§18.3)."""

    SAME = "same"
    MISSING = "missing"
    EXTRA = "extra"
    CHANGED = "changed"
    SYMLINKED = "symlinked"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLine:
    """One file: ``expected`` and ``found`` are digests or empty; ``warns`` where the difference does not
    block; ``anchored_by`` says for an overlay file what holds it."""

    path: str
    standing: Standing
    expected: str = ""
    found: str = ""
    detail: str = ""
    warns: bool = False
    anchored_by: str = ""


@dataclass(slots=True, kw_only=True)
class FileTally:
    """Lines of one code, bounded, and counts of all.

    Attributes:
        lines: the first differences; ``left_out`` is how many more there were.
    """

    code: str
    counts: dict[Standing, int] = field(default_factory=lambda: dict.fromkeys(Standing, 0))
    byte_count: int = 0
    warnings: int = 0
    lines: list[FileLine] = field(default_factory=list)
    left_out: int = 0

    def take(self, line: FileLine, *, byte_count: int = 0) -> None:
        """Count a line and keep it if it is a difference and there is room."""
        self.counts[line.standing] += 1
        self.byte_count += byte_count
        self.warnings += line.warns
        if line.standing is Standing.SAME:
            return
        if len(self.lines) < MOST_NAMED:
            self.lines.append(line)
        else:
            self.left_out += 1

    @property
    def files(self) -> int:
        """How many files were looked at or looked for."""
        return sum(self.counts.values())

    def findings(self) -> Iterator[ProfileFinding]:
        """One failed check for each difference named; one for all if there is none that blocks."""
        for line in self.lines:
            yield finding(
                self.code,
                CheckResult.FAIL,
                severity=Severity.WARNS if line.warns else None,
                pointer=line.path,
                detail=line.detail,
                expected=line.expected,
                found=line.found,
                reason=line.standing.value,
            )
        if self.left_out:
            yield finding(self.code, CheckResult.FAIL, detail=f"{self.left_out} more files, not named")
        elif len(self.lines) == self.warnings:
            same = self.counts[Standing.SAME]
            result = CheckResult.PASS if same or self.warnings else CheckResult.NOT_TESTED
            yield finding(self.code, result, detail=f"{same} files as they must be")


def locked_line(observed: Observed, *, expected: Digest) -> FileLine:
    """A file the lock names. A link that ends inside the root at the right bytes only warns (§18.5)."""
    linked = observed.seen in (Seen.LINKED, Seen.LOST_LINK)
    equal = observed.sha256 == expected
    standing = Standing.SYMLINKED if linked else Standing.SAME if equal else _STANDINGS[observed.seen]
    return FileLine(
        path=shown_path(observed.path),
        standing=standing,
        expected=expected,
        found=observed.sha256 or "",
        detail=observed.detail,
        warns=observed.seen is Seen.LINKED and equal,
    )


def extra_line(observed: Observed, *, lock: SourceLock) -> FileLine | None:
    """A name below the checked folder; none if the lock names it, or if there is no such folder."""
    if observed.path in lock.installed_files or observed.seen is Seen.MISSING:
        return None
    unreadable = observed.seen is Seen.UNREADABLE
    return FileLine(
        path=shown_path(observed.path),
        standing=Standing.UNREADABLE if unreadable else Standing.EXTRA,
        detail=observed.detail or "the lock does not name it",
    )


def overlay_line(observed: Observed, *, anchors: Sequence[Anchors], lock: SourceLock | None) -> FileLine:
    """A file of the overlay: equal to what a selection pins; where none does, to its entry in the lock or in
    a registered list (§10.4)."""
    holds = _holding(observed.path, anchors=anchors, lock=lock)
    by = next((name for name, digest in holds if digest == observed.sha256), "")
    if observed.seen is Seen.FILE and by:
        standing, detail = Standing.SAME, f"anchored by {by}"
    elif observed.seen is Seen.FILE:
        standing = Standing.CHANGED if holds else Standing.EXTRA
        detail = f"differs from {holds[0][0]}" if holds else "nothing anchors it"
    else:
        linked = observed.seen in (Seen.LINKED, Seen.LOST_LINK)
        standing = Standing.SYMLINKED if linked else _STANDINGS[observed.seen]
        detail = observed.detail or "a link"
    return FileLine(
        path=shown_path(observed.path),
        standing=standing,
        expected=holds[0][1] if holds else "",
        found=observed.sha256 or "",
        detail=detail,
        anchored_by=by,
    )


def _holding(path: str, *, anchors: Sequence[Anchors], lock: SourceLock | None) -> list[tuple[str, Digest]]:
    selected = [one for one in anchors if one.is_selection and path in one.files]
    if selected:
        return [(f"release selection {one.sha256}", one.files[path]) for one in selected]
    listed = [one for one in anchors if path in one.files]
    holds = [(f"registered list {one.sha256}", one.files[path]) for one in listed]
    folder, _, rest = path.partition("/")
    baked = lock.installed_files.get(f"{CONTRACT_FOLDER}/{rest}") if lock and folder == "profiles" else None
    return [*holds, ("the lock", baked)] if baked is not None else holds


_STANDINGS: Final = {
    Seen.FILE: Standing.CHANGED,
    Seen.LINKED: Standing.SYMLINKED,
    Seen.LOST_LINK: Standing.SYMLINKED,
    Seen.MISSING: Standing.MISSING,
    Seen.NO_FILE: Standing.CHANGED,
    Seen.UNREADABLE: Standing.UNREADABLE,
    Seen.MOVING: Standing.CHANGED,
}
