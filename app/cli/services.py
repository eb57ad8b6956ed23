"""The programs of a local installation: how each is started and which settings it gets.

compose.yaml starts the same programs with the same variables; a test keeps the two alike.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from app.config import Secret, Settings
from app.processes import ChildSpec, inherited_environment

LOCAL_DEVICES: Final = ("host0", "host1", "host2", "host3")

# No line per request: with heartbeats of many ranks it would be most of the log, and cost like a statement.
WEB_COMMAND: Final = (
    *("uvicorn", "app.main:create_app", "--factory", "--no-server-header", "--proxy-headers"),
    # Longer than any pause between two words of a rank: a connection closed under one costs two.
    *("--no-access-log", "--timeout-keep-alive", "30"),
)
CONTROL_COMMAND: Final = (
    *("celery", "--app", "workers.control_node", "worker", "--beat", "--queues", "control"),
    *("--pool", "solo", "--concurrency", "1", "--loglevel", "INFO"),
    *("--without-gossip", "--without-mingle", "--without-heartbeat"),
)
AGENT_COMMAND: Final = ("workers.agent",)

# The web process and the control worker know the database, a node knows only its key and the broker.
_DATABASE_FIELDS: Final = frozenset(
    {"database_url", "owner_database_url", "secret_key_file", "ledger_key_file", "ledger_origin"}
)
_NODE_FIELDS: Final = frozenset({"control_url", "api_key_file", "node", "devices", "store_roots"})


def web_service(settings: Settings) -> ChildSpec:
    """The web process; it stops within seconds although a browser keeps its connection open."""
    address = ("--host", settings.host, "--port", str(settings.port), "--timeout-graceful-shutdown", "5")
    many = ("--workers", str(settings.web_processes)) if settings.web_processes > 1 else ()
    env = service_environment(settings, without=_NODE_FIELDS | {"owner_database_url"})
    return _python_service("web", argv=(*WEB_COMMAND, *address, *many), env=env, port=settings.port)


def control_service(settings: Settings) -> ChildSpec:
    """The Celery worker beside the database, with the timetable; it signs bundles with the ledger's key."""
    argv = (*CONTROL_COMMAND, "--schedule", str(settings.home / "timetable"))
    env = service_environment(settings, without=_NODE_FIELDS | {"owner_database_url"})
    return _python_service("control", argv=argv, env=env)


def agent_service(settings: Settings) -> ChildSpec:
    """The node agent, which starts one worker for each device and stops them again."""
    env = service_environment(settings, without=_DATABASE_FIELDS)
    return _python_service("agent", argv=AGENT_COMMAND, env=env, stop_timeout_s=30.0)


def service_environment(settings: Settings, *, without: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return the whole environment of a service: ours, and every setting that was given a value."""
    given = settings.model_dump(exclude_unset=True, exclude_none=True, exclude=set(without))
    chosen = {f"SPARKGATE_{name.upper()}": _text(value) for name, value in given.items()}
    return {**inherited_environment(), "PYTHONUNBUFFERED": "1", **chosen}


def with_values(settings: Settings, values: Mapping[str, object]) -> Settings:
    """Return the settings with some of them given a value, as if the environment had it."""
    given = settings.model_dump(exclude_unset=True)
    return Settings.model_validate({**given, **values})


def _python_service(
    name: str,
    *,
    argv: tuple[str, ...],
    env: Mapping[str, str],
    port: int | None = None,
    stop_timeout_s: float = 15.0,
) -> ChildSpec:
    return ChildSpec(
        name=name,
        argv=(sys.executable, "-m", *argv),
        env=env,
        cwd=Path.cwd(),
        port=port,
        stop_timeout_s=stop_timeout_s,
    )


def _text(value: object) -> str:
    match value:
        case Secret():
            return value.get_secret_value()
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)
