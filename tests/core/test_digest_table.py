"""``DigestTable`` is a sorted map from digests to rows, whatever digests it is given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.digest import Digest, sha256
from app.core.store.digest_table import DigestTable, DigestTableBuilder

# Few first bytes and few others, so that digests collide, share buckets, and leave buckets empty.
first_bytes = st.sampled_from(("00", "7f", "ff"))
digests = st.lists(st.builds(lambda first, rest: Digest(first + rest * 31), first_bytes, first_bytes))


def built(names: list[Digest], *, extra: bytes = b"", several: bool = False) -> DigestTable:
    builder = DigestTableBuilder(extra_bytes=len(extra), several=several)
    for name in names:
        builder.add(name, extra=extra)
    return builder.build()


@given(digests, digests)
def test_it_finds_what_it_was_given_and_nothing_else(names: list[Digest], others: list[Digest]) -> None:
    table = built(names)
    assert list(table) == sorted(set(names))
    assert len(table) == len(set(names))
    for name in names:
        row = table.find(name)
        assert row is not None
        assert table.digest(row) == name
    for other in set(others) - set(names):
        assert table.find(other) is None


def test_many_rows_keep_their_extras_and_marks() -> None:
    builder = DigestTableBuilder(extra_bytes=2)
    names = [sha256(b"%d" % number) for number in range(5_000)]
    for number, name in enumerate(names):
        builder.add(name, extra=number.to_bytes(2, "big"))
    table = builder.build()
    for number, name in enumerate(names):
        row = table.find(name)
        assert row is not None
        assert table.extra(row) == number.to_bytes(2, "big")
        assert not table.mark(row, bit=1)
        assert table.mark(row, bit=1)
        assert table.has(row, bit=1)
        assert not table.has(row, bit=2)


def test_several_rows_of_one_digest_are_sorted_by_their_extras() -> None:
    builder = DigestTableBuilder(extra_bytes=1, several=True)
    for extra in (b"c", b"a", b"b", b"a"):
        builder.add(sha256(b""), extra=extra)
    table = builder.build()
    assert [bytes(table.extra(row)) for row in range(len(table))] == [b"a", b"b", b"c"]
    assert table.find(sha256(b"")) == 0


def test_an_extra_of_another_length_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="expected 0 bytes, found 1"):
        DigestTableBuilder().add(sha256(b""), extra=b"x")
