"""Scan a node's store roots, read-only, for the root documents in them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from app.core.digest import Digest, sha256
from app.core.errors import CoreError, FormatError, IntegrityError
from app.core.restore.reader import list_documents, read_document
from app.core.store.layout import MANIFESTS_FOLDER, DocumentName
from app.core.store.page_streams import parse_page_root

# <folder>/<store>/<rank root>
DEEPEST: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One root document that can be restored, and where."""

    root: Path
    name: DocumentName
    sha256: Digest
    raw: bytes = field(repr=False)

    def to_wire(self) -> dict[str, str]:
        return {
            "root_path": str(self.root),
            "storage_key": str(self.name.storage_key),
            "context_digest": str(self.name.context_digest),
            "root_document_sha256": str(self.sha256),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What one scan found, and every path it could not take, with the reason."""

    found: tuple[Found, ...]
    problems: tuple[tuple[str, str], ...]


def rank_roots(folders: Iterable[Path]) -> list[Path]:
    """The rank-local roots in these folders: each that has manifests itself, else those further down.

    Looks `DEEPEST` levels below each folder, in order of names, and follows no symbolic link there.
    """
    return [root for folder in folders for root in _roots_in(folder, problems=[])]


def _roots_in(folder: Path, *, problems: list[tuple[str, str]]) -> Iterator[Path]:
    """The roots in one served folder; whatever cannot be looked into is added to `problems`."""
    try:
        resolved = folder.resolve()
    except (OSError, RuntimeError) as error:  # until Python 3.13 a loop of links is a RuntimeError
        problems.append((str(folder), str(error)))
        return
    yield from _roots_below(resolved, levels=DEEPEST, problems=problems)


def _roots_below(folder: Path, *, levels: int, problems: list[tuple[str, str]]) -> Iterator[Path]:
    is_root, children = False, []
    try:
        is_root = (folder / MANIFESTS_FOLDER).is_dir()
        if not is_root and levels > 0 and folder.is_dir():
            children = [one for one in sorted(folder.iterdir()) if one.is_dir() and not one.is_symlink()]
    except OSError as error:
        problems.append((str(folder), str(error)))
    if is_root:
        yield folder
    for child in children:
        yield from _roots_below(child, levels=levels - 1, problems=problems)


def is_inside(path: Path, *, folders: Sequence[Path]) -> bool:
    """Whether a root the control plane names lies in what this node was told to serve."""
    try:
        resolved = path.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or no path at all
        return False
    return any(resolved == folder.resolve() or folder.resolve() in resolved.parents for folder in folders)


def scan(folders: Iterable[Path]) -> Scan:
    """Look through all roots; one that cannot be read does not hide the others."""
    found: list[Found] = []
    problems: list[tuple[str, str]] = []
    for root in [root for folder in folders for root in _roots_in(folder, problems=problems)]:
        try:
            for item in _scan_root(root):
                if isinstance(item, Found):
                    found.append(item)
                else:
                    problems.append(item)
        except CoreError as error:
            problems.append((str(root), str(error)))
    return Scan(found=tuple(found), problems=tuple(problems))


def _scan_root(root: Path) -> Iterator[Found | tuple[str, str]]:
    for name in list_documents(root):
        try:
            yield _take(root, name=name)
        except CoreError as error:
            yield str(root / name.path), str(error)


def _take(root: Path, *, name: DocumentName) -> Found:
    raw = read_document(root, name=name)
    manifest = parse_page_root(raw, context_digest=name.context_digest)
    if manifest.identity.storage_key != name.storage_key:
        raise IntegrityError(
            f"root document {name.path}",
            expected=f"under its storage key {manifest.identity.storage_key}",
            found=f"under {name.storage_key}",
        )
    if manifest.identity.rank >= manifest.identity.rank_count:
        raise FormatError(f"root document {name.path}", expected="a rank below the degree", found="one above")
    return Found(root=root, name=name, sha256=sha256(raw), raw=raw)
