"""Evidence exports: what was asked for, how far it is, what became of it."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Index, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from app.db.base import Base, CreatedAt, Id, Sha256

STATES = "state IN ('waiting','running','finished','failed','expired')"


class EvidenceExport(Base):
    """One bundle that was asked for: of a period or everything, of some images and a topology or all.

    What it covers is fixed by the request: the leaves of the ledger from `first_index` up to `ledger_size`.
    So the same request later gives the same bytes. What became of it is written once (a trigger sees to it);
    the file may go, the row stays.
    """

    __tablename__ = "evidence_export"
    __table_args__ = (
        CheckConstraint(
            "state IN ('waiting','running','finished','failed','expired')", name="state_is_known"
        ),
        CheckConstraint("(ended_at IS NULL) = (state IN ('waiting','running'))", name="end_fits_state"),
        CheckConstraint("(expired_at IS NULL) = (state <> 'expired')", name="expiry_fits_state"),
        CheckConstraint(
            "(bundle_sha256 IS NOT NULL) = (state IN ('finished','expired'))", name="bundle_fits_state"
        ),
        CheckConstraint("(problem IS NOT NULL) = (state = 'failed')", name="problem_fits_state"),
        CheckConstraint("0 <= first_index AND first_index < ledger_size", name="range_is_not_empty"),
        CheckConstraint("(tp IS NULL) = (dcp IS NULL)", name="topology_is_whole"),
        Index("ix_evidence_export_created", "created_at", "id"),
        Index(
            "ix_evidence_export_open", "created_at", "id", postgresql_where="state IN ('waiting','running')"
        ),
        Index("ix_evidence_export_kept", "ended_at", "id", postgresql_where="state = 'finished'"),
    )

    id: Mapped[Id]
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]
    period_from: Mapped[datetime | None]
    period_until: Mapped[datetime | None] = mapped_column(doc="the first instant after the period")
    image_config_ids: Mapped[list[str]] = mapped_column(ARRAY(Text), doc="sorted; empty: every image")
    tp: Mapped[str | None]
    dcp: Mapped[str | None]
    first_index: Mapped[int] = mapped_column(doc="the first leaf of the range")
    ledger_size: Mapped[int] = mapped_column(
        doc="leaves the bundle's checkpoint covers; the range ends there"
    )

    state: Mapped[str] = mapped_column(server_default="waiting")
    progress: Mapped[dict[str, Any] | None] = mapped_column(JSONB, doc="receipts, entries, bytes so far")
    try_count: Mapped[int] = mapped_column(server_default="0", doc="workers that took it")
    token: Mapped[int | None] = mapped_column(BigInteger, doc="fencing token of the worker that builds it")
    lease_expires_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]

    ended_at: Mapped[datetime | None]
    problem: Mapped[dict[str, Any] | None] = mapped_column(JSONB, doc="code and detail of why there is none")
    bundle_sha256: Mapped[Sha256 | None]
    bundle_bytes: Mapped[int | None]
    manifest_sha256: Mapped[Sha256 | None]
    contents: Mapped[dict[str, Any] | None] = mapped_column(JSONB, doc="what is in the bundle, counted")
    expired_at: Mapped[datetime | None] = mapped_column(doc="when its file was given up")
    expired_by: Mapped[str | None]
