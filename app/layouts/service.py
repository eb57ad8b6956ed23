"""Layouts: parsed by the core, kept as canonical bytes under their SHA-256."""

from typing import Final

from sqlalchemy.orm import Session

from app.core.store.snapshot import PageLayout, parse_page_layout
from app.errors import NotFound
from app.layouts import repository
from app.ledger import service as ledger
from app.models import Layout
from app.web.paging import Cursor, Total

_MOST_PARSED: Final = 256
_parsed: dict[str, PageLayout] = {}


def register_layout(session: Session, *, raw: bytes, by: str) -> tuple[Layout, bool]:
    """Keep a layout document; the same layout again, in any spelling, is the same row.

    Returns:
        The row, and whether it is new.

    Raises:
        FormatError: the document is not a page layout.
    """
    layout = parse_page_layout(raw)
    row: dict[str, object] = {
        "sha256": str(layout.sha256),
        "document": layout.canonical,
        "group_count": len(layout.groups),
        "layer_count": sum(len(group.layers) for group in layout.groups),
        "created_by": by,
    }
    created = repository.add_layout(session, layout=row)
    if created:
        ledger.record(session, kind="layout-registered", by=by, rows={"layout": [str(layout.sha256)]})
    return get_layout(session, sha256=layout.sha256), created


def get_layout(session: Session, *, sha256: str) -> Layout:
    """The layout with this digest.

    Raises:
        NotFound: none has it.
    """
    row = repository.get_layout(session, sha256=sha256)
    if row is None:
        raise NotFound(f"layout {sha256}: not registered")
    return row


def list_layouts(session: Session, *, after: Cursor | None, limit: int) -> list[Layout]:
    """Layouts, newest first."""
    return repository.list_layouts(session, after=after, limit=limit)


def count_layouts(session: Session) -> Total:
    """How many there are, counted up to a bound."""
    return repository.count_layouts(session)


def parsed(row: Layout) -> PageLayout:
    """The core's value of a stored layout."""
    return parse_page_layout(row.document)


def known_layout(session: Session, *, sha256: str) -> PageLayout:
    """The core's value of a layout, read and parsed once per process: a digest names one layout for ever.

    Raises:
        NotFound: neither this process nor the database knows it. That it is in *this* database is seen to by
            the foreign key of what refers to it.
    """
    known = _parsed.get(sha256)
    if known is None:
        known = parsed(get_layout(session, sha256=sha256))
        if len(_parsed) >= _MOST_PARSED:
            _parsed.clear()
        _parsed[sha256] = known
    return known
