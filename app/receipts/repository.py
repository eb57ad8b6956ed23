"""SQL of receipts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ARRAY, Select, TableValuedAlias, Text, bindparam, column, func, literal, select, tuple_
from sqlalchemy.orm import Session, defer, selectinload

from app.core.canonical_json import JsonObject, encode_canonical
from app.core.qualify.facts import Capability, Kind
from app.db.together import Question, ask_together
from app.models import ReceiptRow
from app.web.paging import COUNTED, Cursor, Total, count_rows

# So many receipts under one key are looked at; what a key finds is few but for an attack.
_MOST_FOUND: Final = 5000
# So many values on all axes of an image's identity are looked at.
_MOST_IDENTITIES: Final = 200
# Of so many of them the places are told at once.
_MOST_PLACED: Final = 64
# Put together once: for a few rows that costs more than asking.
_RECEIPT: Final = (
    select(ReceiptRow)
    .where(ReceiptRow.sha256 == bindparam("sha256"))
    .options(defer(ReceiptRow.document), selectinload(ReceiptRow.origins))
)
_DOCUMENTS: Final = select(ReceiptRow.sha256, ReceiptRow.document).where(
    ReceiptRow.sha256.in_(bindparam("digests", expanding=True))
)
# A look-up by index for each key: asked for all at once the planner expects to find a hundredth of all
# receipts, and starts processes beside, or reads them all. Without an order: to find a few in one it may walk
# the list of all receipts.
_UNDER: Final = """
    (SELECT asked.key, one.sha256 FROM unnest(CAST(%(keys)s AS text[])) AS asked (key) CROSS JOIN LATERAL (
       SELECT sha256 FROM receipt WHERE keys @> ARRAY[asked.key] LIMIT %(most)s) AS one LIMIT %(most)s)
    UNION ALL
    (SELECT asked.key, one.sha256 FROM unnest(CAST(%(keys)s AS text[])) AS asked (key) CROSS JOIN LATERAL (
       SELECT receipt_sha256 AS sha256 FROM receipt_origin WHERE keys @> ARRAY[asked.key] LIMIT %(most)s
     ) AS one LIMIT %(most)s)
"""
# The same, who was first to say something of these images' identity, and where the first of all these stood.
_AROUND: Final = f"""
    WITH found AS MATERIALIZED ({_UNDER}), said AS MATERIALIZED (
      SELECT asked.image, one.sha256, row_number() OVER () AS place
        FROM unnest(CAST(%(images)s AS text[])) AS asked (image) CROSS JOIN LATERAL (
          SELECT receipt_sha256 AS sha256 FROM image_identity
           WHERE image_config_id = CAST(asked.image AS char(64)) ORDER BY created_at, id LIMIT %(identities)s
        ) AS one
    ), near AS MATERIALIZED (
      SELECT sha256 FROM found UNION SELECT sha256 FROM said LIMIT %(placed)s
    )
    SELECT key, NULL AS image, sha256, NULL AS repository, NULL AS path, NULL AS commit,
           NULL::timestamptz AS committed_at, NULL::timestamptz AS created_at, 0 AS place FROM found
    UNION ALL
    SELECT NULL, image, sha256, NULL, NULL, NULL, NULL, NULL, place FROM said
    UNION ALL
    SELECT NULL, NULL, near.sha256, stood.repository, stood.path, stood.commit, stood.committed_at,
           stood.created_at, coalesce(stood.place, 0)
      FROM near LEFT JOIN LATERAL (
        SELECT repository, path, commit, committed_at, created_at,
               row_number() OVER (ORDER BY created_at, id) AS place
          FROM receipt_origin WHERE receipt_sha256 = near.sha256 OFFSET 0
      ) AS stood ON true
"""
_EVERY_UNDER: Final = """
    SELECT asked.key, one.sha256 FROM unnest(CAST(%(keys)s AS text[])) AS asked (key) CROSS JOIN LATERAL (
      SELECT sha256 FROM receipt WHERE keys @> ARRAY[asked.key]
       UNION ALL SELECT receipt_sha256 FROM receipt_origin WHERE keys @> ARRAY[asked.key] OFFSET 0
    ) AS one
