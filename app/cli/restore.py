"""``sparkgate restore``: order a restore, follow it, call it off, try it again, show every rank's time."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID, uuid4

import typer
from rich.console import Console
from rich.table import Table

from app.cli.client import ApiClient, ApiError, fail, open_api
from app.config import Settings
from app.core.oracle.partials import INJECTABLE
from app.core.restore.timeline import Phase

restore_app = typer.Typer(help="Restores through the control plane.", no_args_is_help=True)

POLL_S: Final = 0.1
NOT_CAUGHT: Final = 6
_EXIT_CODES: Final = {"restored": 0, "corrupt": 1, "incomplete": 3, "failed": 5}

Url = Annotated[str | None, typer.Option(help="The control plane; default: the local installation.")]
KeyFile = Annotated[Path | None, typer.Option(help="File with an API key; default: the local one.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


@restore_app.command()
def start(
    context: Annotated[str, typer.Option(help="Context digest of the snapshot.")],
    layout: Annotated[str, typer.Option(help="SHA-256 of a registered layout.")],
    resident_s: Annotated[int | None, typer.Option(min=1, help="Seconds the restored pages stay.")] = None,
    oracle: Annotated[
        str | None,
        typer.Option(help="SHA-256 of the question to ask; none: do not ask; default: the newest."),
    ] = None,
    fault: Annotated[
        str | None, typer.Option(help=f"A drill: put a fault in on purpose ({', '.join(INJECTABLE)}).")
    ] = None,
    fault_rank: Annotated[int, typer.Option(min=0, help="The rank that misplaces.")] = 0,
    wait: Annotated[bool, typer.Option(help="Follow it to its end.")] = True,
    url: Url = None,
    api_key_file: KeyFile = None,
    as_json: Json = False,
) -> None:
    """Order a restore on all ranks.

    Exit codes: 0 restored, 1 corrupt, 2 refused, 3 incomplete, 5 failed;
    of a drill 0 its fault was caught and named, 6 it was not.
    """
    try:
        api = open_api(Settings(), url=url, api_key_file=api_key_file)
        body: dict[str, Any] = {"context_digest": context, "layout_sha256": layout, "resident_s": resident_s}
        body["oracle"] = oracle
        body["fault"] = None if fault is None else {"name": fault, "rank": fault_rank}
        restore = api.post("/api/v1/restores", body=body, key=str(uuid4()))
        if wait:
            restore = follow(api, restore_id=restore["id"])
    except ApiError as error:
        fail(error, as_json=as_json, status=2)
    _show(restore, as_json=as_json)
    raise typer.Exit(_exit_code(restore))


@restore_app.command()
def show(
    restore_id: Annotated[UUID, typer.Argument(help="Id of the restore.")],
    url: Url = None,
    api_key_file: KeyFile = None,
    as_json: Json = False,
) -> None:
    """Show one restore.

    Exit codes: 0 shown, 2 not there, or no answer.
    """
    try:
        restore = open_api(Settings(), url=url, api_key_file=api_key_file).get(
            f"/api/v1/restores/{restore_id}"
        )
    except ApiError as error:
        fail(error, as_json=as_json, status=2)
    _show(restore, as_json=as_json)


@restore_app.command()
def cancel(
    restore_id: Annotated[UUID, typer.Argument(help="Id of the restore.")],
    reason: Annotated[str | None, typer.Option(help="Why; kept with the restore.")] = None,
    wait: Annotated[bool, typer.Option(help="Follow it until every rank has stopped.")] = True,
    url: Url = None,
    api_key_file: KeyFile = None,
    as_json: Json = False,
) -> None:
    """Call a restore off, unless publish is decided.

    Exit codes: 0 cancelled, 2 refused or too late.
    """
    try:
        api = open_api(Settings(), url=url, api_key_file=api_key_file)
        restore = api.post(f"/api/v1/restores/{restore_id}/cancel", body={"reason": reason})
        if wait:
            restore = follow(api, restore_id=str(restore_id))
    except ApiError as error:
        fail(error, as_json=as_json, status=2)
    _show(restore, as_json=as_json)


@restore_app.command()
def retry(
    restore_id: Annotated[UUID, typer.Argument(help="Id of a restore that is over and not restored.")],
    wait: Annotated[bool, typer.Option(help="Follow the new restore to its end.")] = True,
    url: Url = None,
    api_key_file: KeyFile = None,
    as_json: Json = False,
) -> None:
    """Try a restore again as a new one, linked to it.

    Exit codes: as of ``start``.
    """
    try:
        api = open_api(Settings(), url=url, api_key_file=api_key_file)
        restore = api.post(f"/api/v1/restores/{restore_id}/retry", key=str(uuid4()))
        if wait:
            restore = follow(api, restore_id=restore["id"])
    except ApiError as error:
        fail(error, as_json=as_json, status=2)
    _show(restore, as_json=as_json)
    raise typer.Exit(_EXIT_CODES.get(restore["outcome"] or "restored", 0))


def _exit_code(restore: dict[str, Any]) -> int:
    if restore["fault"] is not None and restore["outcome"] == "failed":
        return 0 if is_caught(restore) else NOT_CAUGHT
    return _EXIT_CODES.get(restore["outcome"] or "restored", 0)


def is_caught(restore: dict[str, Any]) -> bool:
    """Whether a drill ended as it should: the answer is wrong, and the fault is named."""
    answer, fault = restore["answer"], restore["fault"]
    return answer is not None and fault is not None and answer["diagnosis"] == fault["name"]


def follow(
    api: ApiClient, *, restore_id: str, tell: Callable[[dict[str, Any]], None] | None = None
) -> dict[str, Any]:
    """Poll a restore until it is done.

    Raises:
        ApiError: the control plane refuses or is gone.
    """
    while True:
        restore = api.get(f"/api/v1/restores/{restore_id}")
        if tell is not None:
            tell(restore)
        if restore["done"]:
            return restore
        time.sleep(POLL_S)


def _show(restore: dict[str, Any], *, as_json: bool) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=as_json)
    if as_json:
        console.print(json.dumps(restore))
    else:
        print_restore(console, restore)


def print_restore(console: Console, restore: dict[str, Any]) -> None:
    """A restore as a table: one column per rank, one row per phase, and their sum."""
    console.print(f"restore {restore['id']}: {restore['outcome'] or restore['state']}")
    if restore["retry_of"]:
        console.print(f"  try {restore['try_number']} after {restore['retry_of']}")
    if restore["retried_by"]:
        console.print(f"  tried again as {restore['retried_by']}")
    for line in answer_lines(restore):
        console.print(line)
    if restore["problem"]:
        problem = restore["problem"]
        where = f"rank {problem['rank']}: " if problem.get("rank") is not None else ""
        console.print(f"  {where}{problem['detail']}")
    if restore["cancellation"]:
        console.print(_told(restore["cancellation"]))
    reports = {attempt["rank"]: attempt["report"] for attempt in restore["attempts"] if attempt["report"]}
    if reports:
        console.print(_time_table(reports))


def answer_lines(restore: dict[str, Any]) -> list[str]:
    """What was put in, asked and answered, where anything was."""
    fault, answer = restore["fault"], restore["answer"]
    lines = [f"  drill: {fault['name']} put in on purpose on rank {fault['rank']}"] if fault else []
    if answer is not None and answer["observed"] is not None:
        said = answer["document"]["restored"]
        lines.append(
            f"  every hash right on {restore['rank_count']} ranks; answer {answer['observed']}, expected "
            f"{said['expected']}: {answer['semantic']}"
        )
    elif restore["oracle_sha256"] is not None:
        lines.append(f"  answer: {restore['semantic'] or 'not yet'}")
    return lines


def _told(cancellation: dict[str, Any]) -> str:
    """How far a cancellation has come, ranks that hold it up included."""
    ranks = ", ".join(map(str, cancellation["ranks_open"]))
    waits = f"; not stopped: rank {ranks}" if ranks else ""
    return f"  cancellation by {cancellation['requested_by']}: {cancellation['state']}{waits}"


def _time_table(reports: dict[int, dict[str, Any]]) -> Table:
    table = Table(title="milliseconds of service", title_justify="left")
    table.add_column("phase")
    for rank in reports:
        table.add_column(f"rank {rank}", justify="right")
    occurred = {phase for report in reports.values() for phase in report["phases_ns"]}
    phases = [phase for phase in Phase if phase in occurred]
    for phase in phases:
        spent = [report["phases_ns"].get(phase, 0) for report in reports.values()]
        table.add_row(phase.replace("_", " "), *map(_ms, spent))
    table.add_row("unattributed", *(_ms(report["unattributed_ns"]) for report in reports.values()))
    table.add_section()
    table.add_row("service", *(_ms(report["service_ns"]) for report in reports.values()))
    table.add_row("GB/s", *(_rate(report) for report in reports.values()))
    if any(report["oracle_ns"] is not None for report in reports.values()):
        table.add_row("question, after it", *(_ms(report["oracle_ns"] or 0) for report in reports.values()))
    return table


def _ms(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:,.1f}"


def _rate(report: dict[str, Any]) -> str:
    return f"{report['bytes'] / report['service_ns']:.2f}" if report["service_ns"] else "–"
