"""Evidence bundles: what was asked for, and what became of it.

Revision: 0006; revises: 0005
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# The request never changes, its result is written once, and nothing comes back once it is given up.
FINAL = """
CREATE FUNCTION evidence_export_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.id, OLD.created_at, OLD.created_by, OLD.period_from, OLD.period_until, OLD.image_config_ids,
        OLD.tp, OLD.dcp, OLD.first_index, OLD.ledger_size)
       IS DISTINCT FROM
       (NEW.id, NEW.created_at, NEW.created_by, NEW.period_from, NEW.period_until, NEW.image_config_ids,
        NEW.tp, NEW.dcp, NEW.first_index, NEW.ledger_size) THEN
        RAISE EXCEPTION 'evidence export %: what was asked for is final', OLD.id;
    END IF;
    IF OLD.ended_at IS NOT NULL AND
       (OLD.ended_at, OLD.problem, OLD.bundle_sha256, OLD.bundle_bytes, OLD.manifest_sha256, OLD.contents)
       IS DISTINCT FROM
       (NEW.ended_at, NEW.problem, NEW.bundle_sha256, NEW.bundle_bytes, NEW.manifest_sha256, NEW.contents) THEN
        RAISE EXCEPTION 'evidence export %: its result is final', OLD.id;
    END IF;
    IF OLD.expired_at IS NOT NULL AND
       (OLD.expired_at, OLD.expired_by) IS DISTINCT FROM (NEW.expired_at, NEW.expired_by) THEN
        RAISE EXCEPTION 'evidence export %: its end is final', OLD.id;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER export_is_final BEFORE UPDATE ON evidence_export
    FOR EACH ROW EXECUTE FUNCTION evidence_export_is_final();
"""


def _instant(name: str) -> "sa.Column[object]":
    return sa.Column(name, sa.DateTime(timezone=True), nullable=True)


def upgrade() -> None:
    op.create_table(
        "evidence_export",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        _instant("period_from"),
        _instant("period_until"),
        sa.Column("image_config_ids", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("tp", sa.Text(), nullable=True),
        sa.Column("dcp", sa.Text(), nullable=True),
        sa.Column("first_index", sa.BigInteger(), nullable=False),
        sa.Column("ledger_size", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), server_default="waiting", nullable=False),
        sa.Column("progress", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("try_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=True),
        _instant("lease_expires_at"),
        _instant("started_at"),
        _instant("ended_at"),
        sa.Column("problem", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("bundle_sha256", sa.CHAR(length=64), nullable=True),
        sa.Column("bundle_bytes", sa.BigInteger(), nullable=True),
        sa.Column("manifest_sha256", sa.CHAR(length=64), nullable=True),
        sa.Column("contents", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        _instant("expired_at"),
        sa.Column("expired_by", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(bundle_sha256 IS NOT NULL) = (state IN ('finished','expired'))",
            name=op.f("ck_evidence_export_bundle_fits_state"),
        ),
        sa.CheckConstraint(
            "(ended_at IS NULL) = (state IN ('waiting','running'))",
            name=op.f("ck_evidence_export_end_fits_state"),
        ),
        sa.CheckConstraint(
            "(expired_at IS NULL) = (state <> 'expired')", name=op.f("ck_evidence_export_expiry_fits_state")
        ),
        sa.CheckConstraint(
            "(problem IS NOT NULL) = (state = 'failed')", name=op.f("ck_evidence_export_problem_fits_state")
        ),
        sa.CheckConstraint("(tp IS NULL) = (dcp IS NULL)", name=op.f("ck_evidence_export_topology_is_whole")),
        sa.CheckConstraint(
            "0 <= first_index AND first_index < ledger_size",
            name=op.f("ck_evidence_export_range_is_not_empty"),
        ),
        sa.CheckConstraint(
            "state IN ('waiting','running','finished','failed','expired')",
            name=op.f("ck_evidence_export_state_is_known"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evidence_export")),
    )
    op.create_index("ix_evidence_export_created", "evidence_export", ["created_at", "id"], unique=False)
    op.create_index(
        "ix_evidence_export_open",
        "evidence_export",
        ["created_at", "id"],
        unique=False,
        postgresql_where="state IN ('waiting','running')",
    )
    op.create_index(
        "ix_evidence_export_kept",
        "evidence_export",
        ["ended_at", "id"],
        unique=False,
        postgresql_where="state = 'finished'",
    )
    op.execute(FINAL)


def downgrade() -> None:
    op.drop_table("evidence_export")
    op.execute("DROP FUNCTION evidence_export_is_final")
