"""Run a module as a GPU box would: with every package refused but its four and what those bring.

`python -m tests.gpu.alone pytest …` or `python -m tests.gpu.alone tests.gpu.check …`.
"""

import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

FOUR: Final = frozenset({"numpy", "cupy", "pytest", "hypothesis"})
BROUGHT: Final = frozenset(
    {
        *("cupyx", "cupy_backends", "fastrlock", "cuda"),
        *("_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py", "exceptiongroup", "tomli"),
        *("_hypothesis_pytestplugin", "_hypothesis_globals", "_hypothesis_ftz_detector"),
        *("sortedcontainers", "attr", "attrs"),
    }
)
OURS: Final = frozenset({"app", "workers", "tests"})


class Refusal:
    """An import hook in front of all others."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = name.partition(".")[0]
        # The interpreter's own settings have the platform in their name.
        if top.startswith("_sysconfigdata") or top in FOUR | BROUGHT | OURS | sys.stdlib_module_names:
            return None
        raise ImportError(f"{name} is refused: a GPU box does not have it", name=name)


def main(module: str, *arguments: str) -> None:
    sys.meta_path.insert(0, Refusal())
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
