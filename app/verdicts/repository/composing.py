"""SQL of judging: what is newest, what a scope's verdict is made of, and new verdicts written.

As text and past the ORM: every receipt asks all of it, and building a question costs more than asking it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.core.canonical_json import JsonObject, encode_canonical
from app.core.qualify.composition import MOST_OF_A_SAYING, MOST_SAYINGS
from app.db.together import Question, ask_together
from app.models import VerdictCurrent, VerdictRow

_NEWEST_COLUMNS: Final = (
    "subject_key, verdict_id, document_sha256, kind, receipt_sha256, composes, scope_digest, capability"
)
_OF_RECEIPTS: Final = (
    f"SELECT {_NEWEST_COLUMNS} FROM verdict_current "
    "WHERE receipt_sha256 = ANY(CAST(%(digests)s AS char(64)[]))"
)
# The sayings of a scope by jumps from one to the next, then the first receipts of each: what is read does not
# grow with the receipts of a scope.
_CASES: Final = """
    SELECT asked.scope AS scope_digest, asked.capability, one.*
      FROM unnest(CAST(%(scopes)s AS char(64)[]), CAST(%(capabilities)s AS text[]))
           AS asked (scope, capability)
     CROSS JOIN LATERAL (
        WITH RECURSIVE said (saying) AS (
          (SELECT saying FROM verdict_current
            WHERE composes AND scope_digest = asked.scope AND capability = asked.capability
              AND (superseded_by IS NOT NULL) = {superseded} ORDER BY saying LIMIT 1)
          UNION ALL
          (SELECT later.saying FROM said CROSS JOIN LATERAL (
             SELECT saying FROM verdict_current
              WHERE composes AND scope_digest = asked.scope AND capability = asked.capability
                AND (superseded_by IS NOT NULL) = {superseded} AND saying > said.saying
              ORDER BY saying LIMIT 1) AS later)
        )
        SELECT first.* FROM (SELECT saying FROM said LIMIT %(sayings)s) AS said CROSS JOIN LATERAL (
          SELECT verdict_id, receipt_sha256, superseded_by FROM verdict_current
           WHERE composes AND scope_digest = asked.scope AND capability = asked.capability
             AND (superseded_by IS NOT NULL) = {superseded} AND saying = said.saying
           ORDER BY receipt_sha256, verdict_id LIMIT %(most)s) AS first
     ) AS one
"""
_SUPERSEDED: Final = f"SELECT * FROM ({_CASES.format(superseded='true')}) AS cases ORDER BY 1, 2, 4, 3"
_NOW: Final = f"""
    SELECT NULL AS subject_key, verdict_id, NULL AS document_sha256, NULL AS kind, receipt_sha256,
           true AS composes, scope_digest, capability, superseded_by
      FROM ({_CASES.format(superseded="false")}) AS cases
    UNION ALL
    SELECT {_NEWEST_COLUMNS}, NULL FROM verdict_current WHERE subject_key = ANY(CAST(%(keys)s AS char(64)[]))
    ORDER BY scope_digest, capability, receipt_sha256, verdict_id
