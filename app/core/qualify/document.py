"""Bytes to a document: decoded strictly, numbers exact, digests of the bytes and of the canonical form
(§7.2, §11).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from app.core.canonical_json import ExactValue, JsonLimits, decode_exact, encode_exact
from app.core.digest import Digest, sha256
from app.core.errors import DocumentError, FormatError
from app.core.qualify.offence import first_offence

MAX_RECEIPT_BYTES = 4 * 1024 * 1024
# The deepest document of the corpus has 7 levels. Python takes integers of up to 4300 digits from text.
# Its largest documents have some thousand values; the bound keeps a hostile one from costing many seconds.
LIMITS = JsonLimits(byte_count=MAX_RECEIPT_BYTES, depth=32, number_characters=4096, values=250_000)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One submitted document. ``value`` is shared and never changed; ``sha256`` is over the bytes as they
    came."""

    sha256: Digest
    byte_count: int
    value: ExactValue

    @property
    def schema(self) -> str | None:
        """The schema string; none if it is absent or no string."""
        if not isinstance(self.value, dict):
            return None
        name = self.value.get(schema_member(self.value))
        return name if isinstance(name, str) else None


def schema_member(members: Mapping[str, ExactValue]) -> str:
    """Under which name a document says its schema: ``$schema`` only where it is the address of a JSON
    Schema, which is what a schema itself is written with."""
    of_a_schema = members.get("$schema")
    named = isinstance(of_a_schema, str) and of_a_schema.startswith(("http://", "https://"))
    return "$schema" if named and "schema" not in members else "schema"


def read_document(raw: bytes, *, subject: str = "document", limits: JsonLimits = LIMITS) -> Document:
    """Decode submitted bytes.

    Args: raw: the bytes as submitted, at most 4 MiB. subject: what the document is called in messages: a
    file name, or nothing better than "document". limits: those of another kind of document than receipts.

    Raises: DocumentError: too large, nested deeper than 32, more than 250,000 values, not UTF-8,
    byte-order mark, duplicate key, NaN or infinity, unpaired surrogate, number over 4096 characters, or
    no JSON; with pointer and offset.
    """
    if raw.startswith(_BYTE_ORDER_MARK):
        raise DocumentError(subject, expected="UTF-8 without a byte-order mark", found="one in front")
    try:
        value = decode_exact(raw, subject=subject, limits=limits)
    except FormatError as error:
        raise _placed(error, raw=raw, subject=subject, limits=limits) from None
    return Document(sha256=sha256(raw), byte_count=len(raw), value=value)


def canonical_digest(value: ExactValue) -> Digest:
    """SHA-256 of the canonical form of a value (§11 items 1 and 2)."""
    return sha256(encode_exact(value))


def _placed(error: FormatError, *, raw: bytes, subject: str, limits: JsonLimits) -> DocumentError:
    pointer, offset = "", 0
    if len(raw) <= limits.byte_count:
        try:
            pointer, offset = first_offence(raw.decode("utf-8"), limits=limits)
        except UnicodeDecodeError as broken:
            offset = broken.start
    return DocumentError(subject, expected=error.expected, found=error.found, pointer=pointer, offset=offset)
