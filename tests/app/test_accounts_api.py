"""Accounts and keys over REST: who may make what, shown once, changed under If-Match, revoked for good."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, event, text

from app.accounts import service
from app.db.session import Database
from app.main import create_app
from app.web.auth import PRESETS, Scope

PASSWORD = "correct horse battery"
READ = ["images:read", "restores:read"]


def bearer(key: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", **more}


@pytest.fixture
def admin(client: TestClient, keys: dict[str, str]) -> "Caller":
    return Caller(client, keys["admin"])


class Caller:
    """One key's view of the API."""

    def __init__(self, client: TestClient, key: str) -> None:
        self.client = client
        self.key = key

    def get(self, path: str, **params: Any) -> Any:
        return self.client.get(f"/api/v1/{path}", headers=bearer(self.key), params=params)

    def post(self, path: str, body: dict[str, Any], *, once: str | None = None) -> Any:
        headers = bearer(self.key, **{"Idempotency-Key": once or str(uuid4())})
        return self.client.post(f"/api/v1/{path}", headers=headers, json=body)

    def change(self, method: str, path: str, body: Any = None, *, match: str | None = "*") -> Any:
        headers = bearer(self.key) if match is None else bearer(self.key, **{"If-Match": match})
        return self.client.request(method, f"/api/v1/{path}", headers=headers, json=body)

    def make_key(self, **body: Any) -> Any:
        return self.post("keys", {"label": "ci", "scopes": READ, **body})


@pytest.fixture
def bob(admin: Caller) -> Caller:
    """A key of bob, who may do what an operator may."""
    scopes = sorted(PRESETS["operator"])
    assert admin.post("accounts", {"name": "bob", "scopes": scopes}).status_code == 201
    return Caller(admin.client, admin.make_key(account="bob", label="bob", scopes=scopes).json()["secret"])


def test_account_is_made_shown_listed(admin: Caller) -> None:
    made = admin.post("accounts", {"name": "eve", "scopes": READ})
    assert made.status_code == 201
    account = admin.get("accounts/eve").json()
    assert made.json() == account
    assert (account["scopes"], account["created_by"], account["has_password"]) == (READ, "ada/admin", False)
    names = [one["name"] for one in admin.get("accounts").json()["accounts"]]
    assert names == ["eve", "ada"]
    again = admin.post("accounts", {"name": "eve", "scopes": []})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")


def test_lists_of_people_and_keys_are_paged(admin: Caller) -> None:
    for path, name in (("accounts", "accounts"), ("keys", "keys")):
        for number in range(3):
            admin.post("accounts", {"name": f"{name}{number}", "scopes": []})
        seen, token = [], ""
        while True:
            page = admin.get(path, page_size=2, **({"page_token": token} if token else {})).json()
            assert len(page[name]) <= 2
            seen += [one["id"] for one in page[name]]
            token = page["next_page_token"]
            if not token:
                break
        assert len(seen) == len(set(seen)) >= 4


@pytest.mark.parametrize("name", ["", " ", "a b", "ä", "x" * 65, "a/b", "-a", "a\n"])
def test_names_that_are_none(admin: Caller, name: str) -> None:
    answer = admin.post("accounts", {"name": name, "scopes": []})
    assert (answer.status_code, answer.json()["code"]) == (422, "validation-failed")


def test_change_needs_if_match_and_a_current_one(admin: Caller, bob: Caller) -> None:
    read = admin.get("accounts/bob")
    missing = admin.change("PATCH", "accounts/bob", {"disabled": True}, match=None)
    assert (missing.status_code, missing.json()["code"]) == (428, "precondition-required")
    for wrong in ('"0"', f"W/{read.headers['etag']}"):
        answer = admin.change("PATCH", "accounts/bob", {"disabled": True}, match=wrong)
        assert (answer.status_code, answer.json()["code"]) == (412, "precondition-failed")
        assert answer.headers["etag"] == read.headers["etag"]
    done = admin.change("PATCH", "accounts/bob", {"scopes": READ}, match=read.headers["etag"])
    assert (done.status_code, done.json()["scopes"]) == (200, READ)
    stale = admin.change("PATCH", "accounts/bob", {"disabled": True}, match=read.headers["etag"])
    assert stale.status_code == 412
    assert admin.change("PATCH", "accounts/bob", {}).status_code == 422
    assert admin.change("PATCH", "accounts/nobody", {"disabled": True}).status_code == 404


