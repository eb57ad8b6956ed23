"""Fixtures every test may use: PostgreSQL, Valkey and the shared reference data.

The servers are started by the first test that wants them, shared by all xdist workers of the run and stopped
by the process that the run was started with. What a killed run left behind is stopped by the next run.
"""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from app.embedded import DatabaseUrls, EmbeddedPostgres, EmbeddedValkey, create_database, make_home
from app.processes import read_stat, reap_leftovers, write_private

# As in rank workers: the tests of a run share the cores, threads of linear algebra would wait for each other.
# Read when NumPy is imported, which nothing above does.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_FOLDER = "sparkgate-tests-"
_HOME = pytest.StashKey[Path]()
_SERVERS = pytest.StashKey[list[EmbeddedPostgres | EmbeddedValkey]]()  # Popen warns when let go while it runs
_REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Agree on one folder for the servers of this run; the first process clears what killed runs left."""
    config.stash[_SERVERS] = []
    workerinput: dict[str, str] | None = getattr(config, "workerinput", None)
    if workerinput is not None:
        config.stash[_HOME] = Path(workerinput["sparkgate_home"])
        return
    temporary = Path(tempfile.gettempdir())
    for folder in temporary.glob(f"{_FOLDER}*"):
        pid = folder.name.removeprefix(_FOLDER)
        if pid == str(os.getpid()) or (pid.isdigit() and read_stat(int(pid)) is None):
            _remove_servers(folder)
    config.stash[_HOME] = temporary / f"{_FOLDER}{os.getpid()}"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell each xdist worker the folder."""
    node.workerinput["sparkgate_home"] = str(node.config.stash[_HOME])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers at the end of the run."""
    if not hasattr(config, "workerinput"):
        _remove_servers(config.stash[_HOME])


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> DatabaseUrls:
    """The URLs of the run's PostgreSQL; its database is empty and shared, use `postgres_urls` for tables."""
    home = pytestconfig.stash[_HOME]

    def start() -> dict[str, str]:
        server = EmbeddedPostgres(home, durable=False)
        pytestconfig.stash[_SERVERS].append(server)
        return asdict(server.start(lambda _line: None))

    return DatabaseUrls(**_started_once(home, name="postgres", start=start))


@pytest.fixture(scope="session")
def postgres_urls(postgres_server: DatabaseUrls, worker_id: str) -> DatabaseUrls:
    """A database of this xdist worker's own, built by the real migrations."""
    from app.db.migrate import upgrade

    name = f"test_{worker_id}"
    create_database(postgres_server.admin, name=name)
    urls = database_urls(postgres_server, name=name)
    upgrade(urls.owner, app_role="sparkgate_app", reader_role="sparkgate_reader")
    return urls


@pytest.fixture(scope="session")
def valkey_url(pytestconfig: pytest.Config, worker_id: str) -> str:
    """The URL of a Valkey database of this xdist worker's own."""
    home = pytestconfig.stash[_HOME]

    def start() -> dict[str, str]:
        server = EmbeddedValkey(home)
        pytestconfig.stash[_SERVERS].append(server)
        return {"url": server.start()}

    url = _started_once(home, name="valkey", start=start)["url"]
    number = int(worker_id.removeprefix("gw")) if worker_id.startswith("gw") else 0
    return f"{url.rsplit('/', 1)[0]}/{number}"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The reference data beside the checkout, or where SPARKGATE_SHARED says."""
    folder = Path(os.environ.get("SPARKGATE_SHARED", _REPOSITORY.parent / "shared"))
    if not (folder / "vectors").is_dir():
        pytest.skip(f"reference data: expected the folder {folder}/vectors, found none; set SPARKGATE_SHARED")
    return folder


def database_urls(urls: DatabaseUrls, *, name: str) -> DatabaseUrls:
    """Return the URLs of another database of the same server."""

    def of(url: str) -> str:
        return f"{url.rsplit('/', 1)[0]}/{name}"

    return replace(urls, owner=of(urls.owner), app=of(urls.app), reader=of(urls.reader))


def _started_once(home: Path, *, name: str, start: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Start a server unless another worker of this run has; return what its start returned."""
    kept = home / f"{name}.started"
    make_home(home)
    with _locked(home / f"{name}.lock"):
        if not kept.exists():
            write_private(kept, text=json.dumps(start()))
    urls: dict[str, str] = json.loads(kept.read_text())
    return urls


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_servers(home: Path) -> None:
    """Stop a run's servers and delete their data."""
    if not home.exists():
        return
    reap_leftovers(home)
    state = home / "postgres.json"
    if state.exists():
        shutil.rmtree(json.loads(state.read_text())["place"], ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes minutes unless it is asked for: any ``-m`` replaces the one of the project."""
    if "soak" in config.option.markexpr:
        return
    soaks = [item for item in items if item.get_closest_marker("soak")]
    if soaks:
        config.hook.pytest_deselected(items=soaks)
        items[:] = [item for item in items if item not in set(soaks)]
