"""Images by what the rules say of them: tabs, filters that stand in the address, pages by key."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse
from markupsafe import Markup
from sqlalchemy.orm import Session

from app.accounts.service import Login
from app.core.qualify.codes import CODES
from app.core.qualify.findings import GateState, Row
from app.dashboard import queries, queries_evidence
from app.dashboard.access import ImagesVisitor
from app.dashboard.queries_evidence import ScopeFilters, ScopeRow
from app.dashboard.templating import page, short
from app.dashboard.verdict_view import gate_state
from app.dashboard.verdict_words import (
    GATES,
    LISTED_GATES,
    NO_EVIDENCE,
    OUTCOMES,
    TABS,
    code_words,
    model_words,
)
from app.dashboard.wording import typed
from app.verdicts.service.current import searched
from app.verdicts.service.rows import term
from app.web.deps import ReadSession
from app.web.paging import COUNTED, Page, PageDep, Total, next_token

router = APIRouter(prefix="/images", include_in_schema=False)

IMPORTED: Final = "imported-record"
REGISTERED: Final = "registered"
FILTERS: Final = ("topology", "model", "gate", "state", "code", "commit", "text")
_WARNINGS: Final = frozenset(name for name, code in CODES.items() if code.row is Row.WARNING)
TITLES: Final = {
    **{tab: tab.replace("-", " ") for tab in TABS},
    NO_EVIDENCE: "no evidence",
    REGISTERED: "registered",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The tab and the filters as they stand in the address, empty where nothing is asked."""

    tab: str
    topology: str
    model: str
    gate: str
    state: str
    code: str
    commit: str
    text: str

    @property
    def given(self) -> dict[str, str]:
        """What limits the list, by name."""
        return {name: getattr(self, name) for name in FILTERS if getattr(self, name)}

    @property
    def shown(self) -> dict[str, str]:
        """What stands in the address: the tab too."""
        return {"tab": self.tab, **self.given} if self.tab else self.given

    def address(self, **other: str) -> str:
        """The list with these filters; this is the address to share."""
        kept = {name: value for name, value in {**self.shown, **other}.items() if value}
        return f"/images?{urlencode(kept)}" if kept else "/images"

    def on(self, tab: str) -> str:
        """The same filters on another tab."""
        return self.address(tab=tab)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeLine:
    """One line of the list: a scope's verdict and the image it is about."""

    row: ScopeRow

    @property
    def config(self) -> Markup | str:
        """The config id, cut."""
        return short(self.row.image_config_id)

    @property
    def gates(self) -> tuple[tuple[str, str], ...]:
        """Name and state of each gate there is room for."""
        kept = self.row.gates
        return tuple((gate, gate_state(kept, gate)[0]) for gate in LISTED_GATES)

    @property
    def warning_count(self) -> int:
        """Codes that warn and do not block."""
        return len(_WARNINGS.intersection(code.partition(":")[0] for code in self.row.finding_codes))

    @property
    def model(self) -> str:
        return model_words(self.row.target)

    @property
    def against(self) -> str:
        """What keeps it from being deployed; empty where the reason of its verdict says it already."""
        words = "" if self.row.deployable else code_words(self.row.deployable_reason)
        return "" if self.row.reason.startswith(words) else words


def asked_filters(
    tab: Annotated[str, Query(max_length=40)] = "",
    topology: Annotated[str, Query(max_length=40)] = "",
    model: Annotated[str, Query(max_length=200)] = "",
    gate: Annotated[str, Query(max_length=40)] = "",
    state: Annotated[str, Query(max_length=40)] = "",
    code: Annotated[str, Query(max_length=100)] = "",
    commit: Annotated[str, Query(max_length=64)] = "",
    text: Annotated[str, Query(max_length=200)] = "",
) -> Asked:
    values = {"tab": tab, "topology": topology, "model": model, "gate": gate, "state": state}
    values |= {"code": code.upper(), "commit": commit.lower(), "text": text}
    return Asked(**{name: typed(value) for name, value in values.items()})


@router.get("")
def list_images(
    request: Request,
    session: ReadSession,
    login: ImagesVisitor,
    asked: PageDep,
    filters: Annotated[Asked, Depends(asked_filters)],
) -> Response:
    """Where nothing was judged yet, the images that are registered; otherwise the qualified ones first."""
    if "" in request.query_params.values():
        return RedirectResponse(filters.address(), status_code=303)
    counts = queries_evidence.outcome_counts(session)
    tab = filters.tab or ("qualified" if _any(counts) else REGISTERED)
    show: Show = _show_registered if tab in (REGISTERED, NO_EVIDENCE) else _show_scopes
    return show(request, session, login=login, asked=asked, filters=filters, tab=tab, counts=counts)


Show = Callable[..., Response]


def _show_scopes(
    request: Request,
    session: Session,
    *,
    login: Login,
    asked: Page,
    filters: Asked,
    tab: str,
    counts: Mapping[str, Total],
) -> Response:
    chosen, ignored = read_filters(filters, tab=tab)
    found = queries_evidence.scopes(session, filters=chosen, after=asked.after, limit=asked.size + 1)
    shown, token = next_token(asked.under("/images", filters.shown), found)
    total = None if chosen.terms or chosen.words or chosen.tp or chosen.dcp else _of_tab(counts, tab=tab)
    return page(
        request,
        "images.html",
        login=login,
        now=login.now,
        lines=[ScopeLine(row=row) for row in shown],
        total=total or queries_evidence.count_scopes(session, filters=chosen),
        ignored=ignored,
        **_frame(
            request, session, asked=asked, filters=filters, tab=tab, counts=counts, token=token, chosen=chosen
        ),
    )


