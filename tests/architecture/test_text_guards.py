"""No registry is named anywhere; Alembic has one head."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from .generate import ROOT
from .listing import repository_files
from .text_guards import no_registry_hosts, one_alembic_head
from .trees import write_tree

SCHEME = "https:" + "//"
REVISION = 'revision = "{}"\ndown_revision = {}\n'


def test_no_file_names_a_registry() -> None:
    assert list(no_registry_hosts(ROOT, repository_files(ROOT))) == []


@pytest.mark.parametrize(
    "line",
    [
        f"--index-url {SCHEME}packages.example.org/simple".replace("-url ", "-url="),
        f"RUN pip install -i {SCHEME}mirror.pypi.example.org",
        f"{SCHEME}files.pythonhosted.org/x.whl",
        f"registry={SCHEME}npm.example.org",
    ],
)
def test_a_registry_host_is_found(tmp_path: Path, line: str) -> None:
    write_tree(tmp_path, {"Dockerfile": f"FROM x\n{line}\n"})
    found = list(no_registry_hosts(tmp_path, [PurePosixPath("Dockerfile")]))
    assert found == ["Dockerfile:2: names a package registry"]


def test_other_addresses_and_binary_files_pass(tmp_path: Path) -> None:
    write_tree(tmp_path, {"README.md": f"{SCHEME}example.org/python\n"})
    (tmp_path / "x.png").write_bytes(b"\0" + f"{SCHEME}pypi.example.org".encode())
    assert list(no_registry_hosts(tmp_path, [PurePosixPath("README.md"), PurePosixPath("x.png")])) == []


def test_alembic_has_one_head() -> None:
    assert list(one_alembic_head(ROOT)) == []


def test_two_heads_are_found(tmp_path: Path) -> None:
    first, second, third = (
        REVISION.format(name, down) for name, down in (("a", None), ("b", "'a'"), ("c", "'a'"))
    )
    versions = {"a.py": first, "b.py": second, "c.py": third}
    for name, text in versions.items():
        write_tree(tmp_path, {f"migrations/versions/{name}": text})
    assert list(one_alembic_head(tmp_path)) == ["migrations/versions: 2 heads, expected one: b, c"]


def test_no_head_is_found(tmp_path: Path) -> None:
    (tmp_path / "migrations/versions").mkdir(parents=True)
    assert list(one_alembic_head(tmp_path)) == ["migrations/versions: 0 heads, expected one: none"]
