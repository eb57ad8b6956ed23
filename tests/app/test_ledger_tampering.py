"""Two hundred random deeds of a superuser, one at a time: each is found, and the row is named."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from sqlalchemy import Column, Connection, create_engine, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

from app.core.ledger.checkpoint import Checkpoint
from app.db.session import Database
from app.embedded import DatabaseUrls
from app.ledger.repository.rows import stream_due
from app.ledger.repository.views import VIEWS, View
from app.ledger.service.audit import LedgerAudit
from app.ledger.service.findings import Finding
from tests.app.ring import Ring
from tests.app.test_ledger_audit import SIGNER, rewrite, signed_head
from tests.app.test_ledger_coverage import run_every_ending

DEEDS = 200
SEED = 20260705

# What a value becomes: SQL over {c}, by type; anything but what it was, and never an error.
OTHER_VALUE = {
    "UUID": "gen_random_uuid()",
    "TEXT": "coalesce({c}, '') || 'x'",
    "CHAR": "translate(coalesce({c}, repeat('0', 8)), '0123456789abcdef', '123456789abcdef0')",
    "BIGINT": "coalesce({c}, 0) + 9000",
    "DATETIME": "coalesce({c}, now()) + interval '1 microsecond'",
    "BYTEA": "set_bit({c}, (random() * (8 * length({c}) - 1))::int, 1 - get_bit({c}, 0)) || '\\x00'",
    "JSONB": "coalesce(nullif({c}, 'null'), '{{}}') #- '{{}}' || '{{\"forged\": 1}}'",
    "ARRAY": "{c} || '{{forged}}'",
}
NEW_KEY = {
    "UUID": "gen_random_uuid()",
    "CHAR": "md5(random()::text) || md5(random()::text)",
    "BIGINT": "8000",
}


@dataclass
class Evil:
    """A superuser's transaction that is rolled back after every deed; triggers and constraints are off."""

    connection: Connection
    session: Session
    chance: random.Random
    head: Checkpoint
    rows: list[tuple[View, str]]

    def audit(self) -> list[Finding]:
        with Session(self.connection, join_transaction_mode="create_savepoint") as session:
            return list(LedgerAudit(session, verifier=SIGNER.verifier, against=self.head).findings())

    def change(self) -> set[str]:
        view, key = self.chance.choice(self.rows)
        column = view.model.__table__.c[self.chance.choice(view.columns)]
        value = OTHER_VALUE[type_name(column)].format(c=f'"{column.name}"')
        if column.nullable and self.chance.random() < 0.2:
            value = f'CASE WHEN "{column.name}" IS NULL THEN {value} END'
        self.execute(f'UPDATE {table(view)} SET "{column.name}" = {value} WHERE {where(view)}', key=key)
        return named(view, key)

    def delete(self) -> set[str]:
        view, key = self.chance.choice(self.rows)
        self.execute(f"DELETE FROM {table(view)} WHERE {where(view)}", key=key)
        return named(view, key)

    def insert(self) -> set[str]:
        """A copy of a row under a new key, and of those of several columns under one new column."""
        view, key = self.chance.choice(self.rows)
        column = inspect(view.model).primary_key[-1]
        change = f"jsonb_build_object('{column.name}', {NEW_KEY[type_name(column)]})"
        copied = f"jsonb_populate_record(NULL::{table(view)}, to_jsonb(x) || {change})"
        self.execute(
            f"INSERT INTO {table(view)} OVERRIDING SYSTEM VALUE "
            f"SELECT ({copied}).* FROM (SELECT * FROM {table(view)} WHERE {where(view)}) AS x",
            key=key,
        )
        # Its key is not known beforehand: any row of the table that no leaf mentions.
        return {other.name for other in VIEWS.values() if other.model is view.model}

    def entry(self) -> set[str]:
        index = self.chance.randrange(self.head.size)
        column = self.chance.choice(("document", "leaf_hash", "kind", "created_at", ""))
        if not column:
            self.execute("DELETE FROM ledger_leaf WHERE index::text = :key", key=str(index))
        else:
            kinds = {"document": "BYTEA", "leaf_hash": "CHAR", "kind": "TEXT", "created_at": "DATETIME"}
            value = OTHER_VALUE[kinds[column]].format(c=column)
            self.execute(
                f"UPDATE ledger_leaf SET {column} = {value} WHERE index::text = :key", key=str(index)
            )
        return {f"ledger_leaf {index}"}

    def node(self) -> set[str]:
        nodes = self.connection.execute(text("SELECT level, position FROM ledger_node ORDER BY 1, 2")).all()
        level, position = self.chance.choice(nodes)
        deed = self.chance.choice(
            (
                f"UPDATE ledger_node SET hash = {OTHER_VALUE['CHAR'].format(c='hash')} WHERE ",
                "DELETE FROM ledger_node WHERE ",
                "UPDATE ledger_node SET position = position + 1000 WHERE ",
            )
        )
        self.execute(deed + "level || '/' || position = :key", key=f"{level}/{position}")
        return {f"ledger_node {level}/{position}"}

    def checkpoint(self) -> set[str]:
        deed = self.chance.choice(
            (
                "DELETE FROM ledger_checkpoint",
                f"UPDATE ledger_checkpoint SET root = {OTHER_VALUE['CHAR'].format(c='root')}",
                "UPDATE ledger_checkpoint SET note = note || '\\x0a'",
                "UPDATE ledger_checkpoint SET note = overlay(note placing '\\x42' from length(note) - 40)",
            )
        )
        self.execute(f"{deed} WHERE size::text = :key", key=str(self.head.size))
        return {f"ledger_checkpoint {self.head.size}"}

    def history(self) -> set[str]:
        """The log rewritten whole without one entry, and a row of that entry removed with it."""
        gone = self.chance.randrange(self.head.size)
        rewrite(self.connection, keep=lambda index: index != gone)
        return {f"ledger_leaf {self.head.size - 1} to {self.head.size - 1}"}

    def execute(self, statement: str, *, key: str) -> None:
        done = self.connection.execute(text(statement), {"key": key})
        assert done.rowcount == 1, (statement, key)


