"""Who may do what: a route without a line in `security_table` fails, and so does a line without a route."""

import json
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, text

from app.accounts import service as accounts
from app.db.session import Database
from app.web.auth import PRESETS, Scope
from app.web.openapi import operations
from tests.app.ring import NODE, Ring, failed_report, wire
from tests.app.routes import walk
from tests.app.security_table import API, FREE, NODE_OWN, PAGES, PERSON

PASSWORD: Final = "correct horse battery"
NOWHERE: Final = "7e1c0000-0000-4000-8000-000000000000"


@pytest.fixture
def routes(client: TestClient) -> set[str]:
    return {f"{method} {path}" for method, path in walk(client.app.routes)}  # type: ignore[attr-defined]


def test_every_route_has_a_line_and_every_line_a_route(routes: set[str]) -> None:
    assert routes == API.keys() | PAGES.keys()
    assert not API.keys() & PAGES.keys()


def test_the_document_describes_the_whole_api(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    described = {f"{method.upper()} {path}" for path, method, _ in operations(document)}
    assert described == API.keys() - {"GET /openapi.json"}


def may(holder: frozenset[Scope], *, node: str | None, needed: str) -> bool:
    """What the table says of a good key."""
    if needed == FREE:
        return True
    if needed == PERSON:
        return node is None
    if needed == NODE_OWN:
        return node == NODE
    return Scope(needed) in holder or Scope.ADMIN in holder


def test_an_auditor_reads_everything_and_changes_nothing_but_exports_and_own_keys() -> None:
    """The matrix itself: what the preset is for."""
    preset = PRESETS["auditor"]
    allowed = {line for line, needed in (API | PAGES).items() if may(preset, node=None, needed=needed)}
    changing = {line for line in allowed if not line.startswith("GET ")}
    exports = {line for line in changing if "/evidence" in line}
    own = {"POST /api/v1/keys", "DELETE /api/v1/keys/{key_id}", "POST /login", "POST /logout"}
    # They take bytes in to say something of them, and keep nothing.
    asking = {line for line in changing if line.endswith(("/drift", "/activations/judge"))}
    assert changing - exports - asking == own
    hidden = {line for line in (API | PAGES).keys() - allowed if line.startswith("GET ")}
    assert {(API | PAGES)[line] for line in hidden} <= {"admin", NODE_OWN}


class Asker:
    """Sends each operation as its example says, to things that are not there or belong to node-a."""

    def __init__(self, ring: Ring) -> None:
        self.client = ring.client
        document = ring.client.get("/openapi.json").json()
        self.known = {f"{method.upper()} {path}": op for path, method, op in operations(document)}
        restore = ring.start_restore()
        report = ring.report(0)
        self.reports = {
            "ready": json.loads(wire(report)),
            "failure": json.loads(wire(failed_report(report))),
        }
        self.values = {
            "name": NODE,
            "device": "host0",
            "sha256": "0" * 64,
            "contract_sha256": "0" * 64,
            "context_digest": "0" * 64,
            "index": "0",
            "attempt_id": restore["attempts"][0]["id"],
        }

    def ask(self, line: str, *, key: str | None) -> Any:
        method, _, path = line.partition(" ")
        operation = self.known.get(line, {"responses": {}})
        for name in (part.strip("{}") for part in path.split("/") if part.startswith("{")):
            value = "nobody" if "/accounts/" in path else self.values.get(name, NOWHERE)
            path = path.replace(f"{{{name}}}", value)
        params = {
            one["name"]: "0" * 64 if "digest" in one["name"] else 0
            for one in operation.get("parameters", [])
            if one["in"] == "query" and one.get("required")
        }
        headers = {"Fencing-Token": "1", "Idempotency-Key": "k", "If-Match": "*"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
        if line == "POST /api/v1/keys":
            body = {**body, "account": None}
        body = self.reports.get(path.rpartition("/")[2], body)
        return self.client.request(method, path, headers=headers, params=params, json=body)


@pytest.fixture
def asker(ring: Ring) -> Asker:
    return Asker(ring)


def made(database: Database, *, scopes: frozenset[Scope], node: str | None = None, **more: Any) -> str:
    with database.transaction() as session:
        name = "max" if node is None else "nora"
        if not accounts.has_account(session, name=name):
            accounts.create_account(session, name=name, password=None, scopes=frozenset(Scope))
        return accounts.create_key(
            session, account_name=name, label="k", scopes=scopes, node_name=node, **more
        )


def refused(answer: Any) -> bool:
    return answer.status_code in {401, 403}


GOOD_KEYS: Final = {
    **{str(scope): (frozenset({scope}), None) for scope in Scope if scope is not Scope.NODES_REPORT},
    **{
        f"preset {name}": (scopes - PRESETS["worker"], None)
        for name, scopes in PRESETS.items()
        if name != "worker"
    },
    "no scope": (frozenset[Scope](), None),
    "worker of node-a": (PRESETS["worker"], NODE),
    "worker of node-b": (PRESETS["worker"], "node-b"),
}


@pytest.mark.parametrize("who", GOOD_KEYS)
def test_each_key_may_do_what_its_line_says_and_nothing_else(
    asker: Asker, database: Database, who: str
) -> None:
    scopes, node = GOOD_KEYS[who]
    key = made(database, scopes=scopes, node=node)
    wrong = []
    for line, needed in API.items():
        answer = asker.ask(line, key=key)
        assert answer.status_code != 500, (line, answer.text)
        if refused(answer) == may(scopes, node=node, needed=needed):
            wrong.append((line, answer.status_code, answer.text[:200]))
    assert wrong == []


@pytest.mark.parametrize("why", ["none", "nonsense", "expired", "revoked", "disabled"])
def test_a_key_that_is_not_good_opens_nothing(
    asker: Asker, database: Database, owner_engine: Engine, why: str
) -> None:
    life = timedelta(hours=-1 if why == "expired" else 1)
    key: str | None = made(database, scopes=frozenset(Scope) - PRESETS["worker"], life=life)
    if why == "revoked":
        with database.transaction() as session:
            assert accounts.revoke_keys(session, label="k") == 1
    if why == "disabled":
        with owner_engine.begin() as connection:
            connection.execute(text("UPDATE account SET disabled_at = now() WHERE name = 'max'"))
    key = {"none": None, "nonsense": "sgk_00000000_x"}.get(why, key)
    for line, needed in API.items():
        answer = asker.ask(line, key=key)
        assert (answer.status_code == 401) == (needed != FREE), (line, answer.status_code)


@pytest.fixture
def browser(client: TestClient) -> TestClient:
    client.follow_redirects = False
    return client


def test_no_page_opens_without_a_login(browser: TestClient) -> None:
    for line, needed in PAGES.items():
        answer = ask_page(browser, line, form_token="")
        led = answer.status_code == 303 and answer.headers["location"].startswith("/login")
        assert led == (needed != FREE), line


@pytest.mark.parametrize("scopes", [*((scope,) for scope in Scope), ()], ids=str)
def test_each_page_opens_to_its_scope_only(
    browser: TestClient, database: Database, scopes: tuple[Scope, ...]
) -> None:
    held = frozenset(scopes)
    token = logged_in(browser, database, scopes=held)
    for line, needed in PAGES.items():
        if needed not in {FREE, PERSON}:
            answer = ask_page(browser, line, form_token=token)
            expected = Scope(needed) in held or Scope.ADMIN in held
            assert (answer.status_code != 403) == expected, (line, answer.status_code)
            assert answer.status_code != 500, line
    assert ask_page(browser, "POST /logout", form_token=token).headers["location"] == "/login"


def ask_page(browser: TestClient, line: str, *, form_token: str) -> Any:
    method, _, path = line.partition(" ")
    path = path.replace("{rank}", "0").replace("{index}", "0").replace("{name:path}", "app.css")
    for name in ("restore_id", "image_id", "key", "name"):
        path = path.replace(f"{{{name}}}", NOWHERE)
    data = {"form_token": form_token} if method == "POST" else None
    return browser.request(method, path, data=data)


def logged_in(browser: TestClient, database: Database, *, scopes: frozenset[Scope]) -> str:
    """The form token of a session that was opened beside the login form."""
    with database.transaction() as session:
        accounts.create_account(session, name="pat", password=PASSWORD, scopes=scopes)
        login = accounts.log_in(session, name="pat", password=PASSWORD, life=timedelta(hours=1))
    assert login is not None
    browser.cookies.set("sparkgate_session", login.token)
    return login.form_token


def test_every_form_wants_the_sessions_token_and_our_own_site(
    browser: TestClient, database: Database
) -> None:
    posts = [line for line in PAGES if not line.startswith("GET ")]
    assert len(posts) >= 6
    token = logged_in(browser, database, scopes=frozenset(Scope))
    for line in posts:
        method, path = line.replace("{restore_id}", NOWHERE).split(" ")
        for other in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
            answer = browser.request(method, path, data={"form_token": token}, headers=other)
            assert answer.status_code == 403, (line, other)
        for fields in ({}, {"form_token": "x"}, {"form_token": token[:-1]}):
            if line != "POST /login":
                assert browser.request(method, path, data=fields).status_code == 403, (line, fields)


def test_a_key_speaks_for_its_own_nodes_attempts_only(asker: Asker, database: Database) -> None:
    other = made(database, scopes=PRESETS["worker"], node="node-b")
    for line, needed in API.items():
        if needed == NODE_OWN:
            answer = asker.ask(line, key=other)
            assert (answer.status_code, answer.json()["code"]) == (403, "other-node"), line
    assert UUID(asker.values["attempt_id"])
