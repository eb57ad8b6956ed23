"""Whether a container was started through the overlay, and whether its mounts leave the rest of the image
as it is (profile-contract §10.2, §10.4).
"""

import posixpath
from collections.abc import Iterator

from app.core.profiles.anchors import OVERLAY_ENTRYPOINT_FILE
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.launch import OVERLAY_VARIABLE, Launch, Mount
from app.core.profiles.source_lock import (
    CONTRACT_FOLDER,
    OVERLAY_ENTRYPOINT,
    SourceLock,
    is_in,
)

ROOT_TARGET = f"/{CONTRACT_FOLDER}"
ENTRYPOINT_TARGET = f"/{OVERLAY_ENTRYPOINT}"
_NO_LAUNCH = "launch document"


def launch_findings(
    launch: Launch | None, *, lock: SourceLock | None, rank: int | None = None
) -> Iterator[ProfileFinding]:
    """Entrypoint selected, both mounts there and read-only, nothing else mounted over the image's files."""
    if launch is None:
        for code in ("OV_ENTRYPOINT_NOT_SELECTED", "OV_NOT_READONLY"):
            yield finding(code, CheckResult.NOT_TESTED, detail=_NO_LAUNCH, rank=rank)
        return
    yield _selected(launch, rank=rank)
    yield from _root_mount(launch, rank=rank)
    yield from _entrypoint_mount(launch, rank=rank)
    yield from _read_only(launch, rank=rank)
    yield from _inside(launch, rank=rank)
    if lock is not None:
        yield from _covering(launch, lock=lock, rank=rank)


def _selected(launch: Launch, *, rank: int | None) -> ProfileFinding:
    """The first word of the entrypoint is what runs; ``Path`` is where the engine says it was taken from."""
    first = launch.entrypoint[0] if launch.entrypoint else "nothing"
    good = first == ENTRYPOINT_TARGET == launch.path
    return finding(
        "OV_ENTRYPOINT_NOT_SELECTED",
        CheckResult.PASS if good else CheckResult.FAIL,
        pointer="/Path" if first == ENTRYPOINT_TARGET else "/Config/Entrypoint/0",
        expected=ENTRYPOINT_TARGET,
        found=launch.path if first == ENTRYPOINT_TARGET else first,
        rank=rank,
        document_sha256=launch.sha256,
    )


def _root_mount(launch: Launch, *, rank: int | None) -> Iterator[ProfileFinding]:
    settings = launch.variables(OVERLAY_VARIABLE)
    root = settings[-1].value if settings else ""
    if not root.startswith("/"):
        yield finding(
            "OV_ROOT",
            CheckResult.FAIL,
            pointer=settings[-1].pointer if settings else "/Config/Env",
            expected=f"{OVERLAY_VARIABLE} with an absolute path",
            found=root or "nothing",
            rank=rank,
            document_sha256=launch.sha256,
        )
    yield _mounted_from(launch, ROOT_TARGET, source=root, code="OV_ROOT", rank=rank)


def _entrypoint_mount(launch: Launch, *, rank: int | None) -> Iterator[ProfileFinding]:
    """The source is the sibling of the root directory: ``../image/entrypoint.py`` (§10.2)."""
    settings = launch.variables(OVERLAY_VARIABLE)
    root = settings[-1].value if settings else ""
    source = posixpath.normpath(posixpath.join(root, "..", OVERLAY_ENTRYPOINT_FILE)) if root else ""
    yield _mounted_from(launch, ENTRYPOINT_TARGET, source=source, code="OV_ENTRYPOINT_MISSING", rank=rank)


def _mounted_from(launch: Launch, target: str, *, source: str, code: str, rank: int | None) -> ProfileFinding:
    mounts = launch.mounts_at(target)
    sources = [posixpath.normpath(one.source) for one in mounts]
    expected = posixpath.normpath(source) if source else "a source"
    good = len(mounts) == 1 and (not source or sources == [expected])
    return finding(
        code,
        CheckResult.PASS if good else CheckResult.FAIL,
        pointer=mounts[0].pointer if mounts else "/Mounts",
        detail=f"mount at {target}",
        expected=f"one mount of {expected} at {target}",
        found=", ".join(sources) or "none",
        rank=rank,
        document_sha256=launch.sha256,
    )


def _read_only(launch: Launch, *, rank: int | None) -> Iterator[ProfileFinding]:
    for target in (ROOT_TARGET, ENTRYPOINT_TARGET):
        mounts = launch.mounts_at(target)
        if not mounts:
            yield finding("OV_NOT_READONLY", CheckResult.NOT_TESTED, detail=f"mount at {target}", rank=rank)
        for one in mounts:
            yield finding(
                "OV_NOT_READONLY",
                CheckResult.FAIL if one.writable else CheckResult.PASS,
                pointer=f"{one.pointer}/RW",
                detail=f"mount at {target}",
                expected="false",
                found=str(one.writable).lower(),
                rank=rank,
                document_sha256=launch.sha256,
            )


def _inside(launch: Launch, *, rank: int | None) -> Iterator[ProfileFinding]:
    """A mount inside one of the two: the container reads other bytes there than those that are anchored."""
    for one in launch.mounts:
        place = posixpath.normpath(one.destination)
        for target, code in ((ROOT_TARGET, "OV_ROOT"), (ENTRYPOINT_TARGET, "OV_ENTRYPOINT_MISSING")):
            if place.startswith(f"{target}/"):
                yield finding(
                    code,
                    CheckResult.FAIL,
                    pointer=one.pointer,
                    detail=f"a mount at {one.destination} hides a part of the overlay",
                    expected=f"no mount inside {target}",
                    found=one.source,
                    rank=rank,
                    document_sha256=launch.sha256,
                )


def _covering(launch: Launch, *, lock: SourceLock, rank: int | None) -> Iterator[ProfileFinding]:
    """Any other mount over a file of the lock: the container does not see the bytes that were checked."""
    for one in launch.mounts:
        hidden = _hidden(one, lock=lock)
        if hidden:
            yield finding(
                "SL_FILE_DRIFT",
                CheckResult.FAIL,
                pointer=one.pointer,
                detail=f"a mount at {one.destination} hides {len(hidden)} locked files, first {hidden[0]}",
                rank=rank,
                document_sha256=launch.sha256,
                reason="changed",
            )


def _hidden(mount: Mount, *, lock: SourceLock) -> list[str]:
    if mount.destination in (ROOT_TARGET, ENTRYPOINT_TARGET):
        return []
    covered = posixpath.normpath(mount.destination).lstrip("/")
    return [path for path in lock.installed_files if not covered or is_in(path, covered)]
