"""``sparkgate store damage``: one named fault, for drills."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.store_console import ExitCode, InputError, errors_shown, open_root, print_json, print_pairs
from app.core.canonical_json import JsonObject, JsonValue
from app.core.digest import Digest
from app.core.errors import CoreError
from app.core.store.damage import FAULTS, Damaged, Fault, damage_root

DAMAGE_HELP = """Do one named fault to a rank-local root that nobody needs; --list names them all.

Only with --yes-damage-this-root, never while the root's lock is taken, and no file is changed in place: a
copy made of hard links keeps its content. The same root, name and seed give the same damage.
Exit codes: 0 damaged, 2 usage, 5 failed.
"""


def damage(
    path: Annotated[Path | None, typer.Argument(help="The rank-local root.")] = None,
    name: Annotated[str | None, typer.Argument(help="The fault.")] = None,
    context: Annotated[str | None, typer.Option(help="Only entries of this context digest.")] = None,
    seed: Annotated[int, typer.Option(help="Which entry, object and byte it hits.")] = 0,
    consent: Annotated[
        bool, typer.Option("--yes-damage-this-root", help="The root may be destroyed by this.")
    ] = False,
    list_faults: Annotated[bool, typer.Option("--list", help="Name all faults and leave.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Damage the root, and say what was done."""
    with errors_shown(as_json=as_json):
        if list_faults:
            _print_faults(as_json=as_json)
            raise typer.Exit(ExitCode.SUCCESS)
        if path is None or name is None:
            raise InputError("arguments: expected a root and the name of a fault, or --list, found less")
        if not consent:
            raise InputError(f"root {path}: expected --yes-damage-this-root, found no such consent")
        open_root(path)
        done = damage_root(path, name=name, seed=seed, context=_parse_context(context))
        if as_json:
            print_json(_describe(done))
        else:
            print_pairs({"fault": done.fault.name, "now": done.fault.says, "changed": "\n".join(done.paths)})


def _parse_context(context: str | None) -> Digest | None:
    try:
        return None if context is None else Digest.parse(context, subject="--context")
    except CoreError as error:
        raise InputError(str(error)) from None


def _print_faults(*, as_json: bool) -> None:
    if as_json:
        print_json({"faults": [_describe_fault(fault) for fault in FAULTS.values()]})
    else:
        print_pairs({fault.name: fault.says for fault in FAULTS.values()})


def _describe_fault(fault: Fault) -> JsonObject:
    return {"name": fault.name, "says": fault.says, "codes": list[JsonValue](sorted(fault.codes))}


def _describe(done: Damaged) -> JsonObject:
    entry = done.entry
    return {
        "fault": _describe_fault(done.fault),
        "entry": None
        if entry is None
        else {"storage_key": entry.storage_key, "context_digest": entry.context_digest},
        "paths": list(done.paths),
    }
