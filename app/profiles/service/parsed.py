"""Stored documents as the core reads them: a pure function of the bytes, so the latest are remembered."""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Final

from sqlalchemy.orm import Session

from app.core.errors import DocumentError
from app.core.profiles.documents import ProfileDocument, read_profile_document
from app.profiles import repository
from app.profiles.service.reading import raw_bytes
from app.receipts import service as receipts

# Of small documents so many are remembered: some tens of MB once decoded.
_MOST_KEPT: Final = 512
_LARGEST_KEPT_BYTES: Final = 131_072
_kept: "OrderedDict[str, ProfileDocument]" = OrderedDict()
_lock = Lock()


def read_stored(session: Session, *, sha256: str) -> ProfileDocument:
    """One stored JSON document.

    Raises:
        NotFound: no profile document has this digest.
        DocumentError: it is not of a known kind (a receipt may be anything).
    """
    found = _remembered([sha256])
    if sha256 in found:
        return found[sha256]
    return _read(raw_bytes(session, sha256=sha256), sha256=sha256)


def read_many(session: Session, *, digests: Iterable[str]) -> dict[str, ProfileDocument]:
    """Those of the stored JSON documents that can be read, in the order asked."""
    wanted = list(dict.fromkeys(digests))
    found = _remembered(wanted)
    missing = [one for one in wanted if one not in found]
    stored = repository.raw_bytes(session, digests=missing) if missing else {}
    stored |= receipts.documents(session, digests=[one for one in missing if one not in stored])
    for sha256, raw in stored.items():
        try:
            found[sha256] = _read(raw, sha256=sha256)
        except DocumentError:
            continue
    return {one: found[one] for one in wanted if one in found}


def _read(raw: bytes, *, sha256: str) -> ProfileDocument:
    document = read_profile_document(raw, subject=f"document {sha256[:12]}")
    if document.byte_count <= _LARGEST_KEPT_BYTES:
        with _lock:
            _kept[sha256] = document
            _kept.move_to_end(sha256)
            while len(_kept) > _MOST_KEPT:
                _kept.popitem(last=False)
    return document


def _remembered(digests: Iterable[str]) -> dict[str, ProfileDocument]:
    with _lock:
        found = {sha256: _kept[sha256] for sha256 in digests if sha256 in _kept}
        for sha256 in found:
            _kept.move_to_end(sha256)
    return found
