"""Host memory a device copies from: pinned if the machine gives it, else registered, else as it is.

On machines with one memory for both sides a pinned allocation may fail or never return, and registering may
be unsupported; then plain memory serves, and what was not to be had is said.
"""

import threading
from collections.abc import Callable
from typing import Final

import numpy as np

from app.core.errors import CoreError, ResourceError
from app.core.restore.buffers import map_pages
from app.core.restore.kernels import Bytes
from workers.gpu.driver import Driver, HostKind, HostMemory

PIN_PATIENCE_S: Final = 10.0
# What a pinned allocation must leave to everything else on the machine.
SPARED_BYTES: Final = 1 << 30


class HostMemories:
    """All host memory of one device, found again by its address.

    Args:
        driver: of the device.
        patience_s: how long a pinned allocation may take.
        spared_bytes: host memory that must stay free beside one.

    Attributes:
        notes: what was not to be had, in words.
    """

    def __init__(
        self, driver: Driver, *, patience_s: float = PIN_PATIENCE_S, spared_bytes: int = SPARED_BYTES
    ) -> None:
        self._driver = driver
        self._patience_s = patience_s
        self._spared_bytes = spared_bytes
        self._kept: list[HostMemory] = []
        self.notes: list[str] = []

    @property
    def kinds(self) -> tuple[HostKind, ...]:
        """The kinds of what was handed out, each once."""
        return tuple(dict.fromkeys(one.kind for one in self._kept))

    def take(self, byte_count: int) -> HostMemory:
        """Page-aligned memory of the best kind there is; it is kept until ``close``.

        Raises:
            ResourceError: there is not even plain memory.
        """
        taken = self._pinned(byte_count) or self._mapped(byte_count)
        self._kept.append(taken)
        return taken

    def device_address(self, memory: memoryview) -> int | None:
        """Where kernels find this memory, if they can."""
        address = address_of(memory)
        for one in self._kept:
            inside = address - one.address
            if 0 <= inside <= len(one.memory) - len(memory):
                return None if one.device_address is None else one.device_address + inside
        return address if self._driver.facts.reads_pageable_memory else None

    def close(self) -> None:
        """Give back what is pinned; nothing may read any of it any more."""
        while self._kept:
            one = self._kept.pop()
            if one.kind is not HostKind.PAGEABLE:
                self._driver.unpin(one)

    def _pinned(self, byte_count: int) -> HostMemory | None:
        room = self._driver.host_free_bytes()
        if room < byte_count + self._spared_bytes:
            self._note(f"pinned: {byte_count} bytes not tried, {room} bytes of host memory are free")
            return None
        return self._try("pinned", byte_count, attempt=lambda: self._driver.pin(byte_count))

    def _mapped(self, byte_count: int) -> HostMemory:
        memory = map_pages(byte_count)
        facts = self._driver.facts
        if facts.registers_host_memory:
            registered = self._try("registered", byte_count, attempt=lambda: self._driver.register(memory))
            if registered is not None:
                return registered
        else:
            self._note("registered: the device cannot")
        address = address_of(memory)
        return HostMemory(
            memory=memory,
            kind=HostKind.PAGEABLE,
            address=address,
            device_address=address if facts.reads_pageable_memory else None,
        )

    def _try(self, kind: str, byte_count: int, *, attempt: Callable[[], HostMemory]) -> HostMemory | None:
        """An allocation that may fail, or freeze: then its thread is left behind."""
        answers: list[HostMemory | CoreError] = []

        def run() -> None:
            try:
                answers.append(attempt())
            except CoreError as error:
                answers.append(error)

        thread = threading.Thread(target=run, name=f"{kind}-memory", daemon=True)
        thread.start()
        thread.join(self._patience_s)
        answer = answers[0] if answers else None
        if isinstance(answer, HostMemory):
            return answer
        problem = f"no answer within {self._patience_s:g} s" if answer is None else str(answer)
        self._note(f"{kind}: {byte_count} bytes not to be had: {problem}")
        return None

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def address_of(memory: memoryview) -> int:
    """Where the host finds this memory; of an empty view, 0."""
    return int(as_bytes(memory).ctypes.data) if len(memory) else 0


def as_bytes(memory: memoryview) -> Bytes:
    """The memory as an array, not a copy."""
    return np.frombuffer(memory, dtype=np.uint8)


def no_room(what: str, *, byte_count: int, found: str) -> ResourceError:
    """Memory that is not to be had."""
    return ResourceError(what, expected=f"{byte_count} bytes", found=found)
