"""What the commands of ``sparkgate store`` share: their input, their answers, their exit codes."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum, StrEnum
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Column, Table

from app.core.canonical_json import JsonObject, decode_strict, encode_canonical
from app.core.errors import AbsentError, CoreError, PlanError
from app.core.store.files import RootFiles
from app.core.store.identity import CacheIdentity, form_of, parse_identity
from app.core.store.manifest import StorageMode
from app.core.store.snapshot import PageLayout, parse_page_layout


class ExitCode(IntEnum):
    """What every command of the group says to a shell."""

    SUCCESS = 0
    CORRUPT = 1
    UNREADABLE = 2
    ABSENT = 3
    INCOMPATIBLE = 4
    FAILED = 5


class Mode(StrEnum):
    """How an entry is to be read, in a person's words."""

    PAGES = "pages"
    ROWS = "rows"

    @property
    def storage(self) -> StorageMode:
        """The word the documents have for it."""
        return StorageMode.ROWS if self is Mode.ROWS else StorageMode.PAGES


class InputError(Exception):
    """An argument or a file it names cannot be used as it is."""


def open_root(path: Path) -> RootFiles:
    """The files of a root that is there.

    Raises:
        InputError: no folder.
    """
    if not path.is_dir():
        raise InputError(f"root {path}: expected a folder, found none")
    return RootFiles(path)


def read_identity(path: Path) -> CacheIdentity:
    """An identity document in any JSON spelling, in either of its forms (store-format §5.4).

    Raises:
        InputError: unreadable, or no identity.
    """
    subject = f"identity {path}"
    try:
        value = decode_strict(path.read_bytes(), subject=subject)
        return parse_identity(value, subject=subject, form=form_of(value))
    except OSError as error:
        raise InputError(f"{subject}: expected a readable file, found {error.strerror}") from None
    except CoreError as error:
        raise InputError(str(error)) from None


def read_layout(path: Path) -> PageLayout:
    """A page layout document.

    Raises:
        InputError: unreadable, or no layout.
    """
    try:
        return parse_page_layout(path.read_bytes(), subject=f"layout {path}")
    except OSError as error:
        raise InputError(f"layout {path}: expected a readable file, found {error.strerror}") from None
    except CoreError as error:
        raise InputError(str(error)) from None


@contextmanager
def errors_shown(*, as_json: bool) -> Iterator[None]:
    """Turn what the core and the file system say into a line or a document and an exit code."""
    try:
        yield
    except InputError as error:
        _show_error({"outcome": "unreadable", "error": str(error)}, as_json=as_json)
        raise typer.Exit(ExitCode.UNREADABLE) from None
    except CoreError as error:
        absent = isinstance(error, AbsentError)
        usage = isinstance(error, PlanError)
        outcome = "absent" if absent else "unreadable" if usage else "failed"
        _show_error({"outcome": outcome, "error": str(error)}, as_json=as_json)
        code = ExitCode.ABSENT if absent else ExitCode.UNREADABLE if usage else ExitCode.FAILED
        raise typer.Exit(code) from None


def _show_error(document: JsonObject, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        typer.echo(f"{document['outcome']}: {document['error']}", err=True)


def print_json(document: JsonObject) -> None:
    """One canonical document on standard output."""
    typer.echo(encode_canonical(document).decode("ascii"))


def print_pairs(pairs: dict[str, str]) -> None:
    """A table of names and values on standard output."""
    table = Table(Column(), Column(overflow="fold"), show_header=False)
    for key, value in pairs.items():
        table.add_row(key, value)
    Console().print(table)
