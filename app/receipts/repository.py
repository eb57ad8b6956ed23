"""SQL of receipts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Select, select, text, tuple_
from sqlalchemy.orm import Session, defer, selectinload

from app.models import ImageIdentity, ReceiptOrigin, ReceiptRow
from app.web.paging import Cursor, Total, count_rows

# So many receipts under one key are looked at; what a key finds is few but for an attack.
_MOST_FOUND = 5000
# Without an order: a planner that thinks of an order may walk the list of all receipts to find a few.
_UNDER = text(
    "(SELECT sha256, keys FROM receipt WHERE keys && CAST(:keys AS text[]) LIMIT :most) UNION ALL "
    "(SELECT receipt_sha256, keys FROM receipt_origin WHERE keys && CAST(:keys AS text[]) LIMIT :most)"
)
_EVERY_UNDER = text(
    "SELECT sha256 FROM receipt WHERE keys && CAST(:keys AS text[]) UNION "
    "SELECT receipt_sha256 FROM receipt_origin WHERE keys && CAST(:keys AS text[]) ORDER BY 1"
)
_IDENTITIES = text(
    "INSERT INTO image_identity (id, image_config_id, axis, value, value_sha256, receipt_sha256, created_at) "
    "SELECT gen_random_uuid(), :image, axis, value, digest, :receipt, :now FROM unnest("
    "CAST(:axes AS text[]), CAST(:texts AS text[]), CAST(:digests AS text[])) AS said (axis, value, digest) "
    "ON CONFLICT DO NOTHING RETURNING id, axis"
)
_LOCK = text(
    "SELECT CASE WHEN shared THEN pg_advisory_xact_lock_shared(:stage, number) "
    "ELSE pg_advisory_xact_lock(:stage, number) END FROM ("
    "SELECT number, shared FROM unnest(CAST(:numbers AS integer[]), CAST(:shared AS boolean[])) "
    "WITH ORDINALITY AS wanted (number, shared, place) ORDER BY place) AS ordered"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptFilter:
    """What a list is filtered by; None: anything."""

    image_config_id: str | None = None
    kind: str | None = None
    schema_name: str | None = None
    capability: str | None = None
    text: str | None = None
    created_from: datetime | None = None
    created_until: datetime | None = None


def get_receipt(session: Session, *, sha256: str) -> ReceiptRow | None:
    """A receipt without its bytes, with its origins."""
    query = select(ReceiptRow).where(ReceiptRow.sha256 == sha256)
    query = query.options(defer(ReceiptRow.document), selectinload(ReceiptRow.origins))
    return session.scalars(query).one_or_none()


def documents(session: Session, *, digests: Iterable[str]) -> dict[str, bytes]:
    """The bytes of these receipts."""
    query = select(ReceiptRow.sha256, ReceiptRow.document).where(ReceiptRow.sha256.in_(list(digests)))
    return {row.sha256: row.document for row in session.execute(query)}


def add_receipt(session: Session, *, receipt: ReceiptRow) -> None:
    session.add(receipt)
    session.flush()


def find_origin(
    session: Session, *, sha256: str, repository: str, path: str, commit: str
) -> ReceiptOrigin | None:
    query = select(ReceiptOrigin).where(
        ReceiptOrigin.receipt_sha256 == sha256,
        ReceiptOrigin.repository == repository,
        ReceiptOrigin.path == path,
        ReceiptOrigin.commit == commit,
    )
    return session.scalars(query).one_or_none()


def add_origin(session: Session, *, origin: ReceiptOrigin) -> None:
    session.add(origin)
    session.flush()


def origins_of(session: Session, *, digests: Iterable[str]) -> list[ReceiptOrigin]:
    query = select(ReceiptOrigin).where(ReceiptOrigin.receipt_sha256.in_(list(digests)))
    return list(session.scalars(query.order_by(ReceiptOrigin.created_at, ReceiptOrigin.id)))


def under_keys(session: Session, *, keys: Sequence[str]) -> dict[str, list[str]]:
    """Receipt → those of the keys that it, or a place it stood in, carries."""
    asked, found = set(keys), dict[str, list[str]]()
    for sha256, held in session.execute(_UNDER, {"keys": list(keys), "most": _MOST_FOUND}) if keys else ():
        found.setdefault(sha256, []).extend(asked.intersection(held))
    return found


def every_under_keys(session: Session, *, keys: Sequence[str]) -> list[str]:
    """Every receipt that carries one of the keys, by digest."""
    return list(session.scalars(_EVERY_UNDER, {"keys": list(keys)})) if keys else []


def keys_of(session: Session, *, digests: Sequence[str]) -> dict[str, list[str]]:
    """The keys of these receipts."""
    query = select(ReceiptRow.sha256, ReceiptRow.keys).where(ReceiptRow.sha256.in_(digests))
    return {row.sha256: row.keys for row in session.execute(query)} if digests else {}


def add_identities(
    session: Session, *, image_config_id: str, axes: dict[str, tuple[str, str]], sha256: str, now: datetime
) -> list[tuple[UUID, str]]:
    """Note values (axis to text, digest) nobody gave the image before; id and axis of those that are new."""
    given = {
        "axes": list(axes),
        "texts": [value for value, _ in axes.values()],
        "digests": [digest for _, digest in axes.values()],
        "image": image_config_id,
        "receipt": sha256,
        "now": now,
    }
    return [(one.id, one.axis) for one in session.execute(_IDENTITIES, given)] if axes else []


def identities_of(session: Session, *, image_config_id: str) -> list[ImageIdentity]:
    query = select(ImageIdentity).where(ImageIdentity.image_config_id == image_config_id)
    return list(session.scalars(query.order_by(ImageIdentity.created_at, ImageIdentity.id).limit(200)))


def list_receipts(
    session: Session, *, wanted: ReceiptFilter, after: Cursor | None, limit: int
) -> list[ReceiptRow]:
    query = _newest_first(wanted).options(defer(ReceiptRow.document), selectinload(ReceiptRow.origins))
    if after is not None:
        query = query.where(tuple_(ReceiptRow.created_at, ReceiptRow.sha256) < (after.created_at, after.id))
    return list(session.scalars(query.limit(limit)))


def count_receipts(session: Session, *, wanted: ReceiptFilter) -> Total:
    return count_rows(session, _newest_first(wanted))


def has_any(session: Session, *, digests: Sequence[str]) -> set[str]:
    """Those of the digests that are receipts."""
    return set(session.scalars(select(ReceiptRow.sha256).where(ReceiptRow.sha256.in_(digests))))


def lock(session: Session, *, stage: int, names: Sequence[tuple[int, bool]]) -> None:
    """Advisory locks (number, whether shared) until the transaction ends, taken in the order given."""
    session.execute(
        _LOCK,
        {"stage": stage, "numbers": [one for one, _ in names], "shared": [one for _, one in names]},
    )


def _newest_first(wanted: ReceiptFilter) -> Select[Any]:
    query = select(ReceiptRow)
    for column in ("image_config_id", "kind", "schema_name", "capability"):
        value = getattr(wanted, column)
        if value is not None:
            query = query.where(getattr(ReceiptRow, column) == value)
    if wanted.text is not None:
        query = query.where(ReceiptRow.title.icontains(wanted.text, autoescape=True))
    if wanted.created_from is not None:
        query = query.where(ReceiptRow.created_at >= wanted.created_from)
    if wanted.created_until is not None:
        query = query.where(ReceiptRow.created_at < wanted.created_until)
    return query.order_by(ReceiptRow.created_at.desc(), ReceiptRow.sha256.desc())
