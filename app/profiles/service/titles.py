"""One line for lists: what tells one profile document from another of its kind."""

from typing import Final

from app.core.canonical_json import ExactValue
from app.core.profiles.documents import DocumentKind
from app.core.profiles.kinds import AnyDocument

# Where a document's own name stands, by kind; the first that is there.
_NAMES: Final[dict[DocumentKind, tuple[str, ...]]] = {
    DocumentKind.DEPLOYMENT: ("id", "title"),
    DocumentKind.RELEASE_SELECTION: ("id",),
    DocumentKind.PLAN: ("profile",),
}
_LISTED: Final = 8


def title_of(document: AnyDocument, *, name: str) -> str:
    """The line. Args: name: of the file it came from, empty where none was given."""
    value = document.value or {}
    own = next((text for key in _NAMES.get(document.kind, ()) if isinstance(text := value.get(key), str)), "")
    inside = _inside(document.kind, value)
    parts = (name, own, inside) if name or own or inside else (document.schema or document.kind.value,)
    return " · ".join(part for part in parts if part)


def _inside(kind: DocumentKind, value: dict[str, ExactValue]) -> str:
    if kind is DocumentKind.CONTRACT:
        return _names(value.get("profiles"))
    if kind is DocumentKind.TEMPLATE_SET:
        return _names(value.get("templates"))
    if kind is DocumentKind.CATALOG:
        profiles = value.get("profiles")
        return f"{len(profiles)} deployments" if isinstance(profiles, list) else ""
    return ""


def _names(value: ExactValue) -> str:
    names = list(value) if isinstance(value, dict) else []
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
