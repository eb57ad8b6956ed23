"""``sparkgate keys``: API keys, made and revoked beside the database."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from sqlalchemy.orm import Session

from app.accounts import service
from app.config import Settings
from app.db.session import open_database
from app.errors import AppError
from app.web.auth import PRESETS, Scope

keys_app = typer.Typer(help="API keys, made and revoked beside the database.", no_args_is_help=True)


@keys_app.command()
def create(
    label: Annotated[str, typer.Argument(help="What the key is for; `revoke` takes it.")],
    account: Annotated[str, typer.Option(help="The account the key belongs to.")] = "admin",
    preset: Annotated[str, typer.Option(help=f"One of {', '.join(PRESETS)}.")] = "viewer",
    node: Annotated[str | None, typer.Option(help="The one node a worker's key speaks for.")] = None,
    days: Annotated[int, typer.Option(min=1, max=366, help="How long it is good.")] = 90,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Make a key and print it, once; only its hash is kept."""
    if preset not in PRESETS:
        _refuse(f"preset: expected one of {', '.join(PRESETS)}, found {preset}")
    scopes: frozenset[Scope] = PRESETS[preset] if preset != "admin" else PRESETS["admin"] - PRESETS["worker"]
    with _transaction() as session:
        text = service.create_key(
            session,
            account_name=account,
            label=label,
            scopes=scopes,
            node_name=node,
            life=timedelta(days=days),
        )
    _say(json.dumps({"key": text, "label": label, "scopes": sorted(scopes)}) if as_json else text)


@keys_app.command()
def revoke(label: Annotated[str, typer.Argument(help="The label given at creation.")]) -> None:
    """Revoke every live key with this label."""
    with _transaction() as session:
        count = service.revoke_keys(session, label=label)
    if count == 0:
        _refuse(f"label: expected that of a live key, found {label}")
    _say(f"{count} revoked")


@contextmanager
def _transaction() -> Iterator[Session]:
    try:
        database = open_database(Settings())
    except ValueError as error:
        _refuse(str(error))
    try:
        with database.transaction() as session:
            yield session
    except AppError as error:
        _refuse(error.detail)
    finally:
        database.dispose()


def _say(line: str) -> None:
    Console(highlight=False, markup=False, soft_wrap=True).print(line)


def _refuse(line: str) -> NoReturn:
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(line)
    raise typer.Exit(2)
