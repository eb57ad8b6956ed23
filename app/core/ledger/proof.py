"""Proofs as texts that need nothing else: C2SP tlog-proof for inclusion, and for consistency the request
body of C2SP tlog-witness (`add-checkpoint`), so that a witness can be given it as it is.

    c2sp.org/tlog-proof@v1             old 3
    index 2                            <hash>
    <hash>                             …
    …                                  <empty>
    <empty>                            <checkpoint>
    <checkpoint>
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.core.errors import FormatError, shown
from app.core.ledger.checkpoint import (
    Checkpoint,
    NoteVerifier,
    decode_base64,
    decode_hash,
    encode_base64,
    parse_size,
    verify_checkpoint,
)
from app.core.ledger.merkle import leaf_hash, verify_consistency, verify_inclusion

FIRST_LINE: Final = "c2sp.org/tlog-proof@v1"
LONGEST_PATH: Final = 63
_GAP: Final = b"\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class InclusionProof:
    """That a leaf stands at an index of the tree its checkpoint signs.

    Attributes:
        extra: opaque bytes for people or programs; nothing proves them.
        checkpoint: the signed note, byte for byte.
    """

    index: int
    path: tuple[bytes, ...]
    checkpoint: bytes
    extra: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistencyProof:
    """That the tree of `old_size` leaves is a prefix of the one its checkpoint signs."""

    old_size: int
    path: tuple[bytes, ...]
    checkpoint: bytes


def encode_inclusion(proof: InclusionProof) -> bytes:
    """The text of a ``.tlog-proof`` file."""
    extra = [] if proof.extra is None else [f"extra {encode_base64(proof.extra)}"]
    lines = [FIRST_LINE, *extra, f"index {proof.index}", *map(encode_base64, proof.path)]
    return _encode(lines, checkpoint=proof.checkpoint)


def encode_consistency(proof: ConsistencyProof) -> bytes:
    """The text of an ``add-checkpoint`` request."""
    return _encode([f"old {proof.old_size}", *map(encode_base64, proof.path)], checkpoint=proof.checkpoint)


def parse_inclusion(raw: bytes, *, subject: str = "inclusion proof") -> InclusionProof:
    """Read a ``.tlog-proof`` strictly; nothing is verified.

    Raises:
        FormatError: another spelling.
    """
    lines, checkpoint = _lines(raw, subject=subject)
    if lines[0] != FIRST_LINE:
        raise FormatError(subject, expected=FIRST_LINE, found=shown(lines[0]))
    rest, extra = lines[1:], None
    if rest and rest[0].startswith("extra "):
        extra = decode_base64(rest[0].removeprefix("extra "), subject=f"{subject}.extra")
        rest = rest[1:]
    if not rest or not rest[0].startswith("index "):
        raise FormatError(subject, expected="a line index N", found=shown(rest[0] if rest else "no line"))
    index = parse_size(rest[0].removeprefix("index "), subject=f"{subject}.index")
    return InclusionProof(
        index=index, path=_path(rest[1:], subject=subject), checkpoint=checkpoint, extra=extra
    )


def parse_consistency(raw: bytes, *, subject: str = "consistency proof") -> ConsistencyProof:
    """Read a consistency proof strictly; nothing is verified.

    Raises:
        FormatError: another spelling.
    """
    lines, checkpoint = _lines(raw, subject=subject)
    if not lines[0].startswith("old "):
        raise FormatError(subject, expected="a line old N", found=shown(lines[0]))
    size = parse_size(lines[0].removeprefix("old "), subject=f"{subject}.old")
    return ConsistencyProof(old_size=size, path=_path(lines[1:], subject=subject), checkpoint=checkpoint)


def verify_inclusion_proof(raw: bytes, *, document: bytes, verifier: NoteVerifier) -> Checkpoint:
    """The signed head a leaf's bytes are proven to be under, against the proof's own tree size.

    Raises:
        FormatError: no proof, or no checkpoint in it.
        IntegrityError: a wrong signature, or the leaf is not there.
    """
    proof = parse_inclusion(raw)
    head = verify_checkpoint(proof.checkpoint, verifier=verifier)
    verify_inclusion(leaf_hash(document), index=proof.index, size=head.size, path=proof.path, root=head.root)
    return head


def verify_consistency_proof(raw: bytes, *, old: Checkpoint, verifier: NoteVerifier) -> Checkpoint:
    """The signed head that the old one is proven to be a prefix of.

    Raises:
        FormatError: no proof, no checkpoint in it, or one from another size than the old head's.
        IntegrityError: a wrong signature, or history was changed.
    """
    proof = parse_consistency(raw)
    head = verify_checkpoint(proof.checkpoint, verifier=verifier)
    if proof.old_size != old.size:
        raise FormatError("consistency proof.old", expected=str(old.size), found=str(proof.old_size))
    verify_consistency(
        first=old.size, second=head.size, path=proof.path, first_root=old.root, second_root=head.root
    )
    return head


def _encode(lines: Sequence[str], *, checkpoint: bytes) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("ascii") + b"\n" + checkpoint


def _lines(raw: bytes, *, subject: str) -> tuple[list[str], bytes]:
    head, gap, checkpoint = raw.partition(_GAP)
    if not gap:
        raise FormatError(subject, expected="an empty line before the checkpoint", found="none")
    try:
        return head.decode("ascii").split("\n"), checkpoint
    except UnicodeDecodeError:
        raise FormatError(subject, expected="ASCII before the checkpoint", found="other bytes") from None


def _path(lines: Sequence[str], *, subject: str) -> tuple[bytes, ...]:
    if len(lines) > LONGEST_PATH:
        raise FormatError(subject, expected=f"at most {LONGEST_PATH} hashes", found=str(len(lines)))
    return tuple(decode_hash(line, subject=f"{subject} hash {number}") for number, line in enumerate(lines))
