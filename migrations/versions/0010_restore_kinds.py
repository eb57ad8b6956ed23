"""Restores by their answer and by being a drill: every kind in the order of the list.

Revision: 0010; revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

# As in app/models/restores.py: outcome, answer, being a drill.
KIND = (
    "((((coalesce(outcome, '') || '/') || coalesce(semantic, '')) || '/') || (fault_name IS NOT NULL)::text)"
)


def upgrade() -> None:
    op.create_index("ix_restore_kind", "restore", [sa.text(KIND), "created_at", "id"], unique=False)
    # How many there are of each value of an expression is counted by ANALYZE only.
    op.execute("ANALYZE restore")


def downgrade() -> None:
    op.drop_index("ix_restore_kind", "restore")
