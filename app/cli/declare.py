"""``sparkgate declare``: say with a name and a reason that receipts are meant for qualification."""

import json
from pathlib import Path
from typing import Annotated

import typer

from app.cli.client import ApiError, fail, open_api
from app.config import Settings
from app.core.qualify.facts import Capability


def declare(
    receipts: Annotated[list[str], typer.Argument(help="SHA-256 of the receipts meant.")],
    reason: Annotated[str, typer.Option(help="Why they are meant for qualification.")],
    capability: Annotated[Capability, typer.Option(help="What they are meant to show.")] = Capability.RESTORE,
    url: Annotated[str | None, typer.Option(help="Address of the control plane.")] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="File with an API key: your name.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Declare receipts; the rules still decide, and their answer is printed.

    Exit codes: 0 declared, 2 usage, refused or no answer.
    """
    body = {"reason": reason, "receipts": receipts, "capability": capability.value}
    try:
        api = open_api(Settings(), url=url, api_key_file=api_key_file)
        made = api.post("/api/v1/declarations", body=body)
    except ApiError as error:
        fail(error, as_json=as_json, status=2)
    if as_json:
        typer.echo(json.dumps(made))
        return
    typer.echo(f"declared by {made['created_by']}: {made['id']}")
    for one in made["changed"]:
        of = one["receipt_sha256"] or f"scope {one['scope_digest'][:12]}"
        typer.echo(f"{one['outcome']}  {of}  {one['reason']}")
    if not made["changed"]:
        typer.echo(
            "no verdict changed: the documents speak for themselves, or the evidence does not carry it"
        )
