"""``sparkgate bootstrap``: the first login and the keys of the local node, for containers."""

import json
from typing import Annotated

import typer
from rich.console import Console

from app.accounts.bootstrap import CREDENTIALS_FILE, bootstrap_local, ensure_ledger_key
from app.config import Settings
from app.db.session import open_database


def bootstrap(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False
) -> None:
    """Create the first login and the node's key below SPARKGATE_HOME, or leave those that are there."""
    settings = Settings()
    database = open_database(settings)
    ledger_key = ensure_ledger_key(settings.home, origin=settings.ledger_origin)
    try:
        credentials = bootstrap_local(database, home=settings.home, node=settings.node)
    finally:
        database.dispose()
    path = str(settings.home / CREDENTIALS_FILE)
    said = {
        "login": credentials.login_name,
        "credentials_file": path,
        "node_key_file": credentials.node_key_file,
        "ledger_key_file": str(ledger_key),
    }
    line = (
        json.dumps(said) if as_json else f"Login {credentials.login_name}; password and API key are in {path}"
    )
    Console(highlight=False, markup=False, soft_wrap=True).print(line)
