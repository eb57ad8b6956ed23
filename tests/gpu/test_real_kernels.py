"""The kernels on a GPU against their NumPy twin, on the spans the CPU's kernels are tried with."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.gpu.cuda_kernels import GATHER, SCATTER, SPAN_RECORD_BYTES, count_tiles, encode_table
from workers.gpu.driver import Driver, Launch, PageAddresses

from .cases import GPU_ID, open_driver_or_skip
from .machines import LONG_PAGE_BYTES, OWNER, PAGE_BYTES, Machine, machines, outcome, spans_over
from .stream_model import ModelDriver
from .twin import run_twin


@pytest.fixture(scope="module", params=["model", GPU_ID])
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """A GPU; and a model, which shows that these tests are right before a GPU is at hand."""
    driver: Driver = ModelDriver() if request.param == "model" else open_driver_or_skip()
    yield driver
    driver.close()


class Uploaded:
    """A machine's memory on the GPU; linear bytes start where they do modulo 16."""

    def __init__(self, driver: Driver, machine: Machine, *, spans: Any) -> None:
        self._driver = driver
        self._stream = driver.create_stream()
        self._held: list[int] = []
        lead = int(machine.linear.ctypes.data) % 16
        self.linear = self._put(np.concatenate([np.zeros(lead, np.uint8), machine.linear])) + lead
        self.pools = [self._put(pool.reshape(-1)) for pool in machine.pools]
        layers = machine.layers.copy()
        layers["base"] = self.pools
        self.table = self._put(spans)
        self.error = self._put(machine.error.view(np.uint8))
        records = self._put(layers.view(np.uint8))
        self.pages = PageAddresses(
            block=records,
            layers=records,
            layer_count=len(layers),
            groups=self._put(machine.groups.view(np.uint8)),
            group_count=len(machine.groups),
            slots=self._put(machine.slots.view(np.uint8)),
            owners=self._put(machine.owners.view(np.uint8)),
            owner=OWNER,
            error=self.error,
        )

    def run(self, table: Any, *, used_bytes: int, kernel: str) -> None:
        count = (table.size - 4) // (SPAN_RECORD_BYTES + 4)
        launch = Launch(
            kernel=kernel,
            blocks=max(1, count_tiles(table)),
            linear=self.linear,
            used_bytes=used_bytes,
            spans=self.table,
            first_tiles=self.table + count * SPAN_RECORD_BYTES,
            span_count=count,
            pages=self.pages,
        )
        self._driver.launch(launch, stream=self._stream)

    def read(self, machine: Machine) -> None:
        """What is there into the machine's memory."""
        for pool, address in zip(machine.pools, self.pools, strict=True):
            self._get(address, pool.reshape(-1))
        self._get(self.linear, machine.linear)
        self._get(self.error, machine.error.view(np.uint8))

    def release(self) -> None:
        self._driver.await_stream(self._stream)
        for address in self._held:
            self._driver.release(address)
        self._driver.destroy(streams=(self._stream,))

    def _put(self, content: Any) -> int:
        # Kernels load whole words of linear bytes.
        address = self._driver.allocate(content.size + 16)
        self._held.append(address)
        self._driver.copy_in(address, source=np.ascontiguousarray(content), stream=self._stream)
        return address

    def _get(self, address: int, target: Any) -> None:
        if target.size:
            self._driver.copy_out(address, target=target, stream=self._stream)
            self._driver.await_stream(self._stream)


@settings(max_examples=60)
@given(data=st.data())
def test_the_gpu_moves_the_twins_bytes(driver: Driver, data: st.DataObject) -> None:
    compare_with_twin(driver, data, page_bytes_of=PAGE_BYTES)


@settings(max_examples=20)
@given(data=st.data())
def test_the_gpu_moves_spans_of_many_tiles(driver: Driver, data: st.DataObject) -> None:
    compare_with_twin(driver, data, page_bytes_of=LONG_PAGE_BYTES)


def compare_with_twin(driver: Driver, data: st.DataObject, *, page_bytes_of: Sequence[int]) -> None:
    twin, sizes = data.draw(machines(page_bytes_of=page_bytes_of))
    table = encode_table(data.draw(spans_over(sizes)))
    found = twin.copied()
    uploaded = Uploaded(driver, found, spans=table)
    try:
        run_twin(twin.launch(table, used_bytes=sum(sizes)))
        uploaded.run(table, used_bytes=sum(sizes), kernel=SCATTER)
        uploaded.read(found)
        assert outcome(found) == outcome(twin)
    finally:
        uploaded.release()
    gathered = found.copied()
    gathered.linear[:] = 0
    back = Uploaded(driver, gathered, spans=table)
    try:
        back.run(table, used_bytes=sum(sizes), kernel=GATHER)
        back.read(gathered)
        assert gathered.linear.tobytes() == twin.linear.tobytes()
    finally:
        back.release()


def test_events_tell_time(driver: Driver) -> None:
    """Device time of a fill of 64 MiB is more than nothing and less than a second."""
    stream = driver.create_stream()
    start, end = driver.create_event(timed=True), driver.create_event(timed=True)
    block = driver.allocate(64 << 20)
    driver.record(start, stream=stream)
    driver.fill(block, byte=1, byte_count=64 << 20, stream=stream)
    driver.record(end, stream=stream)
    driver.await_stream(stream)
    assert 0 < driver.elapsed_ns(start, end=end) < 10**9
    driver.release(block)
    driver.destroy(streams=(stream,), events=(start, end))
