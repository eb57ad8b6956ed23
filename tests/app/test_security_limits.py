"""How often anybody may ask; and that no secret reaches a log, a page or an answer."""

import gc
import logging
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fastapi import Request
from fastapi.testclient import TestClient
from limits.storage import storage_from_string
from pydantic import SecretStr

from app.config import Settings
from app.db.session import Database
from app.main import create_app
from app.web.ratelimit import WINDOW_S, Rate, RateLimits, Windows, client_address
from tests.app.conftest import PASSWORD, RecordedMessages
from tests.app.ring import Ring

REPOSITORY = Path(__file__).resolve().parents[2]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def strict(
    settings: Settings, database: Database, messages: RecordedMessages, keys: dict[str, str]
) -> Iterator[TestClient]:
    """An application that lets everybody ask three times a minute."""
    app = create_app(few_of(settings), database=database, messages=messages)
    with TestClient(app, raise_server_exceptions=False, follow_redirects=False) as opened:
        yield opened


@pytest.fixture(params=["in process", "in the broker"])
def login_page(
    request: pytest.FixtureRequest,
    settings: Settings,
    database: Database,
    messages: RecordedMessages,
    keys: dict[str, str],
) -> Iterator[Callable[[str], TestClient]]:
    """Browsers at any address, before an application that counts itself, and before one that has it
    counted."""
    changed = few_of(settings)
    if request.param == "in the broker":
        url = request.getfixturevalue("valkey_url")
        storage_from_string(url).reset()
        changed = changed.model_copy(update={"rate_storage_url": SecretStr(url)})
    app = create_app(changed, database=database, messages=messages)

    def browser(address: str) -> TestClient:
        return TestClient(
            app, raise_server_exceptions=False, follow_redirects=False, client=(address, 50_000)
        )

    with TestClient(app):
        yield browser


def few_of(settings: Settings) -> Settings:
    few = {f"rate_{name}_per_min": 3 for name in ("key", "stranger", "login")}
    more = {"rate_login_name_per_min": 7, "rate_login_address_per_min": 5}
    return settings.model_copy(update={**few, **more})


