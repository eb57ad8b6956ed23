"""create_app(): the only place that wires routers, dashboard, static files and handlers."""

import gc
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import Depends, FastAPI, Request
from starlette.datastructures import State

from app.accounts import service as accounts
from app.accounts.api import keys_router as keys
from app.accounts.api import router as people
from app.config import Settings
from app.config import settings as read_settings
from app.dashboard.router import install_dashboard
from app.db.session import Database, check_alive, open_database
from app.evidence.api import router as evidence
from app.images.api import router as images
from app.layouts.api import router as layouts
from app.ledger.api import router as ledger
from app.ledger.service.signing import load_signer
from app.manifests.api import manifest_router as manifests
from app.manifests.api import node_router as inventories
from app.manifests.api import router as snapshots
from app.nodes.api import router as nodes
from app.oracles.api import router as oracles
from app.profiles.api.activations import router as activations
from app.profiles.api.claims import router as claims
from app.profiles.api.documents import router as profile_documents
from app.profiles.api.profiles import router as profiles
from app.queue import create_queue
from app.receipts.api import router as receipts
from app.restores.api.clients import router as restores
from app.restores.api.ranks import router as ranks
from app.restores.dispatch import CeleryRankMessages, RankMessages
from app.restores.service.admission import Looks
from app.restores.service.intake import Intake
from app.sources.api import router as sources
from app.verdicts.api.batches import router as receipt_batches
from app.verdicts.api.declarations import router as declarations
from app.verdicts.api.exceptions import router as exceptions
from app.verdicts.api.receipts import router as judged_receipts
from app.verdicts.api.verdicts import router as verdicts
from app.web.body import BodyLimit
from app.web.head import HeadAsGet
from app.web.headers import ResponseHeaders
from app.web.lanes import open_lanes
from app.web.openapi import install_openapi
from app.web.paging import SHORTEST_PAGE_SECRET
from app.web.problems import install_problems
from app.web.query import known_query
from app.web.ratelimit import RateLimits

# A request is held against one router after the other: what ranks say and what clients order stands first.
API_ROUTERS: Final = (
    ranks,
    restores,
    people,
    keys,
    nodes,
    inventories,
    layouts,
    oracles,
    snapshots,
    manifests,
    sources,
    images,
    receipts,
    receipt_batches,
    judged_receipts,
    verdicts,
    declarations,
    exceptions,
    profile_documents,
    activations,
    claims,
    profiles,
    ledger,
    evidence,
)


def create_app(
    settings: Settings | None = None,
    *,
    database: Database | None = None,
    messages: RankMessages | None = None,
) -> FastAPI:
    """The web application.

    Args:
        settings: read from the environment if not given: then it is what this process is there for.
        database, messages: opened from the settings if not given; tests bring their own.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    app = connect(build_routes(), settings=settings, database=database, messages=messages)
    if settings is None:
        _keep_for_good()
    return app


def _keep_for_good() -> None:
    """What stands now stays until the end, so that no collection of garbage looks through it again: each
    would hold up every request for a fifth of a second."""
    gc.collect()
    gc.freeze()


def build_routes() -> FastAPI:
    """Every route, page and error answer, with nothing behind them: a third of a second of a core."""
    app = FastAPI(
        title="sparkgate",
        summary="Decides, with evidence, which runtime image restores a persisted KV cache correctly.",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        lifespan=_lifespan,
    )
    app.add_middleware(HeadAsGet)
    app.add_middleware(BodyLimit)
    app.add_middleware(ResponseHeaders)
    install_problems(app)
    for router in API_ROUTERS:
        app.include_router(router, dependencies=[Depends(known_query)])
    _add_health(app)
    install_dashboard(app)
    install_openapi(app)
    return app


def connect(
    app: FastAPI,
    *,
    settings: Settings | None = None,
    database: Database | None = None,
    messages: RankMessages | None = None,
) -> FastAPI:
    """Put settings, database and broker behind the routes; whatever stood there before is gone.

    Args:
        settings, database, messages: see ``create_app``.
    """
    settings = settings or read_settings()
    database = database or open_database(settings)
    app.state = State()
    app.state.settings = settings
    app.state.database = database
    app.state.messages = messages or CeleryRankMessages(create_queue(settings))
    app.state.admission_looks = Looks(database, messages=app.state.messages, settings=settings)
    app.state.intake = Intake(database, looks=app.state.admission_looks, silence_s=settings.node_silence_s)
    app.state.page_secret = _page_secret(settings)
    app.state.ledger_signer = load_signer(settings)
    app.state.rate_limits = RateLimits(settings)
    app.state.authenticate_key = accounts.KnownKeys(database)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    open_lanes(connections=app.state.settings.pool_connections)
    yield
    app.state.database.dispose()


def _page_secret(settings: Settings) -> bytes:
    """Processes share the file; without one, page tokens live as long as the only process.

    Raises:
        ValueError: the file holds too little to be a secret; or there is none, and more than one process.
    """
    if settings.secret_key_file is None:
        if settings.web_processes > 1:
            raise ValueError(
                f"SPARKGATE_SECRET_KEY_FILE: expected a file that {settings.web_processes} web processes "
                "share, found none"
            )
        return secrets.token_bytes(32)
    secret = settings.secret_key_file.read_bytes().strip()
    if len(secret) < SHORTEST_PAGE_SECRET:
        raise ValueError(
            f"SPARKGATE_SECRET_KEY_FILE {settings.secret_key_file}: expected at least {SHORTEST_PAGE_SECRET} "
            f"bytes, found {len(secret)}"
        )
    return secret


def _add_health(app: FastAPI) -> None:
    @app.get("/health", operation_id="health", summary="Whether this process answers", tags=["operation"])
    def health() -> dict[str, str]:
        return {"status": "alive"}

    @app.get(
        "/health/ready", operation_id="ready", summary="Whether the database answers too", tags=["operation"]
    )
    def ready(request: Request) -> dict[str, str]:
        with request.app.state.database.reading() as session:
            check_alive(session)
        return {"status": "ready"}
