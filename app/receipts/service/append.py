"""A document is kept: its bytes, an index over them, where it stood."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from app.core.digest import sha256
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.keys import (
    config_id,
    identity_axes,
    index_text,
    known,
    origin_keys,
    receipt_columns,
    receipt_keys,
)
from app.db.session import database_time
from app.ledger import service as ledger
from app.models import ReceiptOrigin, ReceiptRow
from app.receipts import repository
from app.receipts.service.locks import lock_subjects


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a document stood: ``committed_at`` orders the versions of one path."""

    repository: str
    path: str
    commit: str = ""
    committed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What became of submitted bytes.

    Attributes:
        created: the bytes are new.
        placed: they are new at this place.
        new_axes: axes on which their image got a value it did not have.
    """

    receipt: ReceiptRow
    facts: DocumentFacts
    created: bool
    placed: bool
    new_axes: tuple[str, ...]
    keys: tuple[str, ...]


def append_receipt(
    session: Session, *, raw: bytes, facts: DocumentFacts, origin: Origin | None, by: str
) -> Appended:
    """Keep a document under its SHA-256; the same bytes again are the same row. Holds the locks of what it
    speaks about."""
    keys = receipt_keys(facts)
    placed_keys = [] if origin is None else origin_keys(facts, repository=origin.repository, path=origin.path)
    lock_subjects(session, sha256_of_receipt=facts.sha256, keys=(*keys, *placed_keys))
    now = database_time(session)
    receipt = repository.get_receipt(session, sha256=facts.sha256)
    created = receipt is None
    if receipt is None:
        receipt = ReceiptRow(**receipt_columns(facts), document=raw, created_at=now, created_by=by)
        repository.add_receipt(session, receipt=receipt)
    rows: dict[str, list[ledger.RowKey]] = {"receipt": [receipt]} if created else {}
    place = _place(session, facts=facts, origin=origin, keys=placed_keys, by=by, now=now)
    if place is not None:
        rows["receipt_origin"] = [place]
    axes = _identities(session, facts=facts, now=now) if created else []
    if axes:
        rows["image_identity"] = [identity for identity, _ in axes]
    if rows:
        ledger.record(session, kind="receipt-appended", by=by, rows=rows, facts={"receipt": facts.sha256})
    return Appended(
        receipt=receipt,
        facts=facts,
        created=created,
        placed=place is not None,
        new_axes=tuple(axis for _, axis in axes),
        keys=(*(keys if created else ()), *(placed_keys if place is not None else ())),
    )


def _place(
    session: Session,
    *,
    facts: DocumentFacts,
    origin: Origin | None,
    keys: list[str],
    by: str,
    now: datetime,
) -> ReceiptOrigin | None:
    """The row of a place that is new for these bytes."""
    if origin is None:
        return None
    known_place = repository.find_origin(
        session,
        sha256=facts.sha256,
        repository=origin.repository,
        path=origin.path,
        commit=origin.commit,
    )
    if known_place is not None:
        return None
    row = ReceiptOrigin(
        receipt_sha256=facts.sha256,
        repository=origin.repository,
        path=origin.path,
        commit=origin.commit,
        committed_at=origin.committed_at,
        keys=keys,
        created_at=now,
        created_by=by,
    )
    repository.add_origin(session, origin=row)
    return row


def _identities(session: Session, *, facts: DocumentFacts, now: datetime) -> list[tuple[ledger.RowKey, str]]:
    """What the document says of its image's identity, where nobody said it before."""
    image = config_id(known(facts.subject.image))
    if image is None:
        return []
    said = {
        axis: (index_text(value), str(sha256(value.encode()))) for axis, value in identity_axes(facts).items()
    }
    return [
        *repository.add_identities(session, image_config_id=image, axes=said, sha256=facts.sha256, now=now)
    ]