def test_keys_follow_their_account_at_once(admin: Caller, bob: Caller) -> None:
    assert bob.get("nodes").status_code == 200
    admin.change("PATCH", "accounts/bob", {"scopes": READ})
    assert bob.get("nodes").status_code == 403
    assert bob.get("restores").status_code == 200
    disabled = admin.change("PATCH", "accounts/bob", {"disabled": True}).json()
    assert (disabled["disabled"], disabled["disabled_by"]) == (True, "ada/admin")
    refused = bob.get("restores")
    assert (refused.status_code, refused.json()["code"]) == (401, "key-refused")
    enabled = admin.change("PATCH", "accounts/bob", {"disabled": False}).json()
    assert (enabled["disabled_at"], enabled["disabled_by"]) == (None, None)
    assert bob.get("restores").status_code == 200


@pytest.mark.parametrize("change", [{"disabled": True}, {"scopes": READ}])
def test_the_last_admin_stays(admin: Caller, change: dict[str, Any]) -> None:
    answer = admin.change("PATCH", "accounts/ada", change)
    assert (answer.status_code, answer.json()["code"]) == (409, "last-admin")
    admin.post("accounts", {"name": "zoe", "scopes": ["admin"]})
    assert admin.change("PATCH", "accounts/ada", change).status_code == 200


def test_password_is_set_and_ends_sessions(admin: Caller, bob: Caller, database: Database) -> None:
    assert admin.change("PUT", "accounts/bob/password", {"password": PASSWORD}).status_code == 204
    with database.transaction() as session:
        login = service.log_in(session, name="bob", password=PASSWORD, life=timedelta(hours=1))
        assert login is not None
    answer = admin.change("PUT", "accounts/bob/password", {"password": "another horse battery"})
    assert answer.status_code == 204
    with database.reading() as session:
        assert service.resume(session, token=login.token) is None
    assert admin.change("PUT", "accounts/bob/password", {"password": PASSWORD}, match=None).status_code == 428
    assert bob.change("PUT", "accounts/bob/password", {"password": PASSWORD}).status_code == 403


@pytest.mark.parametrize("password", ["hunter2", "hunter2" * 200])
def test_a_password_is_never_repeated_in_an_answer(admin: Caller, password: str) -> None:
    for body in ({"password": password}, {"passwrod": password}, {"password": [password]}):
        answer = admin.change("PUT", "accounts/ada/password", body)
        assert answer.status_code == 422
        assert "hunter2" not in answer.text


def test_secret_is_shown_once_and_never_kept(admin: Caller, owner_engine: Engine) -> None:
    first = admin.post("keys", {"label": "ci", "scopes": READ}, once="once")
    secret = first.json()["secret"]
    again = admin.post("keys", {"label": "ci", "scopes": READ}, once="once")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == {**first.json(), "secret": None}
    assert Caller(admin.client, secret).get("restores").status_code == 200
    shown = admin.get(f"keys/{first.json()['id']}")
    assert "secret" not in shown.json()
    assert secret.startswith(shown.json()["prefix"] + "_")
    with owner_engine.connect() as connection:
        for table in connection.execute(
            text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        ).scalars():
            rows = connection.execute(text(f'SELECT to_jsonb(t)::text FROM "{table}" t')).scalars()
            hidden = secret.split("_", 2)[2]
            assert not [row for row in rows if hidden in row or hidden.encode().hex() in row], table


