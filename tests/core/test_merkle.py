"""The tree of RFC 6962: known roots and proofs, every size to 130, and no bit that may be flipped."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import IntegrityError, PlanError
from app.core.ledger.merkle import (
    EMPTY_ROOT,
    Frontier,
    Node,
    consistency_path,
    inclusion_path,
    leaf_hash,
    node_hash,
    right_edge,
    root_of,
    verify_consistency,
    verify_inclusion,
)

# Inputs, roots and paths of the reference tests of the Certificate Transparency log (merkle_tree_test).
REFERENCE_LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
REFERENCE_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
REFERENCE_INCLUSION = [
    (0, 1, []),
    (
        0,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        5,
        8,
        [
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (2, 3, ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
    (
        1,
        5,
        [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]
REFERENCE_CONSISTENCY = [
    (1, 1, []),
    (
        1,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        6,
        8,
        [
            "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (
        2,
        5,
        [
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]


class Tree:
    """A log in memory."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self.hashes = [leaf_hash(leaf) for leaf in leaves]
        self.nodes: dict[Node, bytes] = {}
        self.roots = [EMPTY_ROOT]
        self.reads: list[int] = []
        frontier = Frontier()
        for index, hashed in enumerate(self.hashes):
            self.nodes[Node(0, index)] = hashed
            self.nodes.update(frontier.append(hashed))
            self.roots.append(frontier.root())

    def read(self, nodes: Sequence[Node]) -> dict[Node, bytes]:
        self.reads.append(len(nodes))
        return {node: self.nodes[node] for node in nodes if node in self.nodes}


def obvious_root(hashes: Sequence[bytes]) -> bytes:
    """RFC 6962 §2.1, word for word."""
    if not hashes:
        return EMPTY_ROOT
    if len(hashes) == 1:
        return hashes[0]
    split = 1
    while split * 2 < len(hashes):
        split *= 2
    return node_hash(obvious_root(hashes[:split]), obvious_root(hashes[split:]))


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree([bytes([number]) * number for number in range(130)])


def test_roots_of_the_reference_tree() -> None:
    assert [root.hex() for root in Tree(REFERENCE_LEAVES).roots[1:]] == REFERENCE_ROOTS
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(("index", "size", "path"), REFERENCE_INCLUSION)
def test_inclusion_in_the_reference_tree(index: int, size: int, path: list[str]) -> None:
    found = inclusion_path(index, size=size, read=Tree(REFERENCE_LEAVES).read)
    assert [step.hex() for step in found] == path


@pytest.mark.parametrize(("first", "second", "path"), REFERENCE_CONSISTENCY)
def test_consistency_in_the_reference_tree(first: int, second: int, path: list[str]) -> None:
    found = consistency_path(first, second=second, read=Tree(REFERENCE_LEAVES).read)
    assert [step.hex() for step in found] == path


def test_every_root_is_the_obvious_one(tree: Tree) -> None:
    for size in range(131):
        assert tree.roots[size] == obvious_root(tree.hashes[:size]) == root_of(size, read=tree.read)


def test_every_inclusion_proof_of_every_size_holds(tree: Tree) -> None:
    for size in range(1, 131):
        for index in range(size):
            path = inclusion_path(index, size=size, read=tree.read)
            assert len(path) <= (size - 1).bit_length()
            verify_inclusion(tree.hashes[index], index=index, size=size, path=path, root=tree.roots[size])


def test_every_consistency_proof_of_every_pair_holds(tree: Tree) -> None:
    for second in range(131):
        for first in range(second + 1):
            path = consistency_path(first, second=second, read=tree.read)
            assert len(path) <= second.bit_length() + 1
            verify_consistency(
                first=first,
                second=second,
                path=path,
                first_root=tree.roots[first],
                second_root=tree.roots[second],
            )


