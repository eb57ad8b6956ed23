"""The page of one restore: what it says, what each rank measured, what its pages hold, what may be done."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from app.accounts.service import Login
from app.config import Settings
from app.dashboard import queries
from app.dashboard.access import Operator, Visitor
from app.dashboard.answer import FAULTS, answer_view, votes
from app.dashboard.cancel import can_cancel
from app.dashboard.htmx import FAST_MS, SLOW_MS, Live, fragment, is_fragment_request
from app.dashboard.lanes import SHORT_NAMES
from app.dashboard.templating import page, render
from app.dashboard.timing import Timing, newest_attempts, read_report, timing_of
from app.dashboard.wording import MARKS, OPEN_STATES, PHASES, STATES, WAITS, verdict_of
from app.db.session import database_time
from app.errors import NotFound
from app.models import RankAttempt, Readback, Restore
from app.restores.api.deps import MessagesDep
from app.restores.api.resources import TITLE, cancellation
from app.restores.service import readback as readbacks
from app.restores.service import residency
from app.restores.service.admission import waiting_reasons
from app.web.auth import Scope
from app.web.deps import ReadSession, SettingsDep, WriteSession

router = APIRouter(prefix="/restores/{restore_id}", include_in_schema=False)


FIRST_FACTS: Final = (
    "engine",
    "engine_sha256",
    "source_sha256",
    "image_config_id",
    "python",
    "numpy",
    "cupy",
)
UNSHOWN_FACTS: Final = frozenset({"schema", "engine_files", "source_files"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFacts:
    """What the workers that claimed some ranks had measured of themselves."""

    ranks: tuple[int, ...]
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """One layer of a readback: by rank its digest, pages and bytes."""

    name: str
    by_rank: dict[int, dict[str, Any]]

    @property
    def pages(self) -> str:
        return self._equal("pages")

    @property
    def sizes(self) -> str:
        return self._equal("bytes")

    def _equal(self, key: str) -> str:
        """A number that tensor-parallel ranks share, or all of them where they do not."""
        return " / ".join(f"{count:,}" for count in sorted({one[key] for one in self.by_rank.values()}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Bytes placed and to be placed by all ranks together, and ranks that are ready."""

    done: int
    total: int
    ready: int


@router.get("")
def show_restore(
    restore_id: UUID, request: Request, session: ReadSession, login: Visitor, settings: SettingsDep
) -> Response:
    rows = _rows(session, restore_id=restore_id)
    now = database_time(session)
    live = _live(request, session=session, rows=rows, login=login, settings=settings)
    verdict = verdict_of(rows.restore)
    return page(
        request, "restore.html", login=login, now=now, live=live, restore=rows.restore, verdict=verdict
    )


@router.get("/live")
def live_restore(
    restore_id: UUID, request: Request, session: ReadSession, login: Visitor, settings: SettingsDep
) -> Response:
    if not is_fragment_request(request):
        return RedirectResponse(f"/restores/{restore_id}", status_code=303)
    rows = _rows(session, restore_id=restore_id)
    return fragment(request, _live(request, session=session, rows=rows, login=login, settings=settings))


@router.get("/ranks/{rank}")
def show_rank(
    restore_id: UUID, rank: int, request: Request, session: ReadSession, login: Visitor
) -> Response:
    """Every interval of one rank, one by one."""
    restore = _rows(session, restore_id=restore_id).restore
    attempt = next((one for one in newest_attempts(restore) if one.rank == rank), None)
    if attempt is None or attempt.report is None:
        raise NotFound(f"restore {restore_id}, rank {rank}: no report was received")
    return page(
        request,
        "rank.html",
        login=login,
        now=database_time(session),
        restore=restore,
        attempt=attempt,
        report=read_report(attempt.report),
    )


@router.post("/readbacks")
def read_pages_back(
    restore_id: UUID,
    session: WriteSession,
    login: Operator,
    messages: MessagesDep,
    settings: SettingsDep,
) -> Response:
    """A readback that is still open is the one that was asked for."""
    rows = _rows(session, restore_id=restore_id)
    if rows.readback is None or rows.readback.ended_at is not None:
        by = login.principal.name
        readbacks.request_readback(
            session, restore_id=restore_id, by=by, messages=messages, settings=settings
        )
    return RedirectResponse(f"/restores/{restore_id}#readback", status_code=303)


@router.post("/discard")
def discard_pages(
    restore_id: UUID,
    session: WriteSession,
    login: Operator,
    messages: MessagesDep,
    settings: SettingsDep,
) -> Response:
    by = login.principal.name
    residency.discard(session, restore_id=restore_id, by=by, messages=messages, settings=settings)
    return RedirectResponse(f"/restores/{restore_id}", status_code=303)


def _rows(session: Session, *, restore_id: UUID) -> queries.RestoreRows:
    rows = queries.restore_rows(session, restore_id=restore_id)
    if rows is None:
        raise NotFound(f"restore {restore_id}: not found")
    return rows