def check_refused(answer: Any, *, rate: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (429, "rate-limited")
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert answer.headers["ratelimit-policy"].startswith(f'"{rate}";q=')
    assert answer.headers["ratelimit"].startswith(f'"{rate}";r=0;t=')


def test_each_key_has_its_own_quota_and_is_told_of_it(strict: TestClient, keys: dict[str, str]) -> None:
    for left in (2, 1, 0):
        answer = strict.get("/api/v1/restores", headers=bearer(keys["viewer"]))
        assert answer.status_code == 200
        assert answer.headers["ratelimit-policy"] == '"key";q=3;w=60'
        assert answer.headers["ratelimit"].startswith(f'"key";r={left};t=')
    check_refused(strict.get("/api/v1/restores", headers=bearer(keys["viewer"])), rate="key")
    assert strict.get("/api/v1/restores", headers=bearer(keys["operator"])).status_code == 200


def test_a_nodes_key_is_never_limited(strict: TestClient, keys: dict[str, str]) -> None:
    body = {"devices": [{"name": "host0", "kind": "host", "pool_bytes": 1}]}
    for _ in range(20):
        answer = strict.put("/api/v1/nodes/node-a", headers=bearer(keys["worker"]), json=body)
        assert answer.status_code == 200
        assert "ratelimit" not in answer.headers


def test_strangers_are_counted_by_address_and_good_keys_still_work(
    strict: TestClient, keys: dict[str, str]
) -> None:
    for header in ({}, bearer("sgk_00000000_x"), {}):
        assert strict.get("/api/v1/restores", headers=header).status_code == 401
    check_refused(strict.get("/api/v1/restores"), rate="stranger")
    check_refused(strict.get("/api/v1/restores", headers=bearer("x")), rate="stranger")
    assert strict.get("/api/v1/restores", headers=bearer(keys["viewer"])).status_code == 200


def log_in(client: TestClient, name: str, password: str) -> Any:
    return client.post("/login", data={"name": name, "password": password})


def test_guessing_is_stopped_by_name_and_address(strict: TestClient) -> None:
    for _ in range(3):
        assert log_in(strict, "ada", "wrong").status_code == 401
    check_refused(log_in(strict, "ada", PASSWORD), rate="login")
    assert log_in(strict, "eve", "wrong").status_code == 401
    check_refused(log_in(strict, "bob", "wrong"), rate="login-address")


def test_a_stranger_elsewhere_keeps_nobody_from_the_login(
    login_page: Callable[[str], TestClient],
) -> None:
    """However often they guess: what is refused them does not count against the name."""
    stranger, ada = login_page("198.51.100.7"), login_page("192.0.2.1")
    said = [log_in(stranger, "ada", "wrong").status_code for _ in range(30)]
    assert said == [401] * 3 + [429] * 27
    assert log_in(ada, "ada", PASSWORD).status_code == 303


def test_guessing_one_name_from_everywhere_is_slow(login_page: Callable[[str], TestClient]) -> None:
    for part in range(7):
        assert log_in(login_page(f"198.51.100.{part}"), "ada", "wrong").status_code == 401
    check_refused(log_in(login_page("198.51.100.9"), "ada", "wrong"), rate="login-name")
    assert log_in(login_page("198.51.100.9"), "eve", "wrong").status_code == 401


def test_a_name_written_in_other_ways_is_counted_as_one(strict: TestClient) -> None:
    for name in ("ada", "ada\0", "\0ada\0"):
        assert log_in(strict, name, "wrong").status_code == 401
    check_refused(log_in(strict, "a\0da", PASSWORD), rate="login")


def test_the_right_password_forgives_what_was_mistyped(strict: TestClient) -> None:
    for password in ("wrong", "wrong", PASSWORD, "wrong", "wrong"):
        assert log_in(strict, "ada", password).status_code in {303, 401}


def test_only_logins_that_fail_are_counted(login_page: Callable[[str], TestClient]) -> None:
    """And those of others stay counted: a login that succeeds gives nobody else new guesses at the name."""
    ada = login_page("192.0.2.1")
    for part in range(6):
        assert log_in(login_page(f"198.51.100.{part}"), "ada", "wrong").status_code == 401
    assert [log_in(ada, "ada", PASSWORD).status_code for _ in range(9)] == [303] * 9
    assert log_in(login_page("198.51.100.7"), "ada", "wrong").status_code == 401
    check_refused(log_in(login_page("198.51.100.8"), "ada", "wrong"), rate="login-name")


def test_zero_is_no_limit_and_a_storage_that_is_away_limits_nobody(settings: Settings) -> None:
    free = RateLimits(settings.model_copy(update={"rate_key_per_min": 0}))
    assert all(free.spend(Rate.KEY, who="x") is None for _ in range(50))
    url = type(settings.database_url)("redis://127.0.0.1:1/0")  # type: ignore[misc]
    away = RateLimits(settings.model_copy(update={"rate_storage_url": url, "rate_key_per_min": 1}))
    assert all(away.spend(Rate.KEY, who="x") is None for _ in range(3))


def test_a_window_begins_with_the_first_request_and_is_forgotten_after_its_end() -> None:
    now = [1000.0]
    windows = Windows(clock=lambda: now[0])
    assert [windows.count("ada") for _ in range(2)] == [(1, 1000.0 + WINDOW_S), (2, 1000.0 + WINDOW_S)]
    for number in range(1000):
        windows.count(f"stranger {number}")
    now[0] += WINDOW_S - 0.5
    assert windows.count("ada") == (3, 1000.0 + WINDOW_S)
    assert windows.count("bob") == (1, now[0] + WINDOW_S)
    now[0] += 1.0
    assert windows.count("ada") == (1, now[0] + WINDOW_S)
    assert len(windows) == 2  # ada's new window, and bob's that goes on
    windows.take_back("ada")
    assert windows.count("ada") == (1, now[0] + WINDOW_S)
    windows.clear("ada")
    windows.take_back("ada")
    assert windows.count("ada") == (1, now[0] + WINDOW_S)


def test_counting_starts_no_threads(settings: Settings) -> None:
    limits = RateLimits(settings)
    before = set(threading.enumerate())
    for number in range(50):
        limits.spend(Rate.KEY, who=str(number))
    assert set(threading.enumerate()) <= before


def test_many_threads_are_counted_one_by_one() -> None:
    windows = Windows()
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda _: windows.count("ada")[0], range(400)))
    assert sorted(counts) == list(range(1, 401))


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:1::1", False),
        ("10.0.0.1", "10.0.0.2", False),
    ],
)
def test_an_ipv6_network_counts_as_one(settings: Settings, first: str, second: str, together: bool) -> None:
    one, other = (client_address(Request({"type": "http", "client": (host, 1)})) for host in (first, second))
    assert (one == other) == together


