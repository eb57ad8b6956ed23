"""Dependencies of the routes: sessions, settings, and principals by scope."""

from collections.abc import Iterator
from typing import Annotated

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


def write_session(database: DatabaseDep) -> Iterator[Session]:
    with database.transaction() as session:
        yield session


def read_session(database: DatabaseDep) -> Iterator[Session]:
    with database.reading() as session:
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
EvidenceExporter = Annotated[Principal, Depends(requires(Scope.EVIDENCE_EXPORT))]
Admin = Annotated[Principal, Depends(requires(Scope.ADMIN))]
