"""Every rule holds for this tree, is broken by a tiny tree that violates it, and lets the rest pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import import_guards as imports
from . import shape_guards as shape
from .generate import ROOT
from .trees import write_tree

Guard = Callable[[Path], Iterator[str]]

LONG_FUNCTION = "def long():\n" + "    x = 1\n" * 60
LONG_FILE = "x = 1\n" * 401

VIOLATIONS: list[tuple[Guard, str, str]] = [
    (imports.app_init_imports_nothing, "app/__init__.py", '"""Docstring."""\nimport os'),
    (imports.repository_only_by_own_service, "app/restores/api.py", "from app.restores import repository"),
    (imports.repository_only_by_own_service, "app/restores/service.py", "import app.sources.repository"),
    (imports.repository_only_by_own_service, "app/dashboard/home.py", "from app.nodes.repository import x"),
    (imports.repository_only_by_own_service, "workers/housekeeping.py", "import app.nodes.repository"),
    (imports.repository_only_by_own_service, "app/restores/dispatch.py", "from .repository import x"),
    (imports.core_third_party, "app/core/image.py", "import numpy"),
    (imports.core_third_party, "app/core/restore/plan.py", "def f():\n    import yaml"),
    (imports.core_third_party, "app/core/digest.py", "from cryptography import x509"),
    (imports.core_third_party, "app/core/digest.py", "from app.config import Settings"),
    (imports.core_third_party, "app/core/digest.py", "from .. import config"),
    (imports.core_third_party, "app/core/digest.py", "import importlib\nimportlib.import_module('cupy')"),
    (imports.core_has_no_clock, "app/core/image.py", "from time import time_ns"),
    (imports.core_has_no_clock, "app/core/restore/reader.py", "import urllib.request"),
    (imports.hashlib_only_in_digest, "app/core/image.py", "import hashlib"),
    (imports.hashlib_only_in_digest, "app/core/digest_of.py", "from hashlib import sha256"),
    (imports.json_only_in_canonical_json, "app/core/store/manifest.py", "import json"),
    (imports.cupy_only_in_workers_gpu, "workers/devices.py", "def f():\n    import cupy.cuda"),
    (imports.cupy_only_in_workers_gpu, "app/core/restore/kernels.py", "import cupy"),
    (imports.pydantic_only_at_the_edge, "app/restores/service.py", "from pydantic import BaseModel"),
    (imports.pydantic_only_at_the_edge, "workers/agent.py", "import pydantic"),
    (imports.sql_only_where_sql_belongs, "app/restores/service.py", "from sqlalchemy import select"),
    (imports.sql_only_where_sql_belongs, "app/dashboard/home.py", "import sqlalchemy"),
    (
        imports.sql_only_where_sql_belongs,
        "workers/housekeeping.py",
        "from sqlalchemy.orm import Session, joinedload",
    ),
    (imports.environment_only_in_config, "app/main.py", "import os\nx = os.environ['HOME']"),
    (imports.environment_only_in_config, "app/main.py", "from os import getenv"),
    (imports.environment_only_in_config, "workers/agent.py", "import os\nos.getenv('HOME')"),
    (shape.functions_fit_on_a_screen, "app/main.py", LONG_FUNCTION),
    (shape.functions_are_mostly_short, "workers/agent.py", "def f():\n" + "    x = 1\n" * 12),
    (shape.files_are_short, "tests/core/test_x.py", LONG_FILE),
    (shape.names_say_something, "app/utils.py", ""),
    (shape.names_say_something, "app/core/common/x.py", ""),
    (shape.names_say_something, "app/main.py", "class SessionManager: ..."),
    (shape.names_say_something, "app/main.py", "class JSONHandler: ..."),
    (shape.names_say_something, "workers/agent.py", "def read_data(): ..."),
    (shape.names_say_something, "tests/conftest.py", "def helper(): ..."),
    (shape.names_say_something, "app/main.py", "def f():\n    def wrapper(): ..."),
    (shape.no_assert_outside_tests, "app/main.py", "assert True"),
    (shape.no_blind_except, "app/main.py", "try: ...\nexcept Exception: ..."),
    (shape.no_blind_except, "app/main.py", "try: ...\nexcept (ValueError, BaseException): ..."),
    (shape.no_blind_except, "workers/agent.py", "try: ...\nexcept: ..."),
]
ALLOWED: list[tuple[Guard, str, str]] = [
    (imports.app_init_imports_nothing, "app/__init__.py", '"""Docstring."""'),
    (
        imports.repository_only_by_own_service,
        "app/restores/service.py",
        "from app.restores import repository",
    ),
    (imports.repository_only_by_own_service, "app/restores/service/x.py", "import app.restores.repository"),
    (imports.core_third_party, "app/core/restore/plan.py", "import numpy\nfrom .. import digest"),
    (imports.core_third_party, "app/core/signature.py", "def f():\n    import cryptography"),
    (imports.core_has_no_clock, "app/core/image.py", "import datetime\nimport urllib.parse"),
    (imports.hashlib_only_in_digest, "app/core/digest.py", "import hashlib"),
    (imports.json_only_in_canonical_json, "app/main.py", "import json"),
    (imports.cupy_only_in_workers_gpu, "workers/gpu/cuda_device.py", "import cupy"),
    (imports.pydantic_only_at_the_edge, "app/restores/schemas.py", "import pydantic"),
    (imports.sql_only_where_sql_belongs, "app/restores/service.py", "from sqlalchemy.orm import Session"),
    (imports.sql_only_where_sql_belongs, "app/restores/dispatch.py", "from sqlalchemy.exc import DBAPIError"),
    (imports.sql_only_where_sql_belongs, "app/dashboard/queries.py", "from sqlalchemy import select"),
    (imports.environment_only_in_config, "app/config.py", "import os\nos.environ"),
    (shape.functions_fit_on_a_screen, "app/main.py", LONG_FUNCTION.removesuffix("    x = 1\n")),
    (shape.functions_fit_on_a_screen, "migrations/versions/0001_x.py", LONG_FUNCTION),
    (shape.functions_are_mostly_short, "app/main.py", "def f():\n" + "    x = 1\n" * 11),
    (shape.files_are_short, "migrations/versions/0001_x.py", LONG_FILE),
    (shape.names_say_something, "app/main.py", "class Metadata: ...\ndef data_folder(): ..."),
    (shape.names_say_something, "tests/data/generate.py", ""),
    (shape.no_assert_outside_tests, "tests/core/test_x.py", "assert True"),
    (shape.no_blind_except, "app/main.py", "try: ...\nexcept Exception:\n    raise"),
]
GUARDS = list(dict.fromkeys(guard for guard, _, _ in VIOLATIONS))


def _name(value: object) -> str | None:
    return getattr(value, "__name__", None)


@pytest.mark.parametrize("guard", GUARDS, ids=_name)
def test_the_rule_holds_here(guard: Guard) -> None:
    assert list(guard(ROOT)) == []


@pytest.mark.parametrize(("guard", "file", "text"), VIOLATIONS, ids=_name)
def test_a_violation_is_caught(tmp_path: Path, guard: Guard, file: str, text: str) -> None:
    found = list(guard(write_tree(tmp_path, {file: text})))
    assert any(violation.startswith((f"{file}:", "app, workers:")) for violation in found)


@pytest.mark.parametrize(("guard", "file", "text"), ALLOWED, ids=_name)
def test_what_is_allowed_passes(tmp_path: Path, guard: Guard, file: str, text: str) -> None:
    assert list(guard(write_tree(tmp_path, {file: text}))) == []


def test_every_rule_of_the_guards_is_checked() -> None:
    public = {
        value
        for module in (imports, shape)
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", "") == module.__name__
        and callable(value)
    }
    assert public == set(GUARDS)
