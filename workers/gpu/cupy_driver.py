"""The driver over CuPy: one GPU of this process. The only file that needs CuPy, a driver and a device."""

import ctypes
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np

from app.core.errors import DeviceError, ResourceError
from app.core.restore.kernels import Bytes
from workers.gpu.cuda_kernels import GATHER, SCATTER, SOURCE, THREADS
from workers.gpu.driver import DeviceFacts, HostKind, HostMemory, Launch
from workers.gpu.host_memory import address_of

try:
    import cupy
    from cupy.cuda import driver as cuda
    from cupy.cuda import nvrtc, runtime
except ImportError as error:
    raise DeviceError(
        "CUDA device", expected="CuPy (pip install 'sparkgate[gpu]')", found=str(error)
    ) from error

_MEMORY_FILE: Final = Path("/proc/meminfo")
_OUT_OF_MEMORY: Final = 2
_NOT_READY: Final = 600
_CUDA_ERRORS: Final = (runtime.CUDARuntimeError, cuda.CUDADriverError)


class CupyDriver:
    """A ``Driver`` of one GPU.

    Args:
        index: its number among the GPUs this process sees.

    Raises:
        DeviceError: there is no driver, no such GPU, or its kernels do not compile.
    """

    def __init__(self, index: int = 0) -> None:
        self._index = index
        with _told_of("CUDA device", expected=f"a driver and a GPU number {index}"):
            count = runtime.getDeviceCount()
            if index >= count:
                raise DeviceError("CUDA device", expected=f"a GPU number {index}", found=f"{count} of them")
            runtime.setDevice(index)
            self.facts = _read_facts(index)
            major, minor = self.facts.compute_capability
            module = cuda.moduleLoadData(compile_kernels(f"sm_{major}{minor}"))
            self._kernels = {name: cuda.moduleGetFunction(module, name) for name in (SCATTER, GATHER)}
        self._current = threading.local()
        self._pinned: dict[int, int] = {}
        self._watchers: dict[int, ThreadPoolExecutor] = {}
        self._calls: dict[int, list[tuple[int, Future[None]]]] = {}
        self._lock = threading.Lock()

    @property
    def xp(self) -> ModuleType:
        """See ``Driver.xp``."""
        module: ModuleType = cupy
        return module

    def free_bytes(self) -> int:
        """See ``Driver.free_bytes``; a shared memory also has what the page cache would give up."""
        with self._on_device("free device memory"):
            free = int(runtime.memGetInfo()[0])
        return max(free, self.host_free_bytes()) if self.facts.integrated else free

    def host_free_bytes(self) -> int:
        """See ``Driver.host_free_bytes``."""
        for line in _MEMORY_FILE.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return 0

    def allocate(self, byte_count: int) -> int:
        """See ``Driver.allocate``."""
        with self._on_device(f"{byte_count} bytes of device memory"):
            return int(runtime.malloc(byte_count))

    def release(self, address: int) -> None:
        """See ``Driver.release``."""
        with self._on_device("release of device memory"):
            runtime.free(address)

    def new_array(self, shape: tuple[int, ...]) -> tuple[Any, int]:
        """See ``Driver.new_array``."""
        with self._on_device(f"array of shape {shape}"):
            array = cupy.empty(shape, dtype=cupy.uint8)
            # The pool of arrays orders reuse by the stream it lends on; ours is another one.
            runtime.streamSynchronize(cupy.cuda.get_current_stream().ptr)
            return array, int(array.data.ptr)

    def pin(self, byte_count: int) -> HostMemory:
        """See ``Driver.pin``."""
        flags = runtime.hostAllocMapped | runtime.hostAllocPortable
        with self._on_device(f"{byte_count} bytes of pinned memory"):
            address = int(runtime.hostAlloc(byte_count, flags))
            memory = np.ctypeslib.as_array((ctypes.c_ubyte * byte_count).from_address(address)).data
            return self._known(memory, kind=HostKind.PINNED, address=address)

    def register(self, memory: memoryview) -> HostMemory:
        """See ``Driver.register``."""
        address = address_of(memory)
        with self._on_device(f"{len(memory)} bytes of memory to be registered"):
            runtime.hostRegister(address, len(memory), runtime.hostAllocMapped | runtime.hostAllocPortable)
            return self._known(memory, kind=HostKind.REGISTERED, address=address)

    def unpin(self, memory: HostMemory) -> None:
        """See ``Driver.unpin``."""
        with self._on_device("release of pinned memory"):
            self._pinned.pop(memory.address, None)
            if memory.kind is HostKind.PINNED:
                runtime.freeHost(memory.address)
            else:
                runtime.hostUnregister(memory.address)

    def create_stream(self) -> int:
        """See ``Driver.create_stream``: 0 is the lowest priority there is, and the default one."""
        with self._on_device("stream"):
            return int(runtime.streamCreateWithPriority(runtime.streamNonBlocking, 0))

    def create_event(self, *, timed: bool = False) -> int:
        """See ``Driver.create_event``."""
        flags = runtime.eventBlockingSync | (0 if timed else runtime.eventDisableTiming)
        with self._on_device("event"):
            return int(runtime.eventCreateWithFlags(flags))

    def destroy(self, *, streams: tuple[int, ...] = (), events: tuple[int, ...] = ()) -> None:
        """See ``Driver.destroy``."""
        with self._on_device("release of streams and events"):
            for event in events:
                runtime.eventDestroy(event)
            for stream in streams:
                runtime.streamDestroy(stream)

    def record(self, event: int, *, stream: int) -> None:
        """See ``Driver.record``."""
        with self._on_device("event on a stream"):
            runtime.eventRecord(event, stream)

    def order(self, stream: int, *, after: int) -> None:
        """See ``Driver.order``."""
        with self._on_device("order of a stream after an event"):
            runtime.streamWaitEvent(stream, after)

    def is_done(self, event: int) -> bool:
        """See ``Driver.is_done``."""
        with self._on_device("event"):
            status = int(runtime.eventQuery(event))
            if status not in {0, _NOT_READY}:
                runtime.check_status(status)
        return status == 0

    def await_event(self, event: int) -> None:
        """See ``Driver.await_event``."""
        with self._on_device("wait for an event"):
            runtime.eventSynchronize(event)
        self._await_calls(event=event)

    def await_stream(self, stream: int) -> None:
        """See ``Driver.await_stream``; a waiter sleeps, so readers have the processor."""
        event = self.create_event()
        try:
            self.record(event, stream=stream)
            with self._on_device("wait for a stream"):
                runtime.eventSynchronize(event)
        finally:
            self._await_calls(stream=stream)
            self.destroy(events=(event,))

    def call_when_done(self, event: int, *, stream: int, call: Callable[[], None]) -> None:
        """See ``Driver.call_when_done``: one thread per stream waits for its events in order."""

        def run() -> None:
            try:
                runtime.eventSynchronize(event)
            except _CUDA_ERRORS:
                # The device is lost and reads nothing any more; who waits for its work is told so.
                pass
            finally:
                call()

        with self._lock:
            watcher = self._watchers.get(stream)
            if watcher is None:
                watcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"cuda-events-{stream:x}")
                self._watchers[stream] = watcher
            kept = [one for one in self._calls.get(stream, []) if not one[1].done()]
            self._calls[stream] = [*kept, (event, watcher.submit(run))]

    def copy_in(self, target: int, *, source: Bytes, stream: int) -> None:
        """See ``Driver.copy_in``."""
        with self._on_device(f"copy of {source.nbytes} bytes to the device"):
            address = int(source.ctypes.data)
            runtime.memcpyAsync(target, address, source.nbytes, runtime.memcpyHostToDevice, stream)
            # A device that reaches any memory need not have staged pageable memory before this returns.
            if self.facts.reads_pageable_memory and not self._is_pinned(address):
                runtime.streamSynchronize(stream)

    def copy_out(self, source: int, *, target: Bytes, stream: int) -> None:
        """See ``Driver.copy_out``."""
        with self._on_device(f"copy of {target.nbytes} bytes from the device"):
            kind = runtime.memcpyDeviceToHost
            runtime.memcpyAsync(int(target.ctypes.data), source, target.nbytes, kind, stream)

    def copy_within(self, source: int, *, target: int, byte_count: int, stream: int) -> None:
        """See ``Driver.copy_within``."""
        with self._on_device(f"copy of {byte_count} bytes inside the device"):
            runtime.memcpyAsync(target, source, byte_count, runtime.memcpyDeviceToDevice, stream)

    def fill(self, target: int, *, byte: int, byte_count: int, stream: int) -> None:
        """See ``Driver.fill``."""
        with self._on_device(f"fill of {byte_count} bytes"):
            runtime.memsetAsync(target, byte, byte_count, stream)

    def launch(self, launch: Launch, *, stream: int) -> None:
        """See ``Driver.launch``."""
        values = kernel_arguments(launch)
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        with self._on_device(f"launch of {launch.kernel}"):
            cuda.launchKernel(
                self._kernels[launch.kernel],
                *(launch.blocks, 1, 1),
                *(THREADS, 1, 1),
                0,
                stream,
                ctypes.addressof(pointers),
                0,
            )

    def elapsed_ns(self, start: int, *, end: int) -> int:
        """See ``Driver.elapsed_ns``."""
        with self._on_device("time between events"):
            milliseconds: float = runtime.eventElapsedTime(start, end)
        return round(milliseconds * 1e6)

    def close(self) -> None:
        """See ``Driver.close``."""
        for watcher in self._watchers.values():
            watcher.shutdown(wait=True)

    def _known(self, memory: memoryview, *, kind: HostKind, address: int) -> HostMemory:
        """With unified addresses the device finds pinned memory where the host does, or says where."""
        mapped = runtime.pointerGetAttributes(address).devicePointer if self.facts.maps_host_memory else 0
        self._pinned[address] = len(memory)
        return HostMemory(memory=memory, kind=kind, address=address, device_address=int(mapped) or None)

    def _is_pinned(self, address: int) -> bool:
        return any(0 <= address - start < length for start, length in list(self._pinned.items()))

    def _await_calls(self, *, stream: int | None = None, event: int | None = None) -> None:
        """The calls of one stream or of one event are made."""
        with self._lock:
            waiting = [(number, *one) for number, calls in self._calls.items() for one in calls]
        for number, awaited, call in waiting:
            if stream == number or event == awaited:
                call.result()

    @contextmanager
    def _on_device(self, subject: str) -> Iterator[None]:
        """The current device is each thread's own."""
        with _told_of(subject, expected=f"to be done on GPU {self._index}"):
            if getattr(self._current, "device", None) != self._index:
                runtime.setDevice(self._index)
                self._current.device = self._index
            yield


