"""Only 64 lower-case hexadecimal characters are a digest."""

import hashlib
import mmap
from typing import Any

import pytest

from app.core.digest import Digest, RunningDigest, sha256, squeeze
from app.core.errors import FormatError, Stage

GOOD = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "value",
    [
        GOOD.upper(),
        GOOD[:-1],
        GOOD + "0",
        GOOD + "\n",
        " " + GOOD[1:],
        "../" + GOOD[3:],
        "",
        None,
        1,
        GOOD.encode(),
    ],
)
def test_not_a_digest(value: Any) -> None:
    with pytest.raises(FormatError, match=r"^object 4: expected 64 lower-case") as refused:
        Digest.parse(value, subject="object 4", stage=Stage.SIZE)
    assert refused.value.stage is Stage.SIZE


def test_a_digest_is_its_text() -> None:
    digest = Digest.parse(GOOD, subject="x")
    assert digest == GOOD
    assert type(digest) is Digest
    assert Digest.parse(digest, subject="x") is digest
    with pytest.raises(FormatError):
        Digest("A" * 64)


def test_digits_of_other_scripts_are_refused() -> None:
    with pytest.raises(FormatError):
        Digest("٠" * 64)


def test_hashes_buffers_in_place() -> None:
    pages = mmap.mmap(-1, 8192)
    with memoryview(pages) as view:
        assert sha256(view[:4096]) == hashlib.sha256(bytes(4096)).hexdigest()
        running = RunningDigest(view[:1])
        before = running.copy()
        running.update(view[1:10])
        assert running.digest() == hashlib.sha256(bytes(10)).hexdigest()
        assert before.digest() == hashlib.sha256(bytes(1)).hexdigest()
    pages.close()


def test_filler_is_shake_256() -> None:
    assert squeeze(b"label", byte_count=100) == hashlib.shake_256(b"label").digest(100)
