"""open_device(name): the device a rank worker drives, by the name its node gave it."""

import re
from typing import Final

from app.core.errors import DeviceError
from app.core.restore.device import Device
from app.core.restore.host_device import HostDevice
from app.core.store.layout import MAX_OBJECT_BYTES

HOST_PREFIX: Final = "host"
CUDA_PREFIX: Final = "cuda"


def device_kind(name: str) -> str:
    """`host` or `cuda`, from the device's name (``host0``, ``cuda0`` …).

    Raises:
        DeviceError: the name says neither.
    """
    for kind in (HOST_PREFIX, CUDA_PREFIX):
        if name.startswith(kind):
            return kind
    raise DeviceError(f"device {name}", expected="a name like host0 or cuda0", found=repr(name))


def open_device(name: str, *, pool_bytes: int, arena_bytes: int = MAX_OBJECT_BYTES) -> Device:
    """Open a device for this process; CuPy is imported here and now, if it is a CUDA one.

    Args:
        name: ``host`` and anything, or ``cuda`` and the number of a GPU that this process sees.
        pool_bytes: the most bytes of pages it may hold.
        arena_bytes: size of each arena.

    Raises:
        DeviceError: the name is no device's, or CuPy, its driver or the GPU is missing.
        ResourceError: there is no memory for the arenas.
    """
    if device_kind(name) == HOST_PREFIX:
        return HostDevice(name, pool_bytes=pool_bytes, arena_bytes=arena_bytes)
    number = re.fullmatch(r"cuda([0-9]{1,3})", name)
    if number is None:
        raise DeviceError(
            f"device {name}", expected="cuda and the number of a GPU, such as cuda0", found=repr(name)
        )
    from workers.gpu.cuda_device import CudaDevice
    from workers.gpu.cupy_driver import CupyDriver

    driver = CupyDriver(int(number[1]))
    return CudaDevice(name, driver=driver, pool_bytes=pool_bytes, arena_bytes=arena_bytes)
