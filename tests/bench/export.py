"""A bundle of many receipts: how long it takes, how much memory, how long its verification takes.

    make bench BENCH=export ARGS="--receipts 100000"

Receipts are documents, four about one image, judged as they come or, with --unjudged, only kept. The bundle
is built, and verified by the program in it, each in a process of its own, so that its memory is only that.
"""

import argparse
import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.config import Settings
from app.core.digest import sha256
from app.core.qualify.values import Basis
from app.db.migrate import upgrade
from app.db.session import Database, open_database
from app.embedded import EmbeddedPostgres, make_home
from app.evidence.service.request import ExportOrder, request_export
from app.ledger.service.signing import create_key_file, read_signer
from app.receipts.service import Submission, append_receipts
from app.receipts.service.stored import facts_of_bytes
from app.verdicts.service.submit import submit_many
from tests.app.evidence_documents import raw, receipt
from tests.bench.machine import describe_machine

PER_IMAGE = 4
AT_ONCE = 100
_RSS = "import resource, sys; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
_BUILD = f"""
from pathlib import Path
from app.config import Settings
from app.db.session import open_database
from app.ledger.service.signing import load_signer
from workers.bundle_builder import BundleBuilder
settings = Settings()
builder = BundleBuilder(open_database(settings), settings=settings, signer=load_signer(settings))
builder.tend()
builder.wait()
{_RSS}
"""
_VERIFY = f"""
import runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as done:
    code = done.code
{_RSS}
sys.exit(code)
"""


def load(database: Database, *, count: int, is_judged: bool) -> float:
    """Receipts that are taken in, some in a transaction; receipts a second."""
    started = time.perf_counter()
    for first in range(0, count, AT_ONCE):
        documents = [_document(number) for number in range(first, min(first + AT_ONCE, count))]
        given = [Submission(raw=one, facts=facts_of_bytes(one)) for one in documents]
        with database.transaction() as session:
            if is_judged:
                submit_many(session, submissions=given, by="bench", grade=Basis.SELF_CONSISTENT)
            else:
                append_receipts(session, submissions=given, by="bench")
    return count / (time.perf_counter() - started)


def _document(number: int) -> bytes:
    image = sha256(f"image {number // PER_IMAGE}".encode())
    return raw(receipt(artifact__image_id=f"sha256:{image}", profile__profile_id=f"p{number}"))


def timed(argv: list[str], *, env: dict[str, str]) -> tuple[float, int, int]:
    """Seconds, exit code, and the last line that was said: the peak of its memory in MiB."""
    started = time.perf_counter()
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, check=False)
    return time.perf_counter() - started, done.returncode, int(done.stdout.strip().rpartition("\n")[2])


def measure(
    database: Database, *, settings: dict[str, str], folder: Path, is_verified: bool
) -> dict[str, Any]:
    """One export of everything, built and, if wanted, verified."""
    signer = read_signer(Path(settings["SPARKGATE_LEDGER_KEY_FILE"]))
    with database.transaction() as session:
        size = request_export(session, order=ExportOrder(), signer=signer, by="bench").ledger_size
    built_s, code, built_mib = timed([sys.executable, "-c", _BUILD], env=settings)
    (bundle,) = (folder / "bundles").iterdir()
    measured: dict[str, Any] = {
        "ledger_entries": size,
        "bundle_mib": round(bundle.stat().st_size / 2**20, 1),
        "build": {"exit": code, "seconds": round(built_s, 1), "peak_mib": built_mib},
    }
    if is_verified:
        with tarfile.open(bundle) as archive:
            archive.extract("verify.pyz", path=folder, filter="data")
        argv = [sys.executable, "-I", "-S", "-c", _VERIFY, str(folder / "verify.pyz"), str(bundle)]
        verified_s, verdict, verified_mib = timed(argv, env={})
        measured["verify"] = {"exit": verdict, "seconds": round(verified_s, 1), "peak_mib": verified_mib}
    return measured


def run(*, count: int, is_judged: bool, is_verified: bool) -> dict[str, Any]:
    """All of it on a database of its own."""
    with TemporaryDirectory(prefix="sparkgate-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        make_home(folder / "home")
        server = EmbeddedPostgres(folder / "home", durable=False)
        urls = server.start(lambda line: print(line, file=sys.stderr))  # noqa: T201
        try:
            upgrade(urls.owner)
            create_key_file(folder / "ledger.key", origin="example.org/bench")
            database = open_database(Settings.model_validate({"database_url": urls.app}))
            rate = load(database, count=count, is_judged=is_judged)
            settings = {
                "SPARKGATE_DATABASE_URL": urls.app,
                "SPARKGATE_LEDGER_KEY_FILE": str(folder / "ledger.key"),
                "SPARKGATE_EVIDENCE_FOLDER": str(folder / "bundles"),
            }
            measured = measure(database, settings=settings, folder=folder, is_verified=is_verified)
            database.dispose()
        finally:
            server.stop()
    machine = describe_machine()
    said = {"receipts": count, "judged": is_judged, "loaded_per_second": round(rate)}
    return {"machine": machine, **said, **measured}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--receipts", type=int, default=100_000)
    parser.add_argument("--unjudged", action="store_true")
    parser.add_argument("--unverified", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    measured = run(count=given.receipts, is_judged=not given.unjudged, is_verified=not given.unverified)
    found = json.dumps(measured, indent=1)
    print(found)  # noqa: T201
    if given.json:
        given.json.write_text(found + "\n")
