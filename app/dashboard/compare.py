"""Two images side by side, question by question; what differs is said in a word."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from app.core.qualify.findings import GateState
from app.dashboard import queries_evidence
from app.dashboard.access import ImagesVisitor
from app.dashboard.image import Subject, find_subject
from app.dashboard.queries_evidence import ScopeFilters
from app.dashboard.templating import page
from app.dashboard.verdict_view import VerdictView, gate_state
from app.dashboard.verdict_words import GATES, code_words, topology
from app.db.session import database_time
from app.errors import NotFound
from app.models import VerdictRow
from app.verdicts.service import current
from app.web.deps import ReadSession

router = APIRouter(prefix="/images/compare", include_in_schema=False)

# So many questions are laid side by side, so many other images offered.
MOST_PAIRS: Final = 40
OFFERED: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareLine:
    """One line: what is compared, what each side says; `kind` names how it is shown."""

    name: str
    left: str
    right: str
    kind: str = "text"

    @property
    def differs(self) -> bool:
        return self.left != self.right

    @property
    def is_known(self) -> bool:
        """Whether there is anything to compare."""
        return bool(self.left or self.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One question answered by both images, or by one of them; `axes` are those in which two questions that
    are laid side by side differ."""

    question: str
    model: str
    axes: tuple[str, ...]
    left: VerdictRow | None
    right: VerdictRow | None
    lines: tuple[CompareLine, ...]

    @property
    def difference_count(self) -> int:
        return sum(line.differs for line in self.lines)


@router.get("")
def compare_images(
    request: Request,
    session: ReadSession,
    login: ImagesVisitor,
    a: Annotated[str, Query(max_length=80)] = "",
    b: Annotated[str, Query(max_length=80)] = "",
) -> Response:
    """`a` and `b` are config ids, or ids of registered images."""
    if "" in request.query_params.values():
        return RedirectResponse(f"/images/compare?a={a}" if a else "/images/compare", status_code=303)
    left, right, problems = _subjects(session, a.strip(), b.strip())
    both = left is not None and right is not None
    pairs = _pairs(session, left, right)
    return page(
        request,
        "compare.html",
        login=login,
        now=database_time(session),
        a=a.strip(),
        b=b.strip(),
        left=left,
        right=right,
        problems=problems,
        identity=_identity_lines(left, right) if left and right else (),
        pairs=pairs[:MOST_PAIRS],
        more=max(0, len(pairs) - MOST_PAIRS),
        offered=[] if both or left is None else _offered(session, left),
        gate_words=GATES,
    )


def _subjects(session: Session, *keys: str) -> tuple[Subject | None, Subject | None, list[str]]:
    """The images that are named, and why one of them is not found."""
    found: list[Subject | None] = []
    problems = []
    for key in keys:
        try:
            found.append(find_subject(session, key=key) if key else None)
        except NotFound as error:
            found.append(None)
            problems.append(error.detail)
    return found[0], found[1], problems


def _pairs(session: Session, left: Subject | None, right: Subject | None) -> list[Pair]:
    if left is None or right is None or left.config_id is None or right.config_id is None:
        return []
    rows = current.side_by_side(session, left=left.config_id, right=right.config_id)
    pairs = [_pair(one, other) for one, other in _laid_together(rows)]
    return sorted(pairs, key=lambda pair: pair.left is None or pair.right is None)


Rows = tuple[VerdictRow | None, VerdictRow | None]


def _laid_together(rows: Sequence[Rows]) -> Iterator[Rows]:
    """Pairs, then what one side alone has: beside each other where capability and topology are the same."""
    yield from (pair for pair in rows if pair[0] and pair[1])
    rights = [right for left, right in rows if right and not left]
    for left in [left for left, right in rows if left and not right]:
        near = next((one for one in rights if _near(one) == _near(left)), None)
        if near is not None:
            rights.remove(near)
        yield left, near
    yield from ((None, right) for right in rights)


def _near(row: VerdictRow) -> tuple[str, str, str]:
    return row.capability, row.tp, row.dcp


def _pair(left: VerdictRow | None, right: VerdictRow | None) -> Pair:
    either = left or right
    if either is None:
        raise ValueError("pair: expected a verdict on one side, found none")
    lines = tuple(_lines(left, right)) if left and right else ()
    return Pair(
        question=f"{either.capability.capitalize()}, {topology(either.tp, either.dcp)}",
        model=either.target,
        axes=tuple(_axes(left, right)) if left and right else (),
        left=left,
        right=right,
        lines=lines,
    )


def _axes(left: VerdictRow, right: VerdictRow) -> Iterator[str]:
    names = {"target": "model", "draft": "draft model"}
    for axis in ("target", "draft", "publication_schema", "manifest_schema"):
        one, other = getattr(left, axis), getattr(right, axis)
        if one != other:
            yield f"{names.get(axis, axis.replace('_', ' '))} ({one or 'not said'}; {other or 'not said'})"


def _lines(left: VerdictRow, right: VerdictRow) -> Iterator[CompareLine]:
    yield CompareLine(name="outcome", left=left.outcome, right=right.outcome, kind="outcome")
    yield CompareLine(
        name="grade", left=left.evidence_grade or "", right=right.evidence_grade or "", kind="grade"
    )
    yield CompareLine(name="deployable", left=_deployable(left), right=_deployable(right))
    yield CompareLine(name="why", left=VerdictView(row=left).why, right=VerdictView(row=right).why)
    for gate in GATES:
        one, other = (gate_state(row.gates, gate)[0] for row in (left, right))
        if {one, other} != {GateState.NOT_TESTED.value}:
            yield CompareLine(name=gate, left=one, right=other, kind="gate")
    yield CompareLine(name="findings", left=_codes(left, right), right=_codes(right, left), kind="codes")
    yield CompareLine(name="source", left=left.source, right=right.source)
    yield CompareLine(name="rule set", left=left.ruleset[:12], right=right.ruleset[:12])


def _deployable(row: VerdictRow) -> str:
    return "yes" if row.deployable else f"no: {code_words(row.deployable_reason)}"


def _codes(row: VerdictRow, other: VerdictRow) -> str:
    """The codes only this side has."""
    return " ".join(code for code in row.finding_codes if code not in other.finding_codes)


def _identity_lines(left: Subject, right: Subject) -> tuple[CompareLine, ...]:
    digests = ("manifest_digest", "index_digest")
    lines = [CompareLine(name="config id", left=left.config_id or "", right=right.config_id or "")]
    for name in digests:
        one, other = (getattr(side.image, name, None) or "" for side in (left, right))
        lines.append(CompareLine(name=name.replace("_", " "), left=one, right=other))
    return tuple(lines)


def _offered(session: Session, left: Subject) -> list[tuple[str, str]]:
    """Other images that were judged lately, by config id, with what the rules say of them."""
    found = queries_evidence.scopes(session, filters=ScopeFilters(), after=None, limit=10 * OFFERED)
    names: dict[str, str] = {}
    for row in found:
        if row.image_config_id and row.image_config_id != left.config_id:
            title = row.title or f"{row.image_config_id[:12]}…"
            names.setdefault(row.image_config_id, f"{title}, {row.outcome} for {row.capability}")
    return list(names.items())[:OFFERED]
