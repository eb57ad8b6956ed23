"""Bundles built from a real database: verified offline, the same twice, never half made."""

import errno
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from app.config import Settings
from app.core.bundle.proof import prove_entry
from app.core.bundle.verify import VerifyOptions, verify_bundle
from app.core.digest import sha256
from app.core.dsse import fingerprint
from app.core.ledger.checkpoint import NoteSigner
from app.db.session import Database, database_time
from app.evidence.service import reading, request, upkeep, work
from app.evidence.service.request import ExportOrder, request_export
from app.evidence.service.work import ExportLost
from app.ledger.service import proofs
from app.ledger.service.signing import create_key_file, read_signer
from app.models import EvidenceExport, LedgerLeaf
from tests.app.evidence_exports import with_key
from tests.app.evidence_rows import BAD, GOOD, Paper, add_papers, own_papers
from tests.core import evidence_documents as made
from workers.bundle_builder import BundleBuilder

PATIENCE_S = 60


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return with_key(settings, tmp_path)


@pytest.fixture
def signer(settings: Settings) -> NoteSigner:
    assert settings.ledger_key_file is not None
    return read_signer(settings.ledger_key_file)


@pytest.fixture
def filled(database: Database) -> Database:
    for paper in own_papers():
        add(database, paper)
    return database


def add(database: Database, paper: Paper) -> None:
    with database.transaction() as session:
        add_papers(session, [paper])


class Exports:
    """Asks for exports and builds them."""

    def __init__(self, database: Database, *, settings: Settings, signer: NoteSigner) -> None:
        self.database, self.settings, self.signer = database, settings, signer
        self.now = 0.0
        self.builder = self.another()

    def another(self, **changed: Any) -> BundleBuilder:
        """A control worker."""
        given = {"settings": self.settings, "signer": self.signer, **changed}
        return BundleBuilder(self.database, clock=lambda: self.now, **given)

    def ask(self, **order: Any) -> UUID:
        with self.database.transaction() as session:
            return request_export(session, order=ExportOrder(**order), signer=self.signer, by="aurora").id

    def build(self, export_id: UUID, builder: BundleBuilder | None = None) -> EvidenceExport:
        builder = builder or self.builder
        builder.tend()
        builder.wait(PATIENCE_S)
        return self.get(export_id)

    def get(self, export_id: UUID) -> EvidenceExport:
        with self.database.reading() as session:
            export = reading.get_export(session, export_id=export_id)
            session.expunge(export)
        return export

    def path(self, export_id: UUID) -> Path:
        return reading.bundle_path(self.settings, export_id=export_id)

    def names(self) -> list[str]:
        folder = reading.folder_of(self.settings)
        return sorted(one.name for one in folder.iterdir()) if folder.exists() else []

    def verify(self, export_id: UUID) -> tuple[int, list[Any]]:
        options = VerifyOptions(key=str(fingerprint(self.signer.verifier.public)))
        found = verify_bundle(self.path(export_id), options=options)
        return found.exit_code, list(found.findings)


@pytest.fixture
def exports(filled: Database, settings: Settings, signer: NoteSigner) -> Exports:
    return Exports(filled, settings=settings, signer=signer)


def test_a_bundle_of_everything_is_good_and_stands_in_the_ledger(exports: Exports) -> None:
    export_id = exports.ask()
    export = exports.build(export_id)
    assert (export.state, export.problem) == ("finished", None)
    raw = exports.path(export_id).read_bytes()
    assert (sha256(raw), len(raw)) == (export.bundle_sha256, export.bundle_bytes)
    assert exports.verify(export_id) == (0, [])
    assert exports.names() == [f"{export_id}.tar"]
    with exports.database.reading() as session:
        kinds = [row.kind for row in session.query(LedgerLeaf).order_by(LedgerLeaf.index)]
    assert kinds[export.ledger_size :] == ["evidence-requested", "evidence-exported"]


def test_the_same_request_later_is_the_same_bundle(exports: Exports) -> None:
    first = exports.ask()
    size = exports.build(first).ledger_size
    later = made.single_restore()
    later["limitations"] = {"later": "x"}
    add(exports.database, Paper(raw=made.raw(later), path="runs/single-restore.json", commit="b" * 40))
    second = exports.ask(ledger_size=size)
    exports.build(second)
    assert exports.path(first).read_bytes() == exports.path(second).read_bytes()
    third = exports.ask()
    assert exports.build(third).bundle_sha256 != exports.get(first).bundle_sha256
    assert exports.verify(third) == (0, [])


