"""What every placement keeps, whatever its device: is it open, which arena is filled, what is placed."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Generic, Protocol, TypeVar

from app.core.errors import DeviceError
from app.core.restore.coverage import Coverage
from app.core.restore.device import Arena, ArenaState, PlacementStats
from app.core.restore.plan import MAX_SUBMISSION_SPANS, CopySpan
from app.core.store.snapshot import LayerSpan


class FillableArena(Arena, Protocol):
    """An arena as its own device sees it."""

    def fill(self) -> None:
        """Take its own memory for filling, once nothing reads it any more."""

    def adopt(self, memory: memoryview) -> None:
        """Take other memory, filled already."""

    def settle(self) -> None:
        """Wait for everything that is queued; afterwards the arena is free."""


ArenaT = TypeVar("ArenaT", bound=FillableArena)


class Transaction(Generic[ArenaT]):
    """The turns of two arenas and the account of what they placed (restore-contract §3 items 6 – 10, §5).

    Args:
        arenas: of the device.
        layers: the destinations.
        payload_bytes: what must be placed in the end.
    """

    def __init__(
        self, arenas: tuple[ArenaT, ArenaT], *, layers: tuple[LayerSpan, ...], payload_bytes: int
    ) -> None:
        self._arenas = arenas
        self._coverage = Coverage(layers, payload_bytes=payload_bytes)
        self._source_bytes = 0
        self._submissions = 0
        self.is_open = True

    @property
    def submissions(self) -> int:
        """Fillings counted so far."""
        return self._submissions

    def acquire(self, index: int, *, adopt: memoryview | None) -> ArenaT:
        """See ``Placement.acquire``."""
        self.require_open()
        arena = self._arenas[index]
        if arena.state is ArenaState.FILLING:
            raise DeviceError(f"arena {index}", expected="free or in flight", found=arena.state)
        if adopt is None:
            arena.fill()
        else:
            arena.adopt(adopt)
        return arena

    def count(self, arena: Arena, *, used_bytes: int, spans: Sequence[CopySpan]) -> ArenaT:
        """Count a filling before anything of it is queued.

        Raises:
            DeviceError: the transaction is over, the arena is not being filled, there are more spans than a
                submission may have, or one breaks a rule of restore-contract §4.2.
        """
        self.require_open()
        taken = self._arenas[arena.index]
        if taken.state is not ArenaState.FILLING or used_bytes > len(taken.memory):
            raise DeviceError(
                f"arena {arena.index}",
                expected=f"filling, with at most {len(taken.memory)} bytes",
                found=f"{taken.state}, with {used_bytes} bytes",
            )
        if len(spans) > MAX_SUBMISSION_SPANS:
            raise DeviceError(
                "copy spans", expected=f"at most {MAX_SUBMISSION_SPANS}", found=f"{len(spans)} of them"
            )
        for span in spans:
            self._coverage.add(span, used_bytes=used_bytes)
        self._submissions += 1
        self._source_bytes += used_bytes
        return taken

    def drain(self) -> None:
        """Whatever became of the copies into one arena, those into the other are waited for too."""
        with ExitStack() as both:
            for arena in self._arenas:
                both.callback(arena.settle)

    def require_open(self) -> None:
        """Refuse a transaction that is over; it never resumes.

        Raises:
            DeviceError: it is over.
        """
        if not self.is_open:
            raise DeviceError("placement", expected="an open transaction", found="one that is over")

    def complete(self, *, launches: int, staged_bytes: int, error_word: int) -> PlacementStats:
        """What was counted, once every payload byte is placed and the device saw nothing wrong.

        Raises:
            DeviceError: bytes are missing, or the error word is set.
        """
        self._coverage.require_complete(error_word=error_word)
        return PlacementStats(
            source_bytes=self._source_bytes,
            slabs_submitted=self._submissions,
            scatter_kernel_launches=launches,
            slot_uploads=1,
            destination_table_uploads=1,
            staged_host_to_device_bytes=staged_bytes,
            device_error=error_word,
        )
