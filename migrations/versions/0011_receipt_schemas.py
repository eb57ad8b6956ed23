"""Receipts of one schema by kind and capability, in the order of the list.

Revision: 0011; revises: 0010
"""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

COLUMNS = ["schema_name", "kind", "capability", "created_at", "sha256"]


def upgrade() -> None:
    op.create_index("ix_receipt_schema_kind", "receipt", COLUMNS, unique=False)


def downgrade() -> None:
    op.drop_index("ix_receipt_schema_kind", "receipt")
