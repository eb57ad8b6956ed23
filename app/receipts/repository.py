"""SQL of receipts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Row, Select, select, text, tuple_
from sqlalchemy.orm import Session, defer, selectinload

from app.core.canonical_json import JsonObject, encode_canonical
from app.models import ReceiptRow
from app.web.paging import Cursor, Total, count_rows

# So many receipts under one key are looked at; what a key finds is few but for an attack.
_MOST_FOUND = 5000
# So many values on all axes of an image's identity are looked at.
_MOST_IDENTITIES = 200
# Without an order: a planner that thinks of an order may walk the list of all receipts to find a few.
_UNDER = text(
    "(SELECT sha256, keys FROM receipt WHERE keys && CAST(:keys AS text[]) LIMIT :most) UNION ALL "
    "(SELECT receipt_sha256, keys FROM receipt_origin WHERE keys && CAST(:keys AS text[]) LIMIT :most)"
)
# The same, and who was first to say something of these images' identity, in one question.
_AROUND = text(
    "(SELECT sha256, keys, NULL AS image FROM receipt WHERE keys && CAST(:keys AS text[]) LIMIT :most) "
    "UNION ALL (SELECT receipt_sha256, keys, NULL FROM receipt_origin "
    "WHERE keys && CAST(:keys AS text[]) LIMIT :most) UNION ALL "
    "SELECT said.receipt_sha256, NULL, said.image_config_id "
    "FROM unnest(CAST(:images AS text[])) AS asked (id) CROSS JOIN LATERAL ("
    "SELECT receipt_sha256, image_config_id FROM image_identity "
    "WHERE image_config_id = CAST(asked.id AS char(64)) ORDER BY created_at, id LIMIT :identities) AS said"
)
_TWO_VALUES = text(
    "SELECT asked.image FROM unnest(CAST(:images AS text[]), CAST(:axes AS text[])) AS asked (image, axis) "
    "WHERE EXISTS (SELECT 1 FROM image_identity WHERE image_config_id = CAST(asked.image AS char(64)) "
    "AND axis = asked.axis OFFSET 1)"
)
_EVERY_UNDER = text(
    "SELECT sha256, keys FROM receipt WHERE keys && CAST(:keys AS text[]) UNION ALL "
    "SELECT receipt_sha256, keys FROM receipt_origin WHERE keys && CAST(:keys AS text[])"
)
_PLACES = text(
    "SELECT receipt_sha256, repository, path, commit, committed_at, created_at FROM receipt_origin "
    "WHERE receipt_sha256 = ANY(CAST(:digests AS char(64)[])) ORDER BY created_at, id"
)
_COLUMNS: Final = (
    "sha256",
    "canonical_sha256",
    "byte_count",
    "schema_name",
    "kind",
    "family",
    "capability",
    "image_config_id",
    "release",
    "title",
    "keys",
)
# Documents, where they stood and what they say of their images, in one statement: whoever is first stays.
# Of documents that come in together the later ones are a microsecond later, so that versions of one path
# keep their order; for what an image is, the order of their digests counts, which is that of the ledger.
_KEEP = text(
    f"""
    WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
    given AS (
      SELECT place, told, document FROM ROWS FROM (
        jsonb_array_elements(CAST(:rows AS jsonb)), unnest(CAST(:documents AS bytea[]))
      ) WITH ORDINALITY AS given (told, document, place)
    ), kept AS (
      INSERT INTO receipt ({", ".join(_COLUMNS)}, document, created_at, created_by)
      SELECT {", ".join(f"one.{name}" for name in _COLUMNS)}, given.document,
             at + place * interval '1 microsecond', :by
        FROM clock, given, jsonb_populate_record(NULL::receipt, told) AS one ORDER BY place
      ON CONFLICT (sha256) DO NOTHING RETURNING sha256
    ), placed AS (
      INSERT INTO receipt_origin
             (id, receipt_sha256, repository, path, commit, committed_at, keys, created_at, created_by)
      SELECT gen_random_uuid(), told->>'sha256', one.repository, one.path, one.commit, one.committed_at,
             one.keys, at + place * interval '1 microsecond', :by
        FROM clock, given, jsonb_populate_record(NULL::receipt_origin, told->'origin') AS one
       WHERE jsonb_typeof(told->'origin') = 'object' ORDER BY place
      ON CONFLICT DO NOTHING RETURNING id, receipt_sha256, repository, path, commit, committed_at, created_at
    ), said AS (
      INSERT INTO image_identity (id, image_config_id, axis, value, value_sha256, receipt_sha256, created_at)
      SELECT gen_random_uuid(), told->>'image_config_id', axis.key, axis.value->>0, axis.value->>1,
             told->>'sha256', at + place * interval '1 microsecond'
        FROM clock, given, jsonb_each(told->'axes') AS axis
       WHERE told->>'sha256' IN (SELECT sha256 FROM kept) ORDER BY told->>'sha256'
      ON CONFLICT DO NOTHING RETURNING id, receipt_sha256, axis
    )
    SELECT 'receipt' AS view, NULL::uuid AS id, sha256, NULL AS axis, NULL AS repository, NULL AS path,
           NULL AS commit, NULL::timestamptz AS committed_at, NULL::timestamptz AS created_at FROM kept
    UNION ALL SELECT 'receipt_origin', id, receipt_sha256, NULL, repository, path, commit, committed_at,
           created_at FROM placed
    UNION ALL SELECT 'image_identity', id, receipt_sha256, axis, NULL, NULL, NULL, NULL, NULL FROM said
    """
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A row that is new: of `view`, of the receipt `sha256`; `axis` of an identity, the rest of a place."""

    view: str
    id: UUID | None
    sha256: str
    axis: str | None
    place: "KeptPlace | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPlace:
    """Where a receipt stood."""

    receipt_sha256: str
    repository: str
    path: str
    commit: str
    committed_at: datetime | None
    created_at: datetime


