"""Rules about the shape of a file, a function, a name. Each yields violations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from .source import Source, sources

FUNCTION_LINES: Final = 60
FUNCTION_LINES_MEDIAN: Final = 12
FILE_LINES: Final = 400
EVERYWHERE: Final = ("app", "workers", "migrations", "tests")
REVISIONS: Final = "migrations/versions"
"""A revision is a list of statements, as long as the schema it makes."""
SHIPPED: Final = ("app", "workers", "migrations")
BANNED: Final = frozenset(
    {"manager", "helper", "util", "common", "misc", "handler", "processor", "wrapper", "data", "info"}
)
GIVEN_NAMES: Final = frozenset({"handle_data", "tests/data"})
"""Names somebody else gives: html.parser's hook, the folder of golden files."""
EDGES: Final[dict[str, str]] = {}
"""Files at the outermost edge, where a blind `except` may stand, and why."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_fit_on_a_screen(root: Path) -> Iterator[str]:
    for source in sources(root, *EVERYWHERE):
        for function in _functions(source):
            if _length(function) > FUNCTION_LINES and not source.path.is_relative_to(REVISIONS):
                yield source.at(
                    function, f"{function.name} has {_length(function)} lines, limit {FUNCTION_LINES}"
                )


def functions_are_mostly_short(root: Path) -> Iterator[str]:
    lengths = [_length(f) for source in sources(root, "app", "workers") for f in _functions(source)]
    if lengths and median(lengths) > FUNCTION_LINES_MEDIAN:
        yield f"app, workers: the median function has {median(lengths)} lines, limit {FUNCTION_LINES_MEDIAN}"


def files_are_short(root: Path) -> Iterator[str]:
    for source in sources(root, *EVERYWHERE):
        lines = len(source.text.splitlines())
        if lines > FILE_LINES and not source.path.is_relative_to(REVISIONS):
            yield source.at(1, f"{lines} lines, limit {FILE_LINES}")


def names_say_something(root: Path) -> Iterator[str]:
    """No module, class or function whose name is, or ends in, a word that fits everything."""
    for source in sources(root, *EVERYWHERE):
        for part in source.path.with_suffix("").parts:
            if _is_banned(part) and source.path.parts[:2] != ("tests", "data"):
                yield source.at(1, f"the name {part} says nothing")
        for node in ast.walk(source.tree):
            if isinstance(node, Function | ast.ClassDef) and _is_banned(node.name):
                yield source.at(node, f"the name {node.name} says nothing")


def no_assert_outside_tests(root: Path) -> Iterator[str]:
    for source in sources(root, *SHIPPED):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Assert):
                yield source.at(node, "assert is for tests; raise an error that names what was found")


def no_blind_except(root: Path) -> Iterator[str]:
    """A handler that ends in a bare `raise` swallows nothing and may catch everything."""
    for source in sources(root, *SHIPPED):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ExceptHandler) and _is_blind(node) and str(source.path) not in EDGES:
                yield source.at(node, "catches everything and is no edge")


def _functions(source: Source) -> Iterator[Function]:
    yield from (node for node in ast.walk(source.tree) if isinstance(node, Function))


def _length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _is_banned(name: str) -> bool:
    if name in GIVEN_NAMES or name.startswith("test_"):
        return False
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)
    last = words[-1].lower() if words else ""
    return last in BANNED or last.removesuffix("s") in BANNED


def _is_blind(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return False
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        kind is None or (isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"})
        for kind in caught
    )
