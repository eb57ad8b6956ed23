"""A proof out of a bundle holds without it: for every entry, under the bundle's own head, or not at all."""

from pathlib import Path

import pytest

from app.core.bundle import layout
from app.core.bundle.proof import prove_entry
from app.core.bundle.sample import ORIGIN, nodes_of
from app.core.errors import AbsentError, CoreError, FormatError, IntegrityError
from app.core.ledger.checkpoint import NoteVerifier
from app.core.ledger.merkle import inclusion_path
from app.core.ledger.proof import InclusionProof, encode_inclusion, parse_inclusion, verify_inclusion_proof
from app.core.signature import public_key
from tests.core.bundle import rig

VERIFIER = NoteVerifier(name=ORIGIN, public=public_key(rig.SEED))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    (tmp_path / "bundle.tar").write_bytes(rig.small())
    return tmp_path / "bundle.tar"


def test_every_entry_has_the_proof_a_server_would_give(bundle: Path) -> None:
    sample = rig.small_sample()
    leaves = sample.log.leaves
    size = len(leaves)
    read = nodes_of(sample.log.leaf_hashes())
    for index, leaf in enumerate(leaves):
        made = prove_entry(bundle, wanted=str(index))
        path = tuple(inclusion_path(index, size=size, read=read))
        served = InclusionProof(index=index, path=path, checkpoint=sample.checkpoint(size))
        assert (made.index, made.text, made.document) == (index, encode_inclusion(served), leaf.document)
        head = verify_inclusion_proof(made.text, document=leaf.document, verifier=VERIFIER)
        assert (head, made.vkey, made.signer) == (made.head, VERIFIER.vkey, rig.key())


def test_a_receipt_is_proven_by_the_first_entry_that_covers_it(bundle: Path) -> None:
    sample = rig.small_sample()
    for digest in sample.log.documents:
        index = next(
            leaf.index
            for leaf in sample.log.leaves
            if any(row.view == "receipt" and row.key == digest for row in leaf.rows)
        )
        made = prove_entry(bundle, wanted=digest, key=rig.key())
        assert (made.index, digest.encode() in made.document) == (index, True)


@pytest.mark.parametrize("start", [5, 8])
def test_entries_that_are_pruned_help_to_prove_the_others(tmp_path: Path, start: int) -> None:
    sample = rig.small_sample()
    size = len(sample.log.leaves)
    rig.build_with(
        tmp_path / "part.tar",
        sample,
        request=rig.period(sample, start=start),
        log=rig.part(sample, start=start, selected=lambda row: True),
        previous=None,
        consistency=None,
    )
    read = nodes_of(sample.log.leaf_hashes())
    for index in range(start - 1, size):
        made = prove_entry(tmp_path / "part.tar", wanted=str(index))
        assert list(parse_inclusion(made.text).path) == inclusion_path(index, size=size, read=read)
    for index in range(start - 1):
        with pytest.raises(AbsentError, match="a pruned part"):
            prove_entry(tmp_path / "part.tar", wanted=str(index))


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("11", "none of this index"),
        ("9" * 19, "none of this index"),
        ("ab" * 32, "none in this bundle"),
        ("1" * 64, "none in this bundle"),
        *(
            (text, "an index, or the digest")
            for text in ("", "-1", "01", "+1", "1.0", "\u0661", "x", "9" * 30)
        ),
    ],
)
def test_what_is_not_in_it_is_absent(bundle: Path, wanted: str, said: str) -> None:
    with pytest.raises(AbsentError, match=said):
        prove_entry(bundle, wanted=wanted)


def test_a_bundle_that_does_not_hold_together_proves_nothing(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="signer"):
        prove_entry(bundle, wanted="0", key="0" * 64)
    raw = rig.small()
    for place in range(0, len(raw), len(raw) // 60):
        bundle.write_bytes(raw[:place] + bytes([raw[place] ^ 4]) + raw[place + 1 :])
        with pytest.raises(CoreError):
            prove_entry(bundle, wanted="3")
    for text in (b"", b"no bundle", bytes(4096)):
        bundle.write_bytes(text)
        with pytest.raises(AbsentError, match="expected a bundle"):
            prove_entry(bundle, wanted="3")
    with pytest.raises(FileNotFoundError):
        prove_entry(tmp_path / "none.tar", wanted="3")


def test_an_entry_changed_by_somebody_with_the_key_is_not_proven(bundle: Path) -> None:
    """Everything is signed anew, and the log does not come to its root."""

    def edited(raw: bytes) -> bytes:
        entries = rig.lines(raw)
        entries[3]["leaf"], entries[4]["leaf"] = entries[4]["leaf"], entries[3]["leaf"]
        return rig.text_of(entries)

    bundle.write_bytes(rig.change(layout.ENTRIES, edited))
    for index in (0, 3, 4, 10):
        with pytest.raises(IntegrityError, match="root"):
            prove_entry(bundle, wanted=str(index))
    bundle.write_bytes(rig.change(layout.ENTRIES, lambda raw: raw[:-3]))
    with pytest.raises(FormatError):
        prove_entry(bundle, wanted="3")
