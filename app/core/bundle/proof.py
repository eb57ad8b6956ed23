"""The inclusion proof of one entry of a bundle, made of its log and verified before anybody gets it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.core.bundle import layout
from app.core.bundle.contents import Contents, begins_as_bundle, check_manifest, read_contents
from app.core.bundle.log import Fold
from app.core.bundle.records import LONGEST_LINE, Leaf, Subtree, parse_entry
from app.core.dsse import fingerprint
from app.core.errors import AbsentError, CoreError, IntegrityError, shown
from app.core.ledger.checkpoint import Checkpoint, NoteVerifier
from app.core.ledger.leaf import parse_leaf
from app.core.ledger.merkle import Node, inclusion_path, leaf_hash
from app.core.ledger.proof import InclusionProof, encode_inclusion, verify_inclusion_proof

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryProof:
    """That an entry stands in the log of a bundle.

    Attributes:
        text: the C2SP tlog-proof. document: the bytes of the entry it is about.
        head: what the checkpoint in it signs. vkey: with whose key.
        signer: fingerprint of the key that signed the bundle.
    """

    index: int
    text: bytes
    document: bytes
    head: Checkpoint
    vkey: str
    signer: str


def prove_entry(bundle: Path, *, wanted: str, key: str | None = None) -> EntryProof:
    """Prove an entry of a bundle whose files are those its manifest signs; verdicts are not judged.

    Args:
        wanted: index of the entry, or the digest of a receipt: then the first entry that covers it.
        key: fingerprint of the key that must have signed.

    Raises:
        OSError: the file cannot be read.
        AbsentError: the file is no bundle, or one without this entry in full.
        FormatError, IntegrityError: the bundle does not hold together, or another key signed it.
    """
    with bundle.open("rb") as file:
        if not begins_as_bundle(file):
            raise AbsentError(str(bundle), expected="a bundle", found="a file that does not begin as one")
        contents = read_contents(file, report=_refuse)
        manifest, public = check_manifest(contents, report=_refuse)
        signer = str(fingerprint(public))
        if key is not None and key != signer:
            raise IntegrityError("signer", expected=f"the key {key}", found=f"the key {signer}")
        verifier = NoteVerifier.parse(manifest.log.vkey)
        leaf = _leaf(contents, wanted)
        path = inclusion_path(leaf.index, size=manifest.log.size, read=lambda nodes: _hashes(contents, nodes))
        proof = InclusionProof(
            index=leaf.index, path=tuple(path), checkpoint=contents.text(layout.CHECKPOINT)
        )
    text = encode_inclusion(proof)
    head = verify_inclusion_proof(text, document=leaf.document, verifier=verifier)
    return EntryProof(
        index=leaf.index, text=text, document=leaf.document, head=head, vkey=verifier.vkey, signer=signer
    )


def _refuse(finding: CoreError) -> None:
    raise finding


def _entries(contents: Contents) -> Iterator[Leaf | Subtree]:
    for place, line in contents.lines(layout.ENTRIES, longest=LONGEST_LINE):
        yield parse_entry(line, subject=f"{layout.ENTRIES} at byte {place}")


def _leaf(contents: Contents, wanted: str) -> Leaf:
    """The entry of an index, or the first that covers a receipt."""
    by_receipt = _DIGEST.fullmatch(wanted) is not None
    if not by_receipt and _INDEX.fullmatch(wanted) is None:
        raise AbsentError("entry", expected="an index, or the digest of a receipt", found=shown(wanted))
    index = -1 if by_receipt else int(wanted)
    for entry in _entries(contents):
        if not isinstance(entry, Leaf):
            if entry.index <= index < entry.index + (1 << entry.level):
                raise AbsentError(f"entry {index}", expected="it in full", found="a pruned part of the log")
        elif entry.index == index or (by_receipt and _covers(entry, wanted)):
            return entry
    if by_receipt:
        raise AbsentError(
            f"receipt {wanted}", expected="an entry that covers it", found="none in this bundle"
        )
    raise AbsentError(f"entry {index}", expected="one of this bundle's log", found="none of this index")


def _covers(entry: Leaf, digest: str) -> bool:
    if digest.encode("ascii") not in entry.document:
        return False
    return digest in parse_leaf(entry.document, subject=f"entry {entry.index}").rows.get("receipt", {})


def _hashes(contents: Contents, nodes: Sequence[Node]) -> Mapping[Node, bytes]:
    """Hashes of complete subtrees that do not overlap, folded from the entries."""
    waiting = sorted(nodes, key=lambda node: node.position << node.level, reverse=True)
    found: dict[Node, bytes] = {}
    fold = Fold()
    for entry in _entries(contents):
        if not waiting or entry.index < waiting[-1].position << waiting[-1].level:
            continue
        if isinstance(entry, Leaf):
            fold.append(leaf_hash(entry.document))
        else:
            fold.append(entry.hashed, level=entry.level)
        if fold.size >= 1 << waiting[-1].level:
            found[waiting.pop()] = fold.root()
            fold = Fold()
    return found
