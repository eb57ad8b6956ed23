"""Roles and databases of a PostgreSQL server, made by its superuser."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from psycopg import sql

from app.db.roles import connect, create_login_role

DATABASE: Final = "sparkgate"
ADMIN_ROLE: Final = "postgres"
OWNER_ROLE: Final = "sparkgate_owner"
APP_ROLE: Final = "sparkgate_app"
READER_ROLE: Final = "sparkgate_reader"
LOGIN_ROLES: Final = (OWNER_ROLE, APP_ROLE, READER_ROLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseUrls:
    """One database as four roles: owner of its tables, application, reader, and the server's superuser."""

    owner: str = field(repr=False)
    app: str = field(repr=False)
    reader: str = field(repr=False)
    admin: str = field(repr=False)


def urls_of(passwords: Mapping[str, str], *, port: int, database: str = DATABASE) -> DatabaseUrls:
    """Write the URLs of a database on 127.0.0.1; the superuser's names its own database."""

    def url(role: str, name: str) -> str:
        return f"postgresql+psycopg://{role}:{passwords[role]}@127.0.0.1:{port}/{name}"

    return DatabaseUrls(
        owner=url(OWNER_ROLE, database),
        app=url(APP_ROLE, database),
        reader=url(READER_ROLE, database),
        admin=url(ADMIN_ROLE, "postgres"),
    )


def ensure_roles(admin_url: str, *, passwords: Mapping[str, str]) -> None:
    """Create the login roles that are missing."""
    with connect(admin_url) as connection:
        for role in LOGIN_ROLES:
            create_login_role(connection, role=role, password=passwords[role])


def create_database(admin_url: str, *, name: str, owner: str = OWNER_ROLE) -> bool:
    """Create a database that only our roles may connect to; return False when it was there.

    The rights are granted again in any case: an earlier try may have been killed halfway.
    """
    database = sql.Identifier(name)
    with connect(admin_url) as connection:
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
        if not found:
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, sql.Identifier(owner)))
        connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
        roles = sql.SQL(", ").join(sql.Identifier(role) for role in (APP_ROLE, READER_ROLE))
        connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, roles))
    return not found


def drop_database(admin_url: str, *, name: str) -> None:
    """Drop a database, ending the sessions that still use it."""
    with connect(admin_url) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
