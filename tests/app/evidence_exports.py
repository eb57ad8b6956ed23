"""Exports for tests: a client with a signing key and some evidence, and an export ended by hand."""

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from fastapi.testclient import TestClient

from app.config import Settings
from app.core.digest import sha256
from app.core.ledger.checkpoint import NoteSigner
from app.db.session import Database
from app.evidence.service import reading, work
from app.evidence.service.request import ExportOrder, cancel_export, discard_export, request_export
from app.evidence.service.work import Finished
from app.ledger.service.signing import create_key_file

ROOT = "/api/v1/evidence"
BYTES = b"as if it were a bundle\n" * 100


def with_key(settings: Settings, folder: Path) -> Settings:
    """The settings with a key that signs, and a folder for bundles."""
    path = folder / "ledger.key"
    create_key_file(path, origin="example.org/log")
    given = settings.model_dump(exclude_unset=True)
    return Settings.model_validate({**given, "ledger_key_file": path, "evidence_folder": folder / "bundles"})


def ask(client: TestClient, *, key: str, once: str = "", **body: Any) -> Any:
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": once or str(uuid4())}
    return client.post(ROOT, json=body, headers=headers)


def end_by_hand(database: Database, *, settings: Settings, raw: bytes = BYTES) -> UUID:
    """End the export that waits longest as if it had been built of these bytes."""
    with database.transaction() as session:
        taken = work.take_next(session, lease_s=30)
        assert taken is not None
        finished = Finished(
            bundle_sha256=sha256(raw),
            bundle_bytes=len(raw),
            manifest_sha256=sha256(b"{}"),
            contents={"receipts": 1},
        )
        work.finish(session, taken=taken, finished=finished)
    path = reading.bundle_path(settings, export_id=taken.export_id)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(raw)
    return taken.export_id


def export_and_give_up(database: Database, *, settings: Settings) -> None:
    """An export that is built and given up, and one that is called off: every view of exports is filled."""
    signer = NoteSigner(name="example.org/log", seed=b"s" * 32)
    for _ in range(2):
        with database.transaction() as session:
            request_export(session, order=ExportOrder(), signer=signer, by="aurora")
    finished = end_by_hand(database, settings=settings)
    with database.transaction() as session:
        discard_export(session, export_id=finished, by="aurora")
    with database.transaction() as session:
        taken = work.take_next(session, lease_s=30)
        assert taken is not None
        cancel_export(session, export_id=taken.export_id, by="aurora")
