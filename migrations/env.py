"""Alembic's entry: online only, one migrating process at a time, rights granted at the end."""

from alembic import context
from sqlalchemy import create_engine, text

from app.models import FACT_TABLES, PASSING_TABLES, STATE_TABLES, Base

# Any constant will do as long as every replica uses the same one.
MIGRATION_LOCK = 0x53504B47


def _grant(connection, *, role, tables, rights):
    names = ", ".join(f'"{table.__tablename__}"' for table in tables)
    connection.execute(text(f'GRANT {rights} ON {names} TO "{role}"'))


def _grant_all(connection):
    """Give the app and reader roles their rights, where those roles exist.

    Facts can be added and read by the app role, never changed or removed.
    """
    attributes = context.config.attributes
    app_role, reader_role = attributes.get("app_role"), attributes.get("reader_role")
    known = set(connection.execute(text("SELECT rolname FROM pg_roles")).scalars())
    for role in {app_role, reader_role} & known:
        connection.execute(text(f'GRANT USAGE ON SCHEMA public TO "{role}"'))
        _grant(connection, role=role, tables=(*FACT_TABLES, *STATE_TABLES), rights="SELECT")
    if app_role in known:
        _grant(connection, role=app_role, tables=FACT_TABLES, rights="INSERT")
        _grant(connection, role=app_role, tables=STATE_TABLES, rights="INSERT, UPDATE")
        _grant(connection, role=app_role, tables=PASSING_TABLES, rights="SELECT, INSERT, UPDATE, DELETE")
        connection.execute(text(f'GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO "{app_role}"'))
        connection.execute(text(f'GRANT SELECT ON alembic_version TO "{app_role}"'))


def run() -> None:
    engine = create_engine(context.config.attributes["owner_url"])
    with engine.connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": MIGRATION_LOCK})
        connection.commit()
        try:
            context.configure(connection=connection, target_metadata=Base.metadata, compare_type=True)
            with context.begin_transaction():
                context.run_migrations()
            if context.config.attributes.get("app_role"):
                _grant_all(connection)
            connection.commit()
        finally:
            connection.rollback()
            connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": MIGRATION_LOCK})
            connection.commit()
    engine.dispose()


run()
