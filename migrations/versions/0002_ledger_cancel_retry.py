"""The ledger, cancelling and retrying restores, who made and ended accounts and keys.

Revision: 0002; revises: 0001
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _instant(name: str) -> sa.Column:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=True)


def _created_at() -> sa.Column:
    return sa.Column(
        "created_at",
        sa.DateTime(timezone=True),
        server_default=sa.text("clock_timestamp()"),
        nullable=False,
    )


def _create_ledger() -> None:
    op.create_table(
        "ledger_leaf",
        sa.Column("index", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("document", postgresql.BYTEA(), nullable=False),
        sa.Column("leaf_hash", sa.CHAR(length=64), nullable=False),
        _created_at(),
        sa.CheckConstraint("index >= 0", name=op.f("ck_ledger_leaf_index_is_a_place")),
        sa.PrimaryKeyConstraint("index", name=op.f("pk_ledger_leaf")),
    )
    op.create_table(
        "ledger_node",
        sa.Column("level", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.CHAR(length=64), nullable=False),
        sa.CheckConstraint("level >= 1", name=op.f("ck_ledger_node_level_is_above_the_leaves")),
        sa.PrimaryKeyConstraint("level", "position", name=op.f("pk_ledger_node")),
    )
    op.create_table(
        "ledger_checkpoint",
        sa.Column("size", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("root", sa.CHAR(length=64), nullable=False),
        sa.Column("note", postgresql.BYTEA(), nullable=False),
        _created_at(),
        sa.PrimaryKeyConstraint("size", name=op.f("pk_ledger_checkpoint")),
    )


def upgrade() -> None:
    _create_ledger()
    for table in ("account", "api_key"):
        made_by = sa.Column("created_by", sa.Text(), server_default="bootstrap", nullable=False)
        op.add_column(table, made_by)
    op.add_column("account", sa.Column("disabled_by", sa.Text(), nullable=True))
    op.add_column("api_key", sa.Column("revoked_by", sa.Text(), nullable=True))
    op.add_column("api_key", _instant("last_used_at"))
    op.add_column("restore", _instant("cancel_requested_at"))
    op.add_column("restore", sa.Column("cancel_requested_by", sa.Text(), nullable=True))
    op.add_column("restore", sa.Column("cancel_reason", sa.Text(), nullable=True))
    op.add_column("restore", sa.Column("retry_of_id", sa.Uuid(), nullable=True))
    op.add_column("restore", sa.Column("try_number", sa.BigInteger(), server_default="1", nullable=False))
    op.create_unique_constraint(op.f("uq_restore_retry_of_id"), "restore", ["retry_of_id"])
    op.create_foreign_key(
        op.f("fk_restore_retry_of_id_restore"), "restore", "restore", ["retry_of_id"], ["id"]
    )
    op.add_column("rank_attempt", _instant("retract_heard_at"))


def downgrade() -> None:
    op.drop_column("rank_attempt", "retract_heard_at")
    op.drop_constraint(op.f("fk_restore_retry_of_id_restore"), "restore", type_="foreignkey")
    op.drop_constraint(op.f("uq_restore_retry_of_id"), "restore", type_="unique")
    for name in ("try_number", "retry_of_id", "cancel_reason", "cancel_requested_by", "cancel_requested_at"):
        op.drop_column("restore", name)
    for name in ("last_used_at", "revoked_by", "created_by"):
        op.drop_column("api_key", name)
    for name in ("disabled_by", "created_by"):
        op.drop_column("account", name)
    for name in ("ledger_checkpoint", "ledger_node", "ledger_leaf"):
        op.drop_table(name)
