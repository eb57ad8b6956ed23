"""Devices by name: the host's memory always, a CUDA device where CuPy and a GPU are (workers.devices)."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from app.core.errors import DeviceError
from app.core.restore.host_device import HostDevice
from workers.devices import device_kind, open_device
from workers.gpu.cupy_driver import CupyDriver

from .stream_model import ModelDriver

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_host_device_needs_no_cupy() -> None:
    code = (
        "import sys; sys.modules['cupy'] = None; from workers.devices import open_device; "
        "open_device('host0', pool_bytes=4096, arena_bytes=4096).close()"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


def test_without_cupy_a_cuda_device_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['cupy'] = None; from workers.devices import open_device; "
        "open_device('cuda0', pool_bytes=4096)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "DeviceError: CUDA device: expected CuPy (pip install 'sparkgate[gpu]'), found" in result.stderr


def test_without_a_gpu_a_cuda_device_says_so() -> None:
    try:
        CupyDriver().close()
    except DeviceError:
        with pytest.raises(DeviceError, match="CUDA device: expected a driver and a GPU number 0, found"):
            open_device("cuda0", pool_bytes=4096)
    else:
        pytest.skip("opening without a GPU: there is one")


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cudax", "cuda1234"])
def test_a_cuda_device_has_a_number(name: str) -> None:
    with pytest.raises(DeviceError, match="expected cuda and the number of a GPU"):
        open_device(name, pool_bytes=4096)


def test_a_name_of_neither_kind() -> None:
    assert (device_kind("host0"), device_kind("cuda1")) == ("host", "cuda")
    with pytest.raises(DeviceError, match="a name like host0 or cuda0"):
        open_device("tpu0", pool_bytes=4096)


def test_the_number_is_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a model for the driver: what is opened, and that its pages are those asked for."""
    opened: list[int] = []

    def driver(index: int) -> ModelDriver:
        opened.append(index)
        return ModelDriver()

    monkeypatch.setattr("workers.gpu.cupy_driver.CupyDriver", driver)
    with open_device("cuda3", pool_bytes=8192, arena_bytes=4096) as device:  # type: ignore[attr-defined]
        assert (device.kind, device.name, device.pool_bytes) == ("cuda", "cuda3", 8192)
    assert opened == [3]
    with open_device("host1", pool_bytes=8192, arena_bytes=4096) as host:  # type: ignore[attr-defined]
        assert isinstance(host, HostDevice)


def test_the_command_line_finds_the_workers_device() -> None:
    """Where the project is installed; on a bare GPU box it is not, nor is the command."""
    plugs = metadata.entry_points(group="sparkgate.devices", name="cuda")
    if not plugs:
        pytest.skip("the entry point of devices: the project is not installed here")
    assert [plug.load() for plug in plugs] == [open_device]
