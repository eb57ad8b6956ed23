"""Faults put in on purpose: a device that does everything that is asked of it, into the wrong pages.

Each leaves what the real fault leaves. All objects are authentic, all streams and statistics right, the
report says *restored*; only who reads the pages can tell. Two faults are wrong slots; the others are pages
that hold something else once the placement has settled, written through the device's own placement.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, Final

from app.core.errors import PlanError
from app.core.oracle.page_writer import PageContent, write_pages
from app.core.oracle.pages import OraclePages
from app.core.oracle.partials import INJECTABLE, SemanticFault
from app.core.oracle.question import OracleQuestion
from app.core.restore.device import (
    Arena,
    ArenaMode,
    Device,
    LayerDigest,
    PageSet,
    Placement,
    PlacementStats,
    Producer,
)
from app.core.restore.plan import CopySpan
from app.core.store.snapshot import LayerSpan, PageLayout

_Slots = tuple[tuple[int, ...], ...]


class FaultyDevice:
    """A ``Device`` around another one, with one fault; page sets are those of the other.

    Args:
        device: where the pages really are.
        fault: what goes wrong with every placement.
        question: says what the pages hold.
        rank: whose pages they are.

    Raises:
        PlanError: the fault cannot be put in: it has no name, there is no other rank, no older generation.
    """

    def __init__(self, device: Device, *, fault: SemanticFault, question: OracleQuestion, rank: int) -> None:
        require_injectable(fault, question=question, rank=rank)
        self._device = device
        self._fault = fault
        self._question = question
        self._rank = rank
        self._late: Producer | None = None

    @property
    def name(self) -> str:
        """See ``Device.name``."""
        return self._device.name

    @property
    def kind(self) -> str:
        """See ``Device.kind``."""
        return self._device.kind

    @property
    def pool_bytes(self) -> int:
        """See ``Device.pool_bytes``."""
        return self._device.pool_bytes

    @property
    def free_bytes(self) -> int:
        """See ``Device.free_bytes``."""
        return self._device.free_bytes

    @property
    def arena_bytes(self) -> int:
        """See ``Device.arena_bytes``."""
        return self._device.arena_bytes

    @property
    def xp(self) -> ModuleType:
        """See ``Device.xp``."""
        return self._device.xp

    @property
    def arena_mode(self) -> ArenaMode:
        """See ``Device.arena_mode``."""
        return self._device.arena_mode

    def host_memory(self, byte_count: int) -> memoryview:
        """See ``Device.host_memory``."""
        return self._device.host_memory(byte_count)

    def producer(self) -> Producer:
        """See ``Device.producer``."""
        return self._device.producer()

    def prepare_pool(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> None:
        """See ``Device.prepare_pool``."""
        self._device.prepare_pool(layout, block_counts=block_counts)

    def reserve(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> PageSet:
        """See ``Device.reserve``."""
        return self._device.reserve(layout, block_counts=block_counts)

    def fence(self, pages: PageSet, *, producer: Producer) -> None:
        """See ``Device.fence``; if it is the fault to skip it, nobody is waited for."""
        if self._fault is SemanticFault.SKIPPED_FENCE:
            self._late = producer
            producer = _Nobody()
        self._device.fence(pages, producer=producer)

    def begin(self, pages: PageSet, *, layers: tuple[LayerSpan, ...], payload_bytes: int) -> Placement:
        """See ``Device.begin``; the slots may be other ones than those of ``pages``."""
        placed = replace(pages, slots=_SLOTS.get(self._fault, _as_given)(pages.slots))
        placement = self._device.begin(placed, layers=layers, payload_bytes=payload_bytes)
        return _FaultyPlacement(placement, settled=lambda: self._spoil(pages))

    def digest(self, pages: PageSet) -> tuple[LayerDigest, ...]:
        """See ``Device.digest``."""
        return self._device.digest(pages)

    def layer_pages(self, pages: PageSet, *, layer: int) -> Any:
        """See ``Device.layer_pages``."""
        return self._device.layer_pages(pages, layer=layer)

    def publish(self, pages: PageSet) -> None:
        """See ``Device.publish``."""
        self._device.publish(pages)

    def discard(self, pages: PageSet) -> None:
        """See ``Device.discard``."""
        self._device.discard(pages)

    def _spoil(self, pages: PageSet) -> None:
        """What happens to settled pages."""
        spoil = {
            SemanticFault.FOREIGN_SLOTS: self._all_of_another_rank,
            SemanticFault.SKIPPED_FENCE: self._filled_late,
            SemanticFault.STALE_BATCH: self._some_of_another_context,
            SemanticFault.STALE_GENERATION: self._all_of_the_generation_before,
        }.get(self._fault)
        if spoil is not None:
            spoil(pages)

    def _all_of_another_rank(self, pages: PageSet) -> None:
        """Two ranks exchanged their slots: each finds the other's pages in its own."""
        other = (self._rank + 1) % self._question.ranks
        self._write(pages, content=_pages_of(self._question, rank=other))

    def _all_of_the_generation_before(self, pages: PageSet) -> None:
        """The block table still points to pages of the same context as it was published before."""
        older = replace(self._question, generation=self._question.generation - 1)
        self._write(pages, content=_pages_of(older, rank=self._rank))

    def _some_of_another_context(self, pages: PageSet) -> None:
        """One batch's copies never came: there the pages of an earlier, failed restore are left."""
        lines = self._question.lines
        other = replace(self._question, seed=self._question.seed ^ 1)
        self._write(pages, content=_pages_of(other, rank=self._rank), some=(lines // 2, 3 * lines // 4))

    def _filled_late(self, pages: PageSet) -> None:
        """What was queued for the pages before the restore happens after it: new blocks are zeroed."""
        if self._late is not None:
            self._late.wait()
        lines = self._question.lines
        self._write(pages, content=_zeros, some=(lines // 4, lines // 2))

    def _write(self, pages: PageSet, *, content: PageContent, some: tuple[int, int] | None = None) -> None:
        """All pages, or those of some lines and the first one of every group without lines."""
        blocks: list[Sequence[int]] = [range(count) for count in pages.block_counts]
        if some is not None:
            first, last = some[0], max(some[1], some[0] + 1)
            of_lines = _group_of_lines(pages.layout, question=self._question)
            blocks = [range(first, last) if at == of_lines else (0,) for at in range(len(blocks))]
        write_pages(self._device, pages, blocks=blocks, content=content)


def require_injectable(fault: SemanticFault, *, question: OracleQuestion, rank: int) -> None:
    """Require that a fault can be put into a rank's pages.

    Raises:
        PlanError: it has no name, the rank is none of the question's, there is no other rank or no older
            generation.
    """
    if fault not in INJECTABLE:
        raise PlanError("fault", expected=f"one of {', '.join(INJECTABLE)}", found=fault)
    if not 0 <= rank < question.ranks:
        raise PlanError(f"fault {fault}", expected=f"a rank 0 … {question.ranks - 1}", found=str(rank))
    if fault is SemanticFault.FOREIGN_SLOTS and question.ranks < 2:
        raise PlanError(f"fault {fault}", expected="at least two ranks", found="one")
    if fault is SemanticFault.STALE_GENERATION and question.generation < 1:
        raise PlanError(f"fault {fault}", expected="a generation before this one", found="generation 0")


class _FaultyPlacement:
    """Another placement, and something that happens once it has settled."""

    def __init__(self, placement: Placement, *, settled: Callable[[], None]) -> None:
        self._placement = placement
        self._settled = settled

    @property
    def adopts_buffers(self) -> bool:
        return self._placement.adopts_buffers

    def acquire(self, index: int, *, adopt: memoryview | None = None) -> Arena:
        return self._placement.acquire(index, adopt=adopt)

    def place(
        self,
        arena: Arena,
        *,
        used_bytes: int,
        spans: Sequence[CopySpan],
        done: Callable[[], None] | None = None,
    ) -> None:
        self._placement.place(arena, used_bytes=used_bytes, spans=spans, done=done)

    def settle(self) -> PlacementStats:
        statistics = self._placement.settle()
        self._settled()
        return statistics

    def abort(self) -> None:
        self._placement.abort()


class _Nobody:
    """A producer that is not waited for."""

    def wait(self) -> None:
        """Return at once."""


def _as_given(slots: _Slots) -> _Slots:
    return slots


def _two_exchanged(slots: _Slots) -> _Slots:
    """In every group that has them, a page of the first half for one of the second."""
    return tuple(_exchanged(group) for group in slots)


def _exchanged(group: tuple[int, ...]) -> tuple[int, ...]:
    if len(group) < 2:
        return group
    changed = list(group)
    one, other = len(group) // 4, 3 * len(group) // 4
    changed[one], changed[other] = changed[other], changed[one]
    return tuple(changed)


def _shifted_by_one(slots: _Slots) -> _Slots:
    """Every page one place further on; the last one comes to the front."""
    return tuple((*group[1:], group[0]) for group in slots)


_SLOTS: Final[dict[SemanticFault, Callable[[_Slots], _Slots]]] = {
    SemanticFault.SWAP_PAGES: _two_exchanged,
    SemanticFault.SLOTS_OFF_BY_ONE: _shifted_by_one,
}


def _group_of_lines(layout: PageLayout, *, question: OracleQuestion) -> int:
    return next(
        number
        for number, group in enumerate(layout.groups)
        if any(layer.name == question.key_layer for layer in group.layers)
    )


def _pages_of(question: OracleQuestion, *, rank: int) -> PageContent:
    pages = OraclePages(question, rank=rank)
    return lambda span, block, number: pages.page(span, block=block, number=number)


def _zeros(span: LayerSpan, _block: int, _number: int) -> Iterator[memoryview]:
    yield memoryview(bytes(span.bytes_per_page))
