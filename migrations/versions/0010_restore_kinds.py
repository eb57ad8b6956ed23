"""Restores by their answer and by being a drill, with every outcome and in the order of their list.

Revision: 0010; revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_restore_kind",
        "restore",
        [
            sa.text("coalesce(outcome, '')"),
            sa.text("coalesce(semantic, '')"),
            sa.text("(fault_name IS NOT NULL)"),
            "created_at",
            "id",
        ],
        unique=False,
    )
    # What an index over expressions is chosen by is counted by ANALYZE only.
    op.execute("ANALYZE restore")


def downgrade() -> None:
    op.drop_index("ix_restore_kind", "restore")
