"""The demo's second half: the same snapshot with a fault put in, and what the rules make of both restores."""

from typing import Any, Final
from uuid import uuid4

import typer
from rich.console import Console
from rich.table import Table

from app.cli.client import ApiClient
from app.cli.restore import follow, is_caught, print_restore
from app.cli.waiting import wait_for
from app.core.oracle.partials import SemanticFault

FAULT: Final = SemanticFault.SWAP_PAGES
FAULT_RANK: Final = 2
_JUDGED_WITHIN_S: Final = 60.0
_REASON: Final = "demo: the healthy restore was meant for qualification of this engine build"


def run_drill(console: Console, api: ApiClient, *, order: dict[str, Any], healthy: dict[str, Any]) -> None:
    """Restore once more with two pages of one rank in each other's place, and lay both side by side.

    Raises:
        ApiError: the control plane refuses or is gone.
        TimeoutError: no receipt was written in time.
    """
    body = {**order, "fault": {"name": str(FAULT), "rank": FAULT_RANK}}
    drill = api.post("/api/v1/restores", body=body, key=str(uuid4()))
    with console.status(f"restoring once more with a fault on rank {FAULT_RANK}"):
        drill = follow(api, restore_id=drill["id"])
    print_restore(console, drill)
    receipts = [_receipt(api, restore_id=one["id"]) for one in (healthy, drill)]
    # Only a person can say that a receipt is meant for qualification: here whoever runs the demo.
    api.post("/api/v1/declarations", body={"receipts": receipts[:1], "reason": _REASON})
    console.print(_side_by_side(api, restores=[healthy, drill], receipts=receipts))
    console.print(f"{api.base_url}/restores/{drill['id']} shows which pages were wrong and who caught it")
    if not is_caught(drill):
        raise typer.Exit(1)


def _receipt(api: ApiClient, *, restore_id: str) -> str:
    """The digest of the receipt written of a restore."""
    path = f"/api/v1/restores/{restore_id}"
    wait_for(
        lambda: bool(api.get(path)["receipt_sha256"]),
        within_s=_JUDGED_WITHIN_S,
        what=f"the receipt of restore {restore_id}",
    )
    return str(api.get(path)["receipt_sha256"])


def _side_by_side(api: ApiClient, *, restores: list[dict[str, Any]], receipts: list[str]) -> Table:
    table = Table(title="the same snapshot, asked the same question", title_justify="left")
    for name in ("", "healthy", f"drill: {FAULT} on rank {FAULT_RANK}"):
        table.add_column(name)
    ranks = restores[0]["rank_count"]
    table.add_row("hashes", *(f"right on {_restored(one)} of {ranks} ranks" for one in restores))
    table.add_row("answer", *(_answer(one) for one in restores))
    table.add_row("outcome", *(one["outcome"] for one in restores))
    verdicts = [api.get(f"/api/v1/receipts/{one}")["verdicts"][0] for one in receipts]
    table.add_row("verdict on the engine", *(one["outcome"] for one in verdicts))
    table.add_row("because", *(one["reason"] for one in verdicts))
    return table


def _restored(restore: dict[str, Any]) -> int:
    """Ranks that placed every byte authentically, by their own reports."""
    reports = [one["report"] for one in restore["attempts"]]
    return sum(report is not None and report["outcome"] == "restored" for report in reports)


def _answer(restore: dict[str, Any]) -> str:
    answer = restore["answer"]
    return "none" if answer is None else f"{answer['observed']} ({answer['semantic']})"
