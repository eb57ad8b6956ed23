"""What was read in a stored document, as JSON for programs and pages."""

from decimal import Decimal

from sqlalchemy.orm import Session

from app.core.canonical_json import ExactValue, JsonValue
from app.core.errors import DocumentError
from app.core.profiles.documents import DocumentKind
from app.core.profiles.template import read_template
from app.profiles.service.documents import refusal
from app.profiles.service.parsed import read_stored
from app.profiles.service.reading import StoredDocument, raw_bytes


def shown_value(session: Session, *, document: StoredDocument) -> JsonValue:
    """The value of a document; of a template its keys and values.

    Raises:
        Refused: what is stored cannot be read, as a receipt that is no such document.
    """
    try:
        if document.kind == DocumentKind.TEMPLATE:
            raw = raw_bytes(session, sha256=document.sha256)
            return dict(read_template(raw, name=document.title).pairs)
        return plain(read_stored(session, sha256=document.sha256).value)
    except DocumentError as error:
        raise refusal(error) from None


def plain(value: ExactValue) -> JsonValue:
    """A decoded value with fractions as numbers that JSON knows."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return value
