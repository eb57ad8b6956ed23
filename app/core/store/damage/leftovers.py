"""Faults beside the entries: what nobody needs, foreign names, a lock that is not one."""

import os
from pathlib import PurePosixPath

from app.core.digest import sha256
from app.core.store.check import ProblemCode
from app.core.store.damage.fault import Fault
from app.core.store.damage.target import Target
from app.core.store.folders import FileKind
from app.core.store.layout import LOCK_NAME, MANIFESTS_FOLDER, OBJECTS_FOLDER, object_path, temporary_path

_UNKNOWN = frozenset({ProblemCode.UNKNOWN_NAME})
_LONGEST_NAME_BYTES = 255
_HOSTILE_NAME = os.fsdecode(b"..\n\xff\x1b[2J")


def _content(target: Target) -> bytes:
    return f"nobody needs this {target.choose(1 << 64)}".encode()


def _unneeded(target: Target) -> None:
    content = _content(target)
    target.replace(object_path(sha256(content)), content)


def _misnamed(target: Target) -> None:
    content = _content(target)
    target.replace(object_path(sha256(content + b" at all")), content)


def _debris(target: Target) -> None:
    content = _content(target)
    digest = sha256(content)
    target.replace(temporary_path(object_path(digest), token=digest[:32]), content[:7])


def _foreign(target: Target) -> None:
    target.replace(OBJECTS_FOLDER / f"{sha256(_content(target))}.spcc.bak", b"")


def _hostile(target: Target) -> None:
    target.replace(PurePosixPath(_HOSTILE_NAME), b"")


def _long(target: Target) -> None:
    target.replace(PurePosixPath("n" * _LONGEST_NAME_BYTES), b"")


def _link_key(target: Target) -> None:
    """A folder of documents that leads out of the root."""
    path = MANIFESTS_FOLDER / sha256(_content(target))
    target.replace(path, b"")
    target.replace_by(path, kind=FileKind.LINK)


def _fill_lock(target: Target) -> None:
    target.replace(LOCK_NAME, b"taken")


LEFTOVER_FAULTS = (
    Fault(
        name="object-unreferenced",
        says="an object that no entry names",
        apply=_unneeded,
        suits=None,
        codes=frozenset({ProblemCode.OBJECT_UNREFERENCED}),
    ),
    Fault(
        name="object-misnamed",
        says="an object that no entry names and whose name is not its digest",
        apply=_misnamed,
        suits=None,
        codes=frozenset({ProblemCode.OBJECT_CONTENT}),
    ),
    Fault(
        name="debris",
        says="a file that a writer never finished",
        apply=_debris,
        suits=None,
        codes=frozenset({ProblemCode.DEBRIS}),
    ),
    Fault(
        name="unknown-file",
        says="a foreign file beside the objects",
        apply=_foreign,
        suits=None,
        codes=_UNKNOWN,
    ),
    Fault(
        name="hostile-name",
        says="a name with dots, a line feed, an escape and no valid UTF-8",
        apply=_hostile,
        suits=None,
        codes=_UNKNOWN,
    ),
    Fault(name="long-name", says="a name as long as names can be", apply=_long, suits=None, codes=_UNKNOWN),
    Fault(
        name="key-symlink",
        says="a link stands where a storage key's folder belongs",
        apply=_link_key,
        suits=None,
        codes=frozenset({ProblemCode.FOLDER_UNREADABLE}),
    ),
    Fault(
        name="lock-filled",
        says="the lock file is not empty",
        apply=_fill_lock,
        suits=None,
        codes=frozenset({ProblemCode.LOCK_UNSOUND}),
    ),
)
