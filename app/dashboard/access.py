"""Who looks at a page: the session cookie, the scope a page needs, the form token every POST carries."""

import hmac
from collections.abc import Callable
from typing import Annotated, Final
from urllib.parse import quote, urlsplit

from fastapi import Depends, Form, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.accounts import service as accounts
from app.accounts.service import Login
from app.config import Settings
from app.dashboard.htmx import is_fragment_request
from app.errors import Forbidden
from app.web.auth import Scope, check_scope
from app.web.deps import ReadSession, WriteSession

COOKIE: Final = "sparkgate_session"
# What a browser says of a request that our own page, or the address bar, has made.
_OWN_SITE: Final = frozenset({"same-origin", "none"})


class LoginNeeded(Exception):
    """There is no session; after the login the visitor goes on to `next_path`."""

    def __init__(self, next_path: str) -> None:
        super().__init__(next_path)
        self.next_path = next_path


def _resumed(request: Request, session: Session) -> Login:
    token = request.cookies.get(COOKIE, "")
    login = accounts.resume(session, token=token) if token else None
    if login is None:
        raise LoginNeeded(_page_path(request))
    request.state.login = login
    return login


def known_visitor(request: Request) -> Login | None:
    """Who looks at a page that needs no login, or at an error: with the same header as on any other page,
    and like a stranger where the database cannot say who it is."""
    login: Login | None = getattr(request.state, "login", None)
    token = request.cookies.get(COOKIE)
    if login is None and token:
        try:
            with request.app.state.database.reading() as session:
                return accounts.resume(session, token=token)
        except SQLAlchemyError:
            return None
    return login


def _page_path(request: Request) -> str:
    """The page to come back to: that of a GET, or the one a form or fragment stands on."""
    if request.method == "GET" and not is_fragment_request(request):
        return request.url.path + (f"?{request.url.query}" if request.url.query else "")
    came_from = urlsplit(request.headers.get("hx-current-url") or request.headers.get("referer") or "")
    return local_path(came_from.path)


def visitor(scope: Scope) -> Callable[[Request, Session], Login]:
    """A dependency: the login behind a page, if it holds `scope`."""

    def check(request: Request, session: ReadSession) -> Login:
        login = _resumed(request, session)
        check_scope(login.principal, scope=scope)
        return login

    return check


def author(scope: Scope) -> Callable[[Request, Session, str], Login]:
    """A dependency: the login behind a form, in the transaction of its POST, if the form is ours."""

    def check(request: Request, session: WriteSession, form_token: Annotated[str, Form()] = "") -> Login:
        check_origin(request)
        login = _resumed(request, session)
        if not hmac.compare_digest(form_token.encode(), login.form_token.encode()):
            raise Forbidden("form_token: expected the one of this session; reload the page and try again")
        check_scope(login.principal, scope=scope)
        return login

    return check


def check_origin(request: Request) -> None:
    """Refuse a POST that another site has made; the session cookie is SameSite=Lax besides.

    Raises:
        Forbidden: the browser names another site.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    foreign_site = site is not None and site not in _OWN_SITE
    foreign_origin = site is None and origin is not None and urlsplit(origin).netloc != request.url.netloc
    if foreign_site or foreign_origin:
        raise Forbidden(f"origin: expected {request.url.netloc}, found {origin or site}")


def local_path(text: str | None) -> str:
    """`text` if it is a path on this server, otherwise the overview."""
    if not text or not text.isprintable() or "\\" in text or not text.startswith("/"):
        return "/"
    return "/" if text.startswith("//") else text


def login_redirect(request: Request, needed: LoginNeeded) -> Response:
    """To the login page and back afterwards; htmx is told to take the whole page there."""
    target = f"/login?next={quote(needed.next_path)}" if needed.next_path != "/" else "/login"
    if is_fragment_request(request):
        return Response(status_code=401, headers={"HX-Redirect": target, "Cache-Control": "no-store"})
    return RedirectResponse(target, status_code=303, headers={"Cache-Control": "no-store"})


def keep_session(response: Response, *, login: Login, settings: Settings) -> None:
    """Give the browser its session: unreadable for scripts, not sent by other sites' forms."""
    response.set_cookie(
        COOKIE,
        login.token,
        max_age=settings.session_s,
        path="/",
        secure=settings.cookie_secure,
        httponly=True,
        samesite="lax",
    )


def forget_session(response: Response, *, settings: Settings) -> None:
    """Have the browser drop its session."""
    response.delete_cookie(COOKIE, path="/", secure=settings.cookie_secure, httponly=True, samesite="lax")


Visitor = Annotated[Login, Depends(visitor(Scope.RESTORES_READ))]
ImagesVisitor = Annotated[Login, Depends(visitor(Scope.IMAGES_READ))]
NodesVisitor = Annotated[Login, Depends(visitor(Scope.NODES_READ))]
Operator = Annotated[Login, Depends(author(Scope.RESTORES_WRITE))]
ProfilesVisitor = Annotated[Login, Depends(visitor(Scope.PROFILES_READ))]
LedgerVisitor = Annotated[Login, Depends(visitor(Scope.EVIDENCE_EXPORT))]
Exporter = Annotated[Login, Depends(author(Scope.EVIDENCE_EXPORT))]
