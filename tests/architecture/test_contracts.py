"""The import contracts hold for this tree, and each of them breaks for a tree that violates it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from .contracts import render
from .generate import CONTRACTS, ROOT
from .table import NOUNS, WORKERS
from .trees import write_tree

LINT = "from importlinter.cli import lint_imports_command as lint; lint()"
GOOD = {
    "app/core/digest.py": "import hashlib",
    "app/core/canonical_json.py": "import app.core.digest",
    "app/core/store/identity.py": "import app.core.canonical_json",
    "app/core/store/snapshot.py": "import app.core.store.identity",
    "app/db/session.py": "import sqlalchemy",
    "app/models/sources.py": "import app.db.session",
    "app/sources/repository.py": "import app.models.sources",
    "app/sources/service.py": "import app.sources.repository",
    "app/sources/api.py": "import app.sources.service\nimport fastapi",
    "app/restores/service.py": "import app.sources.service",
    "app/config.py": "import pydantic_settings",
    "app/queue.py": "import app.config\nimport celery",
    "workers/gpu_node.py": "import workers.rank_restore\nimport app.queue",
    "workers/control_node.py": "import app.restores.service",
    "workers/rank_restore.py": "import workers.devices\nimport app.core.store.snapshot",
    "workers/devices.py": "def open_device():\n    import workers.gpu.cuda_device",
    "workers/gpu/cuda_device.py": "import cupy",
}
BAD = {
    "app/core/digest.py": "import app.core.canonical_json\nimport app.models.sources",
    "app/core/dsse.py": "import workers.devices",
    "app/core/stray.py": "",
    "app/core/store/identity.py": "import app.core.store.snapshot",
    "app/core/ledger/merkle.py": "import app.core.ledger.proof",
    "app/core/ledger/proof.py": "",
    "app/sources/service.py": "import app.sources.api",
    "app/sources/stray.py": "",
    "app/restores/api.py": "import app.sources.repository",
    "app/layouts/service.py": "import app.restores.service",
    "app/stray.py": "",
    "app/main.py": "import workers.control_node\nimport cupyx",
    "workers/rank_restore.py": "import workers.control_node",
    "workers/control_node.py": "import app.restores.service\nimport cupy",
    "workers/gpu/cuda_kernels.py": "import workers.gpu.cuda_device",
    "workers/stray.py": "",
}
LAYERED = ["app", "app.core", "app.core.store", "app.core.ledger", "workers", "workers.gpu"]
MUST_BREAK = [
    *(f"In {package} imports go down only, and nothing stands outside the list" for package in LAYERED),
    "Inside a noun imports go down only, and there are no other files",
    "The core is pure",
    "The app never imports the workers",
    "What runs on a GPU node reaches neither database nor web",
    "CuPy is named in workers.gpu only",
    "app.sources.repository is imported by its own service only",
]


@dataclass(frozen=True, slots=True)
class Linted:
    returned: int
    output: str

    def contracts(self, state: str) -> list[str]:
        return re.findall(rf"^(.+) {state}$", self.output, re.MULTILINE)


def lint(root: Path) -> Linted:
    command = [sys.executable, "-c", LINT, "--no-cache", "--no-logo"]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, env={"COLUMNS": "200"})
    return Linted(result.returncode, result.stdout + result.stderr)


def lint_tree(root: Path, files: dict[str, str]) -> Linted:
    write_tree(root, files)
    write_tree(root, {CONTRACTS: render(root)})
    return lint(root)


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Linted:
    return lint_tree(tmp_path_factory.mktemp("bad"), GOOD | BAD)


def test_the_contracts_hold_here() -> None:
    linted = lint(ROOT)
    assert linted.returned == 0, linted.output


def test_the_contracts_hold_for_a_good_tree(tmp_path: Path) -> None:
    linted = lint_tree(tmp_path, GOOD)
    assert linted.returned == 0, linted.output
    assert linted.contracts("BROKEN") == []
    assert len(linted.contracts("KEPT")) == render(tmp_path).count("[importlinter:contract:")


@pytest.mark.parametrize("name", MUST_BREAK)
def test_a_violation_breaks_the_contract(bad: Linted, name: str) -> None:
    assert bad.returned == 1
    assert name in bad.contracts("BROKEN"), bad.output


def test_no_contract_is_left_without_a_violation(bad: Linted) -> None:
    assert bad.contracts("KEPT") == []


@pytest.mark.parametrize("module", ["app.stray", "app.core.stray", "app.sources.stray", "workers.stray"])
def test_a_module_outside_the_list_is_named(bad: Linted, module: str) -> None:
    assert f"- {module}" in bad.output


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("app.core.digest", "app.core.canonical_json"),
        ("app.core.store.identity", "app.core.store.snapshot"),
        ("app.core.ledger.merkle", "app.core.ledger.proof"),
        ("app.core.dsse", "workers.devices"),
        ("app.core.digest", "app.models.sources"),
        ("app.db.session", "sqlalchemy"),
        ("app.sources.service", "app.sources.api"),
        ("app.restores.api", "app.sources.repository"),
        ("app.layouts.service", "app.restores.service"),
        ("app.main", "workers.control_node"),
        ("app.main", "cupyx"),
        ("workers.control_node", "cupy"),
        ("workers.rank_restore", "workers.control_node"),
    ],
)
def test_the_offending_import_is_named(bad: Linted, importer: str, imported: str) -> None:
    assert f"{importer} -> {imported} " in bad.output


def test_every_noun_stands_in_the_contract_from_the_start(tmp_path: Path) -> None:
    write_tree(tmp_path, {"app/errors.py": "", "workers/devices.py": ""})
    text = render(tmp_path)
    for entry in (*NOUNS, *WORKERS.inside):
        assert f"({entry.module})" in text
