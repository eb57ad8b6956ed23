"""What a folder is made of: its commit, its changes, the digest over its files, what stands in the way."""

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from app.cli.source_git import Entry, Git, GitError, NoGit, without_credentials
from app.core.digest import Digest
from app.core.errors import CoreError, FormatError, ResourceError
from app.core.source_identity import (
    SourceContent,
    SourceIdentity,
    is_excluded,
    parse_path,
    parse_repository,
    source_tree_digest,
)
from app.core.source_tree import NO_LINK, check_kind, read_source, walk_sources

SCHEMA: Final = "sparkgate-source/v1"
MOST_SHOWN: Final = 100
LINK, SUBMODULE = "120000", "160000"
_DEFAULT_BRANCHES: Final = (
    "refs/remotes/origin/HEAD",
    "refs/remotes/origin/main",
    "refs/remotes/origin/master",
)
CHANGES: Final = ("modified", "added", "deleted", "unmerged", "untracked")

# Told the files and bytes read so far.
Progress = Callable[[int, int], None]


@dataclass(slots=True, kw_only=True)
class Listing:
    """So many things, and the first of them."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self.count += 1
        if len(self.first) < MOST_SHOWN:
            self.first.append(text)

    def to_document(self) -> dict[str, Any]:
        return {"count": self.count, "first": self.first}


@dataclass(slots=True, kw_only=True)
class Source:
    """A folder as it was found; a part that is not known is None.

    Attributes:
        kind: ``checkout``, ``bare`` (no files, the commit's own are digested) or ``folder`` (no git).
        base: the nearest ancestor on the remote's default branch.
        dirty: whether files differ from the commit; None where there is no commit or no files.
    """

    path: Path
    kind: str
    repository: str | None = None
    branch: str | None = None
    base: str | None = None
    commit: str | None = None
    tree: str | None = None
    source_sha256: Digest | None = None
    source_files: int = 0
    source_bytes: int = 0
    dirty: bool | None = None
    only: tuple[str, ...] = ()
    changes: dict[str, Listing] = field(default_factory=lambda: {name: Listing() for name in CHANGES})
    notes: list[str] = field(default_factory=list)
    problems: Listing = field(default_factory=Listing)

    def identity(self) -> SourceIdentity:
        return SourceIdentity.of(
            repository=self.repository, commit=self.commit, tree=self.tree, source_sha256=self.source_sha256
        )

    def to_document(self) -> dict[str, Any]:
        names = ("kind", "repository", "branch", "base", "commit", "tree", "source_sha256", "source_files")
        return {
            "schema": SCHEMA,
            "path": shown_path(os.fsencode(self.path)),
            **{name: getattr(self, name) for name in names},
            "source_bytes": self.source_bytes,
            "only": list(self.only),
            "dirty": self.dirty,
            "changes": {name: listing.to_document() for name, listing in self.changes.items()},
            "notes": self.notes,
            "problems": self.problems.to_document(),
        }


def identify(path: Path, *, plain: bool, only: tuple[str, ...], progress: Progress) -> Source:
    """Look at a folder; nothing in it is changed.

    Raises:
        GitError: it is part of another checkout, or git does not read it.
        CoreError: the folder, or one of `only`, is not a folder.
    """
    root = path.resolve()
    git = None if plain else _open_git(root)
    if git is None:
        source = Source(path=root, kind="folder", only=only)
        source.notes.append("git: not asked" if plain else "git: no metadata; commit and tree are not known")
        _Reading(source, progress=progress).read_folder()
        return source
    source = Source(path=root, kind="bare" if git.is_bare else "checkout", only=only)
    _describe(source, git=git)
    reading = _Reading(source, progress=progress)
    if git.is_bare:
        reading.read_commit(git)
    else:
        reading.read_checkout(git)
    return source


def _open_git(root: Path) -> Git | None:
    """The folder's own git metadata, or None if it has none."""
    try:
        git = Git(root)
    except NoGit as error:
        if (root / ".git").is_symlink() or (root / ".git").exists():
            raise GitError(str(error)) from None
        return None
    except GitError:
        looks_bare = (root / "HEAD").is_file() and (root / "objects").is_dir()
        if looks_bare or any((folder / ".git").exists() for folder in (root, *root.parents)):
            raise
        return None
    if git.is_bare:
        return git
    top = git.top()
    if top.resolve() == root:
        return git
    if root.is_relative_to(top.resolve()):
        raise GitError(
            f"{root}: is a part of the checkout {top}, whose commit says nothing about a part. "
            f"Name {top} and --only a folder of it, or --plain to leave git out"
        )
    raise GitError(f"{root}: expected its own files, found metadata that speak of {top} (core.worktree)")


def _describe(source: Source, *, git: Git) -> None:
    """Repository, branch, commit, tree and base."""
    address = git.line("config", "--get", "remote.origin.url")
    if address is None:
        source.notes.append("repository: no remote named origin; name it with --repository")
    else:
        try:
            source.repository = parse_repository(without_credentials(address))
        except FormatError as error:
            source.notes.append(f"remote origin: {error}")
    source.branch = git.line("symbolic-ref", "--quiet", "--short", "HEAD")
    source.commit = git.line("rev-parse", "--quiet", "--verify", "HEAD^{commit}")
    if source.branch is None:
        source.notes.append("HEAD: detached, on no branch")
    if source.commit is None:
        source.notes.append("HEAD: no commit yet")
        return
    source.tree = git.line("rev-parse", "--quiet", "--verify", "HEAD^{tree}")
    source.base = _base(source, git=git)


def _base(source: Source, *, git: Git) -> str | None:
    if git.is_shallow:
        source.notes.append("history: shallow; ancestors beyond its end are not here")
    for name in _DEFAULT_BRANCHES:
        if git.line("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}") is not None:
            base = git.line("merge-base", "HEAD", name)
            if base is None:
                source.notes.append(f"base: no common ancestor with {name}")
            return base
    source.notes.append("base: no default branch of a remote named origin is here")
    return None


class _Reading:
    """The files of one source, read once: for the digest and for the changes."""

    def __init__(self, source: Source, *, progress: Progress) -> None:
        self._source = source
        self._root = source.path
        self._progress = progress
        self._named: list[tuple[str, Digest]] = []
        self._folders: dict[str, bool] = {}
        self._other_line_ends = 0
        self._records_modes = True
        # Something could not be compared: without a change that was found, nobody knows.
        self._uncertain = False

    def read_folder(self) -> None:
        """Every file below the root."""
        for found in walk_sources(self._root, only=self._source.only):
            try:
                if isinstance(found, CoreError):
                    raise found
                self._take(found)
            except CoreError as error:
                self._problem(error)
        self._finish()

    def read_commit(self, git: Git) -> None:
        """Every file of the commit, from the repository's objects."""
        if self._source.commit is None:
            self._problem(f"{self._root}: expected a commit or files, found neither")
            return
        self._source.notes.append("bare: no files of its own; those of the commit are digested")
        with git.objects() as objects:
            for raw, entry in git.tree(self._source.commit).items():
                try:
                    path = parse_path(raw)
                    if self._counts(path):
                        _check_entry(path, entry=entry)
                        self._take(path, chunks=objects.blob(entry.object_id))
                except (CoreError, GitError) as error:
                    self._problem(error)
        self._finish()

    def read_checkout(self, git: Git) -> None:
        """Every file that is tracked, or neither tracked nor ignored, as it is on disk."""
        commit = self._source.commit
        self._records_modes = git.records_modes()
        index, tree = git.index(), {} if commit is None else git.tree(commit)
        for raw in tree.keys() - index.keys():
            self._change("deleted", raw)
        for raw, entry in index.items():
            self._tracked(raw, entry=entry, before=tree.get(raw))
        untracked, warnings = git.untracked()
        for warning in warnings:
            self._problem(warning)
        for raw in untracked:
            self._untracked(raw)
        if self._other_line_ends:
            self._source.notes.append(f"line ends: CRLF for LF in {self._other_line_ends} files, no change")
        if commit is not None:
            found = any(listing.count for listing in self._source.changes.values())
            self._source.dirty = True if found else None if self._uncertain else False
        self._finish()

    def _tracked(self, raw: bytes, *, entry: Entry, before: Entry | None) -> None:
        """One path of the index against commit and disk; it is counted as a change once."""
        change = _staged(entry, before=before)
        try:
            path = parse_path(raw)
        except FormatError as error:
            self._problem(error)
            self._uncertain = True
            if change:
                self._change(change, raw)
            return
        try:
            found = self._on_disk(path, entry=entry)
        except FormatError as error:
            # Not of the kind the index says, or of one that no source tree has.
            self._problem(error)
            found = None if entry.mode in (LINK, SUBMODULE) else "modified"
        except ResourceError as error:
            self._problem(error)
            self._uncertain, found = True, None
        if change or found:
            self._change(change or found or "", raw)

    def _on_disk(self, path: str, *, entry: Entry) -> str | None:
        """Take the file as it is on disk; how it differs from the index."""
        place = self._root / path
        if not place.is_symlink() and not place.exists():
            return "deleted"
        if self._counts(path):
            _check_entry(path, entry=entry)
        if entry.mode == SUBMODULE:
            return None
        if entry.mode == LINK:
            same = place.is_symlink() and _blob_id(os.fsencode(place.readlink())) == entry.object_id
            return None if same else "modified"
        self._check_folders(path)
        mode = place.lstat().st_mode
        check_kind(path, mode=mode)
        found = self._take(path) if self._counts(path) else _blob_id(self._whole(path))
        if found != entry.object_id:
            if _blob_id(self._whole(path).replace(b"\r\n", b"\n")) != entry.object_id:
                return "modified"
            self._other_line_ends += 1
        is_program = entry.mode == "100755"
        return "modified" if self._records_modes and bool(mode & 0o100) != is_program else None

    def _untracked(self, raw: bytes) -> None:
        if raw.endswith(b"/"):
            self._problem(f"{shown_path(raw)}: expected files, found a repository of its own")
            return
        try:
            path = parse_path(raw)
            if is_excluded(path):
                return
            if self._counts(path):
                self._check_folders(path)
                self._take(path)
        except CoreError as error:
            self._problem(error)
        self._change("untracked", raw)

    def _counts(self, path: str) -> bool:
        """Whether a path belongs to what is digested."""
        only = self._source.only
        return not is_excluded(path) and (not only or any(path.startswith(f"{one}/") for one in only))

    def _check_folders(self, path: str) -> None:
        """Raise if a folder on the way is a link: git does not follow one, and neither does this."""
        parent = path.rpartition("/")[0]
        if parent not in self._folders:
            self._folders[parent] = os.path.realpath(self._root / parent) == str(self._root / parent)
        if not self._folders[parent]:
            raise FormatError(path, expected="a file below folders", found="a symbolic link on the way")

    def _take(self, path: str, *, chunks: Iterator[bytes] | None = None) -> str:
        """Add a file to the digest; its git object id as a by-product, if it is read from disk."""
        content, size = SourceContent(), 0
        whole = hashlib.sha1(usedforsecurity=False)
        if chunks is None:
            whole.update(_blob_head((self._root / path).lstat().st_size))
            chunks = read_source(self._root, path=path)
        for chunk in chunks:
            content.update(chunk)
            whole.update(chunk)
            size += len(chunk)
        self._named.append((path, content.digest()))
        self._source.source_bytes += size
        self._progress(len(self._named), self._source.source_bytes)
        return whole.hexdigest()

    def _whole(self, path: str) -> bytes:
        return b"".join(read_source(self._root, path=path))

    def _problem(self, error: Exception | str) -> None:
        self._source.problems.add(shown_path(os.fsencode(str(error))))

    def _change(self, kind: str, raw: bytes) -> None:
        self._source.changes[kind].add(shown_path(raw))

    def _finish(self) -> None:
        """The digest, if nothing stands in its way: part of a tree has none."""
        self._source.source_files = len(self._named)
        for one in self._source.only:
            if not any(path.startswith(f"{one}/") for path, _ in self._named):
                self._problem(f"{one}: expected a folder with files, found none")
        if self._source.problems.count == 0:
            self._source.source_sha256 = source_tree_digest(self._named)


def _staged(entry: Entry, *, before: Entry | None) -> str | None:
    """How the index differs from the commit."""
    if entry.stage != 0:
        return "unmerged"
    if before is None:
        return "added"
    return None if (entry.mode, entry.object_id) == (before.mode, before.object_id) else "modified"


def _check_entry(path: str, *, entry: Entry) -> None:
    """Raise if git knows a path as something no source tree has.

    Raises:
        FormatError: a symbolic link, or a repository of its own.
    """
    if entry.mode == LINK:
        raise FormatError(path, expected=NO_LINK, found="a symbolic link")
    if entry.mode == SUBMODULE:
        raise FormatError(
            path, expected="a file", found=f"a submodule at {entry.object_id}; identify it by itself"
        )


def _blob_head(size: int) -> bytes:
    """What git hashes before a file's bytes."""
    return b"blob %d\0" % size


def _blob_id(raw: bytes) -> str:
    return hashlib.sha1(_blob_head(len(raw)) + raw, usedforsecurity=False).hexdigest()


def shown_path(raw: bytes) -> str:
    """A path for people: what a terminal would take for a command is escaped."""
    text = raw.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else ascii(text)[1:-1]
