"""Receipts as the rules take them: facts read from the stored bytes, with their places and ages."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime
from threading import Lock
from typing import Final

from sqlalchemy.orm import Session

from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.neighbours import Stored
from app.models import ReceiptOrigin
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


def stored(
    facts: dict[str, DocumentFacts], *, origins: Sequence[ReceiptOrigin]
) -> dict[str, tuple[Stored, ...]]:
    """Each document once per place it stood in, or once without a place.

    Ages order the versions of one path: by the time of their commits, else by the order they came in.
    """
    ages = _ages(origins)
    placed: dict[str, list[Stored]] = {sha256: [] for sha256 in facts}
    for origin in origins:
        if origin.receipt_sha256 in placed:
            placed[origin.receipt_sha256].append(
                Stored(
                    facts=facts[origin.receipt_sha256],
                    repository=origin.repository,
                    path=origin.path,
                    commit=origin.commit,
                    age=ages[origin.repository, origin.path, origin.receipt_sha256],
                )
            )
    return {sha256: tuple(places) or (Stored(facts=facts[sha256]),) for sha256, places in placed.items()}


def _ages(origins: Sequence[ReceiptOrigin]) -> dict[tuple[str, str, str], int]:
    versions: dict[tuple[str, str], dict[str, tuple[datetime, datetime]]] = {}
    for origin in origins:
        at = (origin.committed_at or origin.created_at, origin.created_at)
        known = versions.setdefault((origin.repository, origin.path), {})
        known[origin.receipt_sha256] = max(at, known.get(origin.receipt_sha256, at))
    ages = {}
    for place, known in versions.items():
        for age, sha256 in enumerate(sorted(known, key=lambda one: (known[one], one), reverse=True)):
            ages[(*place, sha256)] = age
    return ages


def _keep(facts: DocumentFacts) -> None:
    if facts.byte_count > _LARGEST_KEPT_BYTES:
        return
    with _lock:
        _kept[facts.sha256] = facts
        _kept.move_to_end(facts.sha256)
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
