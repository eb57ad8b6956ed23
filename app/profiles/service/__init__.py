"""What may be asked of profiles.

documents    take one in; evidence becomes a receipt
reading      one document, its bytes, lists
contracts    a contract parsed, a profile with everything it refers to
"""

from app.profiles.service.documents import Added, Place, add_document, place, read_bytes
from app.profiles.service.evidence import is_evidence
from app.profiles.service.reading import (
    StoredDocument,
    StoredPlace,
    count_documents,
    file_name,
    get_document,
    list_documents,
    one_document,
    raw_bytes,
)
from app.profiles.service.values import shown_value

__all__ = [
    "Added",
    "Place",
    "StoredDocument",
    "StoredPlace",
    "add_document",
    "count_documents",
    "file_name",
    "get_document",
    "is_evidence",
    "list_documents",
    "one_document",
    "place",
    "raw_bytes",
    "read_bytes",
    "shown_value",
]