def test_a_key_hands_on_less_than_it_holds(admin: Caller, bob: Caller) -> None:
    assert bob.make_key(life_s=3600).status_code == 201
    assert bob.make_key(life_s=3600, account="bob").json()["created_by"] == "bob/bob"
    for body, status, words in (
        ({"account": "ada"}, 403, "found ada"),
        ({"scopes": ["admin"]}, 422, "found admin"),
        ({"scopes": ["nodes:report"], "node": "node-a"}, 422, "found nodes:report"),
        ({"life_s": 366 * 86400}, 422, "expires no later"),
    ):
        answer = bob.make_key(**{"life_s": 3600, **body})
        assert (answer.status_code, words in answer.json()["detail"]) == (status, True), answer.text


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"life_s": 366 * 86400 + 1}, "/life_s"),
        ({"life_s": 0}, "/life_s"),
        ({"scopes": ["king"]}, "/scopes/0"),
        ({"scopes": []}, "/scopes"),
        ({"label": "a/b"}, "/label"),
        ({"colour": "red"}, "/colour"),
    ],
)
def test_keys_that_are_none(admin: Caller, body: dict[str, Any], pointer: str) -> None:
    answer = admin.make_key(**body)
    assert (answer.status_code, answer.json()["code"]) == (422, "validation-failed")
    assert pointer in {part["pointer"] for part in answer.json()["errors"]}


@pytest.mark.parametrize(
    "body", [{"scopes": ["nodes:report"]}, {"node": "node-a"}, {"account": "bob", "scopes": ["admin"]}]
)
def test_keys_no_account_may_have(admin: Caller, bob: Caller, body: dict[str, Any]) -> None:
    answer = admin.make_key(**body)
    assert (answer.status_code, answer.json()["code"]) == (422, "refused")


def test_worker_key_is_bound_to_its_node(admin: Caller) -> None:
    made = admin.make_key(label="node-b", scopes=["nodes:report"], node="node-b").json()
    worker = Caller(admin.client, made["secret"])
    body = {"devices": [{"name": "host0", "kind": "host", "pool_bytes": 1}]}
    assert worker.change("PUT", "nodes/node-b", body, match=None).status_code == 200
    other = worker.change("PUT", "nodes/node-c", body, match=None)
    assert (other.status_code, other.json()["code"]) == (403, "other-node")
    assert worker.get("keys").status_code == 403
    assert worker.get("accounts/ada").status_code == 403


def test_people_see_their_own_keys_only(admin: Caller, bob: Caller) -> None:
    listed = bob.get("keys").json()["keys"]
    assert {key["account"] for key in listed} == {"bob"}
    assert {key["account"] for key in admin.get("keys", account="bob").json()["keys"]} == {"bob"}
    assert bob.get("keys", account="ada").status_code == 403
    foreign = next(key for key in admin.get("keys", account="ada").json()["keys"])
    assert bob.get(f"keys/{foreign['id']}").status_code == 404
    assert bob.change("DELETE", f"keys/{foreign['id']}").status_code == 404
    assert bob.get("accounts/bob").status_code == 200
    assert bob.get("accounts/ada").status_code == 404


def test_revoked_key_stays_in_the_list(admin: Caller, bob: Caller) -> None:
    key = bob.get("keys").json()["keys"][0]
    path = f"keys/{key['id']}"
    assert admin.change("DELETE", path, match=None).status_code == 428
    assert admin.change("DELETE", path, match='"0"').status_code == 412
    etag = admin.get(path).headers["etag"]
    revoked = admin.change("DELETE", path, match=etag).json()
    assert (revoked["state"], revoked["revoked_by"]) == ("revoked", "ada/admin")
    assert bob.get("keys").status_code == 401
    assert admin.change("DELETE", path).json() == revoked
    assert admin.get("keys", account="bob").json()["keys"][0]["state"] == "revoked"