def _live(
    request: Request, *, session: Session, rows: queries.RestoreRows, login: Login, settings: Settings
) -> Live:
    restore, now = rows.restore, database_time(session)
    timing = timing_of(restore, now=now)
    tries = queries.tries(session, restore_id=restore.id)
    inner = render(
        request,
        "restore_live.html",
        answer=answer_view(session, restore=restore, timing=timing),
        votes=votes,
        now=now,
        restore=restore,
        title=TITLE,
        verdict=verdict_of(restore),
        state_sentence=STATES[restore.state],
        timing=timing,
        troubles=_troubles(timing),
        runtimes=_runtimes(restore),
        events=rows.events,
        readback=rows.readback,
        layers=_layer_rows(rows.readback),
        placed=_placed_digests(timing),
        work=_work(timing) if restore.state == "running" else None,
        waiting_for=waiting_reasons(session, restore=restore),
        tries=tries,
        cancellation=cancellation(restore),
        can_cancel=can_cancel(restore),
        retry=_retry_standing(restore, tries=tries, try_limit=settings.try_limit),
        form_token=login.form_token,
        may_write=login.principal.may(Scope.RESTORES_WRITE),
        words={"phases": PHASES, "waits": WAITS, "marks": MARKS, "short": SHORT_NAMES, "faults": FAULTS},
    )
    return Live(url=f"/restores/{restore.id}/live", inner=inner, poll_ms=_poll_ms(rows))


def _work(timing: Timing) -> Work | None:
    """How far all ranks are together; nothing before one of them has said how much there is to do."""
    attempts = [rank.attempt for rank in timing.ranks]
    said = [attempt.progress or {} for attempt in attempts]
    reported = [rank.report.bytes if rank.report else 0 for rank in timing.ranks]
    # A rank that has said nothing yet has about as much to do as its pages take.
    totals = [
        one.get("total_bytes") or attempt.pages_bytes for one, attempt in zip(said, attempts, strict=True)
    ]
    if not any(said) and not any(reported):
        return None
    done = [max(report, one.get("bytes", 0)) for report, one in zip(reported, said, strict=True)]
    return Work(
        done=min(sum(done), sum(totals)),
        total=sum(totals),
        ready=sum(attempt.ready_at is not None for attempt in attempts),
    )


def _retry_standing(restore: Restore, *, tries: Sequence[Restore], try_limit: int) -> str:
    """`possible`, `exhausted`, or nothing to offer: not over, restored, a drill, or tried again already."""
    tried_again = any(one.retry_of_id == restore.id for one in tries)
    if restore.outcome in {None, "restored"} or restore.fault_name is not None or tried_again:
        return ""
    return "possible" if restore.try_number < try_limit else "exhausted"


def _poll_ms(rows: queries.RestoreRows) -> int | None:
    """Fast while something happens, slowly while pages only stay, not at all once all is over."""
    reading_back = rows.readback is not None and rows.readback.ended_at is None
    if rows.restore.state in OPEN_STATES or (reading_back and rows.restore.state == "resident"):
        return FAST_MS
    return SLOW_MS if rows.restore.state == "resident" else None


def _troubles(timing: Timing) -> list[RankAttempt]:
    """The attempts that say what went wrong, corruption first."""
    told = [rank.attempt for rank in timing.ranks if rank.attempt.problem]
    return sorted(told, key=lambda attempt: (attempt.outcome != "corrupt", attempt.rank))


def _runtimes(restore: Restore) -> list[RuntimeFacts]:
    """The measured runtimes, ranks with equal ones together."""
    together: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for attempt in newest_attempts(restore):
        facts = tuple(sorted((name, str(value)) for name, value in (attempt.runtime or {}).items()))
        together.setdefault(facts, []).append(attempt.rank)
    return [RuntimeFacts(ranks=tuple(ranks), facts=_in_order(facts)) for facts, ranks in together.items()]


def _in_order(facts: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """What identifies the code first; what only says how it was measured is left to the API."""
    shown = [fact for fact in facts if fact[0] not in UNSHOWN_FACTS]
    places = {name: place for place, name in enumerate(FIRST_FACTS)}
    return tuple(sorted(shown, key=lambda fact: (places.get(fact[0], len(places)), fact[0])))


def _layer_rows(readback: Readback | None) -> list[LayerRow]:
    """The layers of a readback in the order the ranks gave them."""
    rows: dict[str, dict[int, dict[str, Any]]] = {}
    for one in readback.ranks if readback else ():
        for layer in one.layers:
            rows.setdefault(layer["name"], {})[one.rank] = layer
    return [LayerRow(name=name, by_rank=by_rank) for name, by_rank in rows.items()]


def _placed_digests(timing: Timing) -> dict[tuple[int, str], str]:
    """Layer digests the ranks took when they placed the pages, where their reports hold them."""
    return {
        (rank.rank, layer.name): str(layer.sha256)
        for rank in timing.ranks
        for layer in (rank.report.layers if rank.report else ())
    }
