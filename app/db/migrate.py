"""Bring a database to the newest schema and give each role its rights."""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from sqlalchemy.engine import make_url

from app.db.roles import connect, create_login_role

REPOSITORY: Final = Path(__file__).resolve().parents[2]


def migration_config(owner_url: str) -> Config:
    """Alembic's configuration; there is no alembic.ini, the rest stands in pyproject.toml."""
    config = Config(toml_file=str(REPOSITORY / "pyproject.toml"))
    config.attributes["owner_url"] = owner_url
    return config


def upgrade(
    owner_url: str,
    *,
    app_role: str = "sparkgate_app",
    reader_role: str = "sparkgate_reader",
    revision: str = "head",
) -> None:
    """Migrate up to `revision` and grant the two roles what they may do.

    Replicas that start together wait for each other on an advisory lock (in migrations/env.py).
    """
    config = migration_config(owner_url)
    config.attributes["app_role"] = app_role
    config.attributes["reader_role"] = reader_role
    command.upgrade(config, revision)


def downgrade(owner_url: str, *, revision: str = "base") -> None:
    """Migrate down to `revision`; used by the migration test only."""
    command.downgrade(migration_config(owner_url), revision)


def ensure_role(owner_url: str, *, role_url: str) -> bool:
    """Create the login role named in `role_url` with its password, if the server lacks it.

    Returns:
        True if the role was created. The owner must be allowed to create roles.
    """
    role = make_url(role_url)
    if role.username is None or role.username == make_url(owner_url).username:
        return False
    with connect(owner_url) as connection:
        return create_login_role(connection, role=role.username, password=str(role.password or ""))
