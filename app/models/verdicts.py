"""What the rules said, when and why; what people declared and allowed."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TSVECTOR
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.db.base import GIN, Base, CreatedAt, Id, Sha256

KINDS = "kind IN ('case','receipt','scope')"
OUTCOMES = (
    "outcome IN ('qualified','rejected','research-only','implemented','unsupported','incomplete','none')"
)


class VerdictRow(Base):
    """One judgement; the newest row of a `subject_key` is the current one, and none is ever changed.

    `kind` is ``case`` (one of several cases of a receipt), ``receipt`` (a receipt's verdict for one
    capability) or ``scope`` (all receipts of exactly one scope and capability). `subject_key` names what was
    judged. The axes and everything beside `document` are an index over it: texts are cut at 200 characters.
    """

    __tablename__ = "verdict"
    __table_args__ = (
        CheckConstraint(KINDS, name="kind_is_known"),
        CheckConstraint(OUTCOMES, name="outcome_is_known"),
        CheckConstraint("(kind = 'scope') = (receipt_sha256 IS NULL)", name="receipt_fits_kind"),
        Index("ix_verdict_created", "kind", "created_at", "id"),
        Index("ix_verdict_history", "subject_key", "created_at", "id"),
        Index("ix_verdict_outcome", "kind", "outcome", "created_at", "id"),
        Index("ix_verdict_topology", "kind", "tp", "dcp", "outcome", "created_at", "id"),
        Index("ix_verdict_degrees", "kind", "tp", "dcp", "created_at", "id"),
        Index("ix_verdict_deployable", "kind", "deployable", "created_at", "id"),
        Index("ix_verdict_image", "image_config_id", "kind", "created_at", "id"),
        Index("ix_verdict_receipt", "receipt_sha256"),
    )

    id: Mapped[Id]
    kind: Mapped[str]
    subject_key: Mapped[Sha256]
    receipt_sha256: Mapped[Sha256 | None] = mapped_column(ForeignKey("receipt.sha256"))
    case_name: Mapped[str]
    capability: Mapped[str]
    scope_digest: Mapped[Sha256]
    image_config_id: Mapped[Sha256 | None]
    source: Mapped[str]
    target: Mapped[str]
    draft: Mapped[str]
    tp: Mapped[str]
    dcp: Mapped[str]
    publication_schema: Mapped[str]
    manifest_schema: Mapped[str]
    outcome: Mapped[str]
    decided_row: Mapped[int] = mapped_column(doc="row of the decision table")
    reason: Mapped[str]
    deployable: Mapped[bool]
    deployable_reason: Mapped[str] = mapped_column(doc="first thing against it; empty where deployable")
    evidence_grade: Mapped[str | None]
    deployable_grade: Mapped[str] = mapped_column(doc="the setting it was judged with")
    codes: Mapped[list[str]] = mapped_column(ARRAY(Text), doc="codes of the row that decided")
    finding_codes: Mapped[list[str]] = mapped_column(ARRAY(Text), doc="codes of every finding")
    gates: Mapped[dict[str, Any]] = mapped_column(JSONB, doc="gate to state, basis, needed")
    document: Mapped[bytes] = mapped_column(doc="the verdict in canonical JSON")
    document_sha256: Mapped[Sha256]
    ruleset: Mapped[Sha256]
    receipts: Mapped[list[str]] = mapped_column(ARRAY(Text), doc="SHA-256 of the receipts that decided")
    superseded_by: Mapped[Sha256 | None] = mapped_column(doc="the receipt that explicitly replaces this one")
    previous_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("verdict.id"), unique=True, doc="the row this one takes the place of; there is no fork"
    )
    cause: Mapped[str] = mapped_column(doc="receipt-imported, declared, rules-changed, judged-again")
    cause_detail: Mapped[str] = mapped_column(doc="one sentence for people")
    cause_receipt: Mapped[Sha256 | None] = mapped_column(doc="the receipt that caused it")
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]


class VerdictCurrent(Base):
    """The newest verdict per subject, with what lists are filtered by; made again from `verdict` at any time.

    `terms` are exact words (``code:…``, ``gate:semantic=failed``, ``model:…``, ``commit:…``), `words` is what
    a search looks through.
    """

    __tablename__ = "verdict_current"
    __table_args__ = (
        Index("ix_verdict_current_created", "kind", "created_at", "verdict_id"),
        Index("ix_verdict_current_outcome", "kind", "outcome", "created_at", "verdict_id"),
        Index("ix_verdict_current_topology", "kind", "tp", "dcp", "outcome", "created_at", "verdict_id"),
        Index("ix_verdict_current_degrees", "kind", "tp", "dcp", "created_at", "verdict_id"),
        Index("ix_verdict_current_deployable", "kind", "deployable", "created_at", "verdict_id"),
        Index("ix_verdict_current_image", "image_config_id", "kind", "created_at", "verdict_id"),
        Index("ix_verdict_current_receipt", "receipt_sha256"),
        Index(
            "ix_verdict_current_composes",
            "scope_digest",
            "capability",
            text("(superseded_by IS NOT NULL)"),
            "saying",
            "receipt_sha256",
            "verdict_id",
            postgresql_where="composes",
        ),
        Index("ix_verdict_current_ruleset", "ruleset", "deployable_grade", "receipt_sha256"),
        # Scopes are few beside receipts, and it is them that people look for.
        Index("ix_verdict_current_terms", "terms", **GIN, postgresql_where="kind <> 'scope'"),
        Index("ix_verdict_current_words", "words", **GIN, postgresql_where="kind <> 'scope'"),
        Index("ix_verdict_current_scope_terms", "terms", **GIN, postgresql_where="kind = 'scope'"),
        Index("ix_verdict_current_scope_words", "words", **GIN, postgresql_where="kind = 'scope'"),
    )

    subject_key: Mapped[Sha256] = mapped_column(primary_key=True)
    verdict_id: Mapped[UUID] = mapped_column(ForeignKey("verdict.id"), unique=True)
    document_sha256: Mapped[Sha256]
    created_at: Mapped[datetime]
    kind: Mapped[str]
    receipt_sha256: Mapped[Sha256 | None]
    composes: Mapped[bool] = mapped_column(doc="takes part in the verdict of its scope")
    capability: Mapped[str]
    scope_digest: Mapped[Sha256]
    image_config_id: Mapped[Sha256 | None]
    tp: Mapped[str]
    dcp: Mapped[str]
    outcome: Mapped[str]
    deployable: Mapped[bool]
    evidence_grade: Mapped[str | None]
    deployable_grade: Mapped[str]
    superseded_by: Mapped[Sha256 | None]
    saying: Mapped[str] = mapped_column(doc="what it says but for places and values, where it composes")
    ruleset: Mapped[Sha256]
    terms: Mapped[list[str]] = mapped_column(ARRAY(Text))
    words: Mapped[str] = mapped_column(TSVECTOR)

    verdict: Mapped[VerdictRow] = relationship()

    @property
    def id(self) -> UUID:
        """Its place in a list."""
        return self.verdict_id


class DeclarationRow(Base):
    """A person's word that these receipts are meant for qualification; the rules still decide."""

    __tablename__ = "declaration"
    __table_args__ = (
        Index("ix_declaration_created", "created_at", "id"),
        Index("ix_declaration_receipts", "receipts", **GIN),
    )

    id: Mapped[Id]
    reason: Mapped[str]
    receipts: Mapped[list[str]] = mapped_column(ARRAY(Text), doc="SHA-256 of the receipts meant")
    capability: Mapped[str]
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]


class OperationalException(Base):
    """Somebody allows operational restores of an image that is not deployable for a scope, until a time.

    The scope is what a restore knows of itself before it runs: model, topology and schemas of its snapshot.
    """

    __tablename__ = "operational_exception"
    __table_args__ = (
        CheckConstraint("expires_at > created_at", name="it_ends"),
        Index("ix_operational_exception_created", "created_at", "id"),
        Index("ix_operational_exception_image", "image_config_id", "scope_digest", "expires_at"),
    )

    id: Mapped[Id]
    image_config_id: Mapped[Sha256]
    scope_digest: Mapped[Sha256]
    scope: Mapped[dict[str, Any]] = mapped_column(JSONB, doc="target, draft, tp, dcp and the two schemas")
    reason: Mapped[str]
    expires_at: Mapped[datetime]
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]

    end: Mapped["OperationalExceptionEnd | None"] = relationship(uselist=False, lazy="joined", viewonly=True)


class OperationalExceptionEnd(Base):
    """Somebody ended an exception before its time; the exception itself stays as it was granted."""

    __tablename__ = "operational_exception_end"

    exception_id: Mapped[UUID] = mapped_column(ForeignKey("operational_exception.id"), primary_key=True)
    reason: Mapped[str]
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]
