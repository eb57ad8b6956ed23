"""The ledger's key: a file only its owner can read, holding one *skey* line."""

import os
import secrets
from pathlib import Path
from stat import S_IMODE
from typing import Final

from app.config import Settings
from app.core.errors import FormatError
from app.core.ledger.checkpoint import NoteSigner, check_name
from app.processes import write_private

_OTHERS: Final = 0o077
_LONGEST_FILE: Final = 4096
_LOCAL: Final = "sparkgate.local"


class LedgerKeyError(ValueError):
    """The key file cannot be used; the message never holds any of it."""


def load_signer(settings: Settings) -> NoteSigner | None:
    """The key checkpoints are signed with, or None where no key file is set.

    Raises:
        LedgerKeyError: the file is not there, readable by others, no key, or another log's.
    """
    path = settings.ledger_key_file
    if path is None:
        return None
    signer = read_signer(path)
    if settings.ledger_origin is not None and settings.ledger_origin != signer.name:
        raise LedgerKeyError(
            f"ledger key {path}: expected the key of {settings.ledger_origin} (SPARKGATE_LEDGER_ORIGIN), "
            f"found one of {signer.name}"
        )
    return signer


def read_signer(path: Path) -> NoteSigner:
    """The key in a file.

    Raises: as `load_signer`.
    """
    try:
        with path.open("rb") as file:
            # Of the file that is read, not of what lies under its name a moment earlier.
            mode = S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & _OTHERS:
                raise LedgerKeyError(f"ledger key {path}: expected mode 0600, found {mode:04o}")
            text = file.read(_LONGEST_FILE).decode("utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerKeyError(f"ledger key {path}: expected a readable file, found {error}") from None
    try:
        return NoteSigner.parse(text)
    except FormatError as error:
        raise LedgerKeyError(f"ledger key {path}: {error}") from None


def create_key_file(path: Path, *, origin: str | None) -> bool:
    """Make a key unless the file is there; True if it was made.

    A key once made stays: checkpoints handed out are worth what their key is. Without a name the log gets
    one of its own, since two logs of one name would look like one log with two histories.

    Raises:
        FormatError: `origin` cannot be a log's name.
    """
    if path.exists():
        return False
    name = check_name(origin or f"{_LOCAL}/{secrets.token_hex(4)}", subject="ledger origin")
    drafted = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    write_private(drafted, text=NoteSigner(name=name, seed=secrets.token_bytes(32)).skey + "\n")
    try:
        # Unlike a rename this never takes the place of a key that another process has just made.
        path.hardlink_to(drafted)
    except FileExistsError:
        return False
    finally:
        drafted.unlink()
    return True
