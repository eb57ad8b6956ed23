"""A file outside the table fails, and so does a generated file that is out of date."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from .generate import PAGE, ROOT, generated
from .listing import files_outside, repository_files
from .page import fill

INSIDE = [
    "app/__init__.py",
    "app/core/store/manifest/flat.py",
    "app/core/qualify/rules/placement.py",
    "app/core/qualify/schemas.json",
    "app/restores/service.py",
    "app/restores/service/admission.py",
    "app/accounts/bootstrap.py",
    "app/dashboard/templates/parts/lane.html",
    "workers/gpu/cuda_device.py",
    "migrations/versions/0001_first.py",
    "docs/decisions/0001-layers-and-tree.md",
    ".gitignore",
]
OUTSIDE = [
    "notes.txt",
    "setup.py",
    "app/tools.py",
    "app/core/clock.py",
    "app/core/store/cache.py",
    "app/core/store/manifest/v2.py",
    "app/core/qualify/rules/deep/placement.py",
    "app/restores/queries.py",
    "app/restores/bootstrap.py",
    "app/restores/service/notes.txt",
    "app/weather/service.py",
    "workers/gpu/notes.py",
    "docs/decisions/layers.md",
    "docs/__init__.py",
    "scripts/run.sh",
]


def test_every_file_of_the_repository_stands_in_the_table() -> None:
    assert files_outside(repository_files(ROOT)) == []


@pytest.mark.parametrize("file", INSIDE)
def test_a_listed_file_passes(file: str) -> None:
    assert files_outside([PurePosixPath(file)]) == []


@pytest.mark.parametrize("file", OUTSIDE)
def test_a_file_outside_the_table_is_found(file: str) -> None:
    assert files_outside([PurePosixPath(file)]) == [file]


@pytest.mark.parametrize("name", sorted(generated(ROOT)))
def test_a_generated_file_is_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == generated(ROOT)[name], (
        f"{name} is out of date: python -m tests.architecture.generate"
    )


def test_a_changed_tree_in_the_page_is_renewed() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    changed = page.replace("the pure library", "the impure library")
    assert changed != page
    assert fill(changed) == page


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="exactly once"):
        fill("# Architecture\n")
