"""The pools of a device under one budget of bytes, one pool per layout; the same for every kind of device."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from app.core.digest import Digest
from app.core.errors import DeviceError
from app.core.restore.page_slots import PageSlots
from app.core.store.snapshot import PageLayout


class SlotPool(Protocol):
    """A pool of pages, as far as its budget is concerned."""

    @property
    def slots(self) -> PageSlots:
        """Its slots."""


PoolT = TypeVar("PoolT", bound=SlotPool)


class PoolBudget(Generic[PoolT]):
    """Not safe for threads by itself: the device's lock guards it.

    Args:
        device: the device's name.
        pool_bytes: the most bytes of pages over all layouts, slot 0 of each pool not counted.

    Attributes:
        pools: by the layout's digest.
    """

    def __init__(self, device: str, *, pool_bytes: int) -> None:
        self._device = device
        self._pool_bytes = pool_bytes
        self._reserved_bytes = 0
        self.pools: dict[Digest, PoolT] = {}

    @property
    def free_bytes(self) -> int:
        """The budget less the pages that are reserved."""
        return self._pool_bytes - self._reserved_bytes

    def pool_for(
        self,
        layout: PageLayout,
        *,
        block_counts: tuple[int, ...],
        make: Callable[[], PoolT],
        drop: Callable[[PoolT], None],
    ) -> PoolT:
        """The layout's pool, with room for a reservation; idle pools of other layouts make way.

        Args:
            make: a new pool, where the layout has none.
            drop: gives an idle pool's memory back.

        Raises:
            DeviceError: there is no room.
        """
        pool = self.pools.get(layout.sha256) or make()
        growth = pool.slots.growth_bytes(block_counts)
        room = self._pool_bytes - sum(other.slots.committed_bytes for other in self.pools.values())
        if growth > room:
            room += self._drop_idle(keep=layout.sha256, drop=drop)
        if growth > room:
            raise DeviceError(
                f"pool of {self._device}",
                expected=f"room for {pool.slots.need_bytes(block_counts)} bytes of pages",
                found=f"{self.free_bytes} of {self._pool_bytes} bytes free",
            )
        self.pools[layout.sha256] = pool
        return pool

    def reserve(self, pool: PoolT, *, block_counts: tuple[int, ...]) -> None:
        """Pages of this pool are handed out."""
        self._reserved_bytes += pool.slots.need_bytes(block_counts)

    def give_back(self, pool: PoolT, *, block_counts: tuple[int, ...]) -> None:
        """Pages of this pool are back."""
        self._reserved_bytes -= pool.slots.need_bytes(block_counts)

    def _drop_idle(self, *, keep: Digest, drop: Callable[[PoolT], None]) -> int:
        idle = [key for key, pool in self.pools.items() if key != keep and pool.slots.sets == 0]
        freed = 0
        for key in idle:
            pool = self.pools.pop(key)
            freed += pool.slots.committed_bytes
            drop(pool)
        return freed
