"""The user that runs PostgreSQL: ourselves, or an unprivileged one when we are root."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.embedded.home import EmbeddedError
from app.processes import inherited_environment

_CANDIDATES: Final = ("postgres", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUser:
    """A user by name and number; the numbers are None when it is the user that runs us."""

    name: str
    user_id: int | None
    group_id: int | None

    def run(self, argv: list[str], *, cwd: Path) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end as this user."""
        return subprocess.run(
            argv,
            cwd=cwd,
            env={**inherited_environment(), "LC_ALL": "C"},
            user=self.user_id,
            group=self.group_id,
            extra_groups=None if self.user_id is None else [],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def can(self, *argv: str) -> bool:
        """Say whether this user can run a command and the command says yes."""
        try:
            return self.run(list(argv), cwd=Path("/")).returncode == 0
        except PermissionError:
            return False

    def own(self, path: Path) -> None:
        """Give a file or folder of ours to this user."""
        if self.user_id is not None and self.group_id is not None:
            os.chown(path, self.user_id, self.group_id)

    def own_folder(self, path: Path) -> None:
        """Create a folder that only this user can enter; a killed start may not have handed it over yet."""
        path.mkdir(mode=0o700, exist_ok=True)
        if path.stat().st_uid == os.geteuid():
            self.own(path)


def server_user(kept: str | None) -> ServerUser:
    """Choose the user: the one `kept` from the first start, whose the data are, or an unprivileged one.

    PostgreSQL wants a user that the system knows by name.
    """
    if os.geteuid() != 0:
        return ServerUser(name="", user_id=None, group_id=None)
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    for name in (kept,) if kept else _CANDIDATES:
        if name in known:
            return ServerUser(name=name, user_id=known[name].pw_uid, group_id=known[name].pw_gid)
    raise EmbeddedError(
        f"user for PostgreSQL: expected {kept or ' or '.join(_CANDIDATES)} in the password file, found none"
    )