def test_use_is_noted_to_the_minute_and_written_once(admin: Caller, bob: Caller, database: Database) -> None:
    written: list[str] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def _note(_c: Any, _u: Any, statement: str, _p: Any, _x: Any, _m: Any) -> None:
        if statement.startswith("UPDATE api_key"):
            written.append(statement)

    for _ in range(3):
        bob.get("restores")
    assert len(written) <= 1
    used = admin.get("keys", account="bob").json()["keys"][0]["last_used_at"]
    assert used.endswith(":00Z")


def test_reads_go_on_when_use_cannot_be_noted(
    admin: Caller, database: Database, owner_engine: Engine, client: TestClient
) -> None:
    fresh = create_app(client.app.state.settings, database=database, messages=client.app.state.messages)  # type: ignore[attr-defined]
    with owner_engine.begin() as connection:
        connection.execute(text("REVOKE UPDATE ON api_key FROM sparkgate_app"))
    try:
        with TestClient(fresh) as other:
            assert other.get("/api/v1/restores", headers=bearer(admin.key)).status_code == 200
    finally:
        with owner_engine.begin() as connection:
            connection.execute(text("GRANT UPDATE ON api_key TO sparkgate_app"))


def test_every_event_is_in_the_ledger(admin: Caller, bob: Caller, owner_engine: Engine) -> None:
    admin.change("PUT", "accounts/bob/password", {"password": PASSWORD})
    admin.change("PATCH", "accounts/bob", {"disabled": True})
    key = admin.get("keys", account="bob").json()["keys"][0]
    admin.change("DELETE", f"keys/{key['id']}")
    with owner_engine.connect() as connection:
        kinds = connection.execute(text("SELECT kind FROM ledger_leaf ORDER BY index")).scalars().all()
    assert kinds[-5:] == ["account-created", "key-created", "password-set", "account-changed", "key-revoked"]


def test_scopes_of_an_admin_account_without_reports_still_make_node_keys(database: Database) -> None:
    with database.transaction() as session:
        service.create_account(session, name="zoe", password=None, scopes=frozenset({Scope.ADMIN}))
        text_ = service.create_key(
            session, account_name="zoe", label="n", scopes=PRESETS["worker"], node_name="node-z"
        )
        principal = service.authenticate_key(session, text=text_)
    assert principal is not None
    assert principal.scopes == PRESETS["worker"]


def test_a_key_takes_away_no_more_than_it_holds(admin: Caller, bob: Caller) -> None:
    """A key that only reads must not be able to stop what others of its account do."""
    made = bob.make_key(label="reader", life_s=600).json()
    reader = Caller(bob.client, made["secret"])
    other = bob.make_key(label="other reader", life_s=600).json()
    (own,) = [key for key in bob.get("keys").json()["keys"] if key["label"] == "bob"]
    refused = reader.change("DELETE", f"keys/{own['id']}")
    assert (refused.status_code, refused.json()["code"]) == (403, "scope-missing")
    assert bob.get(f"keys/{own['id']}").json()["state"] == "live"
    assert reader.change("DELETE", f"keys/{other['id']}").json()["state"] == "revoked"
    assert reader.change("DELETE", f"keys/{made['id']}").json()["state"] == "revoked"
    assert admin.change("DELETE", f"keys/{own['id']}").json()["state"] == "revoked"


def test_what_a_change_answers_has_the_etag_of_the_next(admin: Caller) -> None:
    admin.post("accounts", {"name": "eve", "scopes": READ})
    changed = admin.change("PATCH", "accounts/eve", {"disabled": True})
    assert changed.headers["etag"] == admin.get("accounts/eve").headers["etag"]
    again = admin.change("PATCH", "accounts/eve", {"disabled": False}, match=changed.headers["etag"])
    assert again.status_code == 200
    key = admin.make_key(account="eve", label="eve").json()
    revoked = admin.change("DELETE", f"keys/{key['id']}")
    assert revoked.headers["etag"] == admin.get(f"keys/{key['id']}").headers["etag"]
