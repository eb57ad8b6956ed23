"""Images as registered: identified by any of their three digests, never by a tag."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.core.image import ImageDigests
from app.errors import Conflict, FieldProblem, NotFound, Refused
from app.images import repository
from app.ledger import service as ledger
from app.models import Image
from app.sources import service as sources
from app.web.paging import Cursor, Total

# What each kind of digest is taken over.
SAYS: Final = {
    "config_id": "SHA-256 of the image configuration",
    "manifest_digest": "SHA-256 of one platform's image manifest",
    "index_digest": "SHA-256 of a multi-platform index",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageStatement:
    """What a client says of an image."""

    digests: ImageDigests
    title: str
    origin: str
    record: str | None = None
    source_id: UUID | None = None


def register_image(session: Session, *, statement: ImageStatement, by: str) -> tuple[Image, bool]:
    """Keep an image; the same digests again are the same row.

    Returns:
        The row, and whether it is new.

    Raises:
        NotFound: the source identity it names is not registered.
        Conflict: one of its digests belongs to an image with other digests.
        Refused: one of its digests is known as a digest of another kind.
    """
    known = statement.digests.known()
    check_kinds(session, digests=known)
    for found in repository.find_images(session, digests=known):
        if _known(found) == known:
            return found, False
        raise Conflict(f"image {found.id}: has digests {_known(found)}, found {known}")
    if statement.source_id is not None:
        sources.get_source(session, source_id=statement.source_id)
    image = Image(
        **known,
        title=statement.title,
        origin=statement.origin,
        record=statement.record,
        source_id=statement.source_id,
        created_by=by,
    )
    repository.add_image(session, image=image)
    ledger.record(
        session, kind="image-registered", by=by, rows={"image": [image]}, facts={"title": statement.title}
    )
    return get_image(session, image_id=image.id), True


def check_kinds(session: Session, *, digests: dict[str, str]) -> None:
    """Return if none of these digests, by kind, is known as a digest of another kind.

    Raises:
        Refused: one is; every mistaken kind is named.
    """
    mixed = [
        _mixed(kind, value=value, other=other, image=image)
        for kind, value in digests.items()
        for image in repository.images_with_any(session, digest=value)
        for other, theirs in _known(image).items()
        if theirs == value and other != kind
    ]
    if mixed:
        detail = f"{mixed[0].pointer.removeprefix('/')}: {mixed[0].detail}"
        raise Refused(detail, code="digests-mixed", errors=tuple(mixed))


def _mixed(kind: str, *, value: str, other: str, image: Image) -> FieldProblem:
    found = f"{value}, which is the {other} ({SAYS[other]}) of image {image.id}"
    return FieldProblem(pointer=f"/{kind}", detail=f"expected {SAYS[kind]}, found {found}")


def _known(image: Image) -> dict[str, str]:
    pairs = {
        "config_id": image.config_id,
        "manifest_digest": image.manifest_digest,
        "index_digest": image.index_digest,
    }
    return {name: value for name, value in pairs.items() if value is not None}


def get_image(session: Session, *, image_id: UUID) -> Image:
    """An image by id.

    Raises:
        NotFound: none has it.
    """
    image = repository.get_image(session, image_id=image_id)
    if image is None:
        raise NotFound(f"image {image_id}: not registered")
    return image


def list_images(
    session: Session, *, digests: dict[str, str], after: Cursor | None, limit: int
) -> list[Image]:
    """Images with all of these digests, by kind, newest first."""
    return repository.list_images(session, digests=digests, after=after, limit=limit)


def count_images(session: Session, *, digests: dict[str, str]) -> Total:
    """How many images have all of these digests, counted up to a bound."""
    return repository.count_images(session, digests=digests)
