"""Checkpoints, proofs, keys and leaves as texts: Go's note keys, one spelling each, nothing bent passes."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.canonical_json import encode_canonical
from app.core.errors import CoreError, FormatError, IntegrityError
from app.core.ledger.checkpoint import (
    Checkpoint,
    NoteSigner,
    NoteVerifier,
    encode_base64,
    parse_checkpoint,
    sign_checkpoint,
    verify_checkpoint,
)
from app.core.ledger.leaf import Leaf, encode_leaf, parse_leaf, row_digest
from app.core.ledger.merkle import consistency_path, inclusion_path
from app.core.ledger.proof import (
    ConsistencyProof,
    InclusionProof,
    encode_consistency,
    encode_inclusion,
    parse_consistency,
    parse_inclusion,
    verify_consistency_proof,
    verify_inclusion_proof,
)
from app.core.signature import sign
from tests.core.test_merkle import Tree

# The example keys of golang.org/x/mod/sumdb/note, and the key of the Go checksum database.
GO_SKEY = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
GO_VKEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_TEXT = (
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
)
GO_SIGNATURE = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
SUM_DATABASE = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"

SIGNER = NoteSigner(name="example.org/log", seed=b"s" * 32)
WITNESS = NoteSigner(name="witness.example", seed=b"w" * 32)
LEAVES = [bytes([number]) * 3 for number in range(11)]
TREE = Tree(LEAVES)


def head(size: int) -> Checkpoint:
    return Checkpoint(origin=SIGNER.name, size=size, root=TREE.roots[size])


def note(size: int) -> bytes:
    return sign_checkpoint(head(size), signer=SIGNER)


def inclusion(index: int, size: int) -> bytes:
    path = tuple(inclusion_path(index, size=size, read=TREE.read))
    return encode_inclusion(InclusionProof(index=index, path=path, checkpoint=note(size)))


def consistency(first: int, second: int) -> bytes:
    path = tuple(consistency_path(first, second=second, read=TREE.read))
    return encode_consistency(ConsistencyProof(old_size=first, path=path, checkpoint=note(second)))


def test_keys_and_signatures_are_those_of_go() -> None:
    signer = NoteSigner.parse(GO_SKEY)
    assert (signer.skey, signer.verifier.vkey) == (GO_SKEY, GO_VKEY)
    assert NoteVerifier.parse(GO_VKEY) == signer.verifier
    signed = signer.verifier.key_id + sign(GO_TEXT.encode(), seed=signer.seed)
    assert encode_base64(signed) == GO_SIGNATURE
    assert NoteVerifier.parse(SUM_DATABASE).vkey == SUM_DATABASE


def test_a_secret_key_shows_in_no_text() -> None:
    assert "AYEK" not in repr(NoteSigner.parse(GO_SKEY))
    assert "seed" not in repr(NoteSigner.parse(GO_SKEY))
    for broken in (GO_SKEY[:-4], GO_SKEY.replace("c74f20a3", "c74f20a4"), GO_SKEY.replace("+AY", "+AZ")):
        with pytest.raises(FormatError) as caught:
            NoteSigner.parse(broken)
        assert GO_SKEY[-20:-8] not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        GO_VKEY.replace("Peter", "Paul"),
        GO_VKEY.replace("c74f20a3", "C74F20A3"),
        GO_VKEY.replace("+ARpc", "+BRpc"),
        GO_VKEY + "\n",
        "a b" + GO_VKEY,
        GO_SKEY,
        NoteVerifier(name="n", public=bytes([1]) + bytes(31)).vkey,
    ],
)
def test_what_is_no_verifier_key_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="vkey"):
        NoteVerifier.parse(text)


def test_a_checkpoint_is_what_the_specification_says() -> None:
    lines = note(3).decode().split("\n")
    assert lines[:4] == ["example.org/log", "3", encode_base64(TREE.roots[3]), ""]
    assert lines[4].startswith("— example.org/log ")
    assert lines[5:] == [""]
    assert verify_checkpoint(note(3), verifier=SIGNER.verifier) == head(3)


def test_extensions_and_other_signatures_are_read_over() -> None:
    longer = Checkpoint(origin=SIGNER.name, size=3, root=TREE.roots[3], extensions=("time 7", "x"))
    signed = sign_checkpoint(longer, signer=SIGNER)
    witnessed = sign_checkpoint(longer, signer=WITNESS).decode().splitlines()[-1]
    both = signed + f"{witnessed}\n".encode()
    assert verify_checkpoint(both, verifier=SIGNER.verifier) == longer
    assert [name for name, _, _ in parse_checkpoint(both).signatures] == [SIGNER.name, WITNESS.name]


def test_another_log_another_key_and_no_line_of_ours_are_refused() -> None:
    other = NoteSigner(name=SIGNER.name, seed=b"t" * 32)
    with pytest.raises(IntegrityError, match="expected one signature"):
        verify_checkpoint(note(3), verifier=other.verifier)
    with pytest.raises(IntegrityError, match=r"expected origin witness\.example"):
        verify_checkpoint(note(3), verifier=WITNESS.verifier)
    line = note(3).decode().splitlines()[-1]
    with pytest.raises(IntegrityError, match="expected one signature"):
        verify_checkpoint(note(3) + f"{line}\n".encode(), verifier=SIGNER.verifier)
    forged = note(3).replace(b"\n3\n", b"\n4\n")
    with pytest.raises(IntegrityError, match="one that is wrong"):
        verify_checkpoint(forged, verifier=SIGNER.verifier)


ROOT = encode_base64(TREE.roots[3])
LINE = note(3).decode().splitlines()[-1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"log\n3\n{ROOT}\n",
        f"log\n3\n{ROOT}\n\n",
        f"log\n3\n\n{LINE}\n",
        f"log\n03\n{ROOT}\n\n{LINE}\n",
        f"log\n-3\n{ROOT}\n\n{LINE}\n",
        f"log\n+3\n{ROOT}\n\n{LINE}\n",
        f"log\n٣\n{ROOT}\n\n{LINE}\n",
        f"log\n{2**63}\n{ROOT}\n\n{LINE}\n",
        f"log\n3\n{ROOT[:-4]}\n\n{LINE}\n",
        f"log\n3\n{ROOT[:-1]}\n\n{LINE}\n",
        f"log\r\n3\n{ROOT}\n\n{LINE}\n",
        f"log\n3\n{ROOT}\n\n{LINE}",
        f"log\n3\n{ROOT}\n\n{LINE}\n\n",
        f"log\n3\n{ROOT}\n\n{LINE.removeprefix('— ')}\n",
        f"log\n3\n{ROOT}\n\n- {LINE.removeprefix('— ')}\n",
        f"log\n3\n{ROOT}\n\n— name\n",
        f"log\n3\n{ROOT}\n\n— na+me AAAAAAA=\n",
        f"log\n3\n{ROOT}\n\n— name AAAA\n",
        f"log\n3\n{ROOT}\n\n" + 101 * f"{LINE}\n",
    ],
)
def test_a_checkpoint_in_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_checkpoint(text.encode())


def test_proofs_prove_at_every_size() -> None:
    for size in range(1, 12):
        for index in range(size):
            proof = inclusion(index, size)
            assert verify_inclusion_proof(proof, document=LEAVES[index], verifier=SIGNER.verifier) == head(
                size
            )
        for first in range(size + 1):
            proof = consistency(first, size)
            assert verify_consistency_proof(proof, old=head(first), verifier=SIGNER.verifier) == head(size)


def test_a_proof_reads_like_the_specification() -> None:
    lines = inclusion(2, 3).decode().split("\n")
    assert lines[:4] == ["c2sp.org/tlog-proof@v1", "index 2", encode_base64(TREE.roots[2]), ""]
    assert "\n".join(lines[4:]).encode() == note(3)
    extra = InclusionProof(index=2, path=(TREE.roots[2],), checkpoint=note(3), extra=b"leaf")
    assert encode_inclusion(extra).decode().split("\n")[1] == "extra bGVhZg=="
    assert parse_inclusion(encode_inclusion(extra)) == extra
    assert parse_consistency(consistency(2, 3)).old_size == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("c2sp.org/tlog-proof@v1\n", "c2sp.org/tlog-proof@v2\n"),
        ("c2sp.org/tlog-proof@v1\n", ""),
        ("index 2\n", "index 02\n"),
        ("index 2\n", "index -2\n"),
        ("index 2\n", ""),
        ("index 2\n", "index 2\nindex 2\n"),
        ("index 2\n", "extra eA=\nindex 2\n"),
        ("index 2\n", "index 2\nextra eA==\n"),
        ("index 2\n", "index 2\n" + 64 * f"{ROOT}\n"),
        ("index 2\n", f"index 2\n{ROOT[:-4]}\n"),
        ("index 2\n", "index 2 \n"),
    ],
)
def test_a_proof_in_another_spelling_is_refused(old: str, new: str) -> None:
    bent = inclusion(2, 3).replace(old.encode(), new.encode(), 1)
    with pytest.raises(FormatError):
        parse_inclusion(bent)


def test_a_proof_of_something_else_is_refused() -> None:
    with pytest.raises(IntegrityError):
        verify_inclusion_proof(inclusion(2, 3), document=LEAVES[1], verifier=SIGNER.verifier)
    with pytest.raises(FormatError, match=r"consistency proof\.old: expected 3, found 2"):
        verify_consistency_proof(consistency(2, 5), old=head(3), verifier=SIGNER.verifier)
    other = Checkpoint(origin=SIGNER.name, size=2, root=TREE.roots[3])
    with pytest.raises(IntegrityError):
        verify_consistency_proof(consistency(2, 5), old=other, verifier=SIGNER.verifier)


@settings(max_examples=400, deadline=None)
@given(data=st.data(), kind=st.booleans())
def test_no_flipped_bit_and_no_lost_byte_gets_through(data: st.DataObject, kind: bool) -> None:
    raw = inclusion(4, 11) if kind else consistency(5, 11)
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    bent = bytearray(raw)
    bent[bit // 8] ^= 1 << bit % 8
    for wrong in (bytes(bent), raw[: bit // 8] + raw[bit // 8 + 1 :]):
        with pytest.raises(CoreError):
            check(wrong, is_inclusion=kind)


def check(raw: bytes, *, is_inclusion: bool) -> Checkpoint:
    if is_inclusion:
        return verify_inclusion_proof(raw, document=LEAVES[4], verifier=SIGNER.verifier)
    return verify_consistency_proof(raw, old=head(5), verifier=SIGNER.verifier)


LEAF = Leaf(
    kind="layout-registered",
    at=datetime(2026, 7, 5, 12, 0, 0, 7, tzinfo=UTC),
    by="ada",
    rows={"layout": {"a" * 64: "b" * 64}},
    facts={"restore": "x", "ranks": 4},
)
LEAF_BYTES = (
    b'{"at":"2026-07-05T12:00:00.000007Z","by":"ada","facts":{"ranks":4,"restore":"x"},'
    b'"kind":"layout-registered","rows":{"layout":{"' + b"a" * 64 + b'":"' + b"b" * 64 + b'"}},'
    b'"schema":"sparkgate-ledger-leaf/v1"}'
)


def test_a_leaf_has_one_spelling() -> None:
    assert encode_leaf(LEAF) == LEAF_BYTES
    assert parse_leaf(LEAF_BYTES, subject="leaf") == LEAF


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"by":"ada"', b'"by":""'),
        (b'"by":"ada",', b""),
        (b'"by":"ada"', b'"by":"ada","x":1'),
        (b'"by":"ada"', b'"by" :"ada"'),
        (b"leaf/v1", b"leaf/v2"),
        (b"layout-registered", b"Layout registered"),
        (b"000007Z", b"000007+00:00"),
        (b"07-05T", b"02-30T"),
        (b'"' + b"b" * 64, b'"' + b"B" * 64),
        (b'"facts":{', b'"facts":[],"rowz":{'),
    ],
)
def test_a_leaf_in_another_spelling_is_refused(old: bytes, new: bytes) -> None:
    with pytest.raises(FormatError):
        parse_leaf(LEAF_BYTES.replace(old, new, 1), subject="leaf")


def test_a_leaf_that_could_not_be_read_back_is_not_written() -> None:
    with pytest.raises(FormatError, match="kind"):
        encode_leaf(Leaf(kind="Two Words", at=LEAF.at, by="ada", rows={}))
    with pytest.raises(FormatError, match="by"):
        encode_leaf(Leaf(kind="one", at=LEAF.at, by="", rows={}))
    with pytest.raises(FormatError, match="at most 16777216 bytes"):
        encode_leaf(Leaf(kind="one", at=LEAF.at, by="a" * 2**24, rows={}))


def test_digests_of_rows_tell_types_and_absence_apart() -> None:
    values = [
        {"a": None},
        {"a": ("text", "")},
        {"a": ("text", "7")},
        {"a": ("integer", "7")},
        {"b": None},
        {},
    ]
    digests = {row_digest(view, values=value) for value in values for view in ("x", "y")}
    assert len(digests) == 2 * len(values)
    document = {"columns": {"a": ["integer", "7"]}, "view": "x"}
    assert encode_canonical(document) == b'{"columns":{"a":["integer","7"]},"view":"x"}'
