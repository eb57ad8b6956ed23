"""Real git repositories for tests, made without the settings of whoever runs them."""

import os
import subprocess
from pathlib import Path

from app.cli.source_checkout import Source, identify

FILES = {"README.md": b"read\n", "code/a.py": b"x = 1\n", "code/b-c.py": b"", "run": b"#!/bin/sh\n"}


def git(folder: Path, *arguments: str, **variables: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        **variables,
    }
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()


def look(path: Path, *, plain: bool = False, only: tuple[str, ...] = ()) -> Source:
    return identify(path, plain=plain, only=only, progress=lambda _files, _size: None)


def changes(source: Source) -> dict[str, list[str]]:
    return {name: listing.first for name, listing in source.changes.items() if listing.count}


def make_checkout(tmp_path: Path) -> Path:
    """A clean clone with one commit more than its remote."""
    remote = tmp_path / "remote"
    remote.mkdir()
    git(remote, "init", "-q", "-b", "main")
    for name, raw in FILES.items():
        (remote / name).parent.mkdir(parents=True, exist_ok=True)
        (remote / name).write_bytes(raw)
    (remote / "run").chmod(0o755)
    (remote / ".gitignore").write_text("ignored/\n")
    git(remote, "add", "-A")
    git(remote, "commit", "-q", "-m", "first")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(remote), str(clone))
    (clone / "more.py").write_text("y = 2\n")
    git(clone, "add", "-A")
    git(clone, "commit", "-q", "-m", "second")
    return clone


def append(checkout: Path) -> None:
    with (checkout / "code/a.py").open("a") as file:
        file.write("z = 3\n")


def link(checkout: Path) -> None:
    (checkout / "code/link").symlink_to("a.py")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "link")
