"""Receipts and verdicts in number: pages and lists at any depth, appends beside an import, imports.

    make bench BENCH=evidence JSON=FILE                                    # 10⁶ receipts, 5·10⁴ images
    make bench BENCH=evidence ARGS="imports --imports 10000 100000"        # one part

Rows are loaded by SQL (`evidence_rows`); pages are asked of a real uvicorn; appends are judged in this
process, an import runs through the command line and the web process. Nothing else should run meanwhile.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from app.core.qualify.values import Basis
from app.db.session import Database, open_database
from app.receipts.service.stored import facts_of_bytes
from app.verdicts.service.submit import submit
from tests.bench.control_figures import spread
from tests.bench.control_site import Site, say
from tests.bench.evidence_import import document, measure_imports, start_import, write_folder
from tests.bench.evidence_pages import measure_pages
from tests.bench.evidence_rows import fill
from tests.bench.parts import free_port, keep, measure_parts

PARTS: Final = ("pages", "appends", "imports")
# Files of the import that runs beside the appends; it is ended with them.
BESIDE: Final = 20_000


def append(database: Database, raw: bytes) -> float:
    """Milliseconds of one receipt taken in and judged."""
    started = time.perf_counter()
    facts = facts_of_bytes(raw)
    with database.transaction() as session:
        submit(session, raw=raw, facts=facts, origin=None, by="bench", grade=Basis.SELF_CONSISTENT)
    return (time.perf_counter() - started) * 1e3


def measure_appends(site: Site, *, count: int) -> dict[str, Any]:
    """Appends alone, then beside an import that runs all the time."""
    database = open_database(site.settings)
    try:
        for number in range(20):
            append(database, document(number, of="warm"))
        before = time.process_time()
        alone = [append(database, document(number, of="alone")) for number in range(count)]
        cpu_ms = (time.process_time() - before) * 1e3 / count
        folder = site.home / "beside"
        write_folder(folder, count=BESIDE, of="import")
        importing = start_import(site, folder)
        time.sleep(3)
        started, first = time.perf_counter(), _receipts(site)
        beside = [append(database, document(number, of="beside")) for number in range(count)]
        seconds, last = time.perf_counter() - started, _receipts(site)
        was_running = importing.poll() is None
        importing.terminate()
        importing.wait()
    finally:
        database.dispose()
    return {
        "appended": count,
        "cpu_ms": cpu_ms,
        "alone_ms": spread(alone),
        "beside_ms": spread(beside),
        "imported_per_second": (last - first - count) / seconds,
        "import_ran_all_the_time": was_running,
    }


def _receipts(site: Site) -> int:
    with site.engine.connect() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM receipt").scalar_one())


def _parts(chosen: argparse.Namespace) -> dict[str, Callable[[Site], dict[str, Any]]]:
    return {
        "pages": lambda site: measure_pages(site, rows=chosen.rows, rounds=chosen.rounds),
        "appends": lambda site: measure_appends(site, count=chosen.appends),
        "imports": lambda site: measure_imports(site, counts=chosen.imports),
    }


def run(home: Path, chosen: argparse.Namespace, result: dict[str, Any]) -> None:
    """All parts in one installation, over the same rows."""
    result |= {"receipts": chosen.rows, "parts": list(chosen.parts)}
    site = Site(home, port=free_port())
    try:
        site.start()
        started = time.monotonic()
        fill(site.engine, rows=chosen.rows)
        result["loaded_in_s"] = time.monotonic() - started
        say(f"{chosen.rows} receipts loaded in {result['loaded_in_s']:.0f} s")
        for name in chosen.parts:
            say(f"{name} …")
            result[name] = _parts(chosen)[name](site)
            keep(result, at=chosen.json)
    finally:
        site.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--appends", type=int, default=500)
    parser.add_argument("--imports", type=int, nargs="+", default=[2_000, 10_000])
    return measure_parts(parser, name="evidence", parts=PARTS, run=run)


if __name__ == "__main__":
    sys.exit(main())
