"""Logging in and out."""

import hmac
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from app.accounts import service as accounts
from app.dashboard.access import (
    COOKIE,
    LoginNeeded,
    check_origin,
    forget_session,
    keep_session,
    local_path,
    login_redirect,
)
from app.dashboard.templating import page
from app.errors import Forbidden
from app.web.deps import ReadSession, SettingsDep, WriteSession
from app.web.ratelimit import Rate, client_address, limits_of

router = APIRouter(include_in_schema=False)

REFUSED = "Name and password do not fit."


@router.get("/login")
def show_login(
    request: Request, session: ReadSession, next_path: Annotated[str, Query(alias="next")] = "/"
) -> Response:
    token = request.cookies.get(COOKIE)
    if token and accounts.resume(session, token=token) is not None:
        return RedirectResponse(local_path(next_path), status_code=303)
    return page(request, "login.html", name="", next_path=local_path(next_path), problem="")


@router.post("/login")
def log_in(
    request: Request,
    session: WriteSession,
    settings: SettingsDep,
    name: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
    next_path: Annotated[str, Form(alias="next")] = "/",
) -> Response:
    check_origin(request)
    # First of all: as it was sent, each number of zeros would be a name of its own to be counted.
    name = name.replace("\0", "")
    limits, address = limits_of(request), client_address(request)
    # Counted before the password is looked at, so that many at once are not all looked at. What is refused
    # for one reason is not counted for the next: an address uses up little of what a name has everywhere.
    counted = ((Rate.LOGIN_ADDRESS, address), (Rate.LOGIN, f"{address}\0{name}"), (Rate.LOGIN_NAME, name))
    for rate, who in counted:
        limits.spend(rate, who=who)
    life = timedelta(seconds=settings.session_s)
    login = accounts.log_in(session, name=name, password=password, life=life)
    target = local_path(next_path)
    if login is None:
        return page(request, "login.html", status=401, name=name, next_path=target, problem=REFUSED)
    limits.forgive(Rate.LOGIN, who=f"{address}\0{name}")
    limits.take_back(Rate.LOGIN_ADDRESS, who=address)
    limits.take_back(Rate.LOGIN_NAME, who=name)
    response = RedirectResponse(target, status_code=303, headers={"Cache-Control": "no-store"})
    keep_session(response, login=login, settings=settings)
    return response


@router.post("/logout")
def log_out(
    request: Request, session: WriteSession, settings: SettingsDep, form_token: Annotated[str, Form()] = ""
) -> Response:
    check_origin(request)
    login = accounts.resume(session, token=request.cookies.get(COOKIE, ""))
    if login is None:
        return login_redirect(request, LoginNeeded("/"))
    if not hmac.compare_digest(form_token.encode(), login.form_token.encode()):
        raise Forbidden("form_token: expected the one of this session; reload the page and try again")
    accounts.log_out(session, token=login.token)
    response = RedirectResponse("/login", status_code=303, headers={"Cache-Control": "no-store"})
    forget_session(response, settings=settings)
    return response
