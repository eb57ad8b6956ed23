"""Receipts read: one, its bytes, a list."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from app.errors import NotFound
from app.ledger.service import extent
from app.models import ReceiptRow
from app.receipts import repository
from app.receipts.repository import ReceiptFilter
from app.web.paging import Cursor, Total


def get_receipt(session: Session, *, sha256: str) -> ReceiptRow:
    """A receipt without its bytes.

    Raises:
        NotFound: no document has this digest.
    """
    receipt = repository.get_receipt(session, sha256=sha256)
    if receipt is None:
        raise NotFound(f"receipt {sha256}: not stored")
    return receipt


def raw_bytes(session: Session, *, sha256: str) -> bytes:
    """The bytes as they were submitted.

    Raises:
        NotFound: no document has this digest.
    """
    found = repository.documents(session, digests=[sha256])
    if sha256 not in found:
        raise NotFound(f"receipt {sha256}: not stored")
    return bytes(found[sha256])


def documents(session: Session, *, digests: Sequence[str]) -> dict[str, bytes]:
    """The bytes of those of the receipts that are stored."""
    found = repository.documents(session, digests=digests) if digests else {}
    return {sha256: bytes(raw) for sha256, raw in found.items()}


def leaf_of_receipt(session: Session, *, sha256: str) -> int:
    """The index of the ledger's leaf that keeps a receipt.

    Raises:
        NotFound: no document has this digest, or no leaf mentions it: it was added behind our back.
    """
    return leaf_of(session, receipt=get_receipt(session, sha256=sha256))


def leaf_of(session: Session, *, receipt: ReceiptRow) -> int:
    """The index of the ledger's leaf that keeps a receipt.

    Raises:
        NotFound: no leaf mentions it: it was added behind our back.
    """
    sha256 = receipt.sha256
    index = extent.leaf_of(session, view="receipt", key=sha256, since=receipt.created_at)
    if index is None:
        raise NotFound(f"receipt {sha256}: expected an entry of the ledger, found none; see `ledger audit`")
    return index


def many_raw_bytes(session: Session, *, digests: Sequence[str]) -> dict[str, bytes]:
    """The bytes of these receipts by digest; one that is not stored is left out."""
    found = repository.documents(session, digests=digests)
    return {sha256: bytes(raw) for sha256, raw in found.items()}


def require_receipts(session: Session, *, digests: Sequence[str]) -> None:
    """Return if all of them are stored.

    Raises:
        NotFound: some are not; they are named.
    """
    missing = sorted(set(digests) - repository.has_any(session, digests=digests))
    if missing:
        raise NotFound(f"receipts: expected stored ones, found none for {', '.join(missing[:10])}")


def list_receipts(
    session: Session, *, wanted: ReceiptFilter, after: Cursor | None, limit: int
) -> list[ReceiptRow]:
    """Receipts, newest first, without their bytes."""
    return repository.list_receipts(session, wanted=wanted, after=after, limit=limit)


def count_receipts(session: Session, *, wanted: ReceiptFilter) -> Total:
    """How many fit, counted up to a bound."""
    return repository.count_receipts(session, wanted=wanted)
