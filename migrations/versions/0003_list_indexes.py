"""Lists that stay quick at any length: an index for every order and filter, and one row per snapshot.

Revision: 0003; revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

LISTS = (
    ("ix_restore_state", "restore", ["state", "created_at", "id"]),
    ("ix_restore_outcome", "restore", ["outcome", "created_at", "id"]),
    ("ix_restore_state_outcome", "restore", ["state", "outcome", "created_at", "id"]),
    ("ix_image_created", "image", ["created_at", "id"]),
    ("ix_source_identity_created", "source_identity", ["created_at", "id"]),
    ("ix_layout_created", "layout", ["created_at", "sha256"]),
    ("ix_root_document_created", "root_document", ["created_at", "sha256"]),
    ("ix_root_document_context", "root_document", ["context_digest", "created_at", "sha256"]),
    ("ix_snapshot_created", "snapshot", ["created_at", "id"]),
    ("ix_rank_attempt_device_claimed", "rank_attempt", ["device_id", "claimed_at"]),
    ("ix_restore_context", "restore", ["context_digest", "created_at"]),
)

KNOWN_SNAPSHOTS = """
INSERT INTO snapshot (id, context_digest, rank_zero_storage_key, created_at)
SELECT gen_random_uuid(), context_digest, rank_zero_storage_key, min(created_at)
FROM root_document GROUP BY context_digest, rank_zero_storage_key
"""


def upgrade() -> None:
    op.create_table(
        "snapshot",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("context_digest", sa.CHAR(length=64), nullable=False),
        sa.Column("rank_zero_storage_key", sa.CHAR(length=64), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshot")),
        sa.UniqueConstraint(
            "context_digest",
            "rank_zero_storage_key",
            name=op.f("uq_snapshot_context_digest_rank_zero_storage_key"),
        ),
    )
    op.execute(KNOWN_SNAPSHOTS)
    for name, table, columns in LISTS:
        op.create_index(name, table, columns, unique=False)
    op.create_index(
        "ix_readback_open", "readback", ["created_at"], unique=False, postgresql_where="ended_at IS NULL"
    )


def downgrade() -> None:
    op.drop_index("ix_readback_open", table_name="readback", postgresql_where="ended_at IS NULL")
    for name, table, _ in reversed(LISTS):
        op.drop_index(name, table_name=table)
    op.drop_table("snapshot")
