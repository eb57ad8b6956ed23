"""Restores that are asked a question, and faults injected on purpose.

Revision: 0005; revises: 0004
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# What is known of an answer stays as it was first written, whoever writes; so does what was ordered.
ANSWER_IS_FINAL = """
CREATE FUNCTION restore_answer_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.semantic IS NOT NULL AND NEW.semantic IS DISTINCT FROM OLD.semantic THEN
        RAISE EXCEPTION 'restore %: semantic % is final, refused %', OLD.id, OLD.semantic, NEW.semantic;
    END IF;
    IF (NEW.question_sha256, NEW.fault_name, NEW.fault_rank)
        IS DISTINCT FROM (OLD.question_sha256, OLD.fault_name, OLD.fault_rank) THEN
        RAISE EXCEPTION 'restore %: its question and its fault stand in the order', OLD.id;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER answer_is_final BEFORE UPDATE ON restore
    FOR EACH ROW EXECUTE FUNCTION restore_answer_is_final();
"""
CHECKS = {
    "semantic_is_known": "semantic IN ('right','wrong','unanswered','not asked')",
    "only_what_is_asked_is_answered": "(question_sha256 IS NULL) = (semantic IS NOT DISTINCT FROM 'not asked')",
    "semantic_before_outcome": "outcome IS NULL OR semantic IS NOT NULL",
    "a_fault_has_a_rank": "(fault_name IS NULL) = (fault_rank IS NULL)",
    "a_fault_is_asked_for": "fault_name IS NULL OR question_sha256 IS NOT NULL",
    "a_fault_serves_nobody": "fault_name IS NULL OR purpose = 'qualification'",
    # What says publish is an answer that is right, or no question, and never a drill.
    "nothing_wrong_is_published": (
        "decision IS DISTINCT FROM 'publish' OR (semantic IN ('right','not asked') AND fault_name IS NULL)"
    ),
}


def _create_questions() -> None:
    op.create_table(
        "oracle_question",
        sa.Column("sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("document", postgresql.BYTEA(), nullable=False),
        sa.Column("context_digest", sa.CHAR(length=64), nullable=False),
        sa.Column("layout_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("rank_count", sa.BigInteger(), nullable=False),
        sa.Column("span_tokens", sa.BigInteger(), nullable=False),
        sa.Column("expected", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_oracle_question")),
    )
    op.create_index("ix_oracle_question_created", "oracle_question", ["created_at", "sha256"], unique=False)
    op.create_index(
        "ix_oracle_question_context",
        "oracle_question",
        ["context_digest", "created_at", "sha256"],
        unique=False,
    )


def _extend_restores() -> None:
    op.add_column("restore", sa.Column("question_sha256", sa.CHAR(length=64), nullable=True))
    op.add_column("restore", sa.Column("fault_name", sa.Text(), nullable=True))
    op.add_column("restore", sa.Column("fault_rank", sa.BigInteger(), nullable=True))
    op.add_column("restore", sa.Column("semantic", sa.Text(), server_default="not asked", nullable=True))
    op.create_foreign_key(
        op.f("fk_restore_question_sha256_oracle_question"),
        "restore",
        "oracle_question",
        ["question_sha256"],
        ["sha256"],
    )
    op.create_index(
        "ix_restore_question",
        "restore",
        ["question_sha256", "created_at", "id"],
        unique=False,
        postgresql_where="question_sha256 IS NOT NULL",
    )
    for name, condition in CHECKS.items():
        op.create_check_constraint(op.f(f"ck_restore_{name}"), "restore", condition)
    op.execute(ANSWER_IS_FINAL)


def _create_answers() -> None:
    op.add_column("rank_report", sa.Column("part", postgresql.BYTEA(), nullable=True))
    op.create_table(
        "restore_answer",
        sa.Column("restore_id", sa.Uuid(), nullable=False),
        sa.Column("question_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("semantic", sa.Text(), nullable=False),
        sa.Column("observed", sa.Text(), nullable=True),
        sa.Column("diagnosis", sa.Text(), nullable=True),
        sa.Column("document", postgresql.BYTEA(), nullable=False),
        sa.Column("sha256", sa.CHAR(length=64), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "semantic IN ('right','wrong','unanswered')", name=op.f("ck_restore_answer_semantic_is_known")
        ),
        sa.ForeignKeyConstraint(
            ["question_sha256"],
            ["oracle_question.sha256"],
            name=op.f("fk_restore_answer_question_sha256_oracle_question"),
        ),
        sa.ForeignKeyConstraint(
            ["restore_id"], ["restore.id"], name=op.f("fk_restore_answer_restore_id_restore")
        ),
        sa.PrimaryKeyConstraint("restore_id", name=op.f("pk_restore_answer")),
    )


def upgrade() -> None:
    _create_questions()
    _extend_restores()
    _create_answers()


def downgrade() -> None:
    op.drop_column("rank_report", "part")
    op.drop_table("restore_answer")
    op.execute("DROP TRIGGER answer_is_final ON restore; DROP FUNCTION restore_answer_is_final()")
    for name in CHECKS:
        op.drop_constraint(op.f(f"ck_restore_{name}"), "restore", type_="check")
    for name in ("semantic", "fault_rank", "fault_name", "question_sha256"):
        op.drop_column("restore", name)
    op.drop_table("oracle_question")
