"""Source identities as registered: the same four parts again are the same row."""

from dataclasses import asdict, dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from app.errors import NotFound
from app.models import SourceIdentityRow
from app.sources import repository
from app.web.paging import Cursor, Total


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatement:
    """The parts of a source identity; what is not known is None."""

    repository: str
    commit: str
    tree: str | None
    source_sha256: str | None


def register_source(
    session: Session, *, statement: SourceStatement, by: str
) -> tuple[SourceIdentityRow, bool]:
    """Keep a source identity.

    Returns:
        The row, and whether it is new.
    """
    identity: dict[str, object] = asdict(statement)
    created = repository.add_source(session, values={**identity, "created_by": by})
    row = repository.find_source(session, identity=identity)
    if row is None:
        raise NotFound(f"source {statement.commit}: vanished while it was registered")
    return row, created is not None


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
