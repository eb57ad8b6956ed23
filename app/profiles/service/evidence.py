"""Which kinds of profile document are evidence too, and by which schemas they stand among the receipts."""

from collections.abc import Mapping
from typing import Final

from app.core.profiles.documents import SCHEMAS, DocumentKind
from app.core.profiles.kinds import AnyDocument

EVIDENCE_KINDS: Final = (
    DocumentKind.ACTIVATION,
    DocumentKind.IMAGE_RECEIPT,
    DocumentKind.PUBLICATION,
    DocumentKind.CLAIM,
    DocumentKind.DRILL,
    DocumentKind.PERFORMANCE_RECORD,
)
EVIDENCE_SCHEMAS: Final[Mapping[DocumentKind, tuple[str, ...]]] = {
    kind: tuple(sorted(schema for schema, of in SCHEMAS.items() if of is kind)) for kind in EVIDENCE_KINDS
}


def is_evidence(document: AnyDocument) -> bool:
    """Whether the evidence model judges it: then it is kept as a receipt, and nowhere else."""
    return document.kind in EVIDENCE_SCHEMAS


def kind_of_schema(schema: str | None) -> DocumentKind | None:
    """The kind of a receipt, where it is one that profiles take up."""
    kind = SCHEMAS.get(schema or "")
    return kind if kind in EVIDENCE_SCHEMAS else None
