"""One export: how far it is, its bundle, how to verify it."""

from typing import Final
from uuid import UUID

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from app.accounts.service import Login
from app.config import Settings
from app.core.ledger.checkpoint import NoteSigner
from app.dashboard import queries_evidence
from app.dashboard.access import Exporter, LedgerVisitor
from app.dashboard.exports import key_of, standing_of
from app.dashboard.htmx import FAST_MS, Live, fragment, is_fragment_request
from app.dashboard.templating import page, render
from app.db.session import database_time
from app.evidence.api import bundle_response, file_name
from app.evidence.service import reading, request
from app.ledger.api import SignerDep
from app.models import EvidenceExport
from app.web.deps import ReadSession, SettingsDep, WriteSession

router = APIRouter(prefix="/evidence/{export_id}", include_in_schema=False)


# What a bundle counts, in the order and the words of the page.
CONTENTS: Final = {
    "receipts": "receipts",
    "verdicts": "verdicts",
    "coverage": "lines of coverage",
    "images": "images",
    "restores": "restores",
    "restore_ranks": "their ranks",
    "restore_receipts": "their receipts",
    "withdrawals": "withdrawals",
    "conflicts": "conflicts",
    "declarations": "declarations",
    "exceptions": "exceptions",
    "origins": "places of receipts",
    "statements/runs.intoto.jsonl": "statements of runs",
    "statements/verdicts.intoto.jsonl": "statements of verdicts",
    "rows": "rows that are meant",
    "context": "rows beside them",
}


def contents_of(export: EvidenceExport) -> list[tuple[str, int]]:
    """What is in a bundle, counted; a name nobody put into words stands as it is."""
    found = export.contents or {}
    names = [*(name for name in CONTENTS if name in found), *sorted(found.keys() - CONTENTS)]
    return [(CONTENTS.get(name, name.replace("_", " ")), found[name]) for name in names]


@router.get("")
def show_export(
    export_id: UUID,
    http: Request,
    session: ReadSession,
    login: LedgerVisitor,
    settings: SettingsDep,
    signer: SignerDep,
) -> Response:
    export = reading.get_export(session, export_id=export_id)
    live = _live(http, session=session, export=export, login=login, settings=settings, signer=signer)
    return page(
        http,
        "export.html",
        login=login,
        now=database_time(session),
        live=live,
        export=export,
        standing=standing_of(export),
    )


@router.get("/live")
def live_export(
    export_id: UUID,
    http: Request,
    session: ReadSession,
    login: LedgerVisitor,
    settings: SettingsDep,
    signer: SignerDep,
) -> Response:
    if not is_fragment_request(http):
        return RedirectResponse(f"/evidence/{export_id}", status_code=303)
    export = reading.get_export(session, export_id=export_id)
    return fragment(
        http, _live(http, session=session, export=export, login=login, settings=settings, signer=signer)
    )


@router.get("/bundle")
def give_bundle(
    export_id: UUID, http: Request, session: ReadSession, _login: LedgerVisitor, settings: SettingsDep
) -> Response:
    return bundle_response(http, reading.get_export(session, export_id=export_id), settings=settings)


@router.post("/cancel")
def cancel(export_id: UUID, session: WriteSession, login: Exporter) -> Response:
    request.cancel_export(session, export_id=export_id, by=login.principal.name)
    return RedirectResponse(f"/evidence/{export_id}", status_code=303)


@router.post("/discard")
def discard(export_id: UUID, session: WriteSession, login: Exporter) -> Response:
    request.discard_export(session, export_id=export_id, by=login.principal.name)
    return RedirectResponse(f"/evidence/{export_id}", status_code=303)


def _live(
    http: Request,
    *,
    session: Session,
    export: EvidenceExport,
    login: Login,
    settings: Settings,
    signer: NoteSigner | None,
) -> Live:
    roots = queries_evidence.checkpoint_roots(session, sizes=[export.ledger_size])
    inner = render(
        http,
        "export_live.html",
        login=login,
        now=export.ended_at or database_time(session),
        export=export,
        standing=standing_of(export),
        root=roots.get(export.ledger_size, ""),
        kept_until=reading.kept_until(export, settings=settings),
        file_name=file_name(export),
        contents=contents_of(export),
        **key_of(signer),
    )
    return Live(url=f"/evidence/{export.id}/live", inner=inner, poll_ms=None if export.ended_at else FAST_MS)
