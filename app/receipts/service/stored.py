"""Facts of receipts, read from the stored bytes."""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Final

from sqlalchemy.orm import Session

from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import DocumentFacts
from app.receipts import repository

# Facts are a pure function of the bytes; so many of small documents are kept, a few MB.
_MOST_KEPT: Final = 512
_LARGEST_KEPT_BYTES: Final = 65_536
_kept: "OrderedDict[str, DocumentFacts]" = OrderedDict()
_lock = Lock()


def facts_of_bytes(raw: bytes, *, subject: str = "document") -> DocumentFacts:
    """The facts of submitted bytes.

    Raises:
        DocumentError: they are no document.
    """
    facts = document_facts(read_document(raw, subject=subject))
    _keep(facts)
    return facts


def facts_of(session: Session, *, digests: Iterable[str]) -> dict[str, DocumentFacts]:
    """The facts of stored receipts."""
    wanted = list(dict.fromkeys(digests))
    with _lock:
        found = {sha256: _kept[sha256] for sha256 in wanted if sha256 in _kept}
        for sha256 in found:
            _kept.move_to_end(sha256)
    missing = [sha256 for sha256 in wanted if sha256 not in found]
    if missing:
        for sha256, raw in repository.documents(session, digests=missing).items():
            found[sha256] = facts_of_bytes(bytes(raw), subject=f"receipt {sha256[:12]}")
    return found


def _keep(facts: DocumentFacts) -> None:
    if facts.byte_count > _LARGEST_KEPT_BYTES:
        return
    with _lock:
        _kept[facts.sha256] = facts
        _kept.move_to_end(facts.sha256)
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
