"""The embedded servers: start, roles, restart, and repair of what a kill leaves behind."""

import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.db.roles import connect
from app.embedded import DatabaseUrls, EmbeddedError, EmbeddedPostgres, EmbeddedValkey, create_database
from app.processes import processes_in, read_stat, reap_leftovers, record_path


def _ignore(_line: str) -> None:
    return None


@pytest.fixture
def home() -> Iterator[Path]:
    """A home that the unprivileged PostgreSQL user can reach (pytest's own folders are closed to it)."""
    folder = Path(tempfile.mkdtemp(prefix="sparkgate-embedded-"))
    folder.chmod(0o711)
    yield folder
    reap_leftovers(folder)
    shutil.rmtree(folder)


@pytest.fixture
def start(home: Path) -> Iterator[Callable[[], tuple[EmbeddedPostgres, DatabaseUrls]]]:
    """Start PostgreSQL on `home`, each time as a new supervisor would."""
    started: list[EmbeddedPostgres] = []

    def start_one() -> tuple[EmbeddedPostgres, DatabaseUrls]:
        server = EmbeddedPostgres(home, durable=False)
        urls = server.start(_ignore)
        started.append(server)
        return server, urls

    yield start_one
    for server in started:
        server.stop()


Start = Callable[[], tuple[EmbeddedPostgres, DatabaseUrls]]


def test_roles_have_only_their_rights(start: Start) -> None:
    _, urls = start()
    with connect(urls.owner) as connection:
        connection.execute("CREATE TABLE fact (id int)")
    with connect(urls.app) as connection:
        assert connection.execute("SELECT current_user, current_database()").fetchone() == (
            "sparkgate_app",
            "sparkgate",
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE TABLE other (id int)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM fact")


def test_a_wrong_password_is_refused(start: Start) -> None:
    _, urls = start()
    wrong = urls.admin.replace(urls.admin.split(":")[2].split("@")[0], "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(wrong)


def test_text_is_utf8_and_sorted_the_same_everywhere(start: Start) -> None:
    _, urls = start()
    with connect(urls.app) as connection:
        query = "SELECT pg_encoding_to_char(encoding), datlocale, datlocprovider::text FROM pg_database"
        assert set(connection.execute(query)) == {("UTF8", "C.UTF-8", "b")}


def test_listens_on_loopback_only(start: Start) -> None:
    server, urls = start()
    with connect(urls.admin) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        assert connection.execute("SHOW unix_socket_directories").fetchone() == ("",)
    assert server.child
    uid = (Path("/proc") / str(server.child.pid)).stat().st_uid
    assert uid != 0


def test_restart_keeps_data_port_and_passwords(start: Start) -> None:
    server, urls = start()
    assert create_database(urls.admin, name="kept")
    server.stop()
    second, again = start()
    assert again == urls
    assert not create_database(urls.admin, name="kept")
    assert second.findings == []


def test_secrets_are_private_and_in_no_argument_or_log(home: Path, start: Start) -> None:
    server, urls = start()
    broker = EmbeddedValkey(home)
    broker_url = broker.start()
    children = [child for child in (server.child, broker.child) if child]
    shown = "".join(
        child.log.read_text() + (Path("/proc") / str(child.pid) / "cmdline").read_text() for child in children
    )
    broker.stop()
    for url in (urls.admin, urls.owner, urls.app, urls.reader, broker_url):
        assert url.split("@")[0].rsplit(":", 1)[1] not in shown
    assert repr(urls) == "DatabaseUrls()"
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (home / "secrets").iterdir()}
    assert modes == {0o600}


def test_a_killed_server_is_started_again_and_told(home: Path, start: Start) -> None:
    server, urls = start()
    create_database(urls.admin, name="kept")
    assert server.child
    os.kill(server.child.pid, signal.SIGKILL)
    server.child.poll()
    second, _ = start()
    assert len(second.findings) == 1
    assert "PostgreSQL" in second.findings[0]
    assert not create_database(urls.admin, name="kept")


def test_a_server_without_supervisor_is_stopped_and_told(home: Path, start: Start) -> None:
    first, urls = start()
    second, again = start()
    assert again == urls
    assert first.child
    assert first.child.poll() == 0
    assert second.findings == [second.findings[0]]
    assert f"{first.child.pid}" in second.findings[0]
    assert "stopped it" in second.findings[0]


def test_a_pid_file_that_names_a_stranger_is_removed(home: Path, start: Start) -> None:
    server, _ = start()
    server.stop()
    stranger = subprocess.Popen(["sleep", "60"])
    (home / "postgres/data/postmaster.pid").write_text(f"{stranger.pid}\n{home}/postgres/data\n")
    second, _ = start()
    assert stranger.poll() is None
    assert f"named pid {stranger.pid}" in second.findings[0]
    stranger.kill()
    stranger.wait()


def test_data_of_another_major_version_is_refused(home: Path, start: Start) -> None:
    server, _ = start()
    server.stop()
    (home / "postgres/data/PG_VERSION").write_text("17\n")
    with pytest.raises(EmbeddedError, match="expected PostgreSQL 18, found PostgreSQL 17"):
        start()


def test_lost_passwords_are_an_error_that_names_the_file(home: Path, start: Start) -> None:
    server, _ = start()
    server.stop()
    (home / "secrets/postgres.json").unlink()
    with pytest.raises(EmbeddedError, match=r"secrets/postgres\.json: expected the passwords"):
        start()


def test_an_initdb_that_was_killed_is_done_again(home: Path, start: Start) -> None:
    half_made = home / "postgres/data.new"
    half_made.mkdir(parents=True)
    (half_made / "PG_VERSION").write_text("18\n")
    start()
    assert not half_made.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands PostgreSQL to another user")
def test_a_home_the_server_user_cannot_reach_is_not_opened(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    system = Path(tempfile.mkdtemp(prefix="sparkgate-system-"))
    system.chmod(0o711)
    said: list[str] = []
    server = EmbeddedPostgres(closed / "home", durable=False, system_folder=system)
    server.start(said.append)
    server.stop()
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert any(f"cannot reach {closed}/home; its data goes to {system}" in line for line in said)
    again = EmbeddedPostgres(closed / "home", durable=False, system_folder=system)
    again.start(said.append)
    again.stop()
    assert len([line for line in said if "its data goes to" in line]) == 1
    shutil.rmtree(system)


def test_valkey_wants_the_password_and_keeps_its_port(home: Path) -> None:
    server = EmbeddedValkey(home)
    url = server.start()
    with (
        redis.Redis.from_url(url) as client,
        redis.Redis(port=client.get_connection_kwargs()["port"], retry=Retry(NoBackoff(), 0)) as other,
    ):
        assert client.ping()
        with pytest.raises(redis.AuthenticationError):
            other.ping()
    server.stop()
    second = EmbeddedValkey(home)
    assert second.start() == url
    second.stop()
    assert not record_path(home, name="valkey").exists()


def test_nothing_is_left_running_after_a_stop(home: Path, start: Start) -> None:
    server, _ = start()
    assert server.child
    pid = server.child.pid
    assert processes_in(home / "postgres/data")
    server.stop()
    assert read_stat(pid) is None
    assert processes_in(home / "postgres/data") == []
