"""Profile documents, and where they stood.

Revision: 0007; revises: 0006
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

GIN = {"postgresql_using": "gin", "postgresql_with": {"fastupdate": "off"}}


def _create_documents() -> None:
    op.create_table(
        "profile_document",
        sa.Column("sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("document", postgresql.BYTEA(), nullable=False),
        sa.Column("byte_count", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("schema_name", sa.Text(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("keys", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_profile_document")),
    )
    op.create_index("ix_profile_document_created", "profile_document", ["created_at", "sha256"], unique=False)
    op.create_index(
        "ix_profile_document_kind", "profile_document", ["kind", "created_at", "sha256"], unique=False
    )
    op.create_index("ix_profile_document_keys", "profile_document", ["keys"], unique=False, **GIN)


def _create_places() -> None:
    op.create_table(
        "profile_place",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("document_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("repository", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("commit", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_sha256"],
            ["profile_document.sha256"],
            name=op.f("fk_profile_place_document_sha256_profile_document"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_profile_place")),
        sa.UniqueConstraint(
            "document_sha256",
            "repository",
            "path",
            "commit",
            name=op.f("uq_profile_place_document_sha256_repository_path_commit"),
        ),
    )
    op.create_index("ix_profile_place_name", "profile_place", ["name", "created_at", "id"], unique=False)


def upgrade() -> None:
    _create_documents()
    _create_places()


def downgrade() -> None:
    op.drop_table("profile_place")
    op.drop_table("profile_document")
