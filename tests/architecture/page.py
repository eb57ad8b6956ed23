"""The generated parts of docs/ARCHITECTURE.md: the tree and the order of the layers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .table import APP, CORE, NOUN_FILES, NOUNS, REPOSITORY, WORKERS, Entry

COLUMN: Final = 28


def fill(page: str) -> str:
    """The page with both generated parts renewed.

    Raises:
        ValueError: a pair of markers is missing.
    """
    return _between(_between(page, "tree", _tree()), "layers", _layers())


def _between(page: str, part: str, text: str) -> str:
    begin, end = f"<!-- {part}: generated -->", f"<!-- {part}: end -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ValueError(f"the page must hold {begin} … {end} exactly once")
    return pattern.sub(lambda _: f"{begin}\n{text}\n{end}", page)


def _tree() -> str:
    return "\n".join(["```text", *(line for entry in REPOSITORY for line in _entry(entry, 0)), "```"])


def _entry(entry: Entry, depth: int) -> Iterator[str]:
    if entry.name == "**" or not (entry.says or entry.inside):
        return
    name = "  " * depth + entry.name
    yield f"{name:<{COLUMN}}{entry.says}".rstrip()
    for child in () if entry in NOUNS else entry.inside:
        yield from _entry(child, depth + 1)
    if entry == NOUNS[-1]:
        files = " › ".join(file.name.removesuffix(".py") for file in NOUN_FILES)
        yield f"{'':<{COLUMN}}(each noun: {files}; a file or a package)"


def _layers() -> str:
    rows = (("app", APP), ("a noun", Entry(name="", says="", inside=NOUN_FILES)), ("app/core", CORE))
    shown = [*rows, ("workers", WORKERS)]
    return "\n".join(f"* **{name}:** {_order(entry)}" for name, entry in shown)


def _order(entry: Entry) -> str:
    text = ""
    for child in entry.inside:
        if child.module:
            text += f"{' · ' if child.beside else ' › '}`{child.module}`"
    return text.removeprefix(" › ")
