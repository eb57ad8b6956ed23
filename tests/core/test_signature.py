"""Ed25519: RFC 8032's vectors; `cryptography` and the small routine agree, also about what is refused."""

import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core import signature
from app.core.errors import FormatError

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
# RFC 8032 §7.1: seed, public key, message, signature.
VECTORS = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
        "387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
        "4a7c15e9716ed28dc027beceea1ec40a",
    ),
    (
        "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd"
        "454d4423643ce80e2a9ac94fa54ca49f",
        "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e030"
        "3dca179c138ac17ad9bef1177331a704",
    ),
]
# The eight points of small order, in every spelling a reader might take.
SMALL = [
    *(y.to_bytes(32, "little") for y in (0, 1, P - 1, P, P + 1)),
    *((y | 1 << 255).to_bytes(32, "little") for y in (0, 1, P - 1, P, P + 1)),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"),
]


def both(message: bytes, *, signed: bytes, public: bytes) -> bool:
    """What both implementations say; they must say the same."""
    fast = signature.verify(message, signature=signed, public=public)
    slow = signature.verify_slowly(message, signature=signed, public=public)
    assert fast is slow
    return fast


@pytest.mark.parametrize(("seed", "public", "message", "signed"), VECTORS)
def test_vectors_of_the_rfc(seed: str, public: str, message: str, signed: str) -> None:
    key, text, expected = bytes.fromhex(seed), bytes.fromhex(message), bytes.fromhex(signed)
    assert signature.public_key(key).hex() == public
    assert signature.sign(text, seed=key) == expected
    assert both(text, signed=expected, public=bytes.fromhex(public))


@settings(max_examples=40, deadline=None)
@given(seed=st.binary(min_size=32, max_size=32), message=st.binary(max_size=200), bit=st.integers(0, 1023))
def test_both_say_the_same_of_a_signature_and_of_one_bit_less(seed: bytes, message: bytes, bit: int) -> None:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public, signed = key.public_key().public_bytes_raw(), key.sign(message)
    assert both(message, signed=signed, public=public)
    assert not both(message + b"\x00", signed=signed, public=public)
    whole = int.from_bytes(signed + public, "little") ^ 1 << bit % 768
    changed = whole.to_bytes(96, "little")
    assert not both(message, signed=changed[:64], public=changed[64:])


@pytest.mark.parametrize("point", SMALL, ids=bytes.hex)
def test_points_of_small_order_are_no_keys(point: bytes) -> None:
    """With such a key one signature would hold for many messages: S = 0 and R of small order."""
    assert not signature.is_usable_key(point)
    for r in SMALL:
        for message in (b"a", b"b", b"c", b"d"):
            assert not both(message, signed=r + bytes(32), public=point)


def test_without_the_check_cryptography_would_take_one() -> None:
    """The reason for the check: OpenSSL knows no small order."""
    neutral = (1).to_bytes(32, "little")
    Ed25519PublicKey.from_public_bytes(neutral).verify(neutral + bytes(32), b"whatever")


@pytest.mark.parametrize("y", [P + 2, P + 3, 2**255 - 1])
def test_points_in_another_spelling_are_no_keys(y: int) -> None:
    assert not signature.is_usable_key(y.to_bytes(32, "little"))
    assert not signature.is_usable_key((y | 1 << 255).to_bytes(32, "little"))


def test_a_scalar_beyond_the_order_is_refused() -> None:
    _, public, message, signed = (bytes.fromhex(text) for text in VECTORS[1])
    scalar = int.from_bytes(signed[32:], "little")
    for more in (L, 2 * L):
        other = signed[:32] + (scalar + more).to_bytes(32, "little")
        assert not both(message, signed=other, public=public)


def test_other_lengths_are_refused() -> None:
    seed, public, message, signed = (bytes.fromhex(text) for text in VECTORS[1])
    for wrong in (b"", signed[:-1], signed + b"\x00"):
        assert not both(message, signed=wrong, public=public)
    for wrong in (b"", public[:-1], public + b"\x00"):
        assert not both(message, signed=signed, public=wrong)
    with pytest.raises(FormatError, match="expected 32 bytes, found 31 bytes"):
        signature.sign(b"", seed=seed[:-1])


def test_without_cryptography_it_verifies_and_says_that_it_cannot_sign() -> None:
    _, public, message, signed = VECTORS[1]
    code = f"""
import sys
sys.modules["cryptography"] = None
from app.core import signature
assert not signature.HAS_CRYPTOGRAPHY
ask = dict(signature=bytes.fromhex("{signed}"), public=bytes.fromhex("{public}"))
assert signature.verify(bytes.fromhex("{message}"), **ask)
assert not signature.verify(b"other", **ask)
try:
    signature.sign(b"", seed=bytes(32))
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "needs the package cryptography" in done.stdout
