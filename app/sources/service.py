"""Source identities as registered: the same four parts again are the same row."""

from uuid import UUID

from sqlalchemy.orm import Session

from app.core.canonical_json import JsonObject
from app.core.source_identity import SourceIdentity
from app.errors import NotFound, Refused
from app.ledger import service as ledger
from app.models import SourceIdentityRow
from app.sources import repository
from app.web.paging import Cursor, Total


def register_source(
    session: Session, *, identity: SourceIdentity, dirty: bool, by: str
) -> tuple[SourceIdentityRow, bool]:
    """Keep a source identity; its content decides whether it is new.

    Returns:
        The row, and whether it is new.

    Raises:
        Refused: the checkout it was taken from has changes that its commit and tree know nothing of.
    """
    if dirty:
        raise Refused(
            f"source {identity.commit}: expected a checkout without changes, found a dirty one; commit them, "
            "since commit and tree would name other files than the source SHA-256 covers",
            code="source-dirty",
        )
    parts: dict[str, object] = {
        "repository": identity.repository,
        "commit": _text(identity.commit),
        "tree": _text(identity.tree),
        "source_sha256": _text(identity.source_sha256),
    }
    created = repository.add_source(session, values={**parts, "created_by": by})
    row = repository.find_source(session, identity=parts)
    if row is None:
        raise NotFound(f"source {identity.commit}: vanished while it was registered")
    if created is not None:
        facts: JsonObject = {"repository": row.repository, "commit": row.commit}
        ledger.record(session, kind="source-registered", by=by, rows={"source_identity": [row]}, facts=facts)
    return row, created is not None


def _text(part: str | None) -> str | None:
    """A plain string: the database driver knows no others."""
    return None if part is None else str(part)


def get_source(session: Session, *, source_id: UUID) -> SourceIdentityRow:
    """A source identity by id.

    Raises:
        NotFound: none has it.
    """
    row = repository.get_source(session, source_id=source_id)
    if row is None:
        raise NotFound(f"source {source_id}: not registered")
    return row


def list_sources(session: Session, *, after: Cursor | None, limit: int) -> list[SourceIdentityRow]:
    """Source identities, newest first."""
    return repository.list_sources(session, after=after, limit=limit)


def count_sources(session: Session) -> Total:
    """How many source identities there are, counted up to a bound."""
    return repository.count_sources(session)
