"""Engine and sessions: one transaction per request or task, messages only after its commit."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from sqlalchemy import Engine, create_engine, event, func, select
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.orm import ORMExecuteState, Session, SessionTransaction, sessionmaker
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from app.config import Settings
from app.db.together import send_and_commit, send_waiting

_BEFORE_COMMIT: Final = "sparkgate.before_commit"
_AFTER_COMMIT: Final = "sparkgate.after_commit"
_ALONE: Final = "sparkgate.alone"
_IDLE_SINCE: Final = "sparkgate.idle_since"
# A connection that rested longer is asked whether it is still one before a request relies on it.
_TRUSTED_S: Final = 1.0
# No statement of ours runs long enough for compiling it to pay.
_OPTIONS: Final = "-c timezone=UTC -c jit=off"
_CLOCK: Final = select(func.clock_timestamp())


class _Writing(Session):
    """What waits is no part of a savepoint that may be rolled back."""

    def begin_nested(self) -> SessionTransaction:
        send_waiting(self)
        return super().begin_nested()


class Database:
    """The connection pool of one process and the only way to open a transaction."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._sessions = sessionmaker(engine, class_=_Writing, expire_on_commit=False, autoflush=True)
        event.listen(self._sessions, "before_commit", _refuse_early_commit)
        event.listen(self._sessions, "do_orm_execute", _send_before_a_statement)
        snapshots = engine.execution_options(isolation_level="REPEATABLE READ")
        self._readers = sessionmaker(snapshots, expire_on_commit=False, autoflush=True)
        alone = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._single = sessionmaker(alone, expire_on_commit=False, autoflush=False, info={_ALONE: True})

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """One read-write transaction: committed on leaving, rolled back on any error.

        What `before_commit` collected runs last in the transaction; what `after_commit` collected runs once
        the commit has succeeded, never before and never after a rollback. SQLAlchemy's own event also
        fires when a SAVEPOINT is released.
        """
        with self._sessions() as session, session.begin():
            yield session
            run_before_commit(session)
            send_and_commit(session)
        run_after_commit(session)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """One read-only transaction with a single snapshot of the data, from its first statement on.

        Only that statement takes a connection: a request that held one while it waits for a thread would
        starve the threads that wait for a connection, until all of them gave up.
        """
        with self._readers() as session, session.begin():
            yield session
            session.rollback()

    @contextmanager
    def single(self) -> Iterator[Session]:
        """For words that are one statement: each is a transaction of its own, without BEGIN and COMMIT.

        No `before_commit`, no `after_commit`: who needs either needs `transaction`.
        """
        with self._single() as session:
            yield session

    def dispose(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


def before_commit(session: Session, action: Callable[[Session], None]) -> None:
    """Have `action` run as the last thing in the outer transaction of `session`; an error rolls it back.

    For what takes a lock that everybody wants (the ledger's): judge first, lock last.
    """
    _refuse_alone(session)
    session.info.setdefault(_BEFORE_COMMIT, []).append(action)


def _refuse_alone(session: Session) -> None:
    """A fact written in `Database.single` would be there without its leaf in the ledger.

    Raises:
        RuntimeError: each statement of this session is a transaction of its own.
    """
    if session.info.get(_ALONE):
        raise RuntimeError("session: expected Database.transaction, found one that commits every statement")


def _refuse_early_commit(session: Session) -> None:
    """Nobody but `Database.transaction` commits what wants something done last."""
    if not session.in_nested_transaction() and session.info.get(_BEFORE_COMMIT):
        raise RuntimeError(
            "commit: expected at the end of Database.transaction, found before its last actions"
        )


def _send_before_a_statement(state: ORMExecuteState) -> None:
    send_waiting(state.session)


def run_before_commit(session: Session) -> None:
    """Flush what is pending, then run and forget the collected actions, in the order they were added."""
    actions: list[Callable[[Session], None]]
    while actions := session.info.pop(_BEFORE_COMMIT, []):
        session.flush()
        for action in actions:
            action(session)


def after_commit(session: Session, action: Callable[[], None]) -> None:
    """Have `action` run once the outer transaction of `session` is committed."""
    _refuse_alone(session)
    session.info.setdefault(_AFTER_COMMIT, []).append(action)


def run_after_commit(session: Session) -> None:
    """Run and forget the collected actions, in the order they were added."""
    actions: list[Callable[[], None]] = session.info.pop(_AFTER_COMMIT, [])
    for action in actions:
        action()


def check_alive(session: Session) -> None:
    """Return if the database answers."""
    session.execute(select(1))


def database_time(session: Session) -> datetime:
    """The database's clock now (not the transaction's start): the only clock leases know."""
    now: datetime = session.execute(_CLOCK).scalar_one()
    return now


def open_database(settings: Settings) -> Database:
    """The pool for the app role.

    Raises:
        ValueError: no database URL is set.
    """
    if settings.database_url is None:
        raise ValueError("SPARKGATE_DATABASE_URL: expected postgresql+psycopg://…, found nothing")
    engine = create_engine(
        settings.database_url.get_secret_value(),
        pool_size=settings.pool_connections,
        max_overflow=0,
        # The connection used last: it has its statements prepared.
        pool_use_lifo=True,
        pool_timeout=settings.pool_wait_s,
        connect_args={"connect_timeout": 5, "application_name": "sparkgate", "options": _OPTIONS},
    )
    _ask_the_rested(engine)
    return Database(engine)


def _ask_the_rested(engine: Engine) -> None:
    """Before a connection is used that rested for a while, ask whether its server is still there.

    `pool_pre_ping` asks every time, which costs as much as a statement; a busy connection would just have
    failed. One that has died takes the whole pool with it: all of them were to the same server.
    """

    @event.listens_for(engine, "checkin")
    def rest(_connection: object, entry: ConnectionPoolEntry) -> None:
        entry.info[_IDLE_SINCE] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ask(connection: object, entry: ConnectionPoolEntry, _proxy: PoolProxiedConnection) -> None:
        since = entry.info.get(_IDLE_SINCE)
        if since is None or time.monotonic() - since < _TRUSTED_S:
            return
        driver = engine.dialect
        try:
            driver.do_ping(connection)  # type: ignore[arg-type]
        except driver.loaded_dbapi.Error as error:
            raise InvalidatePoolError from error