"""
_PLACES: Final = (
    "SELECT receipt_sha256, repository, path, commit, committed_at, created_at FROM receipt_origin "
    "WHERE receipt_sha256 = ANY(CAST(%(digests)s AS char(64)[])) ORDER BY created_at, id"
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
_KEEP: Final = f"""
    WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
    given AS (
      SELECT place, told, document FROM ROWS FROM (
        jsonb_array_elements(CAST(%(rows)s AS jsonb)), unnest(CAST(%(documents)b AS bytea[]))
      ) WITH ORDINALITY AS given (told, document, place)
    ), kept AS (
      INSERT INTO receipt ({", ".join(_COLUMNS)}, document, created_at, created_by)
      SELECT {", ".join(f"one.{name}" for name in _COLUMNS)}, given.document,
             at + place * interval '1 microsecond', %(by)s
        FROM clock, given, jsonb_populate_record(NULL::receipt, told) AS one ORDER BY place
      ON CONFLICT (sha256) DO NOTHING RETURNING sha256
    ), placed AS (
      INSERT INTO receipt_origin
             (id, receipt_sha256, repository, path, commit, committed_at, keys, created_at, created_by)
      SELECT gen_random_uuid(), told->>'sha256', one.repository, one.path, one.commit, one.committed_at,
             one.keys, at + place * interval '1 microsecond', %(by)s
        FROM clock, given, jsonb_populate_record(NULL::receipt_origin, told->'origin') AS one
       WHERE jsonb_typeof(told->'origin') = 'object' ORDER BY place
      ON CONFLICT DO NOTHING RETURNING id, receipt_sha256, repository, path, commit, committed_at, created_at
    ), said AS (
      INSERT INTO image_identity (id, image_config_id, axis, value, value_sha256, receipt_sha256, created_at)
      SELECT gen_random_uuid(), told->>'image_config_id', axis.key, axis.value->>0, axis.value->>1,
             told->>'sha256', at + place * interval '1 microsecond'
        FROM clock, given, jsonb_each(told->'axes') AS axis
       WHERE told->>'sha256' IN (SELECT sha256 FROM kept) ORDER BY told->>'sha256'
      ON CONFLICT DO NOTHING RETURNING id, receipt_sha256, image_config_id, axis
    )
    SELECT 'receipt' AS view, NULL::uuid AS id, sha256, NULL AS axis, false AS is_second, NULL AS repository,
           NULL AS path, NULL AS commit, NULL::timestamptz AS committed_at, NULL::timestamptz AS created_at
      FROM kept
    UNION ALL SELECT 'receipt_origin', id, receipt_sha256, NULL, false, repository, path, commit,
           committed_at, created_at FROM placed
    UNION ALL SELECT 'image_identity', id, receipt_sha256, axis,
           min(receipt_sha256) OVER (PARTITION BY image_config_id)
             < max(receipt_sha256) OVER (PARTITION BY image_config_id) OR EXISTS (
             SELECT FROM image_identity AS held WHERE held.image_config_id = said.image_config_id),
           NULL, NULL, NULL, NULL, NULL FROM said
"""
_LOCK: Final = (
    "SELECT CASE WHEN shared THEN pg_advisory_xact_lock_shared(%(stage)s, number) "
    "ELSE pg_advisory_xact_lock(%(stage)s, number) END FROM ("
    "SELECT number, shared FROM unnest(CAST(%(numbers)s AS integer[]), CAST(%(shared)s AS boolean[])) "
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


def get_receipt(session: Session, *, sha256: str) -> ReceiptRow | None:
    """A receipt without its bytes, with its origins."""
    return session.scalars(_RECEIPT, {"sha256": sha256}).one_or_none()


def documents(session: Session, *, digests: Iterable[str]) -> dict[str, bytes]:
    """The bytes of these receipts."""
    return {row.sha256: row.document for row in session.execute(_DOCUMENTS, {"digests": list(digests)})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A row that is new: of `view`, of the receipt `sha256`; `axis` of an identity, and whether another
    document says something of its image's too, on whatever axis; `place` of an origin."""

    view: str
    id: UUID | None
    sha256: str
    axis: str | None
    is_second: bool
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """Receipts found around others.

    Attributes:
        under: key → the receipts that carry it, or stood in a place that does.
        said: image → receipts that were first to say something of its identity, the first of them first.
        places: where the first few of all these stood, oldest first.
    """

    under: dict[str, set[str]]
    said: dict[str, list[str]]
    places: dict[str, list[KeptPlace]]


def keep_question(*, rows: Sequence[JsonObject], documents: Sequence[bytes], by: str) -> Question:
    """Keep documents with their index, places and identities; what is there already is left as it is.

    Args: rows: the columns of a receipt; `origin`: those of its place, or None; `axes`: axis to value and its
        digest.
    """
    given = {"rows": encode_canonical([*rows]).decode(), "documents": list(documents), "by": by}
    return Question(sql=_KEEP, given=given)


def kept(found: Iterable[Any]) -> list[Kept]:
    """The rows that are new, from the answer to `keep_question`."""
    return [
        Kept(
            view=one.view,
            id=one.id,
            sha256=one.sha256,
            axis=one.axis,
            is_second=one.is_second,
            place=_place(one) if one.view == "receipt_origin" else None,
        )
        for one in found
    ]


def _place(row: Any) -> KeptPlace:
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
    (found,) = ask_together(session, Question(sql=_PLACES, given={"digests": list(digests)}))
    return [KeptPlace(**row._asdict()) for row in found]


def near_question(*, keys: Sequence[str], images: Sequence[str]) -> Question:
    """Who carries one of these keys, and who was first to say something of these images' identity."""
    given = {
        "keys": [*keys],
        "images": [*images],
        "most": _MOST_FOUND,
        "identities": _MOST_IDENTITIES,
        "placed": _MOST_PLACED,
    }
    return Question(sql=_AROUND, given=given)


