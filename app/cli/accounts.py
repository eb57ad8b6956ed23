"""``sparkgate accounts``: people and owners of keys, made and changed beside the database."""

import json
import sys
from typing import Annotated, Any, Final

import typer

from app.accounts import service
from app.cli.beside import AsJson, beside, refuse, say
from app.models import Account
from app.web.auth import PRESETS, Scope

accounts_app = typer.Typer(help="Accounts, made and changed beside the database.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The account's name.")]
Preset = Annotated[str, typer.Option(help=f"One of {', '.join(PRESETS)}.")]
_MOST: Final = 10_000


@accounts_app.command()
def create(name: Name, preset: Preset = "viewer", as_json: AsJson = False) -> None:
    """Make an account without a password; `password` sets one.

    Exit codes: 0 done, 2 usage, refused or no database.
    """
    with beside() as session:
        row = service.create_account(session, name=name, password=None, scopes=_scopes(preset))
        _say(row, as_json=as_json)


@accounts_app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List accounts, newest first, and what each lacks of its preset as it is by now.

    Exit codes: 0 done, 2 usage, refused or no database.
    """
    with beside() as session:
        shown = [_shown(row) for row in service.list_accounts(session, after=None, limit=_MOST)]
    if as_json:
        say(json.dumps({"accounts": shown}))
        return
    for one in shown:
        say(f"{one['name']}  {'disabled' if one['disabled'] else 'enabled'}  {','.join(one['scopes'])}")
        if one["lacks"]:
            give = f"sparkgate accounts change {one['name']} --preset {one['preset']}"
            say(f"    lacks {', '.join(one['lacks'])}: {give}")


@accounts_app.command()
def change(
    name: Name,
    preset: Annotated[str | None, typer.Option(help="New scopes, by preset.")] = None,
    disable: Annotated[bool | None, typer.Option("--disable/--enable", help="End or allow its use.")] = None,
    as_json: AsJson = False,
) -> None:
    """Give an account other scopes, disable it or enable it again; its keys follow at once.

    Exit codes: 0 done, 2 usage, refused or no database.
    """
    if preset is None and disable is None:
        refuse("change: expected --preset, --disable or --enable, found none")
    with beside() as session:
        row = service.get_account(session, name=name, lock=True)
        scopes = _scopes(preset) if preset is not None else None
        service.change_account(session, account=row, by=service.BESIDE, scopes=scopes, disabled=disable)
        _say(row, as_json=as_json)


@accounts_app.command()
def password(name: Name, as_json: AsJson = False) -> None:
    """Set a password: asked for at a terminal, else the first line of stdin; never an argument.

    Exit codes: 0 done, 2 usage, refused or no database.
    """
    if sys.stdin.isatty():
        text = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = sys.stdin.readline().rstrip("\n")
    with beside() as session:
        service.set_password(session, name=name, password=text)
        _say(service.get_account(session, name=name), as_json=as_json)


def _scopes(preset: str) -> frozenset[Scope]:
    if preset not in PRESETS:
        refuse(f"preset: expected one of {', '.join(PRESETS)}, found {preset}")
    return PRESETS[preset]


def _say(row: Account, *, as_json: bool) -> None:
    say(json.dumps(_shown(row)) if as_json else f"{row.name}: {', '.join(sorted(row.scopes)) or 'no scope'}")


def _shown(row: Account) -> dict[str, Any]:
    preset = service.preset_of(frozenset(map(Scope, row.scopes)))
    return {
        "id": str(row.id),
        "name": row.name,
        "scopes": sorted(row.scopes),
        "preset": preset.name,
        "lacks": sorted(preset.lacks),
        "has_password": row.password_hash is not None,
        "disabled": row.disabled_at is not None,
    }
