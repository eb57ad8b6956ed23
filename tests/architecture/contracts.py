"""The import contracts, rendered from the table for the modules that exist.

import-linter refuses a contract that names a missing module, except for an optional layer. So every layer
of the table stands in its contract from the start, as an optional one, while sources, containers and
forbidden modules are named as soon as they exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from .packages import CUPY, GPU_NODE_REACHES, IMPURE_PACKAGES, SERVER_PACKAGES
from .table import APP, BOOTSTRAP, NOUN_FILES, NOUNS, WORKERS, Entry

Options = Mapping[str, str | Sequence[str]]

HEAD: Final = """\
# Generated from tests/architecture/table.py by `python -m tests.architecture.generate`. Change it there.
[importlinter]
root_packages =
    app
    workers
include_external_packages = True
"""


def render(root: Path) -> str:
    """The text of `.importlinter` for a tree."""
    sections = [HEAD]
    for identifier, options in _contracts(root):
        sections.append(f"\n[importlinter:contract:{identifier}]\n" + "".join(_lines(options)))
    return "".join(sections)


def exists(root: Path, module: str) -> bool:
    path = root.joinpath(*module.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _contracts(root: Path) -> Iterator[tuple[str, Options]]:
    for top in (APP, WORKERS):
        yield from _layer_contracts(root, top, top.module)
    yield from _noun_contracts(root)
    yield from _forbidden_contracts(root)
    yield from _repository_contracts(root)


def _layer_contracts(root: Path, entry: Entry, module: str) -> Iterator[tuple[str, Options]]:
    """One exhaustive layers contract per layered package, outside in."""
    if not exists(root, module):
        return
    if entry.layered:
        yield (
            f"{module.replace('.', '-')}-layers",
            _layers(
                f"In {module} imports go down only, and nothing stands outside the list",
                [module],
                entry.inside,
            ),
        )
    for child in entry.inside:
        if child.module and child not in NOUNS:
            yield from _layer_contracts(root, child, f"{module}.{child.module}")


def _noun_contracts(root: Path) -> Iterator[tuple[str, Options]]:
    nouns = [f"app.{noun.module}" for noun in NOUNS if exists(root, f"app.{noun.module}")]
    if nouns:
        files = (NOUN_FILES[0], BOOTSTRAP, *NOUN_FILES[1:])
        yield (
            "noun-layers",
            _layers("Inside a noun imports go down only, and there are no other files", nouns, files),
        )


def _layers(name: str, containers: Sequence[str], entries: Iterable[Entry]) -> Options:
    rows: list[str] = []
    for entry in entries:
        if not entry.module:
            continue
        layer = f"({entry.module})"
        if entry.beside:
            rows[-1] += f" | {layer}"
        else:
            rows.append(layer)
    return {"name": name, "type": "layers", "containers": containers, "layers": rows, "exhaustive": "True"}


def _forbidden_contracts(root: Path) -> Iterator[tuple[str, Options]]:
    above_core = _existing(root, "app", (e for e in APP.inside if e.module != "core"))
    gpu_node = _existing(root, "workers", (e for e in WORKERS.inside if e.on_gpu_node))
    not_cupy = _existing(root, "workers", (e for e in WORKERS.inside if e.module != "gpu"))
    server_side = [m for m in above_core if m.removeprefix("app.") not in GPU_NODE_REACHES]
    yield (
        "core-pure",
        _forbidden("The core is pure", ["app.core"], [*above_core, "workers", *IMPURE_PACKAGES]),
    )
    yield "app-without-workers", _forbidden("The app never imports the workers", ["app"], ["workers"])
    if gpu_node:
        name = "What runs on a GPU node reaches neither database nor web"
        yield "gpu-node", _forbidden(name, gpu_node, [*server_side, *SERVER_PACKAGES])
    cupy = _forbidden("CuPy is named in workers.gpu only", ["app", *not_cupy], CUPY)
    yield "cupy-home", {**cupy, "allow_indirect_imports": "True"}


def _existing(root: Path, package: str, entries: Iterable[Entry]) -> list[str]:
    modules = (f"{package}.{entry.module}" for entry in entries if entry.module)
    return [module for module in modules if exists(root, module)]


def _forbidden(name: str, sources: Sequence[str], forbidden: Sequence[str]) -> Options:
    return {"name": name, "type": "forbidden", "source_modules": sources, "forbidden_modules": forbidden}


def _repository_contracts(root: Path) -> Iterator[tuple[str, Options]]:
    for noun in (f"app.{noun.module}" for noun in NOUNS):
        if exists(root, f"{noun}.repository"):
            yield (
                f"{noun.removeprefix('app.')}-repository",
                {
                    "name": f"{noun}.repository is imported by its own service only",
                    "type": "protected",
                    "protected_modules": [f"{noun}.repository"],
                    "allowed_importers": [f"{noun}.service"],
                },
            )


def _lines(options: Options) -> Iterator[str]:
    for key, value in options.items():
        if isinstance(value, str):
            yield f"{key} = {value}\n"
        else:
            yield f"{key} =\n" + "".join(f"    {item}\n" for item in value)
