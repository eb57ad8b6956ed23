"""The driver over CuPy: on a GPU what it does; without one, that every call of CuPy is one CuPy has.

A call with wrong arguments is a ``TypeError``; a right one finds no driver and is a ``DeviceError``.
"""

import ctypes
import inspect
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.core.errors import DeviceError
from workers.gpu.cuda_kernels import GATHER, SCATTER
from workers.gpu.cupy_driver import CupyDriver, _read_facts, kernel_arguments
from workers.gpu.driver import Driver, HostKind, HostMemory, Launch, PageAddresses

from .stream_model import DISCRETE, ModelDriver

PAGES = PageAddresses(
    block=1, layers=2, layer_count=3, groups=4, group_count=5, slots=6, owners=7, owner=8, error=9
)
LAUNCH = Launch(
    kernel=SCATTER, blocks=10, linear=11, used_bytes=12, spans=13, first_tiles=14, span_count=15, pages=PAGES
)
HOST = HostMemory(memory=memoryview(bytearray(64)), kind=HostKind.PINNED, address=0, device_address=None)


def has_gpu() -> bool:
    try:
        CupyDriver().close()
    except DeviceError:
        return False
    return True


def unopened() -> CupyDriver:
    """A driver as it is before it finds that there is no GPU."""
    driver = object.__new__(CupyDriver)
    driver._index = 0
    driver._current = threading.local()
    driver._current.device = 0
    driver._pinned, driver._watchers, driver._calls = {}, {}, {}
    driver._lock = threading.Lock()
    driver._kernels = {SCATTER: 0, GATHER: 0}
    driver.facts = DISCRETE
    return driver


CALLS: dict[str, Callable[[CupyDriver], Any]] = {
    "free_bytes": lambda driver: driver.free_bytes(),
    "allocate": lambda driver: driver.allocate(64),
    "release": lambda driver: driver.release(64),
    "new_array": lambda driver: driver.new_array((2, 3)),
    "pin": lambda driver: driver.pin(64),
    "register": lambda driver: driver.register(HOST.memory),
    "unpin": lambda driver: driver.unpin(HOST),
    "create_stream": lambda driver: driver.create_stream(),
    "create_event": lambda driver: driver.create_event(timed=True),
    "destroy": lambda driver: driver.destroy(events=(1,), streams=(1,)),
    "record": lambda driver: driver.record(1, stream=0),
    "order": lambda driver: driver.order(0, after=1),
    "is_done": lambda driver: driver.is_done(1),
    "await_event": lambda driver: driver.await_event(1),
    "await_stream": lambda driver: driver.await_stream(0),
    "copy_in": lambda driver: driver.copy_in(64, source=np.zeros(4, np.uint8), stream=0),
    "copy_out": lambda driver: driver.copy_out(64, target=np.zeros(4, np.uint8), stream=0),
    "copy_within": lambda driver: driver.copy_within(64, target=128, byte_count=4, stream=0),
    "fill": lambda driver: driver.fill(64, byte=1, byte_count=4, stream=0),
    "launch": lambda driver: driver.launch(LAUNCH, stream=0),
    "elapsed_ns": lambda driver: driver.elapsed_ns(1, end=2),
}
NOT_CUDA = {"xp", "facts", "host_free_bytes", "call_when_done", "close"}


def members(kind: type) -> dict[str, Any]:
    return {name: member for name, member in vars(kind).items() if not name.startswith("_")}


def test_every_call_of_the_seam_is_looked_at() -> None:
    assert set(CALLS) | NOT_CUDA == set(members(Driver))


@pytest.mark.parametrize("kind", [CupyDriver, ModelDriver])
def test_both_drivers_have_the_calls_of_the_seam(kind: type) -> None:
    found = members(kind)
    for name, member in members(Driver).items():
        if inspect.isfunction(member):
            assert inspect.signature(found[name]) == inspect.signature(member), name


