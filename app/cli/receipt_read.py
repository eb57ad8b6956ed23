"""Documents from a disk for a judgement without a server: the one asked about, those it points to, and those
given beside it.

Paths in documents are paths in their repository; the folder above FILE in which such a path exists is taken
for the repository's root, or ``NAME`` where versions lie in ``*/NAME@COMMIT`` beside it. Nothing outside that
root is read for a document's sake.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.core.errors import DocumentError
from app.core.qualify.document import MAX_RECEIPT_BYTES, read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.gates import Pin
from app.core.qualify.neighbours import Stored, linked_pins

MOST_DOCUMENTS = 20_000
_VERSION = re.compile(r"(?P<name>[\w.-]+)@[0-9a-f]{7,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What was read: ``stored`` with paths under one root, ``names`` for people."""

    path: str
    stored: tuple[Stored, ...]
    names: list[str]

    def own(self, facts: DocumentFacts) -> Stored:
        """The judged document with its place under the same root."""
        return Stored(facts=facts, path=self.path)


def read_bytes(file: Path) -> bytes:
    """The bytes of a document, one more than the longest at most: the decoder says that it is too large.

    Raises:
        OSError: no file, or not readable.
    """
    with file.open("rb") as stream:
        return stream.read(MAX_RECEIPT_BYTES + 1)


def read_beside(file: Path, *, extra: Sequence[Path], follow: bool) -> Beside:
    """Read what FILE points to, and ``extra`` files and folders of ``*.json``.

    Raises:
        OSError: something in ``extra`` is not there or not readable.
    """
    home = file.resolve()
    facts = _facts(home)
    pins = tuple(linked_pins(facts)) if facts is not None and follow else ()
    root = _root(home, pins)
    wanted = [path for pin in pins for path in _places(home, root, pin)]
    every: dict[Path, DocumentFacts] = {}
    for path in (*wanted, *_extra(extra)):
        target = path.resolve()
        if target not in every and target != home and len(every) < MOST_DOCUMENTS:
            read = _facts(target)
            if read is not None:
                every[target] = read
    stored = tuple(Stored(facts=read, path=_under(root, path)) for path, read in every.items())
    names = [os.path.relpath(path) for path in every]
    return Beside(path=_under(root, home), stored=stored, names=names)


def _facts(path: Path) -> DocumentFacts | None:
    """The facts of a file; none where it is no document."""
    try:
        return document_facts(read_document(read_bytes(path), subject=path.name))
    except DocumentError:
        return None


def _root(home: Path, pins: Sequence[Pin]) -> Path:
    """The nearest folder above the file, or its newest version, in which a path that the document names
    exists."""
    for folder in home.parents[:-1]:
        for root in (folder, *_newest(folder)):
            if any(pin.path and _inside(root, pin.path) for pin in pins):
                return root
    return home.parent


def _newest(folder: Path) -> Iterator[Path]:
    """``NAME`` two levels up from ``NAME@COMMIT``: where old versions are kept apart."""
    named = _VERSION.fullmatch(folder.name)
    if named is not None:
        yield folder.parent.parent / named["name"]


def _places(home: Path, root: Path, pin: Pin) -> Iterator[Path]:
    folder, named = (root, pin.path) if pin.path else (home.parent, pin.sibling)
    if _inside(folder, named):
        yield folder / named


def _inside(folder: Path, named: str) -> bool:
    """Whether the name is that of a JSON file that really lies under the folder: a document names no file
    elsewhere."""
    path = Path(named)
    if path.is_absolute() or ".." in path.parts or path.suffix != ".json":
        return False
    try:
        target = (folder / path).resolve()
        return target.is_file() and target.is_relative_to(folder)
    except (OSError, ValueError):
        return False


def _extra(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(one for one in path.rglob("*.json") if one.is_file())
        elif path.is_file():
            yield path
        else:
            raise FileNotFoundError(f"--with {path}: expected a file or a folder, found nothing")


def _under(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
