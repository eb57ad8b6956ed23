"""How fast facts go into the ledger: ``python -m tests.bench.ledger``. A durable PostgreSQL of its own.

Each transaction writes one layout row; with the ledger also its leaf. Threads stand for requests at once.
"""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from app.config import Settings
from app.db.migrate import upgrade
from app.db.session import Database, open_database
from app.embedded import EmbeddedPostgres, make_home
from app.ledger import service as ledger
from app.ledger.service.audit import LedgerAudit
from app.models import Layout
from tests.bench.machine import describe_machine


def write(database: Database, *, number: int, recorded: bool) -> float:
    """One transaction; returns its seconds."""
    started = time.perf_counter()
    with database.transaction() as session:
        row = Layout(
            sha256=f"{number:064x}", document=b"{}", group_count=1, layer_count=1, created_by="bench"
        )
        session.add(row)
        if recorded:
            ledger.record(session, kind="layout-registered", by="bench", rows={"layout": [row]})
    return time.perf_counter() - started


def measure(database: Database, *, first: int, count: int, threads: int, recorded: bool) -> dict[str, Any]:
    """Rate and latencies of `count` transactions."""
    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        numbers = range(first, first + count)
        seconds = list(pool.map(lambda n: write(database, number=n, recorded=recorded), numbers))
    elapsed = time.perf_counter() - started
    return {
        "ledger": recorded,
        "threads": threads,
        "per_second": round(count / elapsed),
        "p50_ms": round(1000 * median(seconds), 2),
        "p95_ms": round(1000 * quantiles(seconds, n=20)[-1], 2),
    }


def run(*, count: int) -> dict[str, Any]:
    """All of it on a database of its own."""
    with TemporaryDirectory(prefix="sparkgate-bench-") as folder:
        home = Path(folder) / "home"
        make_home(home)
        server = EmbeddedPostgres(home)
        urls = server.start(lambda line: print(line, file=sys.stderr))  # noqa: T201
        try:
            upgrade(urls.owner)
            database = open_database(Settings.model_validate({"database_url": urls.app}))
            cases = [(1, False), (1, True), (8, False), (8, True)]
            measured = [
                measure(database, first=place * count, count=count, threads=threads, recorded=recorded)
                for place, (threads, recorded) in enumerate(cases)
            ]
            started = time.perf_counter()
            with database.reading() as session:
                audit = LedgerAudit(session)
                findings = sum(1 for _ in audit.findings())
            took = time.perf_counter() - started
            database.dispose()
        finally:
            server.stop()
    # The layouts written without the ledger are findings, and nothing else is.
    audited = {"entries": audit.totals.entries, "findings": findings, "seconds": round(took, 2)}
    return {"machine": describe_machine(), "transactions": count, "appends": measured, "audit": audited}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    print(json.dumps(run(count=parser.parse_args().count), indent=1))  # noqa: T201
