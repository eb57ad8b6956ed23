"""What was qualified for a topology on a day: one address that says the same for ever."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from app.core.qualify.findings import Outcome
from app.dashboard import queries_evidence
from app.dashboard.access import ImagesVisitor
from app.dashboard.images import ScopeLine
from app.dashboard.templating import page
from app.verdicts.service import current
from app.verdicts.service.current import VerdictFilter
from app.web.deps import ReadSession
from app.web.paging import PageDep, next_token

router = APIRouter(prefix="/qualified", include_in_schema=False)

_LARGEST_DEGREE: Final = 1_000_000


@router.get("")
def show_qualified(
    request: Request,
    session: ReadSession,
    login: ImagesVisitor,
    asked: PageDep,
    on: Annotated[str, Query(max_length=40)] = "",
    tp: Annotated[str, Query(max_length=20)] = "",
    dcp: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    """The verdicts that were the newest of their scope at the end of the day, UTC; any topology if none is
    given."""
    if "" in request.query_params.values():
        return RedirectResponse(_address(on=on, tp=tp, dcp=dcp), status_code=303)
    now = login.now
    day, degrees, ignored = read_question(on.strip(), tp=tp.strip(), dcp=dcp.strip(), now=now)
    wanted = VerdictFilter(outcome=Outcome.QUALIFIED.value, tp=degrees["tp"], dcp=degrees["dcp"])
    ids = current.ids_of_day(session, wanted=wanted, on=day, after=asked.after, limit=asked.size + 1)
    question = {"on": day.isoformat(), "tp": degrees["tp"] or "", "dcp": degrees["dcp"] or ""}
    found = queries_evidence.scope_rows(session, verdict_ids=ids)
    shown, token = next_token(asked.under("/qualified", _given(question)), found)
    size = request.query_params.get("page_size", "")
    return page(
        request,
        "qualified.html",
        login=login,
        now=now,
        day=day,
        is_over=day < now.date(),
        tp=question["tp"],
        dcp=question["dcp"],
        ignored=ignored,
        lines=[ScopeLine(row=row) for row in shown],
        total=current.count_verdicts(session, wanted=wanted, on=day),
        twin=f"/api/v1/verdicts?{urlencode({'outcome': 'qualified', **_given(question)})}",
        newest=_address(**question, page_size=size),
        older=_address(**question, page_size=size, page_token=token) if token else "",
        first_page=asked.after is None,
    )


def read_question(
    on: str, *, tp: str, dcp: str, now: datetime
) -> tuple[date, dict[str, str | None], Sequence[str]]:
    """Day and degrees that are asked for, and a sentence for each that says nothing."""
    ignored = []
    try:
        day = date.fromisoformat(on) if on else now.date()
    except ValueError:
        ignored.append(f"on: expected a day as {now.date()}, found {on}; shown is today")
        day = now.date()
    degrees: dict[str, str | None] = {}
    for name, text in (("tp", tp), ("dcp", dcp)):
        good = text.isascii() and text.isdecimal() and 1 <= int(text) <= _LARGEST_DEGREE
        degrees[name] = str(int(text)) if good else None
        if text and not good:
            ignored.append(f"{name}: expected a whole number from 1, found {text}")
    return day, degrees, ignored


def _address(**values: str) -> str:
    given = _given(values)
    return f"/qualified?{urlencode(given)}" if given else "/qualified"


def _given(values: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}
