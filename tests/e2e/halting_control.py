"""The control worker with places to stop: ``python -m tests.e2e.halting_control <celery arguments>``.

Where a file named after a place lies in the folder ``HALT_FOLDER``, the thread that builds writes down that
it is there and goes no further; whoever put the file there can then kill the process exactly at that place.
"""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from celery.__main__ import main

from app.core.bundle.archive import ArchiveWriter
from app.evidence.service import work

FOLDER: Final = "HALT_FOLDER"
REACHED: Final = "reached"
MIDDLE_BYTES: Final = 40_000
"""Behind the first members of any bundle, before the last ones of the smallest."""


def halt_at(place: str) -> None:
    """Stop here for good if somebody wants it."""
    folder = Path(os.environ[FOLDER])
    if (folder / place).exists():
        (folder / REACHED).write_text(place)
        threading.Event().wait()


def _halting(real: Callable[..., Any], place_of: Callable[..., str]) -> Callable[..., Any]:
    def halting(*given: Any, **named: Any) -> Any:
        halt_at(place_of(*given, **named))
        return real(*given, **named)

    return halting


def _written(writer: ArchiveWriter, _chunk: bytes) -> str:
    if writer.byte_count == 0:
        return "before the first byte"
    return "in the middle" if writer.byte_count > MIDDLE_BYTES else "early"


def _renamed(source: Path, _target: Path) -> str:
    return "before the bundle has its name" if source.suffix == ".tar" else "elsewhere"


def _finished(*_given: Any, **_named: Any) -> str:
    return "before it is written down"


if __name__ == "__main__":
    ArchiveWriter._write = _halting(ArchiveWriter._write, _written)  # type: ignore[method-assign]
    Path.replace = _halting(Path.replace, _renamed)  # type: ignore[method-assign]
    work.finish = _halting(work.finish, _finished)
    sys.argv[0] = "celery"
    sys.exit(main())
