"""Git asked questions it answers by reading: nothing is written, nothing of the checkout's own is run.

A checkout's configuration can name programs (file system monitor, hooks, filters, transports). Only plumbing
is used that reads index, objects and references; what could still start a program is switched off, and a
remote is never asked. Files are compared by this program, so no filter of the checkout runs.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self, cast

from app.processes import inherited_environment

TIMEOUT_S: Final = 600
_SETTINGS: Final = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.untrackedCache=false",
    "core.useReplaceRefs=false",
    "protocol.allow=never",
    "submodule.recurse=false",
)
_ENVIRONMENT: Final = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}
_USER: Final = re.compile(r"^(https?://)[^/]*@", re.IGNORECASE)
_PASSWORD: Final = re.compile(r"^([a-z+]+://[^/:@]*):[^/@]*@", re.IGNORECASE)


class GitError(Exception):
    """Git refused or does not fit; the message is fit for a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One path of the index or of a tree: its mode, the object there, and 0 unless a merge is open."""

    mode: str
    object_id: str
    stage: int = 0


class Git:
    """The git metadata of one folder, asked safely.

    Raises:
        GitError: there is none, git is not installed, or it refuses the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        answers = self.lines(
            "rev-parse", "--is-bare-repository", "--is-shallow-repository", "--show-object-format"
        )
        self.is_bare, self.is_shallow = (answer == "true" for answer in answers[:2])
        if answers[2] != "sha1":
            raise GitError(
                f"{folder}: expected object ids of 40 digits, found a repository of the format {answers[2]}"
            )

    def records_modes(self) -> bool:
        """Whether the file system keeps the mode of a file, as git found when it made the repository."""
        return self.line("config", "--type=bool", "--get", "core.fileMode") != "false"

    def top(self) -> Path:
        """The folder whose files the metadata describes."""
        return Path(os.fsdecode(self.raw("rev-parse", "--show-toplevel").removesuffix(b"\n")))

    def lines(self, *arguments: str) -> list[str]:
        return self.raw(*arguments).decode("utf-8", "backslashreplace").splitlines()

    def line(self, *arguments: str) -> str | None:
        """One line, or None if git says that there is no such thing."""
        done = self._run(*arguments)
        if done.returncode == 1 or not done.stdout:
            return None
        return self._checked(done).decode("utf-8", "backslashreplace").removesuffix("\n")

    def raw(self, *arguments: str) -> bytes:
        return self._checked(self._run(*arguments))

    def index(self) -> dict[bytes, Entry]:
        """Every path of the index; one with an open merge has a stage other than 0."""
        entries = {}
        for record in _records(self.raw("ls-files", "--stage", "-z")):
            facts, _, path = record.partition(b"\t")
            mode, object_id, stage = facts.decode("ascii").split(" ")
            entries[path] = Entry(mode=mode, object_id=object_id, stage=int(stage))
        return entries

    def tree(self, commit: str) -> dict[bytes, Entry]:
        """Every path of a commit's tree."""
        entries = {}
        for record in _records(self.raw("ls-tree", "-r", "-z", "--full-tree", commit)):
            facts, _, path = record.partition(b"\t")
            mode, _, object_id = facts.decode("ascii").split(" ")
            entries[path] = Entry(mode=mode, object_id=object_id)
        return entries

    def untracked(self) -> tuple[list[bytes], list[str]]:
        """Paths that are neither tracked nor ignored, and what git could not look into."""
        done = self._run("ls-files", "--others", "--exclude-standard", "-z")
        found = list(_records(self._checked(done)))
        return found, done.stderr.decode("utf-8", "backslashreplace").splitlines()

    def objects(self) -> "Objects":
        """The repository's objects, one process for all of them."""
        return Objects(self._command("cat-file", "--batch"))

    def _command(self, *arguments: str) -> list[str]:
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        return ["git", "--no-pager", "-C", str(self._folder), *settings, *arguments]

    def _run(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        try:
            return subprocess.run(
                self._command(*arguments),
                env=_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
            )
        except FileNotFoundError:
            raise GitError("git: expected the program on the PATH, found none") from None
        except subprocess.TimeoutExpired:
            raise GitError(
                f"git {arguments[0]}: expected an answer within {TIMEOUT_S} s, found none"
            ) from None

    def _checked(self, done: "subprocess.CompletedProcess[bytes]") -> bytes:
        if done.returncode == 0:
            return done.stdout
        said = done.stderr.decode("utf-8", "backslashreplace").strip()
        if "dubious ownership" in said:
            raise GitError(
                f"{self._folder}: belongs to another user, so git does not read it. Run this as its owner, "
                f"or, if you trust that user: git config --global --add safe.directory '{self._folder}'"
            )
        if "not a git repository" in said:
            raise NoGit(f"{self._folder}: no git metadata that git accepts: {said}")
        raise GitError(f"{self._folder}: git refused: {said or f'status {done.returncode}'}")


class NoGit(GitError):
    """The folder is in no repository."""


class Objects:
    """Objects by id, read one after the other. A process that has died, as it does at an object that only
    a remote has, is followed by another."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def blob(self, object_id: str) -> Iterator[bytes]:
        """The bytes of a blob, in chunks; to be read to their end.

        Raises:
            GitError: the repository does not have it, as a partial clone may.
        """
        asks, answers = self._pipes()
        asks.write(object_id.encode("ascii") + b"\n")
        asks.flush()
        head = answers.readline().split()
        if len(head) != 3 or head[1] != b"blob":
            if not head:
                self._end()
            found = head[-1].decode("ascii", "replace") if head else "none, and no remote is asked"
            raise GitError(f"object {object_id}: expected a file's content in the repository, found {found}")
        left = int(head[2])
        while left:
            chunk = answers.read(min(left, 1 << 20))
            if not chunk:
                self._end()
                raise GitError(f"object {object_id}: expected {left} more bytes, found the end")
            left -= len(chunk)
            yield chunk
        answers.read(1)  # the newline after the content

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)

    def _end(self) -> None:
        if self._process is not None:
            with self._process:  # closes the pipes, which ends it, and waits
                self._process = None


def without_credentials(address: str) -> str:
    """A remote's address with whatever may be a secret left out."""
    return _PASSWORD.sub(r"\1@", _USER.sub(r"\1", address))


def _environment() -> dict[str, str]:
    """This process's, without the variables that would turn git to another repository or program."""
    kept = {name: value for name, value in inherited_environment().items() if not name.startswith("GIT_")}
    return kept | _ENVIRONMENT


def _records(raw: bytes) -> Iterator[bytes]:
    return (record for record in raw.split(b"\0") if record)