def test_no_secret_reaches_a_log_or_an_answer(
    ring: Ring, keys: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Every secret there is, sent rightly and wrongly; then everything that was said is searched."""
    caplog.set_level(logging.DEBUG)
    client, said = ring.client, []
    admin = {**bearer(keys["admin"]), "If-Match": "*"}

    def keep(answer: Any) -> Any:
        said.append(answer.text + str(answer.headers))
        return answer

    made = client.post(
        "/api/v1/keys",
        headers={**admin, "Idempotency-Key": str(uuid4())},
        json={"label": "x", "scopes": ["images:read"]},
    ).json()
    hidden = [*keys.values(), made["secret"], PASSWORD, "hunter2-hunter2"]
    for key in [*keys.values(), made["secret"]]:
        for sent in (key, key[:-1], key + "x"):
            for path in ("restores", "keys", f"keys/{uuid4()}", "restores/x", f"restores?{key[:8]}=1"):
                keep(client.get(f"/api/v1/{path}", headers=bearer(sent)))
    for body in ({"password": "hunter2-hunter2"}, {"password": {"x": "hunter2-hunter2"}}, "hunter2-hunter2"):
        keep(client.put("/api/v1/accounts/ada/password", headers=admin, json=body))
    for password in (PASSWORD, "hunter2-hunter2"):
        keep(client.post("/login", data={"name": "ada", "password": password}, follow_redirects=False))
    token = client.cookies["sparkgate_session"]
    keep(client.get("/"))
    keep(client.post("/restores/new", data={"form_token": "hunter2-hunter2"}))
    texts = [record.getMessage() for record in caplog.records] + said
    for secret in [*hidden, secret_part(made["secret"])]:
        assert not [text for text in texts if secret in text and "Set-Cookie" not in text], secret[:8]
    assert not [record for record in caplog.records if token in record.getMessage()]


def secret_part(key: str) -> str:
    return key.split("_", 2)[2][:43]


def test_no_command_takes_a_secret_as_an_argument() -> None:
    """Arguments stand in the process list; passwords and keys come from files, prompts or stdin.

    The verifier's ``--key`` is the fingerprint of a public one.
    """
    public = REPOSITORY / "app/core/bundle/__main__.py"
    for path in (REPOSITORY / "app").rglob("*.py"):
        text = path.read_text()
        assert '"--password"' not in text, path
        assert '"--api-key"' not in text, path
        assert ('"--key"' in text) is (path == public), path
    assert re.search(r'"--key",\s+help="fingerprint of the key', public.read_text())


def test_no_settings_text_shows_a_secret(settings: Settings) -> None:
    secret = settings.model_copy(
        update={"database_url": type(settings.database_url)("postgresql://u:hunter2@h/d")}  # type: ignore[misc]
    )
    assert "hunter2" not in repr(secret) + str(secret.model_dump())


@pytest.mark.parametrize("secret", [b"", b"\n", b"fifteen bytes.."])
def test_a_page_secret_that_can_be_guessed_is_none(
    settings: Settings, database: Database, messages: RecordedMessages, tmp_path: Path, secret: bytes
) -> None:
    """With an empty one anybody could write page tokens."""
    (tmp_path / "page.key").write_bytes(secret)
    changed = settings.model_copy(update={"secret_key_file": tmp_path / "page.key"})
    with pytest.raises(ValueError, match="expected at least 16 bytes"):
        create_app(changed, database=database, messages=messages)


def test_what_a_process_is_there_for_is_never_looked_through_again(
    settings: Settings, database: Database, messages: RecordedMessages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.main.read_settings", lambda: settings)
    before = gc.get_freeze_count()
    create_app(settings, database=database, messages=messages)
    assert gc.get_freeze_count() <= before
    try:
        create_app(database=database, messages=messages)
        assert gc.get_freeze_count() > before + 10_000
    finally:
        gc.unfreeze()
