"""Dependencies of the routes: sessions, settings, and principals by scope."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Annotated

from anyio import CancelScope, CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Depends, Request
from sqlalchemy.orm import Session

from app.config import Settings
from app.db.session import Database
from app.web.auth import Principal, Scope, requires


# Async, as everything is that only picks something up: a plain function would be a hop to another thread.
async def get_database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


async def get_settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


DatabaseDep = Annotated[Database, Depends(get_database)]
SettingsDep = Annotated[Settings, Depends(get_settings)]


@asynccontextmanager
async def _left_in_a_thread(opened: AbstractContextManager[Session]) -> AsyncIterator[Session]:
    """Enter here, because a session that begins does no I/O; commit or roll back in a thread.

    In one more than the lanes have: what ends a transaction frees its connection, and must not wait for it.
    """
    limiter = CapacityLimiter(1)
    session = opened.__enter__()
    try:
        yield session
    except BaseException as error:
        with CancelScope(shield=True):
            await run_sync(opened.__exit__, type(error), error, error.__traceback__, limiter=limiter)
        raise
    with CancelScope(shield=True):
        await run_sync(opened.__exit__, None, None, None, limiter=limiter)


async def write_session(database: DatabaseDep) -> AsyncIterator[Session]:
    async with _left_in_a_thread(database.transaction()) as session:
        yield session


async def read_session(database: DatabaseDep) -> AsyncIterator[Session]:
    async with _left_in_a_thread(database.reading()) as session:
        yield session


# scope="function": committed before the response leaves. FastAPI's default commits after it, so that a
# client could be told 201 for a row that never came to be.
WriteSession = Annotated[Session, Depends(write_session, scope="function")]
ReadSession = Annotated[Session, Depends(read_session, scope="function")]

ImagesReader = Annotated[Principal, Depends(requires(Scope.IMAGES_READ))]
ImagesWriter = Annotated[Principal, Depends(requires(Scope.IMAGES_WRITE))]
RestoresReader = Annotated[Principal, Depends(requires(Scope.RESTORES_READ))]
RestoresWriter = Annotated[Principal, Depends(requires(Scope.RESTORES_WRITE))]
NodesReader = Annotated[Principal, Depends(requires(Scope.NODES_READ))]
NodeReporter = Annotated[Principal, Depends(requires(Scope.NODES_REPORT))]
ReceiptsAppender = Annotated[Principal, Depends(requires(Scope.RECEIPTS_APPEND))]
ProfilesReader = Annotated[Principal, Depends(requires(Scope.PROFILES_READ))]
ProfilesWriter = Annotated[Principal, Depends(requires(Scope.PROFILES_WRITE))]
EvidenceExporter = Annotated[Principal, Depends(requires(Scope.EVIDENCE_EXPORT))]
Admin = Annotated[Principal, Depends(requires(Scope.ADMIN))]
