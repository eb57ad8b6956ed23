"""Style sheet, icon and htmx, served from here with a content hash in the address; nothing from a CDN."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request, Response

from app.core.digest import sha256
from app.errors import NotFound
from app.web.etag import conditional

STATIC: Final = Path(__file__).resolve().parents[2] / "static"
HTMX: Final = "vendor/htmx-4.min.js"
MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}

router = APIRouter(prefix="/static", include_in_schema=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file as it was when the process started."""

    body: bytes
    media_type: str
    version: str


@cache
def assets() -> dict[str, Asset]:
    """Every file that is served, by its path below /static/."""
    ours = {path.relative_to(STATIC).as_posix(): path.read_bytes() for path in STATIC.rglob("*.*")}
    htmx = files("django_htmx").joinpath("static", "django_htmx", "htmx-4.min.js").read_bytes()
    return {name: _asset(name, body=body) for name, body in {**ours, HTMX: htmx}.items() if _is_served(name)}


def _is_served(name: str) -> bool:
    return Path(name).suffix in MEDIA_TYPES


def _asset(name: str, *, body: bytes) -> Asset:
    return Asset(body=body, media_type=MEDIA_TYPES[Path(name).suffix], version=sha256(body)[:16])


def asset_url(name: str) -> str:
    """The address of a file, which changes with its content."""
    return f"/static/{name}?v={assets()[name].version}"


@router.get("/{name:path}")
def static_file(name: str, request: Request, v: str = "") -> Response:
    asset = assets().get(name)
    if asset is None:
        raise NotFound(f"/static/{name}: no such file")
    response = conditional(request, asset.body, media_type=asset.media_type)
    fresh = v == asset.version
    response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if fresh else "no-cache"
    return response
