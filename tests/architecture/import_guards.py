"""Rules about who imports what, as far as import-linter cannot express them. Each yields violations."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .packages import CORE_THIRD_PARTY, CUPY
from .source import Import, Source, imports, sources
from .table import NOUNS

NOUN_NAMES: Final = frozenset(noun.module for noun in NOUNS)
ENVIRONMENT_HOMES: Final = {
    "app/config.py": "reads every variable, once",
    "app/processes.py": "builds the environment of a child",
    "app/embedded.py": "builds the environment of PostgreSQL and Valkey",
}
ENVIRONMENT: Final = ("os.environ", "os.environb", "os.getenv", "os.getenvb", "os.putenv", "os.unsetenv")
PASSED_ON: Final = ("sqlalchemy.orm.Session", "sqlalchemy.engine.make_url")
CLOCKS: Final = ("time", "random", "secrets", "uuid", "zoneinfo", "sched")
OUTSIDE_WORLD: Final = (
    "socket",
    "ssl",
    "http",
    "urllib.request",
    "subprocess",
    "sqlite3",
    "logging",
    "multiprocessing",
)


def app_init_imports_nothing(root: Path) -> Iterator[str]:
    """`app/__init__.py` is one docstring: the GPU node and the verifier import it too."""
    for source in sources(root, "app"):
        if source.module == "app" and len(source.tree.body) != 1:
            yield source.at(
                source.tree.body[1] if source.tree.body else 1, "must hold one docstring and nothing else"
            )


def repository_only_by_own_service(root: Path) -> Iterator[str]:
    for source, found in _imports(root, "app", "workers"):
        for noun in NOUN_NAMES:
            repository = f"app.{noun}.repository"
            own = (f"app.{noun}.service", repository)
            if found.is_of(repository) and not _is_within(source.module, own):
                yield source.at(found.line, f"{repository} is imported by app.{noun}.service only")


def core_third_party(root: Path) -> Iterator[str]:
    for source, found in _imports(root, "app/core"):
        homes = [home for home in CORE_THIRD_PARTY if _is_within(source.module, (home,))]
        allowed = frozenset().union(*(CORE_THIRD_PARTY[home] for home in homes))
        if found.top not in sys.stdlib_module_names | allowed and not found.is_of("app.core"):
            yield source.at(found.line, f"the core may not import {found.names[-1]} here")


def core_has_no_clock(root: Path) -> Iterator[str]:
    """Time, chance and identity come in as arguments; the outside world does not come in at all."""
    for source, found in _imports(root, "app/core"):
        if any(found.is_of(module) for module in (*CLOCKS, *OUTSIDE_WORLD)):
            yield source.at(found.line, f"the core may not import {found.names[-1]}")


def hashlib_only_in_digest(root: Path) -> Iterator[str]:
    yield from _only_in(root, "app/core", ("hashlib", "_hashlib"), ("app.core.digest",))


def json_only_in_canonical_json(root: Path) -> Iterator[str]:
    yield from _only_in(root, "app/core", ("json", "_json"), ("app.core.canonical_json",))


def cupy_only_in_workers_gpu(root: Path) -> Iterator[str]:
    yield from _only_in(root, "app", CUPY, ())
    yield from _only_in(root, "workers", CUPY, ("workers.gpu",))


def pydantic_only_at_the_edge(root: Path) -> Iterator[str]:
    schemas = tuple(f"app.{noun}.schemas" for noun in sorted(NOUN_NAMES))
    homes = ("app.config", "app.web", *schemas)
    yield from _only_in(root, "app", ("pydantic", "pydantic_settings"), homes)
    yield from _only_in(root, "workers", ("pydantic", "pydantic_settings"), ())


def sql_only_where_sql_belongs(root: Path) -> Iterator[str]:
    """Elsewhere a session is passed on, an address read, an error caught; no statement is written."""
    repositories = tuple(f"app.{noun}.repository" for noun in sorted(NOUN_NAMES))
    pages = tuple(f"app.dashboard.queries{part}" for part in ("", "_evidence", "_answers"))
    homes = ("app.db", "app.models", "app.web", *pages, *repositories)
    for source, found in _imports(root, "app", "workers"):
        name = found.names[-1]
        passed_on = name in PASSED_ON or "exc" in name.split(".")
        if found.is_of("sqlalchemy") and not passed_on and not _is_within(source.module, homes):
            yield source.at(found.line, f"SQL is not written here, but {name} is imported")


def environment_only_in_config(root: Path) -> Iterator[str]:
    for source, found in _imports(root, "app", "workers"):
        reads = any(found.is_of(name) for name in ENVIRONMENT)
        if reads and str(source.path) not in ENVIRONMENT_HOMES:
            yield source.at(found.line, "the environment is read in app/config.py only")
    for source in sources(root, "app", "workers"):
        if str(source.path) not in ENVIRONMENT_HOMES:
            for line in _environment_lines(source):
                yield source.at(line, "the environment is read in app/config.py only")


def _environment_lines(source: Source) -> Iterator[int]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ENVIRONMENT:
            yield node.lineno


def _only_in(root: Path, folder: str, modules: tuple[str, ...], homes: tuple[str, ...]) -> Iterator[str]:
    for source, found in _imports(root, folder):
        for module in modules:
            if found.is_of(module) and not _is_within(source.module, homes):
                yield source.at(found.line, f"{module} does not belong here")


def _imports(root: Path, *folders: str) -> Iterator[tuple[Source, Import]]:
    for source in sources(root, *folders):
        for found in imports(source):
            yield source, found


def _is_within(module: str, homes: tuple[str, ...]) -> bool:
    return any(module == home or module.startswith(f"{home}.") for home in homes)
