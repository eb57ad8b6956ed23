"""An audit: a clean database has no findings; anything done behind the application's back is named."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from sqlalchemy import Connection, Engine, text

from app.core.ledger.checkpoint import Checkpoint, NoteSigner
from app.core.ledger.merkle import LARGEST_SIZE, Frontier, leaf_hash
from app.db.session import Database
from app.ledger.service import proofs
from app.ledger.service.audit import LedgerAudit
from app.ledger.service.findings import Finding
from tests.app.ring import Ring
from tests.app.test_ledger import add_layout
from tests.app.test_ledger_coverage import run_every_ending

SIGNER = NoteSigner(name="example.org/log", seed=b"s" * 32)


def audit(database: Database, *, against: Checkpoint | None = None) -> list[Finding]:
    with database.reading() as session:
        return list(LedgerAudit(session, verifier=SIGNER.verifier, against=against).findings())


def signed_head(database: Database) -> Checkpoint:
    with database.transaction() as session:
        proofs.checkpoint(session, size=None, signer=SIGNER)
        head = proofs.head(session)
        return Checkpoint(origin=SIGNER.name, size=head.size, root=head.root)


@pytest.fixture
def log_of_nine(database: Database) -> Checkpoint:
    for number in range(9):
        add_layout(database, number)
    return signed_head(database)


def test_an_empty_database_is_clean(database: Database) -> None:
    assert audit(database) == []


def test_a_full_trip_is_clean(ring: Ring, database: Database) -> None:
    run_every_ending(ring, database)
    head = signed_head(database)
    with database.reading() as session:
        run = LedgerAudit(session, verifier=SIGNER.verifier, against=head)
        assert [str(finding) for finding in run.findings()] == []
        assert run.totals.entries == head.size
        assert run.totals.root == head.root.hex()
        assert (run.totals.checkpoints, run.totals.signatures, run.totals.findings) == (1, 1, 0)
        assert run.totals.rows == sum(run.totals.by_view.values()) > 40


@dataclass(frozen=True)
class Deed:
    statement: str
    codes: tuple[str, ...]
    subject: str


LAYOUT = f"layout {5:064x}"
DEEDS = [
    Deed("UPDATE layout SET layer_count = 99 WHERE layer_count = 5", ("row-changed",), LAYOUT),
    Deed("UPDATE layout SET created_at = 'infinity' WHERE layer_count = 5", ("row-changed",), LAYOUT),
    Deed("UPDATE layout SET document = document || '\\x20' WHERE layer_count = 5", ("row-changed",), LAYOUT),
    Deed("DELETE FROM layout WHERE layer_count = 5", ("row-removed",), LAYOUT),
    Deed(
        "INSERT INTO layout SELECT repeat('e', 64), document, 1, 1, now(), 'x' FROM layout LIMIT 1",
        ("row-added",),
        "layout " + "e" * 64,
    ),
    Deed("UPDATE ledger_leaf SET kind = 'other' WHERE index = 4", ("entry-changed",), "ledger_leaf 4"),
    Deed(
        "UPDATE ledger_leaf SET created_at = '-infinity' WHERE index = 4", ("entry-changed",), "ledger_leaf 4"
    ),
    Deed("UPDATE ledger_leaf SET leaf_hash = upper(leaf_hash)", ("entry-changed",), "ledger_leaf 4"),
    Deed("UPDATE ledger_leaf SET leaf_hash = 'none' WHERE index = 8", ("entry-changed",), "ledger_leaf 8"),
    Deed(
        "UPDATE ledger_leaf SET document = document || '\\x20' WHERE index = 4",
        ("entry-changed",),
        "ledger_leaf 4",
    ),
    Deed("DELETE FROM ledger_leaf WHERE index = 4", ("entry-missing",), "ledger_leaf 4"),
    Deed("DELETE FROM ledger_leaf WHERE index = 8", ("entry-missing",), "ledger_leaf 8"),
    Deed("DELETE FROM ledger_leaf WHERE index < 2", ("entry-missing",), "ledger_leaf 0 to 1"),
    Deed("UPDATE ledger_node SET hash = upper(hash)", ("node-changed",), "ledger_node 3/0"),
    Deed("UPDATE ledger_node SET hash = 'x' WHERE level = 2", ("node-changed",), "ledger_node 2/1"),
    Deed("DELETE FROM ledger_node WHERE level = 3", ("node-missing",), "ledger_node 3/0"),
    Deed("INSERT INTO ledger_node VALUES (1, 4, repeat('0', 64))", ("node-unknown",), "ledger_node 1/4"),
    Deed(
        f"INSERT INTO ledger_node VALUES ({LARGEST_SIZE}, {LARGEST_SIZE}, '0')",
        ("node-unknown",),
        f"ledger_node {LARGEST_SIZE}/{LARGEST_SIZE}",
    ),
    Deed("INSERT INTO ledger_node VALUES (61, 3, '0')", ("node-unknown",), "ledger_node 61/3"),
    Deed("INSERT INTO ledger_node VALUES (1, -4, '0')", ("node-unknown",), "ledger_node 1/-4"),
    Deed(
        "UPDATE ledger_checkpoint SET root = repeat('0', 64)",
        ("checkpoint-differs", "checkpoint-changed"),
        "ledger_checkpoint 9",
    ),
    Deed(
        "UPDATE ledger_checkpoint SET size = 8",
        ("checkpoint-differs", "checkpoint-changed"),
        "ledger_checkpoint 8",
    ),
    Deed("UPDATE ledger_checkpoint SET size = 12", ("entry-missing",), "ledger_leaf 9 to 11"),
    Deed(
        "UPDATE ledger_checkpoint SET note = substr(note, 1, length(note) - 5) || '\\x41414141' || '\\x0a'",
        ("checkpoint-changed",),
        "ledger_checkpoint 9",
    ),
    Deed("DELETE FROM ledger_checkpoint", ("checkpoint-missing",), "ledger_checkpoint 9"),
    Deed("UPDATE ledger_checkpoint SET note = ''", ("checkpoint-changed",), "ledger_checkpoint 9"),
]


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.statement[:50])
def test_what_was_done_is_named(
    log_of_nine: Checkpoint, database: Database, owner_engine: Engine, deed: Deed
) -> None:
    with owner_engine.begin() as connection:
        connection.execute(text(deed.statement))
    found = audit(database, against=log_of_nine)
    named = {finding.code for finding in found if finding.subject == deed.subject}
    assert named >= set(deed.codes), [str(finding) for finding in found]


def test_a_changed_entry_is_one_finding(
    log_of_nine: Checkpoint, database: Database, owner_engine: Engine
) -> None:
    """Which of bytes and hash was changed follows from the node above; the tree is not blamed."""
    for column, value in (("kind", "'other'"), ("leaf_hash", "repeat('0', 64)")):
        with owner_engine.begin() as connection:
            before = connection.execute(
                text(f"SELECT {column} FROM ledger_leaf WHERE index = 3")
            ).scalar_one()
            connection.execute(text(f"UPDATE ledger_leaf SET {column} = {value} WHERE index = 3"))
        assert [finding.subject for finding in audit(database)] == ["ledger_leaf 3"]
        with owner_engine.begin() as connection:
            connection.execute(
                text(f"UPDATE ledger_leaf SET {column} = :old WHERE index = 3"), {"old": before}
            )
    assert audit(database) == []


def test_signatures_of_another_key_are_found(log_of_nine: Checkpoint, database: Database) -> None:
    other = NoteSigner(name=SIGNER.name, seed=b"t" * 32).verifier
    with database.reading() as session:
        found = list(LedgerAudit(session, verifier=other).findings())
    assert [(one.code, one.subject) for one in found] == [("checkpoint-changed", "ledger_checkpoint 9")]


def rewrite(connection: Connection, *, keep: Callable[[int], bool]) -> None:
    """Build the whole log anew from leaves that are kept, as a superuser with patience would."""
    rows = connection.execute(
        text("SELECT index, kind, document, created_at FROM ledger_leaf ORDER BY index")
    )
    kept = [row for row in rows.all() if keep(row.index)]
    connection.execute(text("TRUNCATE ledger_leaf, ledger_node, ledger_checkpoint"))
    frontier = Frontier()
    for index, row in enumerate(kept):
        hashed = leaf_hash(row.document)
        connection.execute(
            text("INSERT INTO ledger_leaf VALUES (:index, :kind, :document, :hash, :at)"),
            {
                "index": index,
                "kind": row.kind,
                "document": row.document,
                "hash": hashed.hex(),
                "at": row.created_at,
            },
        )
        for node, above in frontier.append(hashed):
            connection.execute(
                text("INSERT INTO ledger_node VALUES (:level, :position, :hash)"),
                {"level": node.level, "position": node.position, "hash": above.hex()},
            )


@pytest.mark.parametrize(("gone", "code"), [(3, "history-cut"), (8, "history-cut")])
def test_only_an_earlier_head_shows_a_history_rewritten_whole(
    log_of_nine: Checkpoint, database: Database, owner_engine: Engine, gone: int, code: str
) -> None:
    with owner_engine.begin() as connection:
        rewrite(connection, keep=lambda index: index != gone)
        connection.execute(text("DELETE FROM layout WHERE layer_count = :gone"), {"gone": gone})
    assert audit(database) == []
    codes = {finding.code for finding in audit(database, against=log_of_nine)}
    assert codes == {code, "checkpoint-missing"}
    add_layout(database, 100)
    assert audit(database) == []
    codes = {finding.code for finding in audit(database, against=log_of_nine)}
    assert codes == {"history-differs", "checkpoint-missing"}
