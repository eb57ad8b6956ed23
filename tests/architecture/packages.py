"""Which packages and modules may be reached from where; a companion of the table."""

from __future__ import annotations

from typing import Final

CORE_THIRD_PARTY: Final = {
    "app.core.restore": frozenset({"numpy"}),
    "app.core.oracle": frozenset({"numpy"}),
    "app.core.signature": frozenset({"cryptography"}),
}
"""Everything outside the standard library that the core may import, and where."""

COMPANIONS: Final = frozenset({"cffi", "_cffi_backend"})
"""What an allowed package imports itself (cryptography)."""

GPU_NODE_REACHES: Final = frozenset({"core", "config", "queue", "processes", "errors"})
"""The children of app that code on a GPU node may reach."""

SERVER_PACKAGES: Final = (
    "alembic",
    "argon2",
    "fastapi",
    "jinja2",
    "psycopg",
    "psycopg_pool",
    "sqlalchemy",
    "starlette",
    "uvicorn",
)
"""Third-party packages of database and web: never on a GPU node."""

CUPY: Final = ("cupy", "cupyx", "cupy_backends")

IMPURE_PACKAGES: Final = (
    *SERVER_PACKAGES,
    *CUPY,
    "celery",
    "httpx2",
    "kombu",
    "psutil",
    "pydantic",
    "pydantic_settings",
    "redis",
    "rich",
    "typer",
)
"""Third-party packages the core must not reach, not even through another module."""
