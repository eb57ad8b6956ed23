"""Images under their three digests, how we know of each, and what each was built from."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from fastapi import APIRouter, Request, Response

from app.dashboard import queries
from app.dashboard.access import ImagesVisitor
from app.dashboard.templating import page
from app.db.session import database_time
from app.images import service as images
from app.models import Image
from app.web.deps import ReadSession
from app.web.paging import PageDep, next_token

router = APIRouter(prefix="/images", include_in_schema=False)

IMPORTED: Final = "imported-record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One link of the identity chain: what it is called, what it is a digest of, what is known of it."""

    name: str
    of: str
    facts: tuple[tuple[str, str], ...]


@router.get("")
def list_images(request: Request, session: ReadSession, login: ImagesVisitor, asked: PageDep) -> Response:
    found = queries.images(session, after=asked.after, limit=asked.size + 1)
    shown, token = next_token(asked, found)
    return page(
        request,
        "images.html",
        login=login,
        now=database_time(session),
        images=shown,
        total=queries.count_images(session),
        imported=IMPORTED,
        first_page=asked.after is None,
        older=f"/images?page_token={token}" if token else "",
    )


@router.get("/{image_id}")
def show_image(image_id: UUID, request: Request, session: ReadSession, login: ImagesVisitor) -> Response:
    image = images.get_image(session, image_id=image_id)
    return page(
        request,
        "image.html",
        login=login,
        now=database_time(session),
        image=image,
        imported=IMPORTED,
        chain=identity_chain(image),
    )


def identity_chain(image: Image) -> tuple[Link, ...]:
    """From what a registry is asked for down to the code; a link without facts is not known."""
    digests = (
        ("Index digest", "of the list of manifests, one per platform", image.index_digest),
        (
            "Manifest digest",
            "of one platform’s manifest: its configuration and layers",
            image.manifest_digest,
        ),
        ("Config id", "of the image configuration: what a runtime reports of itself", image.config_id),
    )
    links = [
        Link(name=name, of=of, facts=(("SHA-256", value),) if value else ()) for name, of, value in digests
    ]
    source = image.source
    parts = (
        (
            ("repository", source.repository),
            ("commit", source.commit),
            ("tree", source.tree),
            ("source SHA-256", source.source_sha256),
        )
        if source
        else ()
    )
    facts = tuple((name, value) for name, value in parts if value)
    return (*links, Link(name="Source identity", of="the code it was built from, as registered", facts=facts))
