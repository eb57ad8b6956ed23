"""Every bit of a bundle matters: one that is flipped is found, wherever it lies."""

import random

import pytest

from app.core.bundle.sample import make_sample
from tests.core.bundle import rig

STRIDE = 41
"""In CI every so-many-th byte; prime to the blocks of the archive, so that all places in them are met."""


def _refused(raw: bytes) -> bool:
    return rig.verify(raw).exit_code in (1, 2)


def _flipped(raw: bytes, *, place: int, bit: int) -> bytes:
    changed = bytearray(raw)
    changed[place] ^= 1 << bit
    return bytes(changed)


def test_the_bundle_itself_is_good() -> None:
    assert rig.verify(rig.smallest()).exit_code == 0
    assert rig.verify(rig.small()).exit_code == 0


def test_a_flipped_bit_in_every_so_many_th_byte_is_refused() -> None:
    raw = rig.smallest()
    taken = [
        place
        for place in range(0, len(raw), STRIDE)
        if not _refused(_flipped(raw, place=place, bit=place % 8))
    ]
    assert taken == []


def test_a_flipped_bit_in_headers_and_padding_is_refused() -> None:
    """The first member's header, bit by bit, and the end."""
    raw = rig.smallest()
    places = [*range(512), *range(len(raw) - 1024, len(raw))]
    assert [place for place in places if not _refused(_flipped(raw, place=place, bit=place % 8))] == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_of_a_small_bundle_is_refused(bit: int) -> None:
    raw = rig.smallest()
    assert [place for place in range(len(raw)) if not _refused(_flipped(raw, place=place, bit=bit))] == []


def _random_flips(count: int, *, seed: int) -> None:
    raw = rig.build(make_sample(seed=rig.SEED, receipts=24))
    assert rig.verify(raw).exit_code == 0
    chance = random.Random(seed)
    places = [(chance.randrange(len(raw)), chance.randrange(8)) for _ in range(count)]
    assert [one for one in places if not _refused(_flipped(raw, place=one[0], bit=one[1]))] == []


def test_random_flips_of_a_larger_bundle_are_refused() -> None:
    _random_flips(200, seed=20260101)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_thousand_random_flips_of_a_larger_bundle_are_refused() -> None:
    _random_flips(2000, seed=20260102)
