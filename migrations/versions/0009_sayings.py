"""What a verdict says but for places and values, so that a scope of any size is judged from a few of them.

Revision: 0009; revises: 0008
"""

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_PART = 500
_OUTCOMES = ("unsupported", "rejected", "qualified", "implemented", "research-only", "incomplete", "none")
_GRADES = ("demonstrated", "self-consistent", "attested", None)
_UNSAID = "SELECT verdict_id FROM verdict_current WHERE composes AND saying = '' LIMIT :part"
_DOCUMENTS = "SELECT id, document FROM verdict WHERE id = ANY(:ids)"
_SAY = (
    "UPDATE verdict_current SET saying = told.saying FROM unnest(CAST(:ids AS uuid[]), CAST(:said AS text[])) "
    "AS told (id, saying) WHERE verdict_current.verdict_id = told.id"
)


def _saying(document: dict[str, Any]) -> str:
    """As `app/core/qualify/composition.py` had it when this was written."""
    gates = [[one["gate"], one["state"], one["basis"], one["needed"]] for one in document["gates"]]
    names = sorted({one["code"] for one in document["findings"]})
    told = json.dumps(
        [document["row"], document["deployable_reason"], names, gates], separators=(",", ":"), sort_keys=True
    )
    outcome, grade = _OUTCOMES.index(document["outcome"]), _GRADES.index(document["evidence_grade"])
    digest = hashlib.sha256(told.encode()).hexdigest()
    return f"{outcome}{grade}{int(not document['deployable'])}{digest[:29]}"


def _say() -> None:
    bind = op.get_bind()
    while ids := list(bind.execute(sa.text(_UNSAID), {"part": _PART}).scalars()):
        rows = bind.execute(sa.text(_DOCUMENTS), {"ids": ids}).all()
        said = [_saying(json.loads(bytes(row.document))) for row in rows]
        bind.execute(sa.text(_SAY), {"ids": [row.id for row in rows], "said": said})


def upgrade() -> None:
    op.add_column("verdict_current", sa.Column("saying", sa.Text(), server_default="", nullable=False))
    _say()
    op.alter_column("verdict_current", "saying", server_default=None)
    op.drop_index("ix_verdict_current_composes", "verdict_current")
    op.create_index(
        "ix_verdict_current_composes",
        "verdict_current",
        [
            "scope_digest",
            "capability",
            sa.text("(superseded_by IS NOT NULL)"),
            "saying",
            "receipt_sha256",
            "verdict_id",
        ],
        unique=False,
        postgresql_where="composes",
    )


def downgrade() -> None:
    op.drop_index("ix_verdict_current_composes", "verdict_current")
    op.create_index(
        "ix_verdict_current_composes",
        "verdict_current",
        ["scope_digest", "capability", "outcome", "created_at"],
        unique=False,
        postgresql_where="composes",
    )
    op.drop_column("verdict_current", "saying")
