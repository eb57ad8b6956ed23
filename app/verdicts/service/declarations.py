"""What people declared about receipts, read (evidence-model §7.6)."""

from uuid import UUID

from sqlalchemy.orm import Session

from app.core.qualify.facts import Capability
from app.core.qualify.surroundings import Declaration
from app.errors import NotFound
from app.models import DeclarationRow
from app.verdicts import repository
from app.web.paging import Cursor, Total


def declarations_about(session: Session, *, sha256: str) -> tuple[Declaration, ...]:
    """What people declared about a receipt, oldest first."""
    return tuple(
        Declaration(
            who=row.created_by,
            when=row.created_at.isoformat(),
            reason=row.reason,
            receipts=tuple(row.receipts),
            capability=Capability(row.capability),
        )
        for row in repository.declarations_about(session, sha256=sha256)
    )


def get_declaration(session: Session, *, declaration_id: UUID) -> DeclarationRow:
    """A declaration.

    Raises:
        NotFound: none has this id.
    """
    row = repository.get_declaration(session, declaration_id=declaration_id)
    if row is None:
        raise NotFound(f"declaration {declaration_id}: not found")
    return row


def list_declarations(session: Session, *, after: Cursor | None, limit: int) -> list[DeclarationRow]:
    """Declarations, newest first."""
    return repository.list_declarations(session, after=after, limit=limit)


def count_declarations(session: Session) -> Total:
    """How many there are, counted up to a bound."""
    return repository.count_declarations(session)