def compile_kernels(target: str) -> bytes:
    """The kernels as a cubin for one architecture, such as ``sm_90``; needs no driver.

    Raises:
        DeviceError: NVRTC is missing or refuses the source.
    """
    return bytes(_compile(target)[1])


def complete_cubin(cubin: bytes) -> bytes:
    """CuPy takes a cubin's last byte for the end of a string; it is the top byte of a table, and zero."""
    (start,) = struct.unpack_from("<Q", cubin, 32)
    size, count = struct.unpack_from("<HH", cubin, 54)
    return cubin + b"\0" if len(cubin) == start + size * count - 1 else cubin


def kernel_assembly(target: str) -> str:
    """The kernels as PTX; see ``compile_kernels``."""
    return _compile(target)[0]


def kernel_arguments(launch: Launch) -> list[Any]:
    """The parameters of both kernels, in their order."""
    pages = launch.pages
    return [
        ctypes.c_uint64(launch.linear),
        ctypes.c_uint64(launch.used_bytes),
        ctypes.c_uint64(launch.spans),
        ctypes.c_uint64(launch.first_tiles),
        ctypes.c_uint32(launch.span_count),
        ctypes.c_uint64(pages.layers),
        ctypes.c_uint32(pages.layer_count),
        ctypes.c_uint64(pages.groups),
        ctypes.c_uint32(pages.group_count),
        ctypes.c_uint64(pages.slots),
        ctypes.c_uint64(pages.owners),
        ctypes.c_uint32(pages.owner),
        ctypes.c_uint64(pages.error),
    ]