def near(found: Iterable[Any]) -> Near:
    """The answer to `near_question`; what nothing was found for is left out."""
    told = Near(under={}, said={}, places={})
    for row in sorted(found, key=attrgetter("place")):
        if row.key is not None:
            told.under.setdefault(row.key, set()).add(row.sha256)
        elif row.image is not None:
            told.said.setdefault(row.image, []).append(row.sha256)
        else:
            stood = told.places.setdefault(row.sha256, [])
            if row.created_at is not None:
                stood.append(_place(row))
    return told


def under_keys(session: Session, *, keys: Sequence[str]) -> dict[str, set[str]]:
    """Key → the receipts that carry it, or stood in a place that does: so many as are looked at."""
    if not keys:
        return {}
    (found,) = ask_together(session, Question(sql=_UNDER, given={"keys": [*keys], "most": _MOST_FOUND}))
    return _by_key(found)


def every_question(*, keys: Sequence[str]) -> Question:
    """As `under_keys`, every receipt."""
    return Question(sql=_EVERY_UNDER, given={"keys": [*keys]})


def every_under(found: Iterable[Any]) -> dict[str, set[str]]:
    """The answer to `every_question`."""
    return _by_key(found)


def _by_key(found: Iterable[Any]) -> dict[str, set[str]]:
    per_key: dict[str, set[str]] = {}
    for row in found:
        per_key.setdefault(row.key, set()).add(row.sha256)
    return per_key


def keys_of(session: Session, *, digests: Sequence[str]) -> dict[str, list[str]]:
    """The keys of these receipts."""
    query = select(ReceiptRow.sha256, ReceiptRow.keys).where(ReceiptRow.sha256.in_(digests))
    return {row.sha256: row.keys for row in session.execute(query)} if digests else {}


def list_receipts(
    session: Session, *, wanted: ReceiptFilter, after: Cursor | None, limit: int
) -> list[ReceiptRow]:
    query = _newest_first(wanted, after=after, limit=limit)
    query = query.options(defer(ReceiptRow.document), selectinload(ReceiptRow.origins))
    return list(session.scalars(query.limit(limit)))


def count_receipts(session: Session, *, wanted: ReceiptFilter) -> Total:
    return count_rows(session, _newest_first(wanted, after=None, limit=COUNTED + 1))


def has_any(session: Session, *, digests: Sequence[str]) -> set[str]:
    """Those of the digests that are receipts."""
    return set(session.scalars(select(ReceiptRow.sha256).where(ReceiptRow.sha256.in_(digests))))


def lock_question(*, stage: int, names: Sequence[tuple[int, bool]]) -> Question:
    """Advisory locks (number, whether shared) until the transaction ends, taken in the order given."""
    given = {"stage": stage, "numbers": [one for one, _ in names], "shared": [one for _, one in names]}
    return Question(sql=_LOCK, given=given)


def _newest_first(wanted: ReceiptFilter, *, after: Cursor | None, limit: int) -> Select[Any]:
    if wanted.schema_name is not None and (wanted.kind is not None or wanted.capability is not None):
        newest = _newest_of_schema(wanted, after=after, limit=limit).subquery()
        query = select(ReceiptRow).join(newest, newest.c.sha256 == ReceiptRow.sha256)
        return query.order_by(newest.c.created_at.desc(), newest.c.sha256.desc())
    return _ordered(select(ReceiptRow), wanted=wanted, after=after)


def _newest_of_schema(wanted: ReceiptFilter, *, after: Cursor | None, limit: int) -> Select[Any]:
    """The newest of each kind and capability asked for, by the index that has those in order, then the newest
    of all: a schema mostly has one kind, and of another the planner would look for rows that are not there.
    """
    kinds = _given([wanted.kind] if wanted.kind else [*Kind], name="kinds")
    capabilities = _given([wanted.capability] if wanted.capability else [*Capability], name="capabilities")
    of_one = select(ReceiptRow.sha256, ReceiptRow.created_at).where(
        ReceiptRow.kind == kinds.c.value, ReceiptRow.capability == capabilities.c.value
    )
    rest = replace(wanted, kind=None, capability=None)
    one = _ordered(of_one, wanted=rest, after=after).limit(limit).correlate(kinds, capabilities).lateral()
    query = select(one.c.sha256, one.c.created_at).select_from(kinds, capabilities, one)
    return query.order_by(one.c.created_at.desc(), one.c.sha256.desc()).limit(limit)


def _given(values: Sequence[str], *, name: str) -> TableValuedAlias:
    asked = literal([str(value) for value in values], ARRAY(Text))
    return func.unnest(asked).table_valued(column("value", Text), name=name).render_derived()


def _ordered(query: Select[*tuple[Any, ...]], *, wanted: ReceiptFilter, after: Cursor | None) -> Select[Any]:
    for name in ("image_config_id", "kind", "schema_name", "capability"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(getattr(ReceiptRow, name) == value)
    if wanted.text is not None:
        query = query.where(ReceiptRow.title.icontains(wanted.text, autoescape=True))
    if after is not None:
        query = query.where(tuple_(ReceiptRow.created_at, ReceiptRow.sha256) < (after.created_at, after.id))
    return query.order_by(ReceiptRow.created_at.desc(), ReceiptRow.sha256.desc())