def test_work_grows_with_the_logarithm(tree: Tree) -> None:
    for size in range(1, 131):
        assert len(right_edge(size)) == size.bit_count()
        tree.reads.clear()
        inclusion_path(size // 3, size=size, read=tree.read)
        consistency_path(size // 3, second=size, read=tree.read)
        root_of(size, read=tree.read)
        assert len(tree.reads) <= 3, "one question each"
        assert sum(tree.reads) <= 5 * size.bit_length()


def refused(check: Callable[[], None]) -> bool:
    try:
        check()
    except IntegrityError:
        return True
    return False


def flipped(raw: bytes, bit: int) -> bytes:
    bit %= 8 * len(raw)
    return (int.from_bytes(raw, "big") ^ 1 << bit).to_bytes(len(raw), "big")


@settings(max_examples=300, deadline=None)
@given(place=st.data(), size=st.integers(1, 130), bit=st.integers(0, 255))
def test_any_changed_inclusion_proof_fails(tree: Tree, place: st.DataObject, size: int, bit: int) -> None:
    index = place.draw(st.integers(0, size - 1))
    leaf, root = tree.hashes[index], tree.roots[size]
    path = inclusion_path(index, size=size, read=tree.read)

    def check(hashed: bytes = leaf, index: int = index, path: list[bytes] = path, root: bytes = root) -> None:
        verify_inclusion(hashed, index=index, size=size, path=path, root=root)

    assert refused(lambda: check(hashed=flipped(leaf, bit)))
    assert refused(lambda: check(root=flipped(root, bit)))
    assert refused(lambda: check(path=[*path, leaf]))
    assert refused(lambda: check(index=size))
    assert refused(lambda: check(index=-1))
    other = place.draw(st.integers(0, size - 1))
    assert refused(lambda: check(index=other)) or other == index
    for step in range(len(path)):
        changed = [*path[:step], flipped(path[step], bit), *path[step + 1 :]]
        assert refused(lambda changed=changed: check(path=changed))  # type: ignore[misc]
        assert refused(lambda step=step: check(path=path[:step] + path[step + 1 :]))  # type: ignore[misc]


@settings(max_examples=300, deadline=None)
@given(place=st.data(), second=st.integers(1, 130), bit=st.integers(0, 255))
def test_any_changed_consistency_proof_fails(tree: Tree, place: st.DataObject, second: int, bit: int) -> None:
    first = place.draw(st.integers(1, second))
    old, new = tree.roots[first], tree.roots[second]
    path = consistency_path(first, second=second, read=tree.read)

    def check(
        first: int = first, path: list[bytes] = path, old: bytes = old, new: bytes = new, second: int = second
    ) -> None:
        verify_consistency(first=first, second=second, path=path, first_root=old, second_root=new)

    assert refused(lambda: check(old=flipped(old, bit)))
    assert refused(lambda: check(new=flipped(new, bit)))
    assert refused(lambda: check(path=[*path, old]))
    assert refused(lambda: check(first=second + 1))
    for step in range(len(path)):
        changed = [*path[:step], flipped(path[step], bit), *path[step + 1 :]]
        assert refused(lambda changed=changed: check(path=changed))  # type: ignore[misc]
        assert refused(lambda step=step: check(path=path[:step] + path[step + 1 :]))  # type: ignore[misc]


def test_the_empty_tree_is_a_prefix_of_all_and_only_with_its_root(tree: Tree) -> None:
    for second in (0, 1, 130):
        verify_consistency(
            first=0, second=second, path=[], first_root=EMPTY_ROOT, second_root=tree.roots[second]
        )
        assert refused(
            lambda second=second: verify_consistency(  # type: ignore[misc]
                first=0,
                second=second,
                path=[],
                first_root=tree.roots[1],
                second_root=tree.roots[second],
            )
        )


def test_a_frontier_goes_on_from_a_stored_edge(tree: Tree) -> None:
    for size in range(130):
        edge = [tree.nodes[node] for node in right_edge(size)]
        frontier = Frontier(size=size, hashes=edge)
        assert frontier.root() == tree.roots[size]
        for node, hashed in frontier.append(tree.hashes[size]):
            assert tree.nodes[node] == hashed
        assert frontier.root() == tree.roots[size + 1]
    with pytest.raises(PlanError, match="expected 2 hashes, found 1"):
        Frontier(size=3, hashes=[EMPTY_ROOT])


def test_what_cannot_be_proven_is_refused(tree: Tree) -> None:
    with pytest.raises(PlanError, match="leaf index: expected 0 to 4, found 5"):
        inclusion_path(5, size=5, read=tree.read)
    with pytest.raises(PlanError, match="found 6 and 5"):
        consistency_path(6, second=5, read=tree.read)
    with pytest.raises(IntegrityError, match="ledger node 2/0: expected its hash, found nothing"):
        root_of(5, read=lambda nodes: {})
