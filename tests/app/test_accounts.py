"""Accounts, keys and sessions."""

import json
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from app.accounts import service
from app.accounts.bootstrap import bootstrap_local
from app.db.session import Database
from app.errors import Conflict, NotFound, Refused
from app.web.auth import PRESETS, Scope

PASSWORD = "correct horse battery"


def make_account(database: Database, *, name: str = "ada") -> None:
    with database.transaction() as session:
        service.create_account(session, name=name, password=PASSWORD, scopes=PRESETS["operator"])


def make_key(database: Database, **changes: object) -> str:
    usual: dict[str, object] = {"account_name": "ada", "label": "ci", "scopes": PRESETS["viewer"]}
    with database.transaction() as session:
        return service.create_key(session, **(usual | changes))  # type: ignore[arg-type]


def test_key_authenticates_until_it_is_revoked(database: Database) -> None:
    make_account(database)
    key = make_key(database)
    with database.transaction() as session:
        principal = service.authenticate_key(session, text=key)
        assert principal is not None
        assert (principal.name, principal.scopes) == ("ada/ci", PRESETS["viewer"])
        assert service.revoke_keys(session, label="ci") == 1
        assert service.authenticate_key(session, text=key) is None


def test_only_the_hash_of_a_key_is_kept(database: Database, owner_engine: Engine) -> None:
    make_account(database)
    key = make_key(database)
    with owner_engine.connect() as connection:
        rows = connection.execute(text("SELECT row_to_json(api_key)::text FROM api_key")).scalars().all()
    secret = key.split("_", 2)[2]
    assert len(rows) == 1
    assert secret not in rows[0]
    assert secret[:20] not in rows[0]


def test_expired_key_and_disabled_account_are_refused(database: Database, owner_engine: Engine) -> None:
    make_account(database)
    expired, good = make_key(database, life=timedelta(seconds=-1)), make_key(database, label="other")
    with database.reading() as session:
        assert service.authenticate_key(session, text=expired) is None
        assert service.authenticate_key(session, text=good) is not None
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE account SET disabled_at = now()"))
    with database.reading() as session:
        assert service.authenticate_key(session, text=good) is None
        assert service.log_in(session, name="ada", password=PASSWORD, life=timedelta(hours=1)) is None


@pytest.mark.parametrize("change", [0, 5, 14, 30, -1])
def test_any_changed_character_of_a_key_is_refused(database: Database, change: int) -> None:
    make_account(database)
    key = make_key(database)
    position = change % len(key)
    other = key[:position] + ("x" if key[position] != "x" else "y") + key[position + 1 :]
    with database.reading() as session:
        assert service.authenticate_key(session, text=other) is None


def test_worker_key_needs_its_node_and_no_other_key_has_one(database: Database) -> None:
    make_account(database)
    with pytest.raises(Refused, match="node name"):
        make_key(database, scopes=frozenset({Scope.NODES_REPORT}))
    with pytest.raises(Refused, match="node name"):
        make_key(database, node_name="node-a")


def test_names_and_passwords_that_are_not_acceptable(database: Database) -> None:
    make_account(database)
    with database.transaction() as session:
        with pytest.raises(Conflict):
            service.create_account(session, name="ada", password=PASSWORD, scopes=frozenset())
        with pytest.raises(Refused, match="at least 12"):
            service.create_account(session, name="bob", password="short", scopes=frozenset())
        with pytest.raises(Refused, match="1 to 64"):
            service.create_account(session, name=" ", password=PASSWORD, scopes=frozenset())
        with pytest.raises(NotFound):
            service.set_password(session, name="nobody", password=PASSWORD)


def test_session_lasts_until_log_out(database: Database) -> None:
    make_account(database)
    with database.transaction() as session:
        assert service.log_in(session, name="ada", password="wrong password", life=timedelta(hours=1)) is None
        assert service.log_in(session, name="eve", password=PASSWORD, life=timedelta(hours=1)) is None
        login = service.log_in(session, name="ada", password=PASSWORD, life=timedelta(hours=1))
        assert login is not None
    with database.transaction() as session:
        resumed = service.resume(session, token=login.token)
        assert resumed is not None
        assert resumed.principal.name == "ada"
        service.log_out(session, token=login.token)
        assert service.resume(session, token=login.token) is None


def test_expired_session_is_over(database: Database) -> None:
    make_account(database)
    with database.transaction() as session:
        login = service.log_in(session, name="ada", password=PASSWORD, life=timedelta(seconds=-1))
        assert login is not None
        assert service.resume(session, token=login.token) is None


def test_bootstrap_is_made_once_and_heals_what_is_lost(database: Database, tmp_path: Path) -> None:
    first = bootstrap_local(database, home=tmp_path, node="local")
    assert bootstrap_local(database, home=tmp_path, node="local") == first
    for name in ("credentials.json", "node-keys/local.key", "page.key"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    (tmp_path / "node-keys/local.key").unlink()
    second = bootstrap_local(database, home=tmp_path, node="local")
    with database.reading() as session:
        assert service.authenticate_key(session, text=first.api_key) is None
        assert service.authenticate_key(session, text=second.api_key) is not None
        node = service.authenticate_key(session, text=Path(second.node_key_file).read_text())
        assert node is not None
        assert node.node_name == "local"


def test_home_of_the_version_before_is_brought_up_to_date(database: Database, tmp_path: Path) -> None:
    """Its node key lay beside the other keys, where a node's container does not look any more."""
    made = bootstrap_local(database, home=tmp_path, node="local")
    place, before = tmp_path / "node-keys/local.key", tmp_path / "node-local.key"
    key = place.read_text()
    place.rename(before)
    place.parent.rmdir()
    old = replace(made, node_key_file=str(before))
    (tmp_path / "credentials.json").write_text(json.dumps(asdict(old)))
    (tmp_path / "page.key").unlink()
    assert bootstrap_local(database, home=tmp_path, node="local") == made
    assert (place.read_text(), place.stat().st_mode & 0o777) == (key, 0o600)
    assert not before.exists()
    assert len((tmp_path / "page.key").read_bytes()) == 64
    assert bootstrap_local(database, home=tmp_path, node="local") == made


def test_key_of_another_node_name_is_replaced(database: Database, tmp_path: Path) -> None:
    bootstrap_local(database, home=tmp_path, node="local")
    renamed = bootstrap_local(database, home=tmp_path, node="desk")
    with database.reading() as session:
        node = service.authenticate_key(session, text=Path(renamed.node_key_file).read_text())
    assert node is not None
    assert node.node_name == "desk"


def test_bytes_where_a_key_should_be_are_replaced(database: Database, tmp_path: Path) -> None:
    bootstrap_local(database, home=tmp_path, node="local")
    (tmp_path / "node-keys/local.key").write_bytes(b"\xff\xfe")
    healed = bootstrap_local(database, home=tmp_path, node="local")
    with database.reading() as session:
        assert service.authenticate_key(session, text=Path(healed.node_key_file).read_text()) is not None
