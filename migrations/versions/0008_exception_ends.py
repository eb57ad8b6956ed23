"""Exceptions that a person ends before their time.

Revision: 0008; revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "operational_exception_end",
        sa.Column("exception_id", sa.Uuid(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["exception_id"],
            ["operational_exception.id"],
            name=op.f("fk_operational_exception_end_exception_id_operational_exception"),
        ),
        sa.PrimaryKeyConstraint("exception_id", name=op.f("pk_operational_exception_end")),
    )


def downgrade() -> None:
    op.drop_table("operational_exception_end")
