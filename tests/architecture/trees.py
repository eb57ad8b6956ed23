"""Tiny trees for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    """Write files under a root; a Python file brings the `__init__.py` of its packages."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if path.suffix == ".py":
            _complete_packages(root, path.parent)
    return root


def _complete_packages(root: Path, folder: Path) -> None:
    while folder != root:
        (folder / "__init__.py").touch()
        folder = folder.parent
