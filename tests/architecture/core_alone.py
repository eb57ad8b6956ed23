"""Import modules with every package outside the standard library refused but those named.

`python core_alone.py numpy,cryptography app.core.digest …`; run in a process of its own.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class Refusal:
    """An import hook in front of all others."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed | sys.stdlib_module_names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        core = name in {"app", "app.core"} or name.startswith("app.core.")
        if core or name.partition(".")[0] in self._allowed:
            return None
        raise ImportError(f"{name} is refused", name=name)


def main(allowed: str, *modules: str) -> None:
    sys.meta_path.insert(0, Refusal(frozenset(filter(None, allowed.split(",")))))
    for module in modules:
        importlib.import_module(module)


if __name__ == "__main__":
    main(*sys.argv[1:])
