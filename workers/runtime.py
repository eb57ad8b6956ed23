"""What a rank worker measures of itself: the code that really executes, not what somebody says it is.

The image of its container is the one fact a process cannot see from inside: the kernel shows it mounts and
groups, no image. So the kernel says whether there is a container, and the node's operator says which image by
mounting a file, read-only, over a path that the container itself cannot change. No variable of the
environment is asked: whoever starts a process may set any.
"""

import platform
import re
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

import numpy

import app.core
from app.core.errors import FormatError
from app.core.image import ConfigId
from app.core.runtime import NONE, UNKNOWN, Runtime, RuntimeDocument
from app.core.source_tree import digest_folder

_REPOSITORY: Final = Path(app.core.__file__).resolve().parents[2]
ENGINE: Final = ("app/core",)
SOURCES: Final = ("app", "workers")
IMAGE_FILE: Final = Path("/run/sparkgate/image-config-id")
_IMAGE_FILE_BYTES: Final = 100
_CUPY: Final = ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy")
# docker, podman, CRI-O and containerd all name a container by 64 digits, in its control group or in the
# place its hostname and resolv.conf are mounted from.
_CONTAINER_GROUP: Final = re.compile(r"[/:-][0-9a-f]{64}(\.scope)?(/|$)", re.MULTILINE)
_CONTAINER_MOUNT: Final = re.compile(r"/[a-z-]*(containers|sandboxes)/[0-9a-f]{64}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One line of /proc/self/mountinfo (proc(5)): what of a file system is mounted where, and how."""

    root: str
    place: str
    options: frozenset[str]
    file_system: str


@cache
def measured_runtime() -> RuntimeDocument:
    """This process's runtime, measured at the first call: a worker makes that before its first task."""
    return measure_runtime().to_document()


def measure_runtime(root: Path = _REPOSITORY) -> Runtime:
    """Measure the runtime of this process.

    Raises:
        FormatError: the code is no source tree (a link in it), or the operator's file holds no config id.
        ResourceError: the code cannot be read.
    """
    engine = digest_folder(root, only=ENGINE)
    sources = digest_folder(root, only=SOURCES)
    return Runtime(
        engine="sparkgate",
        engine_sha256=engine.sha256,
        engine_files=engine.files,
        source_sha256=sources.sha256,
        source_files=sources.files,
        image_config_id=image_config_id(
            mountinfo=_kernel_text("mountinfo"), cgroup=_kernel_text("cgroup"), file=IMAGE_FILE
        ),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        numpy=numpy.__version__,
        cupy=_cupy_version(),
        machine=platform.machine(),
        system=f"{platform.system()} {platform.release()}",
    )


def image_config_id(*, mountinfo: str, cgroup: str, file: Path) -> str:
    """The config id of the image of the container this process is in.

    Args:
        mountinfo: text of /proc/self/mountinfo.
        cgroup: text of /proc/self/cgroup.
        file: where the operator mounts the config id.

    Returns:
        64 digits; ``none`` outside a container; ``unknown`` in one without such a file, or with one that
        is not a read-only mount and so may be the image's own or a process's.

    Raises:
        FormatError: the mounted file holds something else.
    """
    mounts = parse_mounts(mountinfo)
    if not in_container(mounts, cgroup=cgroup):
        return NONE
    if not _is_mounted_read_only(file, mounts=mounts):
        return UNKNOWN
    try:
        with file.open("rb") as opened:
            text = opened.read(_IMAGE_FILE_BYTES).decode("ascii", "backslashreplace")
    except OSError as error:
        raise FormatError(
            str(file), expected="a readable file with a config id", found=str(error.strerror)
        ) from None
    return ConfigId.parse(text.strip().removeprefix("sha256:"), subject=f"{file} (config id of the image)")


def in_container(mounts: list[Mount], *, cgroup: str) -> bool:
    """Whether the kernel shows a container: its control group, its mounts, or a root made of layers.

    Files such as /.dockerenv say nothing: images are unpacked to disks of machines with them inside.
    """
    return (
        _CONTAINER_GROUP.search(cgroup) is not None
        or any(_CONTAINER_MOUNT.search(mount.root) for mount in mounts)
        or any(
            mount.place == "/" and mount.file_system in {"overlay", "fuse.fuse-overlayfs"} for mount in mounts
        )
    )


def parse_mounts(mountinfo: str) -> list[Mount]:
    """The mounts of /proc/self/mountinfo; a line that is not in form is passed over."""
    mounts = []
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        columns, rest = before.split(" "), after.split(" ")
        if separator and len(columns) >= 6:
            mounts.append(
                Mount(
                    root=columns[3],
                    place=columns[4],
                    options=frozenset(columns[5].split(",")),
                    file_system=rest[0],
                )
            )
    return mounts


def _is_mounted_read_only(file: Path, *, mounts: list[Mount]) -> bool:
    """Whether the file, or a folder above it other than the root, is a mount of its own, and read-only."""
    for place in (file, *file.parents[:-1]):
        # The last one mounted over a place is the one that is seen.
        seen = [mount for mount in mounts if mount.place == str(place)]
        if seen:
            return "ro" in seen[-1].options
    return False


def _kernel_text(name: str) -> str:
    """What the kernel tells of this process; nothing where there is no /proc."""
    try:
        return Path("/proc/self", name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _cupy_version() -> str:
    """Asked of the installed packages, since only the device's own code imports CuPy."""
    for name in _CUPY:
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return NONE
