"""An image root under an overlay, checked; damages of its files."""

import os
from pathlib import Path
from typing import Any

from app.core.digest import Digest
from app.core.profiles.anchors import Anchors, parse_anchors, selection_anchors
from app.core.profiles.findings import CheckResult, ProfileFinding
from app.core.profiles.launch import parse_launch
from app.core.profiles.overlay import OverlayOrder, OverlayResult, check_overlay
from app.core.profiles.release import read_release_selection
from tests.core.profile_rig import Site, dump

OVERLAY = "/opt/sparkring/bin/sparkring-r33-overlay"


def check(site: Site, **order: Any) -> OverlayResult:
    readable = site.lock_path.is_file()
    known = {
        "lock_sha256": Digest(site.lock_sha256) if readable else None,
        "anchors": (parse_anchors(site.anchors()),),
        "launch": parse_launch(dump(site.launch())),
    }
    return check_overlay(site.image, site.overlay, order=OverlayOrder(**(known | order)))


def selection_of(inputs: list[dict[str, str]]) -> Anchors:
    made = {"schema": "sparkring-release-selection/v1", "id": "made", "selection": "made", "inputs": inputs}
    made["image"] = "registry.example/made@sha256:" + "4d" * 32
    return selection_anchors(read_release_selection(dump(made)))


def failed(result: OverlayResult, code: str) -> list[ProfileFinding]:
    return [one for one in result.findings if one.code == code and one.result is CheckResult.FAIL]


def passed(result: OverlayResult, code: str) -> bool:
    ours = [one for one in result.findings if one.code == code]
    return bool(ours) and all(one.result is CheckResult.PASS for one in ours)


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"!")


def flip_at_same_size(path: Path) -> None:
    raw = path.read_bytes()
    path.write_bytes(bytes([raw[0] ^ 1]) + raw[1:])


def to_link_inside(path: Path) -> None:
    moved = path.with_name("moved")
    path.rename(moved)
    path.symlink_to("moved")


def to_link_outside(path: Path) -> None:
    moved = path.parents[6] / "outside" if len(path.parents) > 9 else path.parent / "x"
    moved = Path(str(path).split("/image/")[0]) / "outside"
    path.rename(moved)
    path.symlink_to(moved)


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def to_circle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def to_link_to_folder(path: Path) -> None:
    path.unlink()
    path.symlink_to(".")
