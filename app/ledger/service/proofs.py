"""What the log says of itself: its head, its entries, checkpoints and proofs."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.core.errors import CoreError
from app.core.ledger.checkpoint import Checkpoint, NoteSigner, sign_checkpoint
from app.core.ledger.merkle import (
    Node,
    NodeReader,
    consistency_path,
    inclusion_path,
    root_of,
    verify_consistency,
)
from app.core.ledger.proof import ConsistencyProof, InclusionProof, encode_consistency, encode_inclusion
from app.errors import BadRequest, NotFound, Unavailable
from app.ledger.repository import log
from app.models import LedgerCheckpoint, LedgerLeaf


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The log now: its size and root, and the newest checkpoint that was handed out."""

    size: int
    root: bytes
    latest: LedgerCheckpoint | None


def head(session: Session) -> Head:
    """The size and root of the log now."""
    size = log.size(session)
    return Head(size=size, root=_root(session, size=size), latest=log.latest_checkpoint(session))


def entries(session: Session, *, start: int, limit: int) -> tuple[Sequence[LedgerLeaf], int]:
    """At most `limit` leaves from `start` on, and the size of the log.

    Raises:
        BadRequest: `start` lies behind the end; exactly the end is the empty rest.
    """
    size = log.size(session)
    _check_size(start, size=size, name="start")
    return log.entries(session, start=start, limit=limit), size


def entry(session: Session, *, index: int) -> LedgerLeaf:
    """One leaf.

    Raises:
        NotFound: the log is not that long.
    """
    found = log.entry(session, index=index) if index < 2**63 else None
    if found is None:
        raise NotFound(f"ledger entry {index}: the log has {log.size(session)} entries, numbered from 0")
    return found


def checkpoint(session: Session, *, size: int | None, signer: NoteSigner | None) -> bytes:
    """The signed head of now, or the one handed out earlier for `size`.

    Raises:
        BadRequest: the log is not that long.
        NotFound: no checkpoint of that size was handed out.
        Unavailable: there is no key, or the log differs from what was signed before.
    """
    now = log.size(session)
    if size is None:
        return checkpoint_at(session, size=now, signer=signer)
    _check_size(size, size=now, name="size")
    stored = log.checkpoint(session, size=size)
    if stored is None:
        raise NotFound(f"ledger checkpoint of size {size}: none was handed out")
    return stored.note


def checkpoint_at(session: Session, *, size: int, signer: NoteSigner | None) -> bytes:
    """The checkpoint of exactly this size, signed and kept if it is new.

    It is signed only if the checkpoints next to it, smaller and larger, are of the same history.

    Raises:
        Unavailable: there is no key, or the log differs from what was signed before.
    """
    if signer is None:
        raise Unavailable(
            "ledger: no key is set to sign checkpoints with (SPARKGATE_LEDGER_KEY_FILE)",
            code="ledger-key-missing",
        )
    root = _root(session, size=size)
    stored = log.checkpoint(session, size=size)
    if stored is not None:
        if bytes.fromhex(stored.root) != root:
            raise _inconsistent(f"checkpoint of size {size}: expected root {stored.root}, found {root.hex()}")
        return stored.note
    for neighbour in log.neighbours(session, size=size):
        _check_same_history(session, size=size, root=root, signed=neighbour)
    note = sign_checkpoint(Checkpoint(origin=signer.name, size=size, root=root), signer=signer)
    log.add_checkpoint(session, size=size, root=root, note=note)
    return note


def inclusion(session: Session, *, index: int, size: int | None, signer: NoteSigner | None) -> bytes:
    """The text that proves an entry to be under the checkpoint of exactly `size` (of now if not given).

    Raises:
        BadRequest: the log is not that long, or the entry is not within `size`.
        Unavailable: as `checkpoint_at`.
    """
    now = log.size(session)
    size = now if size is None else size
    _check_size(size, size=now, name="size")
    if index >= size:
        raise _out_of_range(f"index: expected less than the size {size}, found {index}")
    note = checkpoint_at(session, size=size, signer=signer)
    path = tuple(inclusion_path(index, size=size, read=_reader(session)))
    return encode_inclusion(InclusionProof(index=index, path=path, checkpoint=note))


def consistency(session: Session, *, first: int, second: int | None, signer: NoteSigner | None) -> bytes:
    """The text that proves the log of `first` entries to be the start of the one of `second` (of now).

    Raises:
        BadRequest: the log is not that long, or the sizes are the wrong way round.
        Unavailable: as `checkpoint_at`.
    """
    now = log.size(session)
    second = now if second is None else second
    _check_size(second, size=now, name="to")
    if first > second:
        raise _out_of_range(f"from: expected at most to = {second}, found {first}")
    note = checkpoint_at(session, size=second, signer=signer)
    path = tuple(consistency_path(first, second=second, read=_reader(session)))
    return encode_consistency(ConsistencyProof(old_size=first, path=path, checkpoint=note))


def _root(session: Session, *, size: int) -> bytes:
    return root_of(size, read=_reader(session))


def _reader(session: Session) -> NodeReader:
    def read(nodes: Sequence[Node]) -> dict[Node, bytes]:
        found = log.hashes(session, nodes=nodes)
        for node in nodes:
            if node not in found:
                raise _inconsistent(f"expected node {node.level}/{node.position}, found none")
        return found

    return read


def _check_same_history(session: Session, *, size: int, root: bytes, signed: LedgerCheckpoint) -> None:
    ours, theirs = (size, root), (signed.size, bytes.fromhex(signed.root))
    (first, first_root), (second, second_root) = sorted((ours, theirs))

    try:
        path = consistency_path(first, second=second, read=_reader(session))
        verify_consistency(
            first=first, second=second, path=path, first_root=first_root, second_root=second_root
        )
    except CoreError as error:
        raise _inconsistent(f"checkpoint of size {signed.size}: {error}") from None


def _inconsistent(detail: str) -> Unavailable:
    return Unavailable(
        f"ledger: the log is not the one that was written ({detail}); nothing is signed, see `sparkgate "
        "ledger audit`",
        code="ledger-inconsistent",
    )


def _check_size(asked: int, *, size: int, name: str) -> None:
    if asked > size:
        raise _out_of_range(f"{name}: expected at most the size of the log, {size}, found {asked}")


def _out_of_range(detail: str) -> BadRequest:
    return BadRequest(detail, code="ledger-out-of-range")
