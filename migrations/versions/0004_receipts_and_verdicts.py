"""Receipts, verdicts, declarations; what a restore is for, and the receipt written of it.

Revision: 0004; revises: 0003
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

GIN = {"postgresql_using": "gin", "postgresql_with": {"fastupdate": "off"}}


def _create_receipts() -> None:
    op.create_table(
        "receipt",
        sa.Column("sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("document", postgresql.BYTEA(), nullable=False),
        sa.Column("canonical_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("byte_count", sa.BigInteger(), nullable=False),
        sa.Column("schema_name", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("capability", sa.Text(), nullable=False),
        sa.Column("image_config_id", sa.CHAR(length=64), nullable=True),
        sa.Column("release", sa.Text(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("keys", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_receipt")),
    )
    op.create_index("ix_receipt_canonical", "receipt", ["canonical_sha256"], unique=False)
    op.create_index("ix_receipt_created", "receipt", ["created_at", "sha256"], unique=False)
    op.create_index("ix_receipt_image", "receipt", ["image_config_id", "created_at", "sha256"], unique=False)
    op.create_index("ix_receipt_keys", "receipt", ["keys"], unique=False, **GIN)
    op.create_index("ix_receipt_kind", "receipt", ["kind", "created_at", "sha256"], unique=False)
    op.create_index("ix_receipt_schema", "receipt", ["schema_name", "created_at", "sha256"], unique=False)
    op.create_table(
        "image_identity",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("image_config_id", sa.CHAR(length=64), nullable=False),
        sa.Column("axis", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("value_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("receipt_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["receipt_sha256"], ["receipt.sha256"], name=op.f("fk_image_identity_receipt_sha256_receipt")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_image_identity")),
        sa.UniqueConstraint(
            "image_config_id",
            "axis",
            "value_sha256",
            name=op.f("uq_image_identity_image_config_id_axis_value_sha256"),
        ),
    )
    op.create_table(
        "receipt_origin",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("receipt_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("repository", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("commit", sa.Text(), nullable=False),
        sa.Column("committed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("keys", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["receipt_sha256"], ["receipt.sha256"], name=op.f("fk_receipt_origin_receipt_sha256_receipt")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_receipt_origin")),
        sa.UniqueConstraint(
            "receipt_sha256",
            "repository",
            "path",
            "commit",
            name=op.f("uq_receipt_origin_receipt_sha256_repository_path_commit"),
        ),
    )
    op.create_index("ix_receipt_origin_keys", "receipt_origin", ["keys"], unique=False, **GIN)


def _create_verdicts() -> None:
    op.create_table(
        "verdict",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject_key", sa.CHAR(length=64), nullable=False),
        sa.Column("receipt_sha256", sa.CHAR(length=64), nullable=True),
        sa.Column("case_name", sa.Text(), nullable=False),
        sa.Column("capability", sa.Text(), nullable=False),
        sa.Column("scope_digest", sa.CHAR(length=64), nullable=False),
        sa.Column("image_config_id", sa.CHAR(length=64), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("draft", sa.Text(), nullable=False),
        sa.Column("tp", sa.Text(), nullable=False),
        sa.Column("dcp", sa.Text(), nullable=False),
        sa.Column("publication_schema", sa.Text(), nullable=False),
        sa.Column("manifest_schema", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("decided_row", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("deployable", sa.Boolean(), nullable=False),
        sa.Column("deployable_reason", sa.Text(), nullable=False),
        sa.Column("evidence_grade", sa.Text(), nullable=True),
        sa.Column("deployable_grade", sa.Text(), nullable=False),
        sa.Column("codes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("finding_codes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("gates", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("document", postgresql.BYTEA(), nullable=False),
        sa.Column("document_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("ruleset", sa.CHAR(length=64), nullable=False),
        sa.Column("receipts", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("superseded_by", sa.CHAR(length=64), nullable=True),
        sa.Column("previous_id", sa.Uuid(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("cause_detail", sa.Text(), nullable=False),
        sa.Column("cause_receipt", sa.CHAR(length=64), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "(kind = 'scope') = (receipt_sha256 IS NULL)", name=op.f("ck_verdict_receipt_fits_kind")
        ),
        sa.CheckConstraint("kind IN ('case','receipt','scope')", name=op.f("ck_verdict_kind_is_known")),
        sa.CheckConstraint(
            "outcome IN ('qualified','rejected','research-only','implemented','unsupported','incomplete','none')",
            name=op.f("ck_verdict_outcome_is_known"),
        ),
        sa.ForeignKeyConstraint(["previous_id"], ["verdict.id"], name=op.f("fk_verdict_previous_id_verdict")),
        sa.ForeignKeyConstraint(
            ["receipt_sha256"], ["receipt.sha256"], name=op.f("fk_verdict_receipt_sha256_receipt")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdict")),
        sa.UniqueConstraint("previous_id", name=op.f("uq_verdict_previous_id")),
    )
    op.create_index("ix_verdict_created", "verdict", ["kind", "created_at", "id"], unique=False)
    op.create_index("ix_verdict_degrees", "verdict", ["kind", "tp", "dcp", "created_at", "id"], unique=False)
    op.create_index(
        "ix_verdict_deployable", "verdict", ["kind", "deployable", "created_at", "id"], unique=False
    )
    op.create_index("ix_verdict_history", "verdict", ["subject_key", "created_at", "id"], unique=False)
    op.create_index(
        "ix_verdict_image", "verdict", ["image_config_id", "kind", "created_at", "id"], unique=False
    )
    op.create_index("ix_verdict_outcome", "verdict", ["kind", "outcome", "created_at", "id"], unique=False)
    op.create_index("ix_verdict_receipt", "verdict", ["receipt_sha256"], unique=False)
    op.create_index(
        "ix_verdict_topology", "verdict", ["kind", "tp", "dcp", "outcome", "created_at", "id"], unique=False
    )


def _create_current() -> None:
    op.create_table(
        "verdict_current",
        sa.Column("subject_key", sa.CHAR(length=64), nullable=False),
        sa.Column("verdict_id", sa.Uuid(), nullable=False),
        sa.Column("document_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("receipt_sha256", sa.CHAR(length=64), nullable=True),
        sa.Column("composes", sa.Boolean(), nullable=False),
        sa.Column("capability", sa.Text(), nullable=False),
        sa.Column("scope_digest", sa.CHAR(length=64), nullable=False),
        sa.Column("image_config_id", sa.CHAR(length=64), nullable=True),
        sa.Column("tp", sa.Text(), nullable=False),
        sa.Column("dcp", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("deployable", sa.Boolean(), nullable=False),
        sa.Column("evidence_grade", sa.Text(), nullable=True),
        sa.Column("deployable_grade", sa.Text(), nullable=False),
        sa.Column("superseded_by", sa.CHAR(length=64), nullable=True),
        sa.Column("ruleset", sa.CHAR(length=64), nullable=False),
        sa.Column("terms", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("words", postgresql.TSVECTOR(), nullable=False),
        sa.ForeignKeyConstraint(
            ["verdict_id"], ["verdict.id"], name=op.f("fk_verdict_current_verdict_id_verdict")
        ),
        sa.PrimaryKeyConstraint("subject_key", name=op.f("pk_verdict_current")),
        sa.UniqueConstraint("verdict_id", name=op.f("uq_verdict_current_verdict_id")),
    )
    op.create_index(
        "ix_verdict_current_composes",
        "verdict_current",
        ["scope_digest", "capability", "outcome", "created_at"],
        unique=False,
        postgresql_where="composes",
    )
    op.create_index(
        "ix_verdict_current_created", "verdict_current", ["kind", "created_at", "verdict_id"], unique=False
    )
    op.create_index(
        "ix_verdict_current_degrees",
        "verdict_current",
        ["kind", "tp", "dcp", "created_at", "verdict_id"],
        unique=False,
    )
    op.create_index(
        "ix_verdict_current_deployable",
        "verdict_current",
        ["kind", "deployable", "created_at", "verdict_id"],
        unique=False,
    )
    op.create_index(
        "ix_verdict_current_image",
        "verdict_current",
        ["image_config_id", "kind", "created_at", "verdict_id"],
        unique=False,
    )
    op.create_index(
        "ix_verdict_current_outcome",
        "verdict_current",
        ["kind", "outcome", "created_at", "verdict_id"],
        unique=False,
    )
    op.create_index("ix_verdict_current_receipt", "verdict_current", ["receipt_sha256"], unique=False)
    op.create_index(
        "ix_verdict_current_ruleset",
        "verdict_current",
        ["ruleset", "deployable_grade", "receipt_sha256"],
        unique=False,
    )
    op.create_index("ix_verdict_current_terms", "verdict_current", ["terms"], unique=False, **GIN)
    op.create_index(
        "ix_verdict_current_topology",
        "verdict_current",
        ["kind", "tp", "dcp", "outcome", "created_at", "verdict_id"],
        unique=False,
    )
    op.create_index("ix_verdict_current_words", "verdict_current", ["words"], unique=False, **GIN)


def _create_words_of_people() -> None:
    op.create_table(
        "declaration",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("receipts", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("capability", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_declaration")),
    )
    op.create_index("ix_declaration_created", "declaration", ["created_at", "id"], unique=False)
    op.create_index("ix_declaration_receipts", "declaration", ["receipts"], unique=False, **GIN)
    op.create_table(
        "operational_exception",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("image_config_id", sa.CHAR(length=64), nullable=False),
        sa.Column("scope_digest", sa.CHAR(length=64), nullable=False),
        sa.Column("scope", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.CheckConstraint("expires_at > created_at", name=op.f("ck_operational_exception_it_ends")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operational_exception")),
    )
    op.create_index(
        "ix_operational_exception_created", "operational_exception", ["created_at", "id"], unique=False
    )
    op.create_index(
        "ix_operational_exception_image",
        "operational_exception",
        ["image_config_id", "scope_digest", "expires_at"],
        unique=False,
    )


def _extend_restores() -> None:
    op.add_column("restore", sa.Column("purpose", sa.Text(), server_default="qualification", nullable=False))
    op.add_column("restore", sa.Column("image_config_id", sa.CHAR(length=64), nullable=True))
    op.add_column("restore", sa.Column("allowed_by_verdict_id", sa.Uuid(), nullable=True))
    op.add_column("restore", sa.Column("allowed_by_exception_id", sa.Uuid(), nullable=True))
    op.add_column("restore", sa.Column("receipt_sha256", sa.CHAR(length=64), nullable=True))
    op.add_column("restore", sa.Column("receipt_problem", sa.Text(), nullable=True))
    op.create_index(
        "ix_restore_unwritten",
        "restore",
        ["created_at", "id"],
        unique=False,
        postgresql_where="outcome IS NOT NULL AND receipt_sha256 IS NULL AND receipt_problem IS NULL",
    )
    op.create_unique_constraint(op.f("uq_restore_receipt_sha256"), "restore", ["receipt_sha256"])
    op.create_foreign_key(
        op.f("fk_restore_allowed_by_verdict_id_verdict"),
        "restore",
        "verdict",
        ["allowed_by_verdict_id"],
        ["id"],
    )
    op.create_foreign_key(
        op.f("fk_restore_allowed_by_exception_id_operational_exception"),
        "restore",
        "operational_exception",
        ["allowed_by_exception_id"],
        ["id"],
    )
    op.create_foreign_key(
        op.f("fk_restore_receipt_sha256_receipt"), "restore", "receipt", ["receipt_sha256"], ["sha256"]
    )
    op.create_check_constraint(
        op.f("ck_restore_purpose_is_known"), "restore", "purpose IN ('qualification','operational')"
    )


def upgrade() -> None:
    _create_receipts()
    _create_verdicts()
    _create_current()
    _create_words_of_people()
    _extend_restores()


def downgrade() -> None:
    op.drop_constraint(op.f("ck_restore_purpose_is_known"), "restore", type_="check")
    op.drop_index("ix_restore_unwritten", table_name="restore")
    for name in (
        "receipt_problem",
        "receipt_sha256",
        "allowed_by_exception_id",
        "allowed_by_verdict_id",
        "image_config_id",
        "purpose",
    ):
        op.drop_column("restore", name)
    for name in (
        "operational_exception",
        "declaration",
        "verdict_current",
        "verdict",
        "receipt_origin",
        "image_identity",
        "receipt",
    ):
        op.drop_table(name)
