"""DSSE envelopes (secure-systems-lab/dsse, protocol 1.0) with one Ed25519 signature, in one spelling.

Signed is ``DSSEv1 SP len(type) SP type SP len(body) SP body`` over the exact payload bytes. The key id is the
fingerprint of the key: it must fit the key that verifies, and decides nothing.
"""

from collections.abc import Callable
from typing import Final

from app.core.base64_text import decode_base64, encode_base64
from app.core.canonical_json import (
    JsonObject,
    decode_canonical,
    encode_canonical,
    expect_list,
    expect_object,
    expect_text,
)
from app.core.digest import Digest, sha256
from app.core.errors import FormatError, IntegrityError, shown
from app.core.signature import PUBLIC_BYTES, is_usable_key, verify

_KEYS: Final = frozenset({"payload", "payloadType", "signatures"})
_SIGNATURE_KEYS: Final = frozenset({"keyid", "sig"})
# SubjectPublicKeyInfo of Ed25519 (RFC 8410): a fixed head before the 32 bytes.
_SPKI_HEAD: Final = bytes.fromhex("302a300506032b6570032100")
_PEM_FIRST: Final = "-----BEGIN PUBLIC KEY-----"
_PEM_LAST: Final = "-----END PUBLIC KEY-----"

Sign = Callable[[bytes], bytes]


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """The bytes that are signed (PAE)."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def fingerprint(public: bytes) -> Digest:
    """SHA-256 of the key's DER SubjectPublicKeyInfo: what OpenSSL and people compare."""
    return sha256(_SPKI_HEAD + public)


def public_pem(public: bytes) -> bytes:
    """The key as PEM SubjectPublicKeyInfo, for OpenSSL."""
    text = encode_base64(_SPKI_HEAD + public)
    return f"{_PEM_FIRST}\n{text}\n{_PEM_LAST}\n".encode("ascii")


def parse_public_pem(raw: bytes, *, subject: str) -> bytes:
    """The 32 bytes of a key that `public_pem` wrote.

    Raises:
        FormatError: another spelling, another kind of key, or one nobody can sign for.
    """
    lines = raw.decode("ascii", "replace").split("\n")
    if len(lines) != 4 or (lines[0], lines[2], lines[3]) != (_PEM_FIRST, _PEM_LAST, ""):
        raise FormatError(subject, expected="one PEM public key", found=shown(lines[0]))
    der = decode_base64(lines[1], subject=subject)
    public = der[len(_SPKI_HEAD) :]
    if not der.startswith(_SPKI_HEAD) or len(public) != PUBLIC_BYTES or not is_usable_key(public):
        raise FormatError(subject, expected="an Ed25519 public key", found="another key")
    return public


def seal(payload: bytes, *, payload_type: str, sign: Sign, public: bytes) -> bytes:
    """The envelope of a payload in canonical JSON, signed by the holder of the key."""
    signature = sign(pre_authentication(payload_type, payload))
    signatures: JsonObject = {"keyid": str(fingerprint(public)), "sig": encode_base64(signature)}
    return encode_canonical(
        {"payload": encode_base64(payload), "payloadType": payload_type, "signatures": [signatures]}
    )


def open_envelope(raw: bytes, *, payload_type: str, public: bytes, subject: str) -> bytes:
    """The payload of an envelope that this key signed.

    Raises:
        FormatError: another spelling than `seal` writes, or another payload type.
        IntegrityError: another key's id, or a wrong signature.
    """
    envelope = expect_object(decode_canonical(raw, subject=subject), subject=subject, keys=_KEYS)
    if envelope["payloadType"] != payload_type:
        raise FormatError(
            f"{subject}.payloadType", expected=payload_type, found=shown(envelope["payloadType"])
        )
    listed = expect_list(envelope["signatures"], subject=f"{subject}.signatures", maximum=1)
    signed = expect_object(listed[0], subject=f"{subject}.signatures[0]", keys=_SIGNATURE_KEYS)
    if signed["keyid"] != fingerprint(public):
        raise IntegrityError(f"{subject}.keyid", expected=fingerprint(public), found=shown(signed["keyid"]))
    text = expect_text(envelope["payload"], subject=f"{subject}.payload")
    payload = decode_base64(text, subject=f"{subject}.payload")
    signature = decode_base64(expect_text(signed["sig"], subject=f"{subject}.sig"), subject=f"{subject}.sig")
    if not verify(pre_authentication(payload_type, payload), signature=signature, public=public):
        raise IntegrityError(
            subject, expected=f"a signature of the key {fingerprint(public)}", found="one that is wrong"
        )
    return payload
