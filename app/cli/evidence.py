"""``sparkgate evidence``: a bundle asked for, followed, fetched and made sure of, through the API."""

import json
import os
import re
import secrets
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import uuid4

import typer
from rich.console import Console
from rich.table import Table

from app.cli.client import ApiClient, ApiError, fail, open_api
from app.cli.progress import progress_line
from app.cli.restore import Json, KeyFile, Url
from app.config import Settings
from app.core.digest import RunningDigest

evidence_app = typer.Typer(help="Evidence bundles through the control plane.", no_args_is_help=True)

POLL_S: Final = 0.3
ROOT: Final = "/api/v1/evidence"
_TOPOLOGY: Final = re.compile(r"(?:tp)?([1-9][0-9]{0,3})[/,x ](?:dcp)?([1-9][0-9]{0,3})", re.IGNORECASE)

EXPORT_HELP = """Have a bundle built, wait for it, fetch it and check the digest of what arrived.

Without options: everything. A date is a whole day, UTC: --from 2026-01-01 --to 2026-03-31 is the quarter.
Verify it anywhere, offline: python3 verify.pyz BUNDLE --key FINGERPRINT; verify.pyz lies in the bundle.
Exit codes: 0 the bundle is here, 1 it could not be built, 2 refused.
"""


@evidence_app.command(help=EXPORT_HELP)
def export(
    since: Annotated[str | None, typer.Option("--from", help="First day, or an instant with offset.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Last day, or the first instant after.")] = None,
    image: Annotated[list[str] | None, typer.Option(help="Config id; may be given again.")] = None,
    topology: Annotated[str | None, typer.Option(help="TP/DCP, as 4/1 or TP4/DCP1.")] = None,
    ledger_size: Annotated[
        int | None, typer.Option(min=1, help="Entries to cover; the same size again is the same bundle.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write; else named after what it is.")] = None,
    url: Url = None,
    api_key_file: KeyFile = None,
    as_json: Json = False,
) -> None:
    try:
        body = {
            "period_from": read_instant(since, is_end=False) if since else None,
            "period_to": read_instant(until, is_end=True) if until else None,
            "images": [one.removeprefix("sha256:") for one in image or ()],
            "topology": read_topology(topology) if topology else None,
            "ledger_size": ledger_size,
        }
        api = open_api(Settings(), url=url, api_key_file=api_key_file)
        with progress_line("evidence") as say:
            asked = api.post(ROOT, body=body, key=str(uuid4()))
            ended = follow(api, export_id=asked["id"], tell=lambda one: say(_how_far(one)))
            if ended["state"] != "finished":
                problem = ended["problem"] or {"code": ended["state"], "detail": "its file is not kept"}
                fail(ApiError(f"{problem['code']}: {problem['detail']}"), as_json=as_json)
            path = fetch(api, export=ended, out=out, tell=say)
    except (ApiError, ValueError) as error:
        fail(error, as_json=as_json, status=2)
    except OSError as error:
        fail(error, as_json=as_json, status=2)
    if as_json:
        shown = {"file": str(path), "export": ended}
        Console(highlight=False, markup=False, soft_wrap=True).print(json.dumps(shown))
    else:
        show(path, ended)


def follow(api: ApiClient, *, export_id: str, tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Poll an export until it is over.

    Raises:
        ApiError: the control plane refuses or is gone.
    """
    while True:
        export = api.get(f"{ROOT}/{export_id}")
        tell(export)
        if export["done"]:
            return export
        time.sleep(POLL_S)


def fetch(api: ApiClient, *, export: dict[str, Any], out: Path | None, tell: Callable[[str], None]) -> Path:
    """Download a bundle; the file is there whole, with the digest the control plane says, or not at all.

    Raises:
        ApiError: it is not what was built, or cannot be had.
        OSError: the file cannot be written.
    """
    bundle = export["bundle"]
    name = f"sparkgate-evidence-{export['first_index']}-{export['ledger_size']}-{bundle['sha256'][:12]}.tar"
    path = out or Path(name)
    drafted = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    digest, count = RunningDigest(), 0
    try:
        with drafted.open("xb") as file:
            for part in api.stream(f"{ROOT}/{export['id']}/bundle"):
                file.write(part)
                digest.update(part)
                count += len(part)
                tell(f"{count:,} of {bundle['bytes']:,} bytes fetched")
            file.flush()
            os.fsync(file.fileno())
        if digest.digest() != bundle["sha256"]:
            raise ApiError(f"bundle: expected SHA-256 {bundle['sha256']}, found {digest.digest()}")
        drafted.replace(path)
    finally:
        drafted.unlink(missing_ok=True)
    return path


def read_instant(text: str, *, is_end: bool) -> str:
    """A day or an instant as the API takes it; a day that ends a period is meant whole.

    Raises:
        ValueError: it is neither.
    """
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return _instant(text)
    at = datetime.combine(day + timedelta(days=1) if is_end else day, clock_time.min, tzinfo=UTC)
    return at.isoformat()


def _instant(text: str) -> str:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise ValueError(f"period: expected YYYY-MM-DD, or an instant with its offset from UTC, found {text}")
    return at.isoformat()


def read_topology(text: str) -> dict[str, str]:
    """Tensor-parallel and decode-context-parallel size.

    Raises:
        ValueError: it is no topology.
    """
    found = _TOPOLOGY.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"topology: expected TP/DCP as 4/1 or TP4/DCP1, found {text}")
    return {"tp": found[1], "dcp": found[2]}


def _how_far(export: dict[str, Any]) -> str:
    progress = export["progress"]
    if not progress:
        return str(export["state"])
    return f"{progress['entries']:,} entries, {progress['receipts']:,} receipts, {progress['bytes']:,} bytes"


def show(path: Path, export: dict[str, Any]) -> None:
    """Print what was fetched, and how to verify it."""
    bundle = export["bundle"]
    table = Table(show_header=False)
    table.add_column()
    # A digest is compared digit by digit: folded where the window is narrow, never cut.
    table.add_column(overflow="fold")
    table.add_row("file", str(path))
    table.add_row("bytes", f"{bundle['bytes']:,}")
    table.add_row("SHA-256", bundle["sha256"])
    table.add_row("ledger", f"entries {export['first_index']:,} to {export['ledger_size'] - 1:,}")
    for name, count in bundle["contents"].items():
        table.add_row(name.replace("_", " "), f"{count:,}")
    Console(highlight=False, markup=False, soft_wrap=True).print(table)
    typer.echo("Verify it anywhere, offline; the fingerprint is what the page of the ledger and")
    typer.echo("`sparkgate ledger checkpoint`, run on the machine that signs, say:")
    typer.echo(f"  tar xf {path} verify.pyz && python3 verify.pyz {path} --key FINGERPRINT")