def type_name(column: Column[object]) -> str:
    return column.type.__class__.__name__.upper().replace("BIGINTEGER", "BIGINT")


def table(view: View) -> str:
    return f'"{view.model.__tablename__}"'


def where(view: View) -> str:
    columns = inspect(view.model).primary_key
    return " || '/' || ".join(f'"{column.name}"::text' for column in columns) + " = :key"


def named(view: View, key: str) -> set[str]:
    """A row may stand in several views of its table; its new key, if that was changed, is not known."""
    return {f"{other.name} {key}" for other in VIEWS.values() if other.model is view.model}


@pytest.fixture
def evil(
    ring: Ring, database: Database, postgres_server: DatabaseUrls, postgres_urls: DatabaseUrls
) -> Iterator[Evil]:
    run_every_ending(ring, database)
    head = signed_head(database)
    with database.reading() as session:
        rows = [
            (view, key)
            for view in VIEWS.values()
            for key in sorted(key for key, _ in stream_due(session, view=view))
        ]
    address = make_url(postgres_server.admin).set(database=make_url(postgres_urls.owner).database)
    engine = create_engine(address)
    with engine.connect() as connection:
        connection.execute(text("SET session_replication_role = replica"))
        for name, constraint in connection.execute(
            text(
                "SELECT conrelid::regclass::text, quote_ident(conname) FROM pg_constraint "
                "WHERE contype IN ('c', 'u', 'f') AND connamespace = 'public'::regnamespace"
            )
        ).all():
            connection.execute(text(f"ALTER TABLE {name} DROP CONSTRAINT IF EXISTS {constraint} CASCADE"))
        for name, column in connection.execute(
            text(
                "SELECT attrelid::regclass::text, quote_ident(attname) FROM pg_attribute JOIN pg_class c "
                "ON c.oid = attrelid WHERE attidentity = 'a' AND relnamespace = 'public'::regnamespace"
            )
        ).all():
            connection.execute(text(f"ALTER TABLE {name} ALTER COLUMN {column} DROP IDENTITY"))
        yield Evil(connection, Session(connection), random.Random(SEED), head, rows)
        connection.rollback()
    engine.dispose()


def test_two_hundred_deeds_are_found_and_named(evil: Evil) -> None:
    assert evil.audit() == []
    deeds = [evil.change] * 10 + [evil.delete] * 3 + [evil.insert] * 3 + [evil.entry] * 3
    deeds += [evil.node, evil.checkpoint]
    seen: dict[str, int] = {}
    for number in range(DEEDS):
        deed = evil.chance.choice(deeds)
        with evil.connection.begin_nested() as savepoint:
            subjects = deed()
            found = evil.audit()
            savepoint.rollback()
        said = {finding.subject for finding in found}
        views = {finding.subject.partition(" ")[0] for finding in found if finding.code == "row-added"}
        assert said & subjects or views & subjects, (number, deed.__name__, subjects, said)
        seen[deed.__name__] = seen.get(deed.__name__, 0) + 1
    assert seen.keys() == {deed.__name__ for deed in deeds}
    assert evil.audit() == []


def test_a_history_rewritten_whole_is_found_with_an_earlier_head_only(evil: Evil) -> None:
    with evil.connection.begin_nested() as savepoint:
        gone = evil.history()
        codes = {finding.code for finding in evil.audit()}
        assert gone
        assert {"history-cut", "checkpoint-missing"} <= codes
        savepoint.rollback()
