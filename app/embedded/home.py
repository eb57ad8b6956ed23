"""What the embedded servers remember in `home`: their place, port and passwords."""

import json
import secrets
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from app.processes import Child, read_record, record_path, stop_process, write_private

Progress = Callable[[str], None]


class EmbeddedError(Exception):
    """An embedded server cannot be started; the message says what was expected and found."""


def make_home(home: Path) -> None:
    """Create the home so that others may pass through but not list it; an existing one stays as it is."""
    home.mkdir(mode=0o711, parents=True, exist_ok=True)


def read_state(path: Path) -> dict[str, str]:
    """Read what was remembered, or nothing when nothing was."""
    if not path.exists():
        return {}
    state: dict[str, str] = _read_object(path)
    return state


def remember(path: Path, *, values: Mapping[str, str]) -> None:
    """Add values to what is remembered."""
    state = read_state(path)
    if state != {**state, **values}:
        write_private(path, text=json.dumps({**state, **values}, indent=1))


def remembered_port(path: Path) -> int:
    """Return the port of the last start while it is free, otherwise a free one, and remember it."""
    state = read_state(path)
    if "port" in state and port_is_free(int(state["port"])):
        return int(state["port"])
    port = _free_port()
    remember(path, values={"port": str(port)})
    return port


def port_is_free(port: int) -> bool:
    """Say whether a server could listen on a port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def passwords(path: Path, *, roles: tuple[str, ...]) -> dict[str, str]:
    """Return one password for each role, made up on first use; the file is readable by its owner only."""
    if path.exists():
        kept: dict[str, str] = _read_object(path)
        return kept
    made = {role: secrets.token_urlsafe(24) for role in roles}
    write_private(path, text=json.dumps(made, indent=1))
    return made


def stop_recorded(child: Child | None, *, home: Path, name: str) -> None:
    """Stop our child, or the one another process recorded under this name."""
    path = record_path(home, name=name)
    if child is not None:
        child.stop()
    elif path.exists():
        stop_process(read_record(path))
        path.unlink(missing_ok=True)


def _read_object(path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise EmbeddedError(f"{path}: expected a JSON object, found {error}") from error
    if not isinstance(content, dict):
        raise EmbeddedError(f"{path}: expected a JSON object, found {type(content).__name__}")
    return content


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
