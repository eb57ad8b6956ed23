"""What the pages of one rank are, compared with what they must be, and a name for what happened to them.

Every stored byte of a restore may be right and its pages wrong nevertheless. The question says what every
page must hold; what the wrong ones hold instead tells which rule was broken.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from app.core.digest import Digest, RunningDigest, sha256
from app.core.oracle.attention import Bytes
from app.core.oracle.pages import OraclePages
from app.core.oracle.partials import MOST_BLOCKS, CheckedLayer, Finding, SemanticFault
from app.core.oracle.question import OracleQuestion
from app.core.restore.host_pool import FILL_BYTE

_LINES_AT_ONCE: Final = 64
# So many generations before this one are looked for.
_GENERATIONS_BACK: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCheck:
    """Both layers read back, the blocks with a wrong page in either, and what those look like."""

    layers: tuple[CheckedLayer, ...]
    wrong: tuple[int, ...]
    finding: Finding | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A rank with wrong pages.

    Attributes:
        found: pages by layer, ``(blocks, bytes_per_page)``.
        places: by the digest of a block's right pages, the block they belong to; made when it is wanted.
    """

    question: OracleQuestion
    rank: int
    found: Mapping[str, Bytes]
    wrong: tuple[int, ...]
    places: Mapping[Digest, int]

    @property
    def whole(self) -> bool:
        return len(self.wrong) == self.question.lines

    def content(self, block: int) -> Digest:
        """The digest of what a block's pages really hold."""
        return _block_digest([self.found[name][block] for name in self.found])

    def named(self, fault: SemanticFault, detail: str) -> Finding:
        return Finding(fault=fault, blocks=self.wrong[:MOST_BLOCKS], detail=detail)


def check_pages(question: OracleQuestion, *, rank: int, keys: Bytes, values: Bytes) -> PageCheck:
    """Compare a rank's pages with what they must hold, and name what the wrong ones look like.

    Args:
        question: says what they must hold.
        rank: whose pages these are.
        keys: uint8 ``(blocks, bytes_per_page)`` in host memory, in the order of the block table; ``values``
            likewise.
    """
    found = {question.key_layer: keys, question.value_layer: values}
    own = OraclePages(question, rank=rank)
    differing = {name: np.zeros(question.lines, dtype=bool) for name in found}
    digests = {name: RunningDigest() for name in found}
    places: dict[Digest, int] = {}
    for first in range(0, question.lines, _LINES_AT_ONCE):
        last = min(first + _LINES_AT_ONCE, question.lines)
        expected = {name: own.oracle_pages(name, first=first, last=last) for name in found}
        for name, pages in expected.items():
            differing[name][first:last] = (pages != found[name][first:last]).any(axis=1)
            digests[name].update(pages.data)
        for block in range(first, last):
            places[_block_digest([pages[block - first] for pages in expected.values()])] = block
    either = np.logical_or(differing[question.key_layer], differing[question.value_layer])
    wrong = tuple(int(block) for block in np.flatnonzero(either))
    case = _Case(question=question, rank=rank, found=found, wrong=wrong, places=places)
    return PageCheck(
        layers=tuple(
            CheckedLayer(
                name=name,
                pages=question.lines,
                wrong=int(differing[name].sum()),
                expected_sha256=digests[name].digest(),
                found_sha256=sha256(np.ascontiguousarray(found[name]).data),
            )
            for name in found
        ),
        wrong=wrong,
        finding=_name(case) if wrong else None,
    )


def _name(case: _Case) -> Finding:
    """The first explanation that holds for every wrong page."""
    explanations: tuple[Callable[[_Case], Finding | None], ...] = (
        _moved,
        _overwritten,
        _of_another_rank,
        _of_another_generation,
        _left_over,
    )
    for explain in explanations:
        finding = explain(case)
        if finding is not None:
            return finding
    return case.named(
        SemanticFault.UNKNOWN, f"{len(case.wrong)} of {case.question.lines} blocks hold something else"
    )


