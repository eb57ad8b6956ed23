"""Receipts and verdicts in any number: what a verdict says but for places and values, so that a scope of any
size is judged from a few of them; an index for every filter; images of which nothing is known yet.

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


GIN = {"postgresql_using": "gin", "postgresql_with": {"fastupdate": "off"}}


def _index_words() -> None:
    for name in ("terms", "words"):
        op.drop_index(f"ix_verdict_current_{name}", "verdict_current")
        for index, kinds in ((name, "kind <> 'scope'"), (f"scope_{name}", "kind = 'scope'")):
            op.create_index(
                f"ix_verdict_current_{index}",
                "verdict_current",
                [name],
                unique=False,
                postgresql_where=kinds,
                **GIN,
            )


def _unindex_words() -> None:
    for name in ("terms", "words"):
        op.drop_index(f"ix_verdict_current_scope_{name}", "verdict_current")
        op.drop_index(f"ix_verdict_current_{name}", "verdict_current")
        op.create_index(f"ix_verdict_current_{name}", "verdict_current", [name], unique=False, **GIN)


UNJUDGED = """
INSERT INTO image_unjudged (image_id, config_id, created_at)
SELECT id, config_id, created_at FROM image WHERE NOT EXISTS (
  SELECT FROM verdict_current WHERE kind = 'scope' AND verdict_current.image_config_id = image.config_id)
"""


def _note_unjudged() -> None:
    op.create_table(
        "image_unjudged",
        sa.Column("image_id", sa.Uuid(), nullable=False),
        sa.Column("config_id", sa.CHAR(length=64), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["image.id"], name=op.f("fk_image_unjudged_image_id_image")),
        sa.PrimaryKeyConstraint("image_id", name=op.f("pk_image_unjudged")),
        sa.UniqueConstraint("config_id", name=op.f("uq_image_unjudged_config_id")),
    )
    op.create_index("ix_image_unjudged_created", "image_unjudged", ["created_at", "image_id"], unique=False)
    op.execute(UNJUDGED)


def upgrade() -> None:
    _index_words()
    _note_unjudged()
    op.create_index("ix_receipt_capability", "receipt", ["capability", "created_at", "sha256"], unique=False)
    op.create_index(
        "ix_receipt_kind_capability",
        "receipt",
        ["kind", "capability", "created_at", "sha256"],
        unique=False,
    )
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
    op.drop_table("image_unjudged")
    _unindex_words()
    op.drop_index("ix_receipt_kind_capability", "receipt")
    op.drop_index("ix_receipt_capability", "receipt")
    op.drop_index("ix_verdict_current_composes", "verdict_current")
    op.create_index(
        "ix_verdict_current_composes",
        "verdict_current",
        ["scope_digest", "capability", "outcome", "created_at"],
        unique=False,
        postgresql_where="composes",
    )
    op.drop_column("verdict_current", "saying")
