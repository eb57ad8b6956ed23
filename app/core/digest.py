"""SHA-256, the only digest of the store, and the only place that hashes."""

import hashlib
import re
from typing import Self

from app.core.errors import FormatError, Stage, shown

ByteBuffer = bytes | bytearray | memoryview

_HEX64 = re.compile(r"[0-9a-f]{64}")


class Digest(str):
    """A SHA-256 as 64 lower-case hexadecimal characters (``hex64``); no other text can become one."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        return cls.parse(text, subject="digest")

    @classmethod
    def parse(cls, value: object, *, subject: str, stage: Stage = Stage.METADATA) -> Self:
        """Take a foreign value as a digest.

        Args:
            value: whatever stood in the document or argument.
            subject: what the value is, for the message.
            stage: the lookup stage a refusal belongs to.

        Raises:
            FormatError: not a string of exactly 64 characters out of ``0123456789abcdef``.
        """
        if type(value) is cls:
            return value
        if not isinstance(value, str) or _HEX64.fullmatch(value) is None:
            raise FormatError(
                subject, expected="64 lower-case hexadecimal characters", found=shown(value), stage=stage
            )
        return super().__new__(cls, value)


class RunningDigest:
    """SHA-256 over buffers as they arrive; large updates run without the interpreter lock."""

    __slots__ = ("_state",)

    def __init__(self, first: ByteBuffer = b"") -> None:
        self._state = hashlib.sha256(first)

    def update(self, buffer: ByteBuffer) -> None:
        """Append the bytes of a C-contiguous buffer; nothing is copied."""
        self._state.update(buffer)

    def digest(self) -> Digest:
        """The digest of everything so far; more may follow."""
        return _printed(self._state.hexdigest())

    def copy(self) -> "RunningDigest":
        """A second state with the same past, for prefixes that share their start (store-format §6)."""
        other = RunningDigest.__new__(RunningDigest)
        other._state = self._state.copy()
        return other


def sha256(buffer: ByteBuffer) -> Digest:
    """The digest of one C-contiguous buffer; nothing is copied."""
    return _printed(hashlib.sha256(buffer).hexdigest())


def _printed(text: str) -> Digest:
    """What the hash printed is a digest and needs no look."""
    return str.__new__(Digest, text)


def sha256_bytes(buffer: ByteBuffer) -> bytes:
    """The same as 32 bytes, for arithmetic that hashes hashes (the ledger's tree)."""
    return hashlib.sha256(buffer).digest()


def sha512_bytes(buffer: ByteBuffer) -> bytes:
    """SHA-512 as 64 bytes: part of Ed25519, no digest of the store."""
    return hashlib.sha512(buffer).digest()


def squeeze(label: bytes, *, byte_count: int) -> bytes:
    """Reproducible filler: the first ``byte_count`` bytes of SHAKE-256 over a label. Not a digest."""
    return hashlib.shake_256(label).digest(byte_count)