def _show_registered(
    request: Request,
    session: Session,
    *,
    login: Login,
    asked: Page,
    filters: Asked,
    tab: str,
    counts: Mapping[str, Total],
) -> Response:
    unknown = tab == NO_EVIDENCE
    find = queries_evidence.images_without_evidence if unknown else queries.images
    count = queries_evidence.count_images_without_evidence if unknown else queries.count_images
    found = find(session, after=asked.after, limit=asked.size + 1)
    shown, token = next_token(asked.under("/images", filters.shown), found)
    return page(
        request,
        "images_registered.html",
        login=login,
        now=login.now,
        images=shown,
        total=count(session),
        imported=IMPORTED,
        ignored=[f"{name}: limits verdicts, not this list" for name in filters.given],
        **_frame(request, session, asked=asked, filters=filters, tab=tab, counts=counts, token=token),
    )


def _frame(
    request: Request,
    session: Session,
    *,
    asked: Page,
    filters: Asked,
    tab: str,
    counts: Mapping[str, Total],
    token: str,
    chosen: ScopeFilters | None = None,
) -> dict[str, Any]:
    """What both forms of the list have: tabs with their counts, filters, the way on."""
    size = request.query_params.get("page_size", "")
    return {
        "tab": tab,
        "tabs": _tabs(session, counts=counts, tab=tab),
        "titles": TITLES,
        "asked": filters,
        "gates": GATES,
        "states": [state.value for state in GateState],
        "outcomes": OUTCOMES,
        "anything": _any(counts),
        "first_page": asked.after is None,
        "newest": filters.address(page_size=size),
        "older": filters.address(page_size=size, page_token=token) if token else "",
        "twins": twins(filters, tab=tab, filters=chosen),
    }


def read_filters(asked: Asked, *, tab: str) -> tuple[ScopeFilters, list[str]]:
    """The filters, and a sentence for each one that says nothing."""
    tp, dcp, topology_known = parse_topology(asked.topology)
    gate_known = not asked.gate or asked.gate in GATES
    state_known = not asked.state or asked.state in set(GateState)
    sentences = [
        sentence
        for known, sentence in (
            (tab in TABS, f"tab: expected {', '.join([*TABS, NO_EVIDENCE, REGISTERED])}, found {tab}"),
            (topology_known, f"topology: expected as tp4 or tp4-dcp1, found {asked.topology}"),
            (gate_known, f"gate: expected {', '.join(GATES)}, found {asked.gate}"),
            (state_known, f"state: expected {', '.join(GateState)}, found {asked.state}"),
            (not asked.state or asked.gate, "state: expected beside a gate, found alone"),
        )
        if not known
    ]
    named = (("code", asked.code), ("model", asked.model), ("commit", asked.commit))
    terms = [term(kind, value) for kind, value in named if value]
    if asked.gate and gate_known and state_known:
        terms.append(term("gate", f"{asked.gate}={asked.state or GateState.FAILED}"))
    filters = ScopeFilters(
        outcomes=TABS.get(tab, ()), tp=tp, dcp=dcp, terms=tuple(terms), words=searched(asked.text)
    )
    return filters, sentences


def parse_topology(text: str) -> tuple[str, str, bool]:
    """TP and DCP of ``tp4-dcp1`` or ``tp4``, and whether it could be read."""
    parts = text.lower().replace("/", "-").split("-") if text else []
    known = {
        name: part.removeprefix(name) for part in parts for name in ("tp", "dcp") if part.startswith(name)
    }
    good = len(known) == len(parts) and all(value.isdecimal() for value in known.values())
    return (known.get("tp", ""), known.get("dcp", ""), True) if good else ("", "", False)


def twins(asked: Asked, *, tab: str, filters: ScopeFilters | None) -> list[str]:
    """The addresses of the same list as JSON, one per outcome."""
    if filters is None:
        return ["/api/v1/images"]
    gate = f"{asked.gate}={asked.state or GateState.FAILED.value}" if asked.gate in GATES else ""
    named = {"tp": filters.tp, "dcp": filters.dcp, "gate": gate, "q": asked.text}
    named |= {"code": asked.code, "model": asked.model, "commit": asked.commit}
    given = {name: value for name, value in named.items() if value}
    return [
        f"/api/v1/verdicts?{urlencode({'outcome': str(outcome), **given}, safe='=')}"
        for outcome in TABS.get(tab, ())
    ]


def _tabs(session: Session, *, counts: Mapping[str, Total], tab: str) -> Sequence[tuple[str, Total | None]]:
    """Images without evidence are counted where they are listed only: no index knows them."""
    tabs: list[tuple[str, Total | None]] = [(name, _of_tab(counts, tab=name)) for name in TABS]
    none = queries_evidence.count_images_without_evidence(session) if tab == NO_EVIDENCE else None
    return [*tabs, (NO_EVIDENCE, none), (REGISTERED, queries.count_images(session))]


def _of_tab(counts: Mapping[str, Total], *, tab: str) -> Total | None:
    """What a tab holds; None for one that nobody knows."""
    return _sum([counts[outcome] for outcome in TABS[tab]]) if tab in TABS else None


def _sum(totals: Sequence[Total]) -> Total:
    count = sum(one.count for one in totals)
    exact = all(one.is_exact for one in totals) and count <= COUNTED
    return Total(count=min(count, COUNTED), is_exact=exact)


def _any(counts: Mapping[str, Total]) -> bool:
    return any(total.count for total in counts.values())
