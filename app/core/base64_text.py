"""Base64 in one spelling: standard alphabet, padded, no bit that says nothing."""

import base64
import binascii

from app.core.errors import FormatError, shown


def encode_base64(raw: bytes) -> str:
    """Standard alphabet, padded."""
    return base64.b64encode(raw).decode("ascii")


def decode_base64(text: str, *, subject: str) -> bytes:
    """Base64 in its one spelling.

    Raises:
        FormatError: other characters, other padding, or bits that say nothing.
    """
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise FormatError(subject, expected="base64", found=shown(text)) from None
    if encode_base64(raw) != text:
        raise FormatError(subject, expected="base64 in its one spelling", found=shown(text))
    return raw
