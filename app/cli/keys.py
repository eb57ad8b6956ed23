"""``sparkgate keys``: API keys, made, listed and revoked beside the database."""

import json
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

import typer

from app.accounts import service
from app.cli.beside import AsJson, beside, refuse, say
from app.db.session import database_time
from app.models import ApiKey
from app.web.auth import PRESETS, Principal, Scope

keys_app = typer.Typer(help="API keys, made and revoked beside the database.", no_args_is_help=True)
MOST_DAYS = service.LONGEST_KEY_LIFE.days


@keys_app.command()
def create(
    label: Annotated[str, typer.Argument(help="What the key is for; `revoke` takes it.")],
    account: Annotated[str, typer.Option(help="The account the key belongs to.")] = "admin",
    preset: Annotated[str, typer.Option(help=f"One of {', '.join(PRESETS)}.")] = "viewer",
    node: Annotated[str | None, typer.Option(help="The one node a worker's key speaks for.")] = None,
    days: Annotated[int, typer.Option(min=1, max=MOST_DAYS, help="How long it is good.")] = 90,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it, once; only its hash is kept.

    Exit codes: 0 done, 2 usage, refused or no database.
    """
    if preset not in PRESETS:
        refuse(f"preset: expected one of {', '.join(PRESETS)}, found {preset}")
    scopes: frozenset[Scope] = PRESETS[preset] if preset != "admin" else PRESETS["admin"] - PRESETS["worker"]
    order = service.KeyOrder(
        account_name=account, label=label, scopes=scopes, node_name=node, life=timedelta(days=days)
    )
    with beside() as session:
        made = service.make_key(session, order=order)
        shown = _shown(made.row)
    say(json.dumps({"key": made.text, **shown}) if as_json else made.text)


@keys_app.command("list")
def list_(
    account: Annotated[str | None, typer.Option(help="Only the keys of this account.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The newest so many.")] = 200,
    as_json: AsJson = False,
) -> None:
    """List keys, newest first: id, owner, label, scopes, and until when each is good.

    Exit codes: 0 done, 2 usage, refused or no database.
    """
    with beside() as session:
        rows = service.list_keys(session, account_name=account, after=None, limit=limit)
        now = database_time(session)
        shown = [{**_shown(row), "state": service.state_of(row, now=now)} for row in rows]
    if as_json:
        say(json.dumps({"keys": shown}))
        return
    for one in shown:
        name, used = f"{one['account']}/{one['label']}", one["last_used_at"] or "never used"
        facts = (one["id"], name, one["state"], one["expires_at"], used, ",".join(one["scopes"]))
        say("  ".join(facts))


@keys_app.command()
def revoke(
    label: Annotated[str, typer.Argument(help="The label given at creation, or a key's id.")],
    as_json: AsJson = False,
) -> None:
    """Revoke the key with this id, or every live key with this label.

    Exit codes: 0 done, 2 usage, refused or no database.
    """
    with beside() as session:
        key_id = _uuid(label)
        if key_id is None:
            count = service.revoke_keys(session, label=label)
        else:
            row = service.get_key(session, key_id=key_id, by=_OPERATOR, lock=True)
            count = int(row.revoked_at is None)
            service.revoke_key(session, key=row, by=service.BESIDE)
    if count == 0:
        refuse(f"label: expected that of a live key, found {label}")
    say(json.dumps({"revoked": count}) if as_json else f"{count} revoked")


# Who reaches the database may do what an admin may.
_OPERATOR = Principal(name=service.BESIDE, scopes=frozenset({Scope.ADMIN}))


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _shown(row: ApiKey) -> dict[str, Any]:
    return {
        "id": str(row.id),
        "account": row.account.name,
        "label": row.label,
        "prefix": f"{service.KEY_PREFIX}_{row.prefix}",
        "scopes": sorted(row.scopes),
        "node": row.node_name,
        "expires_at": row.expires_at.isoformat(),
        "revoked_at": row.revoked_at.isoformat() if row.revoked_at else None,
        "last_used_at": row.last_used_at.isoformat() if row.last_used_at else None,
    }
