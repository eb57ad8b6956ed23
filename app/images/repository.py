"""SQL of images."""

from uuid import UUID

from sqlalchemy import Select, insert, or_, select, tuple_
from sqlalchemy.orm import Session, joinedload

from app.models import Image, ImageUnjudged, VerdictCurrent
from app.web.paging import Cursor, Total, count_rows


def find_images(session: Session, *, digests: dict[str, str]) -> list[Image]:
    """Images that share any of these digests, each compared in its own column."""
    same = or_(*(getattr(Image, name) == value for name, value in digests.items()))
    return list(session.scalars(select(Image).options(joinedload(Image.source)).where(same)))


def images_with_any(session: Session, *, digest: str) -> list[Image]:
    """Images that have this digest, as whichever of the three."""
    kinds = (Image.config_id, Image.manifest_digest, Image.index_digest)
    return list(session.scalars(select(Image).where(or_(*(kind == digest for kind in kinds)))))


def add_image(session: Session, *, image: Image) -> None:
    """Add an image, and note it among those that no verdict is about, unless one is."""
    session.add(image)
    session.flush()
    judged = select(VerdictCurrent.verdict_id).where(
        VerdictCurrent.image_config_id == Image.config_id, VerdictCurrent.kind == "scope"
    )
    alone = select(Image.id, Image.config_id, Image.created_at).where(Image.id == image.id, ~judged.exists())
    session.execute(insert(ImageUnjudged).from_select(["image_id", "config_id", "created_at"], alone))


def get_image(session: Session, *, image_id: UUID) -> Image | None:
    query = select(Image).options(joinedload(Image.source)).where(Image.id == image_id)
    return session.scalars(query).one_or_none()


def list_images(
    session: Session, *, digests: dict[str, str], after: Cursor | None, limit: int
) -> list[Image]:
    query = _newest_first(digests).options(joinedload(Image.source))
    if after is not None:
        query = query.where(tuple_(Image.created_at, Image.id) < (after.created_at, after.id))
    return list(session.scalars(query.limit(limit)))


def count_images(session: Session, *, digests: dict[str, str]) -> Total:
    return count_rows(session, _newest_first(digests))


def _newest_first(digests: dict[str, str]) -> Select[Image]:
    query = select(Image).where(*(getattr(Image, kind) == value for kind, value in digests.items()))
    return query.order_by(Image.created_at.desc(), Image.id.desc())
