"""Every list of the API over many rows: first page, deep pages, each filter."""

import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

from sqlalchemy import text

from app.web.paging import Cursor, Page
from tests.bench.control_client import BareClient
from tests.bench.control_figures import Record
from tests.bench.control_rows import fill
from tests.bench.control_site import Site, say

STATES: Final = ("waiting", "running", "publishing", "resident", "finished")
OUTCOMES: Final = ("restored", "corrupt", "incomplete", "failed")
SEMANTICS: Final = ("right", "wrong", "unanswered", "not asked")
DEPTHS: Final = (0.1, 0.5, 0.9, 0.999)
PAGES: Final = 10
TABLES: Final = {
    "restores": ("restore", "id"),
    "snapshots": ("snapshot", "id"),
    "manifests": ("root_document", "sha256"),
    "images": ("image", "id"),
    "sources": ("source_identity", "id"),
}
LISTS: Final = ("restores", "snapshots", "manifests", "images", "sources")


def measure_lists(site: Site, *, rows: int, rounds: int) -> dict[str, Any]:
    """Fill the tables, then walk every list; a deep page is reached with a token the API itself made."""
    started = time.monotonic()
    fill(site.engine, rows=rows, checked=False)
    say(f"{rows} rows in {time.monotonic() - started:.0f} s")
    record, totals = Record(), {}
    client = site.client(record)
    for path, filters in _cases():
        name = f"{path} {filters}" if filters else path
        _walk(client, path, filters, kind=name, rounds=rounds)
        answer = client.need("total", "GET", f"/api/v1/{path}?{urlencode(filters)}")
        totals[name] = answer.get("total")
    for path in LISTS:
        _walk_deep(site, client, path, rounds=rounds)
    _ledger(client, rows=rows, rounds=rounds)
    client.close()
    record.samples.pop("total", None)
    return {"rows": rows, "requests": record.summary(), "totals": totals}


def _cases() -> list[tuple[str, dict[str, str]]]:
    both = [("restores", {"state": "finished", "outcome": outcome}) for outcome in OUTCOMES]
    rare = [("restores", {"state": "resident", "outcome": "restored"})]
    none = [("restores", {"state": "waiting", "outcome": "corrupt"})]
    states = [("restores", {"state": state}) for state in STATES]
    outcomes = [("restores", {"outcome": outcome}) for outcome in OUTCOMES]
    answers = [("restores", {"semantic": semantic}) for semantic in SEMANTICS]
    drills = [("restores", {"drill": drill}) for drill in ("true", "false")]
    few = [
        ("restores", {"semantic": "wrong", "drill": "false"}),
        ("restores", {"semantic": "right", "drill": "true"}),
    ]
    plain: list[tuple[str, dict[str, str]]] = [(path, {}) for path in LISTS]
    return [*plain, *states, *outcomes, *answers, *drills, *few, *both, *rare, *none]


def _walk(client: BareClient, path: str, filters: dict[str, str], *, kind: str, rounds: int) -> None:
    """The first pages, one after the other, as a reader turns them."""
    for _ in range(rounds):
        token = ""
        for _ in range(PAGES):
            query = urlencode({**filters, **({"page_token": token} if token else {})})
            token = client.need(kind, "GET", f"/api/v1/{path}?{query}")["next_page_token"]
            if not token:
                break


def _walk_deep(site: Site, client: BareClient, path: str, *, rounds: int) -> None:
    """Pages far down: the token names the row before, which nobody has to walk to."""
    secret = (site.settings.secret_key_file or site.home).read_bytes().strip()
    for depth in DEPTHS:
        cursor = _row_at(site, path, depth=depth)
        for _ in range(rounds):
            token = cursor(secret, f"/api/v1/{path}?[]")
            for _ in range(PAGES):
                query = urlencode({"page_token": token})
                kind = f"{path} at {depth:.1%}"
                token = client.need(kind, "GET", f"/api/v1/{path}?{query}")["next_page_token"]
                if not token:
                    break


def _row_at(site: Site, path: str, *, depth: float) -> Callable[[bytes, str], str]:
    """Makes the token of the page after the row so far down."""
    table, key = TABLES[path]
    query = text(
        f"SELECT created_at, {key} FROM {table} ORDER BY created_at DESC, {key} DESC"
        f" OFFSET (SELECT (count(*) * {depth})::bigint FROM {table}) LIMIT 1"
    )
    with site.engine.connect() as connection:
        created_at, row_id = connection.execute(query).one()

    def token(secret: bytes, scope: str) -> str:
        page = Page(size=50, after=None, secret=secret, scope=scope)
        return page.token(Cursor(created_at=created_at, id=row_id))

    return token


def _ledger(client: BareClient, *, rows: int, rounds: int) -> None:
    """The ledger's entries: their index is their place, so every depth is asked for directly."""
    for depth in (0.0, *DEPTHS):
        for number in range(rounds * PAGES):
            start = int(rows * depth * 0.99) + number
            client.need(f"ledger at {depth:.1%}", "GET", f"/api/v1/ledger/entries?start={start}&limit=50")
