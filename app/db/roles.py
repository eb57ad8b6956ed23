"""Login roles: made so that no statement, and so no log of the server, ever holds a password."""

from typing import Any

import psycopg
from psycopg import sql


def connect(url: str, *, timeout_s: int = 5) -> "psycopg.Connection[tuple[Any, ...]]":
    """Connect outside any pool and transaction; `url` is one of SQLAlchemy's form."""
    return psycopg.connect(url.replace("+psycopg", "", 1), autocommit=True, connect_timeout=timeout_s)


def create_login_role(connection: "psycopg.Connection[tuple[Any, ...]]", *, role: str, password: str) -> bool:
    """Create a login role unless there is one of this name; the server sees a SCRAM verifier only.

    Returns:
        True if the role was created.
    """
    if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone():
        return False
    verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    statement = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
    connection.execute(statement.format(sql.Identifier(role), sql.Literal(verifier.decode())))
    return True
