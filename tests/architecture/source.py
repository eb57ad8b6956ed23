"""Python files of a tree, parsed, with the names they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    path: PurePosixPath
    """Relative to the root of the tree."""
    text: str
    tree: ast.Module

    @property
    def module(self) -> str:
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def package(self) -> str:
        """The package relative imports start from."""
        return ".".join(self.path.parts[:-1])

    def at(self, node: ast.expr | ast.stmt | ast.excepthandler | int, message: str) -> str:
        line = node if isinstance(node, int) else node.lineno
        return f"{self.path}:{line}: {message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    line: int
    names: tuple[str, ...]
    """The dotted names one import may mean: `from a import b` is `a` and `a.b`."""

    @property
    def top(self) -> str:
        return self.names[0].partition(".")[0]

    def is_of(self, module: str) -> bool:
        return any(name == module or name.startswith(f"{module}.") for name in self.names)


def sources(root: Path, *folders: str) -> Iterator[Source]:
    """The Python files under some folders of a tree, in order of their paths."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            yield Source(path=PurePosixPath(path.relative_to(root)), text=text, tree=_parse(text))


def imports(source: Source) -> Iterator[Import]:
    """Every import of a file, wherever it stands, with `import_module("…")` counted as one."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(line=node.lineno, names=(alias.name,))
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, source)
            for alias in node.names:
                yield Import(line=node.lineno, names=(module, f"{module}.{alias.name}"))
        elif isinstance(node, ast.Call) and _called(node) in {"import_module", "__import__"}:
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield Import(line=node.lineno, names=(first.value,))


@cache
def _parse(text: str) -> ast.Module:
    return ast.parse(text)


def _absolute(node: ast.ImportFrom, source: Source) -> str:
    if not node.level:
        return node.module or ""
    parts = source.package.split(".")
    base = parts[: len(parts) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
