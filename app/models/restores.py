"""Restores, their rank attempts, and what the ranks reported."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.db.base import Base, CreatedAt, Id, Sha256
from app.models.nodes import Device


class Restore(Base):
    """One order over all ranks of a snapshot. `outcome` is written once (a trigger sees to it)."""

    __tablename__ = "restore"
    __table_args__ = (
        CheckConstraint(
            "state IN ('waiting','running','publishing','retracting','resident','releasing','finished')",
            name="state_is_known",
        ),
        CheckConstraint(
            "outcome IN ('restored','corrupt','incomplete','failed')",
            name="outcome_is_known",
        ),
        CheckConstraint("decision IN ('publish','retract')", name="decision_is_known"),
        CheckConstraint("purpose IN ('qualification','operational')", name="purpose_is_known"),
        CheckConstraint("semantic IN ('right','wrong','unanswered','not asked')", name="semantic_is_known"),
        CheckConstraint(
            "(question_sha256 IS NULL) = (semantic IS NOT DISTINCT FROM 'not asked')",
            name="only_what_is_asked_is_answered",
        ),
        CheckConstraint("outcome IS NULL OR semantic IS NOT NULL", name="semantic_before_outcome"),
        CheckConstraint("(fault_name IS NULL) = (fault_rank IS NULL)", name="a_fault_has_a_rank"),
        CheckConstraint("fault_name IS NULL OR question_sha256 IS NOT NULL", name="a_fault_is_asked_for"),
        CheckConstraint("fault_name IS NULL OR purpose = 'qualification'", name="a_fault_serves_nobody"),
        CheckConstraint(
            "decision IS DISTINCT FROM 'publish' "
            "OR (semantic IN ('right','not asked') AND fault_name IS NULL)",
            name="nothing_wrong_is_published",
        ),
        CheckConstraint(
            "(outcome IS NULL) = (state IN ('waiting','running','publishing','retracting'))",
            name="outcome_fits_state",
        ),
        Index("ix_restore_created", "created_at", "id"),
        Index("ix_restore_state", "state", "created_at", "id"),
        Index("ix_restore_outcome", "outcome", "created_at", "id"),
        Index("ix_restore_state_outcome", "state", "outcome", "created_at", "id"),
        # In the words of app/restores/repository/lists.py.
        Index(
            "ix_restore_kind",
            text(
                "((((coalesce(outcome, '') || '/') || coalesce(semantic, '')) || '/')"
                " || (fault_name IS NOT NULL)::text)"
            ),
            "created_at",
            "id",
        ),
        Index("ix_restore_context", "context_digest", "created_at"),
        Index("ix_restore_open", "created_at", postgresql_where="state <> 'finished'"),
        Index(
            "ix_restore_question",
            "question_sha256",
            "created_at",
            "id",
            postgresql_where="question_sha256 IS NOT NULL",
        ),
        Index(
            "ix_restore_unwritten",
            "created_at",
            "id",
            postgresql_where="outcome IS NOT NULL AND receipt_sha256 IS NULL AND receipt_problem IS NULL",
        ),
    )

    id: Mapped[Id]
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]
    context_digest: Mapped[Sha256]
    rank_zero_storage_key: Mapped[Sha256]
    layout_sha256: Mapped[Sha256] = mapped_column(ForeignKey("layout.sha256"))
    rank_count: Mapped[int]
    span_tokens: Mapped[int]
    resident_s: Mapped[int]
    state: Mapped[str] = mapped_column(server_default="waiting")
    outcome: Mapped[str | None]
    problem: Mapped[dict[str, Any] | None] = mapped_column(JSONB, doc="code, rank, detail of the first cause")
    decision: Mapped[str | None]
    epoch: Mapped[int] = mapped_column(server_default="0")
    decided_at: Mapped[datetime | None]
    admitted_at: Mapped[datetime | None]
    ready_deadline_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    resident_until: Mapped[datetime | None]
    release_reason: Mapped[str | None]
    released_at: Mapped[datetime | None]
    cancel_requested_at: Mapped[datetime | None]
    cancel_requested_by: Mapped[str | None]
    cancel_reason: Mapped[str | None]
    retry_of_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("restore.id"), unique=True, doc="the restore this one tries again; each is retried once"
    )
    try_number: Mapped[int] = mapped_column(server_default="1", doc="number of its rank attempts")
    version: Mapped[int] = mapped_column(server_default="1")
    purpose: Mapped[str] = mapped_column(server_default="qualification")
    image_config_id: Mapped[Sha256 | None] = mapped_column(doc="the image named in the order, never evidence")
    allowed_by_verdict_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("verdict.id"), doc="the verdict that made an operational restore allowed"
    )
    allowed_by_exception_id: Mapped[UUID | None] = mapped_column(ForeignKey("operational_exception.id"))
    receipt_sha256: Mapped[Sha256 | None] = mapped_column(
        ForeignKey("receipt.sha256"), unique=True, doc="the receipt written of what was measured"
    )
    receipt_problem: Mapped[str | None] = mapped_column(doc="why no receipt can be written of it")
    question_sha256: Mapped[Sha256 | None] = mapped_column(
        ForeignKey("oracle_question.sha256"), doc="the question its pages are asked before they are published"
    )
    fault_name: Mapped[str | None] = mapped_column(doc="a fault put in on purpose: the restore is a drill")
    fault_rank: Mapped[int | None]
    semantic: Mapped[str | None] = mapped_column(
        server_default="not asked", doc="what came of the question; empty until it is known"
    )

    attempts: Mapped[list["RankAttempt"]] = relationship(
        back_populates="restore", order_by="(RankAttempt.rank, RankAttempt.number)"
    )
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


class RestoreAnswer(Base):
    """What came of the question a restore was asked: the answer document, with an index over it."""

    __tablename__ = "restore_answer"
    __table_args__ = (
        CheckConstraint("semantic IN ('right','wrong','unanswered')", name="semantic_is_known"),
    )

    restore_id: Mapped[UUID] = mapped_column(ForeignKey("restore.id"), primary_key=True)
    question_sha256: Mapped[Sha256] = mapped_column(ForeignKey("oracle_question.sha256"))
    semantic: Mapped[str]
    observed: Mapped[str | None] = mapped_column(doc="the word that all ranks' partial logits add up to")
    diagnosis: Mapped[str | None] = mapped_column(doc="the name of what the pages look like")
    document: Mapped[bytes]
    sha256: Mapped[Sha256]
    created_at: Mapped[CreatedAt]


class RankAttempt(Base):
    """One try of one rank. `token` is the fencing token: every later write of the worker must show it."""

    __tablename__ = "rank_attempt"
    __table_args__ = (
        UniqueConstraint("restore_id", "rank", "number"),
        CheckConstraint(
            "state IN ('waiting','claimed','running','ready','reported','lost','cancelled')",
            name="state_is_known",
        ),
        Index("ix_rank_attempt_open", "lease_expires_at", postgresql_where="ended_at IS NULL"),
        Index("ix_rank_attempt_device", "device_id", postgresql_where="pages_released_at IS NULL"),
        Index("ix_rank_attempt_device_claimed", "device_id", "claimed_at"),
    )

    id: Mapped[Id]
    restore_id: Mapped[UUID] = mapped_column(ForeignKey("restore.id"))
    rank: Mapped[int]
    number: Mapped[int] = mapped_column(server_default="1")
    device_id: Mapped[UUID] = mapped_column(ForeignKey("device.id"))
    root_document_sha256: Mapped[Sha256] = mapped_column(ForeignKey("root_document.sha256"))
    root_path: Mapped[str]
    pages_bytes: Mapped[int] = mapped_column(doc="what the rank's pages take from the device's pool")
    created_at: Mapped[CreatedAt]

    state: Mapped[str] = mapped_column(server_default="waiting")
    outcome: Mapped[str | None]
    problem: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    progress: Mapped[dict[str, Any] | None] = mapped_column(JSONB)

    send_count: Mapped[int] = mapped_column(server_default="0")
    sent_at: Mapped[datetime | None]
    next_send_at: Mapped[datetime | None]

    runtime: Mapped[dict[str, Any] | None] = mapped_column(JSONB, doc="what its worker measured of itself")
    token: Mapped[int | None] = mapped_column(BigInteger)
    device_generation: Mapped[int | None]
    claimed_at: Mapped[datetime | None]
    lease_expires_at: Mapped[datetime | None]
    ready_at: Mapped[datetime | None]
    retract_heard_at: Mapped[datetime | None] = mapped_column(doc="when its worker was told to retract")
    acknowledged_epoch: Mapped[int | None]
    acknowledged_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    pages_released_at: Mapped[datetime | None]

    restore: Mapped[Restore] = relationship(back_populates="attempts")
    device: Mapped[Device] = relationship()
    report: Mapped["RankReportRow | None"] = relationship(back_populates="attempt", uselist=False)


class RankReportRow(Base):
    """The report document of one attempt, byte for byte as the worker sent it."""

    __tablename__ = "rank_report"

    attempt_id: Mapped[UUID] = mapped_column(ForeignKey("rank_attempt.id"), primary_key=True)
    document: Mapped[bytes]
    sha256: Mapped[Sha256]
    service_start_ns: Mapped[int] = mapped_column(doc="from the claim's answer to the start of service")
    claim_round_trip_ns: Mapped[int] = mapped_column(doc="bounds the error of the common clock")
    pool_commit_ns: Mapped[int] = mapped_column(doc="before service: committing the pool's pages")
    part: Mapped[bytes | None] = mapped_column(
        doc="the rank's part of the answer, once more by itself: adding up must not read whole reports"
    )
    received_at: Mapped[CreatedAt]

    attempt: Mapped[RankAttempt] = relationship(back_populates="report")


class RestoreEvent(Base):
    """What happened to a restore, in order; rows are only added."""

    __tablename__ = "restore_event"
    __table_args__ = (Index("ix_restore_event_restore", "restore_id", "id"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    restore_id: Mapped[UUID] = mapped_column(ForeignKey("restore.id"))
    at: Mapped[CreatedAt]
    kind: Mapped[str]
    rank: Mapped[int | None]
    detail: Mapped[str]


class Readback(Base):
    """A request to read the published pages back and digest them on every rank."""

    __tablename__ = "readback"
    __table_args__ = (Index("ix_readback_open", "created_at", postgresql_where="ended_at IS NULL"),)

    id: Mapped[Id]
    restore_id: Mapped[UUID] = mapped_column(ForeignKey("restore.id"), index=True)
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]
    ended_at: Mapped[datetime | None]
    problem: Mapped[dict[str, Any] | None] = mapped_column(JSONB)

    ranks: Mapped[list["RankReadback"]] = relationship(order_by="RankReadback.rank")


class RankReadback(Base):
    """The per-layer digests one rank read back from its pages."""

    __tablename__ = "rank_readback"

    readback_id: Mapped[UUID] = mapped_column(ForeignKey("readback.id"), primary_key=True)
    rank: Mapped[int] = mapped_column(primary_key=True)
    layers: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    received_at: Mapped[CreatedAt]