def test_a_proof_out_of_a_bundle_is_the_one_the_server_gives(exports: Exports) -> None:
    export_id = exports.ask()
    export = exports.build(export_id)
    for index in (0, export.ledger_size // 2, export.ledger_size - 1):
        with exports.database.transaction() as session:
            served = proofs.inclusion(session, index=index, size=export.ledger_size, signer=exports.signer)
        assert prove_entry(exports.path(export_id), wanted=str(index)).text == served


def orders(database: Database) -> dict[str, dict[str, Any]]:
    with database.reading() as session:
        at = [row.created_at for row in session.query(LedgerLeaf.created_at).order_by(LedgerLeaf.index)]
    middle = at[len(at) // 2]
    return {
        "from the middle on": {"period_from": middle},
        "up to the middle": {"period_until": middle},
        "a part": {"period_from": at[2], "period_until": at[-1]},
        "an image": {"image_config_ids": (GOOD,)},
        "two images and a topology": {"image_config_ids": (GOOD, BAD), "topology": ("2", "1")},
        "a topology nobody judged": {"topology": ("64", "1")},
        "an image in a period": {"image_config_ids": (BAD,), "period_from": middle},
    }


@pytest.mark.parametrize(
    "name",
    [
        "from the middle on",
        "up to the middle",
        "a part",
        "an image",
        "two images and a topology",
        "a topology nobody judged",
        "an image in a period",
    ],
)
def test_periods_and_selections_are_good(exports: Exports, name: str) -> None:
    export_id = exports.ask(**orders(exports.database)[name])
    assert exports.build(export_id).problem is None
    assert exports.verify(export_id) == (0, [])


def test_one_at_a_time_and_the_oldest_first(exports: Exports) -> None:
    first, second = exports.ask(), exports.ask()
    exports.build(first)
    assert (exports.get(first).state, exports.get(second).state) == ("finished", "waiting")
    exports.build(second)
    assert exports.get(second).state == "finished"


def lose(exports: Exports, owner_engine: Engine, export_id: UUID) -> None:
    """As if the worker that has it had been silent for longer than its lease."""
    with owner_engine.begin() as connection:
        connection.execute(
            text("UPDATE evidence_export SET lease_expires_at = now() - interval '1 second' WHERE id = :id"),
            {"id": export_id},
        )


def test_what_a_killed_worker_left_is_taken_again(exports: Exports, owner_engine: Engine) -> None:
    export_id = exports.ask()
    with exports.database.transaction() as session:
        dead = work.take_next(session, lease_s=30)
    assert dead is not None
    folder = reading.folder_of(exports.settings)
    (folder / f".{export_id}.{dead.token}.tar.unfinished").mkdir(parents=True)
    (folder / f"{export_id}.{dead.token}.tar").write_bytes(b"half")
    assert exports.build(export_id).state == "running"
    lose(exports, owner_engine, export_id)
    export = exports.build(export_id)
    assert (export.state, export.try_count) == ("finished", 2)
    assert exports.verify(export_id) == (0, [])
    # Before it was built, not at some later time: what lies there may be what fills the disk.
    assert exports.names() == [f"{export_id}.tar"]
    with pytest.raises(ExportLost), exports.database.transaction() as session:
        work.fail(session, taken=dead, code="x", detail="x")
    with pytest.raises(ExportLost), exports.database.transaction() as session:
        work.keep(session, taken=dead, progress={}, lease_s=30)


def test_an_export_no_worker_survives_is_given_up(exports: Exports, owner_engine: Engine) -> None:
    export_id = exports.ask()
    for _ in range(work.MOST_TRIES):
        with exports.database.transaction() as session:
            assert work.take_next(session, lease_s=30) is not None
        lose(exports, owner_engine, export_id)
    export = exports.build(export_id)
    assert export.state == "failed"
    assert export.problem is not None
    assert export.problem["code"] == "worker-lost"


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, "disk-full"), (errno.EDQUOT, "disk-full"), (errno.EACCES, "write-failed")],
)
def test_a_disk_that_is_full_fails_with_the_reason_and_leaves_nothing(
    exports: Exports, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(number, "as told")

    export_id = exports.ask()
    monkeypatch.setattr("app.core.bundle.build.os.fsync", full)
    export = exports.build(export_id)
    assert export.problem is not None
    assert (export.state, export.problem["code"]) == ("failed", code)
    assert "as told" in export.problem["detail"]
    assert exports.names() == []


def test_a_bundle_has_its_name_for_good_before_it_is_written_down(
    exports: Exports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Power may fail after the record: then the name must be on the disk too, not only the bytes."""
    export_id = exports.ask()
    steps: list[str] = []
    sync, rename, record = os.fsync, Path.replace, work.finish

    def synced(descriptor: int) -> None:
        sync(descriptor)
        steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")

    def renamed(source: Path, target: Path) -> Path:
        steps.append(f"rename {target.name}")
        return rename(source, target)

    def recorded(session: Session, **arguments: Any) -> None:
        steps.append("record")
        record(session, **arguments)

    monkeypatch.setattr("os.fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    monkeypatch.setattr("app.evidence.service.work.finish", recorded)
    assert exports.build(export_id).state == "finished"
    folder = reading.folder_of(exports.settings).name
    assert steps[-3:] == [f"rename {export_id}.tar", f"sync {folder}", "record"], steps


def test_called_off_while_it_is_built(exports: Exports, monkeypatch: pytest.MonkeyPatch) -> None:
    export_id = exports.ask()
    real: Callable[..., Any] = work.finish

    def cancelled_first(session: Session, **arguments: Any) -> None:
        with exports.database.transaction() as other:
            request.cancel_export(other, export_id=export_id, by="aurora")
        real(session, **arguments)

    monkeypatch.setattr("app.evidence.service.work.finish", cancelled_first)
    export = exports.build(export_id)
    assert export.problem is not None
    assert (export.state, export.problem["code"]) == ("failed", "cancelled")
    exports.now += 1000
    exports.builder.tend()
    assert exports.names() == []


def test_a_builder_hears_that_its_export_was_called_off(exports: Exports) -> None:
    export_id = exports.ask()
    with exports.database.transaction() as session:
        taken = work.take_next(session, lease_s=30)
    assert taken is not None
    exports.builder._taken = taken
    with exports.database.transaction() as session:
        request.cancel_export(session, export_id=export_id, by="aurora")
    exports.builder._renew()
    with pytest.raises(ExportLost):
        exports.builder._note("entries", 1)


def test_files_go_when_their_days_are_over_and_nothing_else_does(
    exports: Exports, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_id, other = exports.ask(), exports.ask()
    exports.build(export_id)
    exports.build(other)
    folder = reading.folder_of(exports.settings)
    foreign = {f"{uuid4()}.tar", "notes.txt", f"{export_id}.tar.bak", f"x{export_id}.tar"}
    for name in foreign:
        (folder / name).write_bytes(b"not ours")
    kept = exports.get(other).ended_at
    assert kept is not None

    def later(session: Session) -> datetime:
        return min(database_time(session), kept) + timedelta(days=exports.settings.evidence_days)

    monkeypatch.setattr("app.evidence.service.upkeep.database_time", later)
    exports.now += 1000
    exports.builder.tend()
    gone = exports.get(export_id)
    assert (gone.state, gone.expired_by) == ("expired", "control plane")
    assert exports.get(other).state == "finished"
    assert set(exports.names()) == foreign | {f"{other}.tar"}
    assert gone.bundle_sha256 is not None


def test_a_link_in_place_of_a_bundle_is_removed_and_not_followed(exports: Exports, tmp_path: Path) -> None:
    export_id = exports.ask()
    exports.build(export_id)
    precious = tmp_path / "precious"
    precious.write_bytes(b"x")
    path = exports.path(export_id)
    path.unlink()
    path.symlink_to(precious)
    with exports.database.transaction() as session:
        request.discard_export(session, export_id=export_id, by="aurora")
    upkeep.sweep(exports.database, settings=exports.settings)
    assert (exports.names(), precious.read_bytes()) == ([], b"x")


def test_without_a_key_or_with_another_one_there_is_no_bundle(exports: Exports, tmp_path: Path) -> None:
    export_id = exports.ask()
    export = exports.build(export_id, exports.another(signer=None))
    assert export.problem is not None
    assert export.problem["code"] == "ledger-key-missing"
    other = tmp_path / "other.key"
    create_key_file(other, origin="example.org/log")
    export = exports.build(exports.ask(), exports.another(signer=read_signer(other)))
    assert export.problem is not None
    assert (export.state, export.problem["code"]) == ("failed", "ledger-inconsistent")
    assert exports.names() == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE receipt SET created_by = 'eve'",
        "UPDATE receipt SET document = document || '\\x20'::bytea",
        "UPDATE verdict SET outcome = 'qualified' WHERE outcome = 'rejected'",
        "UPDATE ledger_leaf SET document = set_byte(document, 20, get_byte(document, 20) # 1) "
        "WHERE index = 0",
        "DELETE FROM ledger_leaf WHERE index = 2",
        "DELETE FROM receipt_origin WHERE id = (SELECT id FROM receipt_origin LIMIT 1)",
    ],
)
def test_what_was_changed_behind_our_back_is_not_signed(
    exports: Exports, owner_engine: Engine, statement: str
) -> None:
    export_id = exports.ask()
    with owner_engine.begin() as connection:
        connection.execute(text(statement))
    export = exports.build(export_id)
    assert export.problem is not None
    assert (export.state, export.problem["code"]) == ("failed", "ledger-inconsistent"), export.problem
    assert exports.names() == []