"""
_ROW: Final = tuple(
    one.name for one in VerdictRow.__table__.columns if one.name not in ("document", "created_at")
)
_LINE: Final = {
    **{
        one.name: f"given.{one.name}"
        for one in VerdictCurrent.__table__.columns
        if one.name in VerdictRow.__table__.columns
    },
    "verdict_id": "given.id",
    "created_at": "at",
    "composes": "(value->>'composes')::boolean",
    "saying": "value->>'saying'",
    "terms": "ARRAY(SELECT jsonb_array_elements_text(value->'terms'))",
    "words": "to_tsvector('simple', value->>'words')",
}
_ADD: Final = f"""
    WITH given AS MATERIALIZED (
      SELECT one.*, told.value, told.bytes, clock.at
        FROM (SELECT clock_timestamp() AS at) AS clock, ROWS FROM (
               jsonb_array_elements(CAST(%(rows)s AS jsonb)), unnest(CAST(%(documents)b AS bytea[]))
             ) AS told (value, bytes), jsonb_populate_record(NULL::verdict, value) AS one
    ), made AS (
      INSERT INTO verdict ({", ".join(_ROW)}, document, created_at)
      SELECT {", ".join(f"given.{name}" for name in _ROW)}, bytes, at FROM given
    ), judged AS (
      DELETE FROM image_unjudged
       WHERE config_id IN (SELECT given.image_config_id FROM given WHERE given.kind = 'scope')
    )
    INSERT INTO verdict_current ({", ".join(_LINE)}) SELECT {", ".join(_LINE.values())} FROM given
    ON CONFLICT (subject_key) DO UPDATE SET
      {", ".join(f"{name} = excluded.{name}" for name in _LINE if name != "subject_key")}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """The newest verdict of a subject, as far as judging needs it."""

    verdict_id: UUID
    document_sha256: str
    kind: str
    receipt_sha256: str | None
    composes: bool
    scope_digest: str
    capability: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingCase:
    """A newest verdict that takes part in the verdict of its scope (digest, capability)."""

    scope: tuple[str, str]
    verdict_id: UUID
    receipt: str
    superseded_by: str | None


def currents_question(digests: Sequence[str]) -> Question:
    """The newest verdicts about these receipts and their cases."""
    return Question(sql=_OF_RECEIPTS, given={"digests": list(digests)})


def currents(found: Iterable[Any]) -> dict[str, Newest]:
    """The answer to `currents_question` by the key of each."""
    return {row.subject_key: _newest(row) for row in found}


def now_question(*, scopes: Sequence[tuple[str, str]], keys: Iterable[str]) -> Question:
    """The newest verdicts about scopes by their keys, and what takes part in each and stands, by receipt.

    Of each saying (`app/core/qualify/composition.py`) the first `MOST_OF_A_SAYING` by digest.
    """
    return Question(sql=_NOW, given={**_asked(scopes), "keys": list(keys)})


def now(found: Iterable[Any]) -> tuple[dict[str, Newest], list[StandingCase]]:
    """The answer to `now_question`."""
    before, standing = {}, []
    for row in found:
        if row.subject_key is None:
            standing.append(_case(row))
        else:
            before[row.subject_key] = _newest(row)
    return before, standing


def superseded_cases(session: Session, *, scopes: Sequence[tuple[str, str]]) -> list[StandingCase]:
    """What takes part in scopes and no longer stands, by receipt; bounded as `now_question`."""
    (found,) = ask_together(session, Question(sql=_SUPERSEDED, given=_asked(scopes)))
    return [_case(row) for row in found]


def add_question(*, rows: Sequence[JsonObject], documents: Sequence[bytes]) -> Question:
    """Add rows, no two of one subject, and have them be the newest of their keys.

    Args: rows: columns of a verdict, and of its line in the lists what a verdict does not have.
    """
    given = {"rows": encode_canonical([*rows]).decode(), "documents": list(documents)}
    return Question(sql=_ADD, given=given)


def _asked(scopes: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "scopes": [digest for digest, _ in scopes],
        "capabilities": [capability for _, capability in scopes],
        "most": MOST_OF_A_SAYING,
        "sayings": MOST_SAYINGS,
    }


def _newest(row: Any) -> Newest:
    return Newest(
        verdict_id=row.verdict_id,
        document_sha256=row.document_sha256,
        kind=row.kind,
        receipt_sha256=row.receipt_sha256,
        composes=row.composes,
        scope_digest=row.scope_digest,
        capability=row.capability,
    )


def _case(row: Any) -> StandingCase:
    return StandingCase(
        scope=(row.scope_digest, row.capability),
        verdict_id=row.verdict_id,
        receipt=row.receipt_sha256,
        superseded_by=row.superseded_by,
    )
