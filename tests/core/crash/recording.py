"""System calls that write down what they did, and end the process at a chosen one."""

import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

from app.core.store.writer import SYSTEM_CALLS, FileCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One finished call: its name, its arguments with buffers as their length, its result."""

    name: str
    arguments: tuple[Any, ...]
    result: Any


def watched(
    *,
    before: Callable[[str, tuple[Any, ...]], None],
    after: Callable[[Call], None],
    base: FileCalls = SYSTEM_CALLS,
) -> FileCalls:
    """Every call, one at a time over all threads, between two observers."""
    turn = threading.Lock()

    def watch(name: str) -> Callable[..., Any]:
        real = getattr(base, name)

        def call(*arguments: Any) -> Any:
            with turn:
                before(name, arguments)
                result = real(*arguments)
                after(Call(name=name, arguments=tuple(map(_plain, arguments)), result=_plain(result)))
                return result

        return call

    return FileCalls(**{field.name: watch(field.name) for field in fields(FileCalls)})


def recorded(calls: list[Call]) -> FileCalls:
    """The system's calls, each appended to a list when it is done."""
    return watched(before=lambda _name, _arguments: None, after=calls.append)


def dying(step: int, *, torn: bool, log: Path) -> FileCalls:
    """The system's calls; before call ``step`` the process kills itself, ``torn``: half way through a write.

    What was done is in the log, a call a line, however the process ends.
    """
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    count = 0

    def before(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        count += 1
        if count == step:
            if torn and name == "write":
                os.write(arguments[0], arguments[1][: len(arguments[1]) // 2])
            _die()

    def after(call: Call) -> None:
        line = json.dumps([call.name, call.arguments, call.result]) + "\n"
        os.write(descriptor, line.encode())

    return watched(before=before, after=after)


def read_log(path: Path) -> list[Call]:
    """The calls a process had finished when it ended."""
    lines = map(json.loads, path.read_text().splitlines())
    return [Call(name=name, arguments=tuple(arguments), result=result) for name, arguments, result in lines]


def _plain(value: Any) -> Any:
    if isinstance(value, memoryview | bytes):
        return len(value)
    if isinstance(value, os.stat_result):
        return None
    return str(value) if isinstance(value, Path) else value


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise RuntimeError("unreachable: SIGKILL")
