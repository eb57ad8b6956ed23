"""The append-only Merkle log: leaves, the hashes of complete subtrees, signed tree heads."""

from sqlalchemy import CheckConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.base import Base, CreatedAt, Sha256


class LedgerLeaf(Base):
    """One leaf: the bytes that are hashed, and the RFC 6962 hash of them."""

    __tablename__ = "ledger_leaf"
    __table_args__ = (CheckConstraint("index >= 0", name="index_is_a_place"),)

    index: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    kind: Mapped[str]
    document: Mapped[bytes]
    leaf_hash: Mapped[Sha256]
    created_at: Mapped[CreatedAt]


class LedgerNode(Base):
    """The hash of a complete subtree of ``2 ** level`` leaves; those of single leaves stand with the leaf."""

    __tablename__ = "ledger_node"
    __table_args__ = (CheckConstraint("level >= 1", name="level_is_above_the_leaves"),)

    level: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    hash: Mapped[Sha256]


class LedgerCheckpoint(Base):
    """A signed tree head as it was handed out (a C2SP checkpoint); one per size."""

    __tablename__ = "ledger_checkpoint"

    size: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    root: Mapped[Sha256]
    note: Mapped[bytes]
    created_at: Mapped[CreatedAt]
