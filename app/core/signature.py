"""Ed25519 (RFC 8032): sign, and verify in one way with and without `cryptography`.

Verification is the cofactorless equation ``[S]B = R + [k]A`` with R compared byte for byte. Before it, and
for both implementations alike, a public key or R that is not the canonical encoding of a point, or that is
one of the eight points of small order, is refused, and so is S ≥ L: such signatures hold for more than one
message or have more than one spelling, and implementations disagree about them.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from app.core.digest import sha512_bytes
from app.core.errors import FormatError

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
except ImportError:  # the auditor's machine: verification only
    HAS_CRYPTOGRAPHY = False
else:
    HAS_CRYPTOGRAPHY = True

PUBLIC_BYTES: Final = 32
SEED_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

_P: Final = 2**255 - 19
_L: Final = 2**252 + 27742317777372353535851937790883648493
_D: Final = -121665 * pow(121666, -1, _P) % _P
_ROOT_OF_MINUS_ONE: Final = pow(2, (_P - 1) // 4, _P)
_SIGN_BIT: Final = 1 << 255
# Scalars are taken four bits at a time.
_DIGIT_BITS: Final = 4
_DIGITS: Final = 64
# Bundles and logs have one key or two, and many signatures of them.
_KEYS_KEPT: Final = 8

# (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z.
_Point = tuple[int, int, int, int]
_NEUTRAL: Final[_Point] = (0, 1, 1, 0)


def public_key(seed: bytes) -> bytes:
    """The 32 bytes of the public key of a 32-byte seed.

    Raises:
        FormatError: the seed has another length.
        RuntimeError: `cryptography` is not installed.
    """
    return _private(seed).public_key().public_bytes_raw()


def sign(message: bytes, *, seed: bytes) -> bytes:
    """The 64-byte signature; the same message and seed always give the same one.

    Raises: as `public_key`.
    """
    return _private(seed).sign(message)


def verify(message: bytes, *, signature: bytes, public: bytes) -> bool:
    """Whether the signature is one of the message by the holder of the key; malformed input is not."""
    return _is_sound(signature, public=public) and _equation(message, signature=signature, public=public)


def verify_slowly(message: bytes, *, signature: bytes, public: bytes) -> bool:
    """The same without `cryptography`, a few milliseconds for the first of a key, then one or two: for
    machines that lack it, and for tests."""
    return _is_sound(signature, public=public) and _equation_slowly(
        message, signature=signature, public=public
    )


@lru_cache(maxsize=_KEYS_KEPT)
def is_usable_key(public: bytes) -> bool:
    """Whether these bytes are a public key any signature can hold for."""
    return len(public) == PUBLIC_BYTES and _is_usable_point(public)


def _private(seed: bytes) -> "Ed25519PrivateKey":
    if len(seed) != SEED_BYTES:
        raise FormatError("Ed25519 seed", expected=f"{SEED_BYTES} bytes", found=f"{len(seed)} bytes")
    if not HAS_CRYPTOGRAPHY:
        raise RuntimeError("Ed25519: signing needs the package cryptography, found none")
    return Ed25519PrivateKey.from_private_bytes(seed)


def _is_sound(signature: bytes, *, public: bytes) -> bool:
    if len(signature) != SIGNATURE_BYTES or not is_usable_key(public):
        return False
    scalar = int.from_bytes(signature[32:], "little")
    return scalar < _L and _is_usable_point(signature[:32])


def _is_usable_point(encoded: bytes) -> bool:
    """Canonical, on the curve, and not of small order."""
    point = _decode(encoded)
    return point is not None and not _is_neutral(_double(_double(_double(point))))


def _equation_of_cryptography(message: bytes, *, signature: bytes, public: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _equation_slowly(message: bytes, *, signature: bytes, public: bytes) -> bool:
    key = _decode(public)
    if key is None:
        return False
    challenge = int.from_bytes(sha512_bytes(signature[:32] + public + message), "little") % _L
    scalar = int.from_bytes(signature[32:], "little")
    x, y, z, t = _times(challenge, key)
    found = _add(_times(scalar, _BASE), (-x % _P, y, z, -t % _P))
    return _encode(found) == signature[:32]


_equation: Final[Callable[..., bool]] = _equation_of_cryptography if HAS_CRYPTOGRAPHY else _equation_slowly


def _decode(encoded: bytes) -> _Point | None:
    number = int.from_bytes(encoded, "little")
    sign, y = number >> 255, number & (_SIGN_BIT - 1)
    if y >= _P:
        return None
    x = _x_of(y, sign=sign)
    return None if x is None else (x, y, 1, x * y % _P)


def _x_of(y: int, *, sign: int) -> int | None:
    u, v = (y * y - 1) % _P, (_D * y * y + 1) % _P
    if u == 0:
        return None if sign else 0
    # RFC 8032 §5.1.3: the root of u / v with one power.
    x = u * pow(v, 3, _P) * pow(u * pow(v, 7, _P), (_P - 5) // 8, _P) % _P
    if (v * x * x - u) % _P:
        x = x * _ROOT_OF_MINUS_ONE % _P
    if (v * x * x - u) % _P:
        return None
    return _P - x if x & 1 != sign else x


def _encode(point: _Point) -> bytes:
    inverse = pow(point[2], -1, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _add(one: _Point, other: _Point) -> _Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c = 2 * one[3] * other[3] * _D % _P
    d = 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _double(point: _Point) -> _Point:
    return _add(point, point)


def _times(scalar: int, point: _Point) -> _Point:
    """Not in constant time: it meets public values only."""
    result = _NEUTRAL
    for multiples in _multiples(point):
        digit = scalar & (1 << _DIGIT_BITS) - 1
        if digit:
            result = _add(result, multiples[digit])
        scalar >>= _DIGIT_BITS
    return result


@lru_cache(maxsize=_KEYS_KEPT)
def _multiples(point: _Point) -> tuple[tuple[_Point, ...], ...]:
    """For each digit of a scalar what each of its values adds: then only additions are left."""
    table = []
    for _ in range(_DIGITS):
        row = [_NEUTRAL]
        for _ in range(1, 1 << _DIGIT_BITS):
            row.append(_add(row[-1], point))
        table.append(tuple(row))
        point = _add(row[-1], point)
    return tuple(table)


def _is_neutral(point: _Point) -> bool:
    return point[0] % _P == 0 and (point[1] - point[2]) % _P == 0


def _base_point() -> _Point:
    y = 4 * pow(5, -1, _P) % _P
    x = _x_of(y, sign=0) or 0
    return x, y, 1, x * y % _P


_BASE: Final = _base_point()
