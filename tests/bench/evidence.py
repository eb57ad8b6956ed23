"""Receipts and verdicts in number: lists at any depth, append and verdict beside an import, its memory.

    make bench BENCH=evidence ARGS="--rows 1000000 --appends 500"

Rows are loaded by SQL (`evidence_rows`); appends are documents that are judged, half of them about one image.
"""

import argparse
import json
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from app.config import Settings
from app.core.digest import sha256
from app.core.qualify.values import Basis
from app.db.migrate import upgrade
from app.db.session import Database, open_database
from app.embedded import EmbeddedPostgres, make_home
from app.receipts import repository as receipts
from app.receipts.repository import ReceiptFilter
from app.receipts.service.stored import facts_of_bytes
from app.verdicts import repository as verdicts
from app.verdicts.repository import VerdictFilter
from app.verdicts.service.submit import submit
from app.web.paging import Cursor
from tests.app.evidence_documents import raw, receipt
from tests.bench.evidence_rows import fill
from tests.bench.machine import describe_machine

ASKED = 40
PAGE = 51
SHARES = (0.0, 0.5, 0.99)


def _figures(seconds: list[float]) -> dict[str, float]:
    return {
        "p50_ms": round(1000 * median(seconds), 2),
        "p95_ms": round(1000 * quantiles(seconds, n=20)[-1], 2),
    }


def _timed(ask: Callable[[], Any], *, times: int) -> dict[str, float]:
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        ask()
        seconds.append(time.perf_counter() - started)
    return _figures(seconds)


def _cursor(session: Session, *, table: str, key: str, where: str, share: float) -> Cursor | None:
    if not share:
        return None
    count = session.execute(text(f"SELECT count(*) FROM {table} WHERE {where}")).scalar_one()
    order = f"SELECT created_at, {key} FROM {table} WHERE {where} ORDER BY created_at DESC, {key} DESC"
    row = session.execute(text(f"{order} OFFSET {int(count * share)} LIMIT 1")).one()
    return Cursor(created_at=row[0], id=row[1])


def lists(database: Database) -> dict[str, Any]:
    """A page of each list at three depths, and what filters cost on the first page."""
    measured: dict[str, Any] = {}
    scopes = "kind = 'scope'"
    with database.reading() as session:
        for share in SHARES:
            after = _cursor(session, table="receipt", key="sha256", where="true", share=share)
            measured[f"receipts at {share}"] = _timed(
                lambda after=after: receipts.list_receipts(  # type: ignore[misc]
                    session, wanted=ReceiptFilter(), after=after, limit=PAGE
                ),
                times=ASKED,
            )
            after = _cursor(session, table="verdict_current", key="verdict_id", where=scopes, share=share)
            measured[f"verdicts at {share}"] = _timed(
                lambda after=after: verdicts.list_current(  # type: ignore[misc]
                    session, wanted=VerdictFilter(), after=after, limit=PAGE
                ),
                times=ASKED,
            )
        filters: dict[str, dict[str, Any]] = {
            "qualified": {"outcome": "qualified"},
            "topology": {"tp": "4", "dcp": "4", "outcome": "qualified"},
            "code": {"terms": ("code:CODE_0",)},
            "search": {"search": (str(sha256(b"i77"))[:12],)},
        }
        for name, chosen in filters.items():
            wanted = VerdictFilter(**chosen)
            measured[f"verdicts {name}"] = _timed(
                lambda wanted=wanted: verdicts.list_current(  # type: ignore[misc]
                    session, wanted=wanted, after=None, limit=PAGE
                ),
                times=ASKED,
            )
    return measured


def append(database: Database, document: bytes) -> float:
    """Seconds of one receipt taken in and judged."""
    started = time.perf_counter()
    facts = facts_of_bytes(document)
    with database.transaction() as session:
        submit(session, raw=document, facts=facts, origin=None, by="bench", grade=Basis.SELF_CONSISTENT)
    return time.perf_counter() - started


def document(number: int, *, of: str) -> bytes:
    image = sha256(f"{of}{number // 10}".encode())
    return raw(receipt(artifact__image_id=f"sha256:{image}", profile__profile_id=f"{of}{number}"))


def appends(database: Database, *, count: int) -> dict[str, Any]:
    """Appends alone, then beside an import that runs all the time; its rate and the memory it adds."""
    alone = _figures([append(database, document(number, of="alone")) for number in range(count)])
    over, imported = threading.Event(), 0

    def keep_importing() -> None:
        nonlocal imported
        while not over.is_set():
            append(database, document(imported, of="import"))
            imported += 1

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    importing = threading.Thread(target=keep_importing)
    started = time.perf_counter()
    importing.start()
    beside = _figures([append(database, document(number, of="beside")) for number in range(count)])
    over.set()
    importing.join()
    return {
        "alone": alone,
        "beside an import": beside,
        "imported_per_second": round(imported / (time.perf_counter() - started)),
        "added_memory_mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024,
    }


def run(*, rows: int, count: int) -> dict[str, Any]:
    """All of it on a database of its own."""
    with TemporaryDirectory(prefix="sparkgate-bench-") as folder:
        home = Path(folder) / "home"
        make_home(home)
        server = EmbeddedPostgres(home)
        urls = server.start(lambda line: print(line, file=sys.stderr))  # noqa: T201
        try:
            upgrade(urls.owner)
            owner = create_engine(urls.owner)
            fill(owner, rows=rows)
            owner.dispose()
            database = open_database(Settings.model_validate({"database_url": urls.app}))
            measured = {"lists": lists(database), "appends": appends(database, count=count)}
            database.dispose()
        finally:
            server.stop()
    return {"machine": describe_machine(), "receipts": rows, "appended": count, **measured}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--appends", type=int, default=500)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = json.dumps(run(rows=given.rows, count=given.appends), indent=1)
    print(found)  # noqa: T201
    if given.json:
        given.json.write_text(found + "\n")
