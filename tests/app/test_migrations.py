"""One head, up, down, up; the models and the migrations say the same; replicas wait for each other."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from app.config import Settings
from app.core.qualify.values import Basis
from app.db.migrate import downgrade, migration_config, upgrade
from app.db.session import open_database
from app.embedded import DatabaseUrls, create_database, drop_database
from app.receipts.service.stored import facts_of_bytes
from app.verdicts.service.submit import submit
from tests.app.evidence_documents import publication, raw, receipt
from tests.conftest import database_urls


@pytest.fixture
def empty(postgres_server: DatabaseUrls, worker_id: str) -> Iterator[DatabaseUrls]:
    name = f"migrations_{worker_id}"
    create_database(postgres_server.admin, name=name)
    yield database_urls(postgres_server, name=name)
    drop_database(postgres_server.admin, name=name)


def tables(url: str) -> set[str]:
    engine = create_engine(url)
    try:
        return set(inspect(engine).get_table_names())
    finally:
        engine.dispose()


def test_up_down_up(empty: DatabaseUrls) -> None:
    upgrade(empty.owner)
    full = tables(empty.owner)
    downgrade(empty.owner)
    assert tables(empty.owner) == {"alembic_version"}
    upgrade(empty.owner)
    assert tables(empty.owner) == full >= {"restore", "rank_attempt", "rank_report"}


def test_models_and_migrations_agree(empty: DatabaseUrls) -> None:
    upgrade(empty.owner)
    command.check(migration_config(empty.owner))


def test_sayings_of_verdicts_that_stand_already_are_those_of_new_ones(empty: DatabaseUrls) -> None:
    upgrade(empty.owner)
    database = open_database(Settings.model_validate({"database_url": empty.app}))
    documents = [receipt(), receipt(case__restore_oracle="spark"), publication(), receipt(status="research")]
    for document in map(raw, documents):
        with database.transaction() as session:
            facts = facts_of_bytes(document)
            submit(session, raw=document, facts=facts, origin=None, by="ada", grade=Basis.SELF_CONSISTENT)
    database.dispose()
    owner = create_engine(empty.owner)
    said = text("SELECT verdict_id, saying FROM verdict_current WHERE composes ORDER BY verdict_id")
    with owner.connect() as connection:
        before = connection.execute(said).all()
    assert len({row.saying for row in before}) >= 3
    downgrade(empty.owner, revision="0008")
    upgrade(empty.owner)
    with owner.connect() as connection:
        assert connection.execute(said).all() == before
        unsaid = text("SELECT count(*) FROM verdict_current WHERE NOT composes AND saying <> ''")
        assert connection.execute(unsaid).scalar_one() == 0
    owner.dispose()


def test_there_is_one_head(empty: DatabaseUrls) -> None:
    assert len(ScriptDirectory.from_config(migration_config(empty.owner)).get_heads()) == 1


def test_replicas_that_start_together_migrate_once(empty: DatabaseUrls) -> None:
    """Alembic's context is one per process, so the replicas are processes, as they are in production."""
    code = f"from app.db.migrate import upgrade; upgrade({empty.owner!r})"
    replicas = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [replica.wait(timeout=60) for replica in replicas] == [0, 0, 0]
    assert "restore" in tables(empty.owner)
