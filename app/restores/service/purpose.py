"""What a restore is ordered for: to find out (any image), or in operation (an image that may be used so)."""

from typing import Literal

from sqlalchemy.orm import Session

from app.errors import FieldProblem, Refused
from app.manifests import service as manifests
from app.verdicts.service.allowed import Allowance, allowance, scope_of_snapshot

Purpose = Literal["qualification", "operational"]


def allow(session: Session, *, purpose: str, image_config_id: str | None, document_sha256: str) -> Allowance:
    """What allows a restore for this purpose; empty where nothing needs to.

    Args: document_sha256: names a root document of the snapshot that is ordered.

    Raises:
        Refused: an operational restore names no image.
        Conflict: the image is not deployable for exactly this scope, and no exception holds.
    """
    if purpose != "operational":
        return Allowance()
    if image_config_id is None:
        detail = "image_config_id: expected the image an operational restore is of, found none"
        raise Refused(detail, errors=(FieldProblem(pointer="/image_config_id", detail=detail),))
    document = manifests.get_document(session, sha256=document_sha256)
    return allowance(session, image_config_id=image_config_id, scope=scope_of_snapshot(document))
