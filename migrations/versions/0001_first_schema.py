"""First schema.

Revision: 0001; revises: nothing
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


# One terminal state: an outcome, once written, stays, whoever writes.
OUTCOME_IS_FINAL = """
CREATE FUNCTION restore_outcome_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.outcome IS NOT NULL AND NEW.outcome IS DISTINCT FROM OLD.outcome THEN
        RAISE EXCEPTION 'restore %: outcome % is final, refused %', OLD.id, OLD.outcome, NEW.outcome;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER outcome_is_final BEFORE UPDATE ON restore
    FOR EACH ROW EXECUTE FUNCTION restore_outcome_is_final();
"""


def upgrade() -> None:
    op.create_table(
        "account",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account")),
        sa.UniqueConstraint("name", name=op.f("uq_account_name")),
    )
    op.create_table(
        "idempotency_record",
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.CHAR(length=64), nullable=False),
        sa.Column("status", sa.BigInteger(), nullable=False),
        sa.Column("location", sa.Text(), nullable=True),
        sa.Column("body", postgresql.BYTEA(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("principal", "key", name=op.f("pk_idempotency_record")),
    )
    op.create_table(
        "layout",
        sa.Column("sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("document", postgresql.BYTEA(), nullable=False),
        sa.Column("group_count", sa.BigInteger(), nullable=False),
        sa.Column("layer_count", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_layout")),
    )
    op.create_table(
        "node",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "scan_problems", postgresql.JSONB(astext_type=sa.Text()), server_default="[]", nullable=False
        ),
        sa.Column("scanned_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_node")),
        sa.UniqueConstraint("name", name=op.f("uq_node_name")),
    )
    op.create_table(
        "root_document",
        sa.Column("sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("document", postgresql.BYTEA(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("stream_sha256", sa.CHAR(length=64), nullable=True),
        sa.Column("storage_key", sa.CHAR(length=64), nullable=False),
        sa.Column("rank_zero_storage_key", sa.CHAR(length=64), nullable=False),
        sa.Column("context_digest", sa.CHAR(length=64), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("rank_count", sa.BigInteger(), nullable=False),
        sa.Column("span_tokens", sa.BigInteger(), nullable=False),
        sa.Column("encoded_bytes", sa.BigInteger(), nullable=False),
        sa.Column("object_count", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_root_document")),
    )
    op.create_index(
        "ix_root_document_snapshot",
        "root_document",
        ["context_digest", "rank_zero_storage_key", "rank"],
        unique=False,
    )
    op.create_table(
        "source_identity",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("repository", sa.Text(), nullable=False),
        sa.Column("commit", sa.CHAR(length=40), nullable=False),
        sa.Column("tree", sa.CHAR(length=40), nullable=True),
        sa.Column("source_sha256", sa.CHAR(length=64), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_source_identity")),
        sa.UniqueConstraint(
            "repository",
            "commit",
            "tree",
            "source_sha256",
            name=op.f("uq_source_identity_repository_commit_tree_source_sha256"),
            postgresql_nulls_not_distinct=True,
        ),
    )
    op.create_table(
        "api_key",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("secret_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("node_name", sa.Text(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_api_key_account_id_account")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_key")),
        sa.UniqueConstraint("prefix", name=op.f("uq_api_key_prefix")),
    )
    op.create_table(
        "device",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("node_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("pool_bytes", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("runtime", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("worker_started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_task_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("held_by", sa.Uuid(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["node_id"], ["node.id"], name=op.f("fk_device_node_id_node")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_device")),
        sa.UniqueConstraint("node_id", "name", name=op.f("uq_device_node_id_name")),
        sa.UniqueConstraint("queue", name=op.f("uq_device_queue")),
    )
    op.create_table(
        "image",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("config_id", sa.CHAR(length=64), nullable=True),
        sa.Column("manifest_digest", sa.CHAR(length=64), nullable=True),
        sa.Column("index_digest", sa.CHAR(length=64), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("record", sa.Text(), nullable=True),
        sa.Column("source_id", sa.Uuid(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["source_id"], ["source_identity.id"], name=op.f("fk_image_source_id_source_identity")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_image")),
        sa.UniqueConstraint("config_id", name=op.f("uq_image_config_id")),
        sa.UniqueConstraint("index_digest", name=op.f("uq_image_index_digest")),
        sa.UniqueConstraint("manifest_digest", name=op.f("uq_image_manifest_digest")),
    )
    op.create_table(
        "manifest_location",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("node_id", sa.Uuid(), nullable=False),
        sa.Column("root_path", sa.Text(), nullable=False),
        sa.Column("storage_key", sa.CHAR(length=64), nullable=False),
        sa.Column("context_digest", sa.CHAR(length=64), nullable=False),
        sa.Column("root_document_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column(
            "first_seen_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("gone_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["node_id"], ["node.id"], name=op.f("fk_manifest_location_node_id_node")),
        sa.ForeignKeyConstraint(
            ["root_document_sha256"],
            ["root_document.sha256"],
            name=op.f("fk_manifest_location_root_document_sha256_root_document"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_manifest_location")),
        sa.UniqueConstraint(
            "node_id",
            "root_path",
            "storage_key",
            "context_digest",
            name=op.f("uq_manifest_location_node_id_root_path_storage_key_context_digest"),
        ),
    )
    op.create_index(
        op.f("ix_manifest_location_root_document_sha256"),
        "manifest_location",
        ["root_document_sha256"],
        unique=False,
    )
    op.create_table(
        "manifest_pin",
        sa.Column("root_document_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("stream_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("node_name", sa.Text(), nullable=False),
        sa.Column("root_path", sa.Text(), nullable=False),
        sa.Column(
            "checked_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["root_document_sha256"],
            ["root_document.sha256"],
            name=op.f("fk_manifest_pin_root_document_sha256_root_document"),
        ),
        sa.PrimaryKeyConstraint("root_document_sha256", name=op.f("pk_manifest_pin")),
    )
    op.create_table(
        "restore",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("context_digest", sa.CHAR(length=64), nullable=False),
        sa.Column("rank_zero_storage_key", sa.CHAR(length=64), nullable=False),
        sa.Column("layout_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("rank_count", sa.BigInteger(), nullable=False),
        sa.Column("span_tokens", sa.BigInteger(), nullable=False),
        sa.Column("resident_s", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), server_default="waiting", nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("problem", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("admitted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ready_deadline_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("resident_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("release_reason", sa.Text(), nullable=True),
        sa.Column("released_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("version", sa.BigInteger(), server_default="1", nullable=False),
        sa.CheckConstraint(
            "(outcome IS NULL) = (state IN ('waiting','running','publishing','retracting'))",
            name=op.f("ck_restore_outcome_fits_state"),
        ),
        sa.CheckConstraint("decision IN ('publish','retract')", name=op.f("ck_restore_decision_is_known")),
        sa.CheckConstraint(
            "outcome IN ('restored','corrupt','incomplete','failed')",
            name=op.f("ck_restore_outcome_is_known"),
        ),
        sa.CheckConstraint(
            "state IN ('waiting','running','publishing','retracting','resident','releasing','finished')",
            name=op.f("ck_restore_state_is_known"),
        ),
        sa.ForeignKeyConstraint(
            ["layout_sha256"], ["layout.sha256"], name=op.f("fk_restore_layout_sha256_layout")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_restore")),
    )
    op.create_index("ix_restore_created", "restore", ["created_at", "id"], unique=False)
    op.create_index(
        "ix_restore_open", "restore", ["created_at"], unique=False, postgresql_where="state <> 'finished'"
    )
    op.create_table(
        "web_session",
        sa.Column("token_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("form_token", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["account.id"], name=op.f("fk_web_session_account_id_account")
        ),
        sa.PrimaryKeyConstraint("token_sha256", name=op.f("pk_web_session")),
    )
    op.create_table(
        "rank_attempt",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("restore_id", sa.Uuid(), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("device_id", sa.Uuid(), nullable=False),
        sa.Column("root_document_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("root_path", sa.Text(), nullable=False),
        sa.Column("pages_bytes", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("state", sa.Text(), server_default="waiting", nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("problem", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("progress", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("send_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_send_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("runtime", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("token", sa.BigInteger(), nullable=True),
        sa.Column("device_generation", sa.BigInteger(), nullable=True),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ready_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("acknowledged_epoch", sa.BigInteger(), nullable=True),
        sa.Column("acknowledged_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pages_released_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('waiting','claimed','running','ready','reported','lost','cancelled')",
            name=op.f("ck_rank_attempt_state_is_known"),
        ),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_rank_attempt_device_id_device")),
        sa.ForeignKeyConstraint(
            ["restore_id"], ["restore.id"], name=op.f("fk_rank_attempt_restore_id_restore")
        ),
        sa.ForeignKeyConstraint(
            ["root_document_sha256"],
            ["root_document.sha256"],
            name=op.f("fk_rank_attempt_root_document_sha256_root_document"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rank_attempt")),
        sa.UniqueConstraint(
            "restore_id", "rank", "number", name=op.f("uq_rank_attempt_restore_id_rank_number")
        ),
    )
    op.create_index(
        "ix_rank_attempt_device",
        "rank_attempt",
        ["device_id"],
        unique=False,
        postgresql_where="pages_released_at IS NULL",
    )
    op.create_index(
        "ix_rank_attempt_open",
        "rank_attempt",
        ["lease_expires_at"],
        unique=False,
        postgresql_where="ended_at IS NULL",
    )
    op.create_table(
        "readback",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("restore_id", sa.Uuid(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("problem", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.ForeignKeyConstraint(["restore_id"], ["restore.id"], name=op.f("fk_readback_restore_id_restore")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_readback")),
    )
    op.create_index(op.f("ix_readback_restore_id"), "readback", ["restore_id"], unique=False)
    op.create_table(
        "restore_event",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("restore_id", sa.Uuid(), nullable=False),
        sa.Column(
            "at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["restore_id"], ["restore.id"], name=op.f("fk_restore_event_restore_id_restore")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_restore_event")),
    )
    op.create_index("ix_restore_event_restore", "restore_event", ["restore_id", "id"], unique=False)
    op.create_table(
        "rank_readback",
        sa.Column("readback_id", sa.Uuid(), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("layers", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "received_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["readback_id"], ["readback.id"], name=op.f("fk_rank_readback_readback_id_readback")
        ),
        sa.PrimaryKeyConstraint("readback_id", "rank", name=op.f("pk_rank_readback")),
    )
    op.create_table(
        "rank_report",
        sa.Column("attempt_id", sa.Uuid(), nullable=False),
        sa.Column("document", postgresql.BYTEA(), nullable=False),
        sa.Column("sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("service_start_ns", sa.BigInteger(), nullable=False),
        sa.Column("claim_round_trip_ns", sa.BigInteger(), nullable=False),
        sa.Column("pool_commit_ns", sa.BigInteger(), nullable=False),
        sa.Column(
            "received_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["rank_attempt.id"], name=op.f("fk_rank_report_attempt_id_rank_attempt")
        ),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_rank_report")),
    )
    op.execute(OUTCOME_IS_FINAL)
    op.execute("CREATE SEQUENCE fencing_token")


def downgrade() -> None:
    op.drop_table("rank_report")
    op.drop_table("rank_readback")
    op.drop_index("ix_restore_event_restore", table_name="restore_event")
    op.drop_table("restore_event")
    op.drop_index(op.f("ix_readback_restore_id"), table_name="readback")
    op.drop_table("readback")
    op.drop_index("ix_rank_attempt_open", table_name="rank_attempt", postgresql_where="ended_at IS NULL")
    op.drop_index(
        "ix_rank_attempt_device", table_name="rank_attempt", postgresql_where="pages_released_at IS NULL"
    )
    op.drop_table("rank_attempt")
    op.drop_table("web_session")
    op.drop_index("ix_restore_open", table_name="restore", postgresql_where="state <> 'finished'")
    op.drop_index("ix_restore_created", table_name="restore")
    op.drop_table("restore")
    op.drop_table("manifest_pin")
    op.drop_index(op.f("ix_manifest_location_root_document_sha256"), table_name="manifest_location")
    op.drop_table("manifest_location")
    op.drop_table("image")
    op.drop_table("device")
    op.drop_table("api_key")
    op.drop_table("source_identity")
    op.drop_index("ix_root_document_snapshot", table_name="root_document")
    op.drop_table("root_document")
    op.drop_table("node")
    op.drop_table("layout")
    op.drop_table("idempotency_record")
    op.drop_table("account")
    op.execute("DROP FUNCTION restore_outcome_is_final")
    op.execute("DROP SEQUENCE fencing_token")