def _moved(case: _Case) -> Finding | None:
    """Pages of this rank in places of this rank: two exchanged, or all shifted by one."""
    lines = case.question.lines
    sources = {block: case.places.get(case.content(block)) for block in case.wrong}
    if len(sources) == 2:
        one, other = sources
        if sources[one] == other and sources[other] == one:
            return case.named(SemanticFault.SWAP_PAGES, f"blocks {one} and {other} hold each other's pages")
    for step in (1, -1):
        shifted = sum(source == (block - step) % lines for block, source in sources.items())
        # Without a page that went round, the one at the end holds what nobody put there.
        if shifted >= lines - 1:
            neighbour = "before" if step == 1 else "after"
            detail = f"{shifted} of {lines} blocks hold the pages of the block {neighbour} them"
            return case.named(SemanticFault.SLOTS_OFF_BY_ONE, detail)
    if all(source is not None for source in sources.values()):
        return case.named(SemanticFault.UNKNOWN, f"{len(sources)} blocks hold pages of other blocks")
    return None


def _overwritten(case: _Case) -> Finding | None:
    """Wherever a byte is wrong it is the same byte: somebody filled the pages afterwards, or nobody did."""
    own = OraclePages(case.question, rank=case.rank)
    seen: set[int] = set()
    for block in case.wrong:
        for name, pages in case.found.items():
            expected = own.oracle_pages(name, first=block, last=block + 1)[0]
            seen.update(np.unique(pages[block][pages[block] != expected]).tolist())
            if len(seen) > 1:
                return None
    (byte,) = seen
    count = f"{len(case.wrong)} of {case.question.lines} blocks"
    if byte == FILL_BYTE:
        return case.named(
            SemanticFault.FOREIGN_SLOTS, f"{count} were never written: the copies went elsewhere"
        )
    return case.named(SemanticFault.SKIPPED_FENCE, f"{count} were overwritten with byte 0x{byte:02x}")


def _of_another_rank(case: _Case) -> Finding | None:
    """The pages that another rank has in these very blocks."""
    for rank in range(case.question.ranks):
        if rank != case.rank and _holds(case, pages=OraclePages(case.question, rank=rank)):
            detail = f"{len(case.wrong)} of {case.question.lines} blocks hold the pages of rank {rank}"
            return case.named(SemanticFault.FOREIGN_SLOTS, detail)
    return None


def _of_another_generation(case: _Case) -> Finding | None:
    """The pages of the same context as it was published before."""
    newest = case.question.generation
    for generation in range(newest - 1, max(-1, newest - 1 - _GENERATIONS_BACK), -1):
        older = replace(case.question, generation=generation)
        if _holds(case, pages=OraclePages(older, rank=case.rank)):
            detail = (
                f"{len(case.wrong)} of {case.question.lines} blocks hold generation {generation}"
                f" of this context instead of {newest}"
            )
            return case.named(SemanticFault.STALE_GENERATION, detail)
    return None


def _left_over(case: _Case) -> Finding | None:
    """A run of blocks, the others right: the copies of one batch never came, what was there before stayed."""
    first, last = case.wrong[0], case.wrong[-1]
    if case.whole or last - first + 1 != len(case.wrong):
        return None
    return case.named(SemanticFault.STALE_BATCH, f"blocks {first} to {last} hold what was there before")


def _holds(case: _Case, *, pages: OraclePages) -> bool:
    """Whether every wrong block holds exactly these pages; most often the first one tells."""
    return all(
        case.content(block)
        == _block_digest([pages.oracle_pages(name, first=block, last=block + 1)[0] for name in case.found])
        for block in case.wrong
    )


def _block_digest(pages: Sequence[Bytes]) -> Digest:
    running = RunningDigest()
    for page in pages:
        running.update(np.ascontiguousarray(page).data)
    return running.digest()
