"""Signed tree heads: C2SP tlog-checkpoint inside a C2SP signed-note, keys as Go's `sumdb/note` writes them.

example.com/log          origin: the log's name
3                        tree size
Tszz…=                   root, base64
<empty>
— example.com/log Az3g…  key id (4 bytes) and Ed25519 signature, base64
"""

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Final, Self

from app.core.base64_text import decode_base64 as decode_base64
from app.core.base64_text import encode_base64 as encode_base64
from app.core.digest import sha256_bytes
from app.core.errors import FormatError, IntegrityError, shown
from app.core.ledger.merkle import HASH_BYTES, LARGEST_SIZE
from app.core.signature import PUBLIC_BYTES, SEED_BYTES, is_usable_key, public_key, sign, verify

LARGEST_NOTE_BYTES: Final = 1_000_000
LARGEST_SIGNATURES: Final = 100
_ED25519: Final = b"\x01"
_DASH: Final = "— "
_PRIVATE: Final = "PRIVATE+KEY+"
_NAME: Final = re.compile(r"[^\s+\x00-\x1f\x7f]+")
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteVerifier:
    """A named public key; its text form is the *vkey* an auditor is given."""

    name: str
    public: bytes

    @property
    def key_id(self) -> bytes:
        """Four bytes that say which key a signature line belongs to; a hint, no more."""
        return _key_id(self.name, public=self.public)

    @property
    def vkey(self) -> str:
        """``name+key id+base64(0x01 || public key)``."""
        return f"{self.name}+{self.key_id.hex()}+{encode_base64(_ED25519 + self.public)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a vkey.

        Raises:
            FormatError: it is none, or its parts do not fit each other.
        """
        name, key_id, public = _key_parts(text, subject="vkey", key_bytes=PUBLIC_BYTES)
        found = cls(name=name, public=public)
        if not is_usable_key(public):
            raise FormatError("vkey", expected="an Ed25519 public key", found="a point nobody can sign for")
        if found.key_id != key_id:
            raise FormatError("vkey", expected=f"key id {found.key_id.hex()}", found=key_id.hex())
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSigner:
    """A named secret key; its text form is the *skey* in the ledger's key file."""

    name: str
    seed: bytes = field(repr=False)

    @property
    def verifier(self) -> NoteVerifier:
        """The public half."""
        return NoteVerifier(name=self.name, public=public_key(self.seed))

    @property
    def skey(self) -> str:
        """``PRIVATE+KEY+name+key id+base64(0x01 || seed)``; a secret."""
        return f"{_PRIVATE}{self.name}+{self.verifier.key_id.hex()}+{encode_base64(_ED25519 + self.seed)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an skey; no message repeats any of it.

        Raises:
            FormatError: it is none, or its parts do not fit each other.
        """
        if not text.startswith(_PRIVATE):
            raise FormatError("skey", expected=f"{_PRIVATE}…", found=f"{len(text)} other characters")
        name, key_id, seed = _key_parts(text.removeprefix(_PRIVATE), subject="skey", key_bytes=SEED_BYTES)
        found = cls(name=name, seed=seed)
        if found.verifier.key_id != key_id:
            raise FormatError("skey", expected="the key id of its name and key", found="another one")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A tree head.

    Attributes:
        root: 32 bytes.
        extensions: further lines, opaque; we write none.
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What is signed, the last newline included."""
        lines = (self.origin, str(self.size), encode_base64(self.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedCheckpoint:
    """A tree head and its signature lines: name, key id and signature."""

    checkpoint: Checkpoint
    signatures: tuple[tuple[str, bytes, bytes], ...]


def check_name(name: str, *, subject: str) -> str:
    """A key's or log's name.

    Raises:
        FormatError: empty, or with a blank, a control character or a plus.
    """
    if _NAME.fullmatch(name) is None:
        raise FormatError(subject, expected="a name without blanks and +", found=shown(name))
    return name


def sign_checkpoint(checkpoint: Checkpoint, *, signer: NoteSigner) -> bytes:
    """The signed note."""
    body = checkpoint.text.encode()
    signature = encode_base64(signer.verifier.key_id + sign(body, seed=signer.seed))
    return body + f"\n{_DASH}{signer.name} {signature}\n".encode()


def parse_checkpoint(raw: bytes, *, subject: str = "checkpoint") -> SignedCheckpoint:
    """Read a signed checkpoint strictly; no signature is judged.

    Raises:
        FormatError: another spelling than the one its writer must use.
    """
    if len(raw) > LARGEST_NOTE_BYTES:
        raise FormatError(subject, expected=f"at most {LARGEST_NOTE_BYTES} bytes", found=str(len(raw)))
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise FormatError(subject, expected="UTF-8", found=error.reason) from None
    if any(ord(character) < 32 and character != "\n" for character in text):
        raise FormatError(subject, expected="no control characters", found="one")
    body, gap, tail = text.rpartition("\n\n")
    if not gap or not tail.endswith("\n"):
        raise FormatError(subject, expected="a text, an empty line, signatures", found=shown(text[-80:]))
    lines = tail[:-1].split("\n")
    if len(lines) > LARGEST_SIGNATURES:
        raise FormatError(subject, expected=f"at most {LARGEST_SIGNATURES} signatures", found=str(len(lines)))
    return SignedCheckpoint(
        checkpoint=_parse_text(body, subject=subject),
        signatures=tuple(_signature(line, subject=subject) for line in lines),
    )


def verify_checkpoint(raw: bytes, *, verifier: NoteVerifier, subject: str = "checkpoint") -> Checkpoint:
    """The tree head, if this key signed it and it is this log's.

    Lines of other keys (witnesses) are read over. The key id is a hint: what counts is the signature.

    Raises:
        FormatError: no signed checkpoint.
        IntegrityError: another log's, no line of this key, or a wrong signature.
    """
    note = parse_checkpoint(raw, subject=subject)
    if note.checkpoint.origin != verifier.name:
        raise IntegrityError(
            subject, expected=f"origin {verifier.name}", found=f"origin {note.checkpoint.origin}"
        )
    ours = [
        signature
        for name, key_id, signature in note.signatures
        if (name, key_id) == (verifier.name, verifier.key_id)
    ]
    if len(ours) != 1:
        raise IntegrityError(subject, expected=f"one signature of {verifier.vkey}", found=str(len(ours)))
    if not verify(note.checkpoint.text.encode(), signature=ours[0], public=verifier.public):
        raise IntegrityError(subject, expected=f"a signature of {verifier.vkey}", found="one that is wrong")
    return note.checkpoint


def decode_hash(text: str, *, subject: str) -> bytes:
    """A hash line.

    Raises:
        FormatError: not base64 of 32 bytes.
    """
    raw = decode_base64(text, subject=subject)
    if len(raw) != HASH_BYTES:
        raise FormatError(subject, expected=f"{HASH_BYTES} bytes", found=str(len(raw)))
    return raw


def parse_size(text: str, *, subject: str) -> int:
    """A tree size or leaf index: decimal, no sign, no leading zero.

    Raises:
        FormatError: another spelling, or more than 63 bits.
    """
    if _SIZE.fullmatch(text) is None or int(text) > LARGEST_SIZE:
        raise FormatError(subject, expected="a decimal number below 2^63", found=shown(text))
    return int(text)


def _parse_text(body: str, *, subject: str) -> Checkpoint:
    lines = body.split("\n")
    if len(lines) < 3 or not all(lines):
        raise FormatError(subject, expected="origin, size, root", found=f"{len(lines)} lines")
    return Checkpoint(
        origin=lines[0],
        size=parse_size(lines[1], subject=f"{subject}.size"),
        root=decode_hash(lines[2], subject=f"{subject}.root"),
        extensions=tuple(lines[3:]),
    )


def _signature(line: str, *, subject: str) -> tuple[str, bytes, bytes]:
    name, blank, text = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not blank:
        raise FormatError(subject, expected="— name signature", found=shown(line))
    raw = decode_base64(text, subject=f"{subject} signature")
    if len(raw) < 5:
        raise FormatError(f"{subject} signature", expected="5 bytes or more", found=str(len(raw)))
    return check_name(name, subject=f"{subject} signature"), raw[:4], raw[4:]


def _key_id(name: str, *, public: bytes) -> bytes:
    return sha256_bytes(name.encode() + b"\n" + _ED25519 + public)[:4]


def _key_parts(text: str, *, subject: str, key_bytes: int) -> tuple[str, bytes, bytes]:
    # Not `shown`: a secret key may stand here.
    name, _, rest = text.partition("+")
    key_id, _, key = rest.partition("+")
    check_name(name, subject=f"{subject} name")
    if re.fullmatch(r"[0-9a-f]{8}", key_id) is None:
        raise FormatError(subject, expected="name+8 hexadecimal digits+base64", found="another form")
    try:
        raw = base64.b64decode(key.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise FormatError(subject, expected="a base64 key", found="other characters") from None
    if len(raw) != 1 + key_bytes or raw[:1] != _ED25519 or encode_base64(raw) != key:
        raise FormatError(
            subject, expected=f"0x01 and {key_bytes} bytes (Ed25519)", found=f"{len(raw)} bytes"
        )
    return name, bytes.fromhex(key_id), raw[1:]