@pytest.mark.parametrize("name", CALLS)
def test_without_a_driver_every_call_says_so(name: str) -> None:
    if has_gpu():
        pytest.skip("the calls of CuPy without a driver: there is one")
    with pytest.raises(DeviceError, match=r"cudaErrorInsufficientDriver|cudaErrorNoDevice|libcuda"):
        CALLS[name](unopened())


def test_without_a_driver_nothing_is_opened() -> None:
    if has_gpu():
        pytest.skip("opening without a driver: there is one")
    with pytest.raises(DeviceError, match="CUDA device: expected a driver and a GPU number 0, found"):
        CupyDriver()


def test_facts_are_read_from_properties_and_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every attribute has a name that CuPy knows; the first two are what tells the modes apart."""
    from cupy.cuda import runtime

    asked: list[int] = []

    def attribute(number: int, index: int) -> int:
        asked.append(number)
        return int(number != runtime.cudaDevAttrIntegrated)

    properties = {
        "name": b"a GPU",
        "major": 9,
        "minor": 0,
        "totalGlobalMem": 1 << 37,
        "multiProcessorCount": 132,
    }
    monkeypatch.setattr("workers.gpu.cupy_driver.runtime.getDeviceProperties", lambda index: properties)
    monkeypatch.setattr("workers.gpu.cupy_driver.runtime.deviceGetAttribute", attribute)
    facts = _read_facts(0)
    assert (facts.model, facts.compute_capability, facts.integrated) == ("a GPU", (9, 0), False)
    assert (facts.maps_host_memory, facts.reads_pageable_memory) == (True, True)
    assert len(set(asked)) == 4


def test_the_arguments_are_those_of_the_kernels() -> None:
    """In the order of the source's PARAMETERS; numbers tell them apart."""
    values = kernel_arguments(LAUNCH)
    assert [value.value for value in values] == [11, 12, 13, 14, 15, 2, 3, 4, 5, 6, 7, 8, 9]
    assert [ctypes.sizeof(value) for value in values] == [8, 8, 8, 8, 4, 8, 4, 8, 4, 8, 8, 4, 8]


@pytest.mark.parametrize("reads", [False, True])
def test_pageable_memory_is_read_before_a_copy_returns(monkeypatch: pytest.MonkeyPatch, reads: bool) -> None:
    """CUDA stages it; where the device could read it later itself, the copy is waited for."""
    steps: list[str] = []
    runtime = "workers.gpu.cupy_driver.runtime"
    monkeypatch.setattr(f"{runtime}.memcpyAsync", lambda *_: steps.append("copy"))
    monkeypatch.setattr(f"{runtime}.streamSynchronize", lambda _: steps.append("wait"))
    driver = unopened()
    driver.facts = replace(DISCRETE, reads_pageable_memory=reads)
    pinned = np.zeros(8, np.uint8)
    driver._pinned[int(pinned.ctypes.data)] = 8
    driver.copy_in(64, source=pinned[4:], stream=0)
    assert steps == ["copy"]
    driver.copy_in(64, source=np.zeros(4, np.uint8), stream=0)
    assert steps == ["copy", "copy", *(["wait"] if reads else [])]


def test_calls_wait_for_their_events_in_order_and_waiters_for_the_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With CuPy's waiting replaced: a call is made once its event is done, or can never be."""
    from cupy.cuda import runtime

    go = {1: threading.Event(), 2: threading.Event()}
    made: list[int] = []

    def wait(event: int) -> None:
        assert go[event].wait(timeout=60)
        if event == 2:
            raise runtime.CUDARuntimeError(700)

    monkeypatch.setattr("workers.gpu.cupy_driver.runtime.eventSynchronize", wait)
    driver = unopened()
    for event in (1, 2):
        driver.call_when_done(event, stream=5, call=lambda event=event: made.append(event))
    assert made == []
    go[1].set()
    driver.await_event(1)
    assert made == [1]
    go[2].set()
    with pytest.raises(DeviceError):
        driver.await_event(2)
    driver.close()
    assert made == [1, 2]
