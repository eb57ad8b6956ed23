"""open_device(name): the device a rank worker drives, by the name its node gave it."""

from app.core.errors import DeviceError
from app.core.restore.host_device import HostDevice

HOST_PREFIX = "host"


def device_kind(name: str) -> str:
    """`host` or `cuda`, from the device's name (``host0``, ``cuda0`` …).

    Raises:
        DeviceError: the name says neither.
    """
    for kind in (HOST_PREFIX, "cuda"):
        if name.startswith(kind):
            return kind
    raise DeviceError(f"device {name}", expected="a name like host0 or cuda0", found=repr(name))


def open_device(name: str, *, pool_bytes: int) -> HostDevice:
    """Open a device for this process.

    Raises:
        DeviceError: this build cannot drive it.
    """
    if device_kind(name) != HOST_PREFIX:
        raise DeviceError(f"device {name}", expected="a host device in this build", found="a CUDA device")
    return HostDevice(name, pool_bytes=pool_bytes)