@cache
def _compile(target: str) -> tuple[str, bytes]:
    with _told_of("CUDA kernels", expected=f"to compile for {target}"):
        program = nvrtc.createProgram(SOURCE, "cuda_kernels.cu", [], [])
        try:
            nvrtc.compileProgram(program, [f"--gpu-architecture={target}", "--std=c++17"])
            assembly = nvrtc.getPTX(program)
            text = assembly if isinstance(assembly, str) else assembly.decode()
            return text, complete_cubin(nvrtc.getCUBIN(program))
        except nvrtc.NVRTCError as error:
            raise DeviceError(
                "CUDA kernels",
                expected=f"to compile for {target}",
                found=f"{error}: {nvrtc.getProgramLog(program)}",
            ) from error
        finally:
            nvrtc.destroyProgram(program)


def _read_facts(index: int) -> DeviceFacts:
    properties = runtime.getDeviceProperties(index)

    def has(attribute: str) -> bool:
        return bool(runtime.deviceGetAttribute(getattr(runtime, f"cudaDevAttr{attribute}"), index))

    name = properties["name"]
    return DeviceFacts(
        model=name.decode() if isinstance(name, bytes) else str(name),
        compute_capability=(int(properties["major"]), int(properties["minor"])),
        total_bytes=int(properties["totalGlobalMem"]),
        processors=int(properties["multiProcessorCount"]),
        integrated=has("Integrated"),
        maps_host_memory=has("CanMapHostMemory"),
        reads_pageable_memory=has("PageableMemoryAccess"),
        registers_host_memory=has("HostRegisterSupported"),
    )


@contextmanager
def _told_of(subject: str, *, expected: str) -> Iterator[None]:
    """CUDA's errors as ours."""
    try:
        yield
    except _CUDA_ERRORS as error:
        kind = ResourceError if getattr(error, "status", None) == _OUT_OF_MEMORY else DeviceError
        raise kind(subject, expected=expected, found=str(error)) from error
    except RuntimeError as error:
        # A missing libcuda or NVRTC is a bare RuntimeError of CuPy's loader.
        raise DeviceError(subject, expected=expected, found=str(error)) from error
