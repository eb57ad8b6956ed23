"""SQL of profile documents."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Select, select, tuple_
from sqlalchemy.orm import Session, defer, selectinload

from app.models import ProfileDocument, ProfilePlace
from app.web.paging import Cursor, Total, count_rows


def get_document(session: Session, *, sha256: str) -> ProfileDocument | None:
    """A document without its bytes, with its places."""
    return session.scalars(_shown().where(ProfileDocument.sha256 == sha256)).one_or_none()


def raw_bytes(session: Session, *, digests: Iterable[str]) -> dict[str, bytes]:
    """The bytes of those of the documents that are stored."""
    query = select(ProfileDocument.sha256, ProfileDocument.document)
    found = session.execute(query.where(ProfileDocument.sha256.in_(list(digests))))
    return {row.sha256: bytes(row.document) for row in found}


def add_document(session: Session, *, document: ProfileDocument) -> None:
    session.add(document)
    session.flush()


def find_place(
    session: Session, *, sha256: str, repository: str, path: str, commit: str
) -> ProfilePlace | None:
    query = select(ProfilePlace).where(
        ProfilePlace.document_sha256 == sha256,
        ProfilePlace.repository == repository,
        ProfilePlace.path == path,
        ProfilePlace.commit == commit,
    )
    return session.scalars(query).one_or_none()


def add_place(session: Session, *, place: ProfilePlace) -> None:
    session.add(place)
    session.flush()


def places_of(session: Session, *, sha256: str) -> list[ProfilePlace]:
    """Where a document stood, the newest first."""
    query = select(ProfilePlace).where(ProfilePlace.document_sha256 == sha256)
    return list(session.scalars(query.order_by(ProfilePlace.created_at.desc(), ProfilePlace.id.desc())))


def places_named(session: Session, *, names: Sequence[str], kind: str, limit: int) -> list[ProfilePlace]:
    """Places of documents of a kind whose paths end in one of these parts, the newest first."""
    query = select(ProfilePlace).join(ProfileDocument).where(ProfilePlace.name.in_(names))
    query = query.where(ProfileDocument.kind == kind)
    ordered = query.order_by(ProfilePlace.created_at.desc(), ProfilePlace.id.desc())
    return list(session.scalars(ordered.limit(limit)))


def under_keys(session: Session, *, keys: Sequence[str], limit: int) -> list[ProfileDocument]:
    """Documents that carry one of the keys, without their bytes, the newest first."""
    query = _newest_first(kind=None, text=None).where(ProfileDocument.keys.overlap(list(keys)))
    options = (defer(ProfileDocument.document), selectinload(ProfileDocument.places))
    return list(session.scalars(query.options(*options).limit(limit)))


def list_documents(
    session: Session, *, kind: str | None, text: str | None, after: Cursor | None, limit: int
) -> list[ProfileDocument]:
    """Documents without their bytes, the newest first."""
    query = _newest_first(kind=kind, text=text)
    query = query.options(defer(ProfileDocument.document), selectinload(ProfileDocument.places))
    if after is not None:
        place = tuple_(ProfileDocument.created_at, ProfileDocument.sha256)
        query = query.where(place < (after.created_at, after.id))
    return list(session.scalars(query.limit(limit)))


def count_documents(session: Session, *, kind: str | None, text: str | None) -> Total:
    return count_rows(session, _newest_first(kind=kind, text=text))


def _shown() -> Select[ProfileDocument]:
    return select(ProfileDocument).options(
        defer(ProfileDocument.document), selectinload(ProfileDocument.places)
    )


def _newest_first(*, kind: str | None, text: str | None) -> Select[Any]:
    query = select(ProfileDocument)
    if kind is not None:
        query = query.where(ProfileDocument.kind == kind)
    if text is not None:
        query = query.where(ProfileDocument.title.icontains(text, autoescape=True))
    return query.order_by(ProfileDocument.created_at.desc(), ProfileDocument.sha256.desc())
