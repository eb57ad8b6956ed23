"""Images under their three digests, and how we know of each."""

from fastapi import APIRouter, Request, Response

from app.dashboard import queries
from app.dashboard.access import ImagesVisitor
from app.dashboard.templating import page
from app.db.session import database_time
from app.web.deps import ReadSession
from app.web.paging import PageDep, next_token

router = APIRouter(prefix="/images", include_in_schema=False)

IMPORTED = "imported-record"


@router.get("")
def list_images(request: Request, session: ReadSession, login: ImagesVisitor, asked: PageDep) -> Response:
    found = queries.images(session, after=asked.after, limit=asked.size + 1)
    shown, token = next_token(asked, found)
    return page(
        request,
        "images.html",
        login=login,
        now=database_time(session),
        images=shown,
        imported=IMPORTED,
        older=f"/images?page_token={token}" if token else "",
    )
