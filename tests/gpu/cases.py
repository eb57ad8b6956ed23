"""Layouts, spans and devices that the tests of every kind of device share."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from app.core.errors import DeviceError
from app.core.restore.device import ArenaMode, PageSet, Placement
from app.core.restore.host_device import HostDevice
from app.core.restore.plan import CopySpan
from app.core.store.snapshot import PageGroup, PageLayer, PageLayout, ReusePolicy, layer_spans
from workers.gpu.cuda_device import CudaDevice
from workers.gpu.driver import Driver

from .compiled import COMPILER, run_compiled
from .schedules import Eager, Lazy, Seeded
from .stream_model import UNIFIED, ModelDriver

ARENA_BYTES: Final = 4096
COUNTS: Final = (3, 1)
REQUIRE_GPU: Final = "REQUIRE_GPU"


def layer(name: str, *, size: int) -> PageLayer:
    return PageLayer(name=name, dtype="torch.uint8", page_shape=(1, size), bytes_per_page=size)


def layout_of(first: int, *others: int) -> PageLayout:
    full = PageGroup(
        block_size=64,
        reuse_policy=ReusePolicy.FULL,
        reuse_window_tokens=None,
        layers=(layer("a", size=first),),
    )
    states = PageGroup(
        block_size=512,
        reuse_policy=ReusePolicy.RECURRENT_ALIGN,
        reuse_window_tokens=None,
        layers=tuple(layer(f"s{index}", size=size) for index, size in enumerate(others)),
    )
    return PageLayout(groups=(full, states))


# Strides of 16, 32 and 16 bytes.
LAYOUT: Final = layout_of(16, 20, 10)
NEED_BYTES: Final = 3 * 16 + 32 + 16
PAYLOAD_BYTES: Final = 78


def begin(device: Any, pages: PageSet, *, payload_bytes: int = PAYLOAD_BYTES) -> Any:
    layers = layer_spans(pages.layout, block_counts=pages.block_counts, header_bytes=0)
    return device.begin(pages, layers=layers, payload_bytes=payload_bytes)


def span(destination: int, *, at: int = 0, snapshot: int = 0, offset: int = 0, count: int = 16) -> CopySpan:
    return CopySpan(
        arena_offset=at,
        snapshot_offset=snapshot,
        destination_offset=offset,
        byte_count=count,
        destination=destination,
    )


WHOLE: Final = (
    span(0, count=48),
    span(1, at=48, snapshot=48, count=20),
    span(2, at=68, snapshot=68, count=10),
)


def place_whole(placement: Placement, *, content: bytes) -> None:
    arena = placement.acquire(0)
    arena.memory[:PAYLOAD_BYTES] = content
    placement.place(arena, used_bytes=PAYLOAD_BYTES, spans=WHOLE)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of device: how to make one, by a name and the options every device has."""

    name: str
    make: Callable[..., Any]

    def __call__(self, name: str | None = None, **options: Any) -> Any:
        return self.make(name or f"{'host' if self.name == 'host' else 'cuda'}0", **options)


def _over_model(*, new_driver: Callable[[], ModelDriver], **fixed: Any) -> Callable[..., CudaDevice]:
    def make(name: str, **options: Any) -> CudaDevice:
        return CudaDevice(name, driver=new_driver(), **(fixed | options))

    return make


def open_driver_or_skip() -> Driver:
    """The first GPU; where there is none the test is skipped, or fails if a GPU is required."""
    try:
        from workers.gpu.cupy_driver import CupyDriver

        return CupyDriver()
    except DeviceError as error:
        if os.environ.get(REQUIRE_GPU) == "1":
            raise
        pytest.skip(f"a GPU: {error}")


def _on_gpu(name: str, **options: Any) -> CudaDevice:
    return CudaDevice(name, driver=open_driver_or_skip(), **options)


def _mapped_on_gpu(name: str, **options: Any) -> CudaDevice:
    return _on_gpu(name, **{"mode": ArenaMode.MAPPED} | options)


def _compiled(name: str, **options: Any) -> CudaDevice:
    if COMPILER is None:
        pytest.skip("the CUDA source on the CPU: expected g++, found none")
    return CudaDevice(name, driver=ModelDriver(kernels=run_compiled), **options)


HOST: Final = Kind(name="host", make=HostDevice)
MODELS: Final = (
    Kind(name="lazy", make=_over_model(new_driver=ModelDriver)),
    Kind(name="eager", make=_over_model(new_driver=lambda: ModelDriver(Eager()))),
    Kind(name="random", make=_over_model(new_driver=lambda: ModelDriver(Seeded(7)))),
    Kind(name="unified", make=_over_model(new_driver=lambda: ModelDriver(Lazy(), facts=UNIFIED))),
    Kind(name="forced-mapped", make=_over_model(new_driver=ModelDriver, mode=ArenaMode.MAPPED)),
    Kind(name="compiled", make=_compiled),
)
GPU_ID: Final = "real-gpu"
GPU: Final = Kind(name=GPU_ID, make=_on_gpu)
GPUS: Final = (GPU, Kind(name=f"{GPU_ID}-mapped", make=_mapped_on_gpu))
KINDS: Final = (HOST, *MODELS, *GPUS)