def keep(session: Session, *, rows: Sequence[JsonObject], documents: Sequence[bytes], by: str) -> list[Kept]:
    """Keep documents with their index, places and identities; what is there already is left as it is.

    Args: rows: the columns of a receipt; `origin`: those of its place, or None; `axes`: axis to value and its
        digest.

    Returns: the rows that are new.
    """
    given = {"rows": encode_canonical([*rows]).decode(), "documents": list(documents), "by": by}
    return [
        Kept(view=one.view, id=one.id, sha256=one.sha256, axis=one.axis, place=_place(one))
        for one in session.connection().execute(_KEEP, given)
    ]


def _place(row: Row[Any]) -> KeptPlace | None:
    if row.view != "receipt_origin":
        return None
    return KeptPlace(
        receipt_sha256=row.sha256,
        repository=row.repository,
        path=row.path,
        commit=row.commit,
        committed_at=row.committed_at,
        created_at=row.created_at,
    )


def places_of(session: Session, *, digests: Iterable[str]) -> list[KeptPlace]:
    """Where these receipts stood, oldest first."""
    found = session.connection().execute(_PLACES, {"digests": list(digests)})
    return [KeptPlace(**row._mapping) for row in found]


def around(
    session: Session, *, keys: Sequence[str], images: Sequence[str]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """As `under_keys`, and image → receipts that were first to say something of its identity."""
    asked, found, said = set(keys), dict[str, list[str]](), dict[str, list[str]]()
    given = {"keys": [*keys], "images": [*images], "most": _MOST_FOUND, "identities": _MOST_IDENTITIES}
    for sha256, held, image in session.connection().execute(_AROUND, given):
        if image is None:
            found.setdefault(sha256, []).extend(asked.intersection(held))
        else:
            said.setdefault(image, []).append(sha256)
    return found, said


def under_keys(session: Session, *, keys: Sequence[str]) -> dict[str, list[str]]:
    """Receipt → those of the keys that it, or a place it stood in, carries."""
    asked, found = set(keys), dict[str, list[str]]()
    for sha256, held in session.execute(_UNDER, {"keys": list(keys), "most": _MOST_FOUND}) if keys else ():
        found.setdefault(sha256, []).extend(asked.intersection(held))
    return found


def every_under_keys(session: Session, *, keys: Sequence[str]) -> dict[str, set[str]]:
    """Key → every receipt that carries it, or stood in a place that does."""
    found: dict[str, set[str]] = {key: set() for key in keys}
    for sha256, held in session.connection().execute(_EVERY_UNDER, {"keys": [*found]}) if keys else ():
        for key in found.keys() & held:
            found[key].add(sha256)
    return found


def keys_of(session: Session, *, digests: Sequence[str]) -> dict[str, list[str]]:
    """The keys of these receipts."""
    query = select(ReceiptRow.sha256, ReceiptRow.keys).where(ReceiptRow.sha256.in_(digests))
    return {row.sha256: row.keys for row in session.execute(query)} if digests else {}


def with_two_values(session: Session, *, axes: Sequence[tuple[str, str]]) -> set[str]:
    """Those of the images (image, axis) that have more than one value on that axis."""
    given = {"images": [image for image, _ in axes], "axes": [axis for _, axis in axes]}
    return set(session.connection().execute(_TWO_VALUES, given).scalars())


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
