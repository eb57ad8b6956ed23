"""Keys recognised a moment ago: asked once, forgotten with a change, within a second without one."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from fastapi.testclient import TestClient
from sqlalchemy import event

from app.accounts import service as accounts
from app.db.session import Database
from app.web.auth import PRESETS
from tests.app.ring import Ring

NODES = "/api/v1/nodes"
CROWD = 24


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_key_is_looked_up_once_and_again_after_its_time(ring: Ring, database: Database) -> None:
    clock, asked = Clock(), 0
    known = accounts.KnownKeys(database, clock=clock)
    text = ring.keys["operator"]
    known.recognise(text)

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        nonlocal asked
        asked += "FROM api_key" in statement

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        assert known.remembered(text) == known.recognise(text)
        assert asked == 0
        clock.now_s += accounts.REMEMBERED_S + 0.001
        assert known.remembered(text) is None
        assert known.recognise(text) is not None
        assert asked == 1
    finally:
        event.remove(database.engine, "before_cursor_execute", note)


def test_a_revoked_key_is_refused_at_once(ring: Ring, database: Database) -> None:
    known = accounts.KnownKeys(database)
    text = ring.keys["operator"]
    principal = known.recognise(text)
    assert principal is not None
    assert isinstance(principal.key_id, UUID)
    with database.transaction() as session:
        key = accounts.get_key(session, key_id=principal.key_id, by=principal, lock=True)
        accounts.revoke_key(session, key=key, by="somebody")
    assert known.remembered(text) is None
    assert known.recognise(text) is None


def test_an_account_that_is_disabled_takes_its_keys_with_it_at_once(
    client: TestClient, database: Database
) -> None:
    with database.transaction() as session:
        accounts.create_account(session, name="viewer", password=None, scopes=PRESETS["viewer"])
        text = accounts.create_key(session, account_name="viewer", label="eyes", scopes=PRESETS["viewer"])
    headers = {"Authorization": f"Bearer {text}"}
    assert client.get(NODES, headers=headers).status_code == 200
    with database.transaction() as session:
        account = accounts.get_account(session, name="viewer", lock=True)
        accounts.change_account(session, account=account, by="somebody", disabled=True)
    assert client.get(NODES, headers=headers).status_code == 401


def test_a_wrong_key_is_never_remembered(ring: Ring, database: Database) -> None:
    known = accounts.KnownKeys(database)
    wrong = ring.keys["operator"][:-1] + "x"
    assert known.recognise(wrong) is None
    assert known.remembered(wrong) is None


def test_a_crowd_with_one_key_asks_once(client: TestClient, ring: Ring, database: Database) -> None:
    """All of them stand at the door in the same moment, and nobody has been recognised yet."""
    client.app.state.authenticate_key = accounts.KnownKeys(database, clock=Clock())  # type: ignore[attr-defined]
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("SELECT") and "FROM api_key" in statement:
            asked.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        with ThreadPoolExecutor(CROWD) as pool:
            answers = list(pool.map(lambda _: client.get(NODES, headers=ring.operator_headers), range(CROWD)))
    finally:
        event.remove(database.engine, "before_cursor_execute", note)
    assert {one.status_code for one in answers} == {200}
    assert len(asked) == 1
