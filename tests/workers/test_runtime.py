"""What a worker measures of itself: its code by the source-tree digest, its container as the kernel says."""

from pathlib import Path

import pytest

from app.core.errors import FormatError
from app.core.runtime import Runtime
from app.core.source_tree import digest_folder
from workers import runtime
from workers.runtime import image_config_id, in_container, measure_runtime, measured_runtime, parse_mounts

ID = "4f" * 32
DISK = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
LAYERS = "27 1 0:70 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/AB\n"
DOCKER = DISK + f"40 27 8:1 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw - ext4 /dev/sda1 rw\n"
PODMAN = (
    DISK + "40 27 0:20 /containers/storage/overlay-containers/"
    f"{ID}/userdata/hosts /etc/hosts rw shared:5 - tmpfs tmpfs rw\n"
)
PODS = (
    DISK + f"40 27 8:1 /var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/{ID}/resolv.conf "
    "/etc/resolv.conf rw - ext4 /dev/sda1 rw\n"
)
NO_GROUP = "0::/\n"
# A machine whose own services use long names, and whose disk was unpacked from an image.
MACHINE_GROUP = "4:memory:/process_api/66d75dda832e5e17ff1a88e4cfe072e4\n0::/user.slice/session-1.scope\n"


@pytest.mark.parametrize(
    ("mountinfo", "cgroup", "expected"),
    [
        (DISK, NO_GROUP, False),
        (DISK, MACHINE_GROUP, False),
        ("", "", False),
        (DOCKER, NO_GROUP, True),
        (PODMAN, NO_GROUP, True),
        (PODS, NO_GROUP, True),
        (LAYERS, NO_GROUP, True),
        (DISK, f"0::/system.slice/docker-{ID}.scope\n", True),
        (DISK, f"12:cpu:/docker/{ID}\n0::/\n", True),
        (DISK, f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope\n", True),
        (DISK, f"0::/machine.slice/libpod-{ID}.scope/container\n", True),
    ],
)
def test_container_is_what_the_kernel_shows(mountinfo: str, cgroup: str, expected: bool) -> None:
    assert in_container(parse_mounts(mountinfo), cgroup=cgroup) == expected


def mounted(place: Path, *, how: str = "ro,relatime") -> str:
    return f"50 27 8:1 /srv/ids {place} {how} - ext4 /dev/sda1 rw\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "image-config-id"
    path.write_text(f"sha256:{'c' * 64}\n")
    return path


def test_operator_names_the_image_by_a_read_only_mount(file: Path) -> None:
    for place in (file, file.parent):
        text = DOCKER + mounted(place)
        assert image_config_id(mountinfo=text, cgroup=NO_GROUP, file=file) == "c" * 64


@pytest.mark.parametrize(
    "mounts",
    ["", mounted(Path("/elsewhere")), "WRITABLE", "COVERED"],
    ids=["no mount", "another place", "writable", "covered by a writable one"],
)
def test_file_nobody_vouches_for_is_not_read(file: Path, mounts: str) -> None:
    texts = {
        "WRITABLE": mounted(file, how="rw,relatime"),
        "COVERED": mounted(file) + mounted(file, how="rw"),
    }
    text = DOCKER + texts.get(mounts, mounts)
    assert image_config_id(mountinfo=text, cgroup=NO_GROUP, file=file) == "unknown"


def test_outside_a_container_there_is_no_image(file: Path) -> None:
    assert image_config_id(mountinfo=DISK + mounted(file), cgroup=NO_GROUP, file=file) == "none"


@pytest.mark.parametrize("content", [b"", b"latest", b"sha256:" + b"C" * 64, b"\xff" * 200, b"c" * 63])
def test_mounted_file_with_something_else_is_refused_by_name(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(FormatError, match=r"image-config-id \(config id of the image\): expected 64"):
        image_config_id(mountinfo=DOCKER + mounted(file), cgroup=NO_GROUP, file=file)


def test_mounted_file_that_is_gone_is_refused_by_name(file: Path) -> None:
    file.unlink()
    with pytest.raises(FormatError, match="image-config-id: expected a readable file"):
        image_config_id(mountinfo=DOCKER + mounted(file), cgroup=NO_GROUP, file=file)


def test_no_variable_changes_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    before = measure_runtime()
    for name in ("IMAGE", "IMAGE_CONFIG_ID", "SPARKGATE_IMAGE_CONFIG_ID", "HOSTNAME", "container"):
        monkeypatch.setenv(name, "d" * 64)
    assert measure_runtime() == before


@pytest.fixture
def code(tmp_path: Path) -> Path:
    files = ("app/core/a.py", "app/b.html", "workers/c.py", "tests/d.py", "app/core/__pycache__/a.pyc")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_code_is_measured_by_the_source_tree_digest(code: Path) -> None:
    found = measure_runtime(code)
    assert found.engine_sha256 == digest_folder(code, only=("app/core",)).sha256
    assert found.source_sha256 == digest_folder(code, only=("app", "workers")).sha256
    assert (found.engine_files, found.source_files) == (1, 3)


@pytest.mark.parametrize(
    ("changed", "engine", "source"),
    [
        ("app/core/a.py", True, True),
        ("app/b.html", False, True),
        ("workers/c.py", False, True),
        ("tests/d.py", False, False),
        ("app/core/__pycache__/a.pyc", False, False),
    ],
)
def test_a_changed_byte_changes_what_it_is_part_of(
    code: Path, changed: str, engine: bool, source: bool
) -> None:
    before = measure_runtime(code)
    (code / changed).write_text("x")
    after = measure_runtime(code)
    assert (before.engine_sha256 != after.engine_sha256) == engine
    assert (before.source_sha256 != after.source_sha256) == source


def test_link_in_the_code_is_refused_by_name(code: Path) -> None:
    (code / "app" / "core" / "z.py").symlink_to("a.py")
    with pytest.raises(FormatError, match=r"app/core/z\.py: expected a file.*found a symbolic link"):
        measure_runtime(code)


def test_runtime_is_measured_once_and_is_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    first = measured_runtime()
    monkeypatch.setattr(runtime, "measure_runtime", None)
    assert measured_runtime() is first
    assert Runtime.parse(first).to_document() == first
