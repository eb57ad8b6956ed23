"""The list of profile documents, and their bytes to be kept."""

from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import RedirectResponse

from app.core.profiles.documents import DocumentKind
from app.dashboard.access import ProfilesVisitor
from app.dashboard.templating import page
from app.dashboard.wording import typed
from app.db.session import database_time
from app.profiles import service as profiles
from app.web.auth import Scope
from app.web.deps import ReadSession
from app.web.kept_bytes import downloaded_bytes
from app.web.paging import PageDep, next_token

router = APIRouter(prefix="/profiles/documents", include_in_schema=False)

Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
KINDS: Final = [kind.value for kind in DocumentKind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The filters as they stand in the address, empty where nothing is asked."""

    kind: str
    text: str

    @property
    def given(self) -> dict[str, str]:
        """What limits the list, by name."""
        return {name: getattr(self, name) for name in ("kind", "text") if getattr(self, name)}

    def address(self, **more: str) -> str:
        """The list with these filters; this is the address to share."""
        values = self.given | {name: value for name, value in more.items() if value}
        return f"/profiles/documents?{urlencode(values)}" if values else "/profiles/documents"


def asked_filters(
    kind: Annotated[str, Query(max_length=40)] = "", text: Annotated[str, Query(max_length=200)] = ""
) -> Asked:
    return Asked(kind=typed(kind), text=typed(text))


@router.get("")
def list_documents(
    request: Request,
    session: ReadSession,
    login: ProfilesVisitor,
    asked: PageDep,
    filters: Annotated[Asked, Depends(asked_filters)],
) -> Response:
    """An unknown kind is no filter, and said to be none."""
    if "" in request.query_params.values():
        return RedirectResponse(filters.address(), status_code=303)
    kind = DocumentKind(filters.kind) if filters.kind in KINDS else None
    text = filters.text or None
    found = profiles.list_documents(session, kind=kind, text=text, after=asked.after, limit=asked.size + 1)
    shown, token = next_token(asked, found)
    size = request.query_params.get("page_size", "")
    return page(
        request,
        "profile_documents.html",
        login=login,
        now=database_time(session),
        documents=shown,
        total=profiles.count_documents(session, kind=kind, text=text),
        asked=filters,
        ignored=filters.kind if filters.kind and kind is None else "",
        kinds=KINDS,
        newest=filters.address(page_size=size),
        older=filters.address(page_size=size, page_token=token) if token else "",
        first_page=asked.after is None,
        may_add=login.principal.may(Scope.PROFILES_WRITE),
    )


@router.get("/{sha256}/bytes")
def give_bytes(sha256: Digest, session: ReadSession, _login: ProfilesVisitor) -> Response:
    """The bytes as they were submitted, to be kept: never shown as a page."""
    stored = profiles.get_document(session, sha256=sha256)
    raw = profiles.raw_bytes(session, sha256=sha256)
    return downloaded_bytes(raw, file_name=profiles.file_name(stored))
