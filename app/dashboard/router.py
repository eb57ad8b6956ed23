"""All pages, in the order in which their addresses are tried; and their errors."""

from fastapi import APIRouter, FastAPI

from app.dashboard import (
    assets,
    cancel,
    compare,
    declare,
    docs,
    exceptions,
    export,
    exports,
    image,
    images,
    ledger,
    login,
    node,
    overview,
    profile,
    profile_compare,
    profile_document,
    profile_documents,
    profile_lists,
    profiles,
    proof,
    qualified,
    receipt,
    receipts,
    restore,
    restores,
    snapshots,
    start,
)
from app.dashboard.errors import install_page_errors

# `start` stands before `restore`: /restores/new is no restore called new; likewise `compare` and `image`,
# `exports` and `export`; `profile` takes any two parts of an address.
_PAGES = (
    overview,
    login,
    restores,
    start,
    restore,
    cancel,
    snapshots,
    images,
    compare,
    image,
    qualified,
    declare,
    exceptions,
    receipts,
    receipt,
    profiles,
    profile_documents,
    profile_document,
    profile_compare,
    profile_lists,
    profile,
    proof,
    ledger,
    exports,
    export,
    node,
    docs,
    assets,
)


def install_dashboard(app: FastAPI) -> None:
    """Add every page, the static files and the error pages; the API's error answers are there already."""
    router = APIRouter()
    for module in _PAGES:
        router.include_router(module.router)
    app.include_router(router)
    install_page_errors(app)
