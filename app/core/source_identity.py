"""Where code comes from: repository, commit, tree, and the digest over its files (evidence-model §9, §11.4).

The digest is decided here where §11.4 is silent:

* *POSIX path order* is the order of the whole path's UTF-8 bytes, so ``a-b`` stands before ``a/b``; no
  normal form is applied to names.
* *Caches, build folders and compiled Python* are what `is_excluded` says; nothing else is left out.
* Every file counts, text or not, and CRLF becomes LF in all of them; a lone CR stays. Modes, times and empty
  folders do not count. A name that is not UTF-8 has no path bytes: it is an error, as a symbolic link is.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from app.core.canonical_json import JsonValue, decode_canonical, encode_canonical, expect_object
from app.core.digest import Digest, RunningDigest
from app.core.errors import FormatError, shown

SCHEMA: Final = "sparkgate-source-identity/v1"
SEED: Final = b"sparkcache-source-tree/v1\0"
LONGEST_REPOSITORY: Final = 500

_VERSION_CONTROL: Final = frozenset({".git", ".hg", ".svn"})
_BUILD_FOLDERS: Final = frozenset({"build", "dist", ".eggs", ".tox", ".nox"})
_COMPILED: Final = (".pyc", ".pyo")
_HEX40: Final = re.compile(r"[0-9a-f]{40}")
_HEX64: Final = re.compile(r"[0-9a-f]{64}")
_HEX: Final = re.compile(r"[0-9a-f]+")
_LINE: Final = re.compile(r"[^\x00-\x1f\x7f]+")
# A user in a web address is a token or comes with a password; `git@` of ssh is a public name.
_CREDENTIALS: Final = re.compile(r"https?://[^/]*@|[a-z+]+://[^/@]*:[^/@]*@", re.IGNORECASE)


class WrongKindError(FormatError):
    """A digest of another kind: 64 digits for an object id, 40 for a SHA-256, one id as commit and tree."""


class GitObjectId(str):
    """40 lower-case hexadecimal digits; what kind of object they name cannot be told from them."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        return cls.parse(text, subject="git object id")

    @classmethod
    def parse(cls, value: object, *, subject: str) -> Self:
        """Take a foreign value as a git object id.

        Raises:
            WrongKindError: a SHA-256.
            FormatError: not 40 digits, an abbreviation, or git's name for nothing.
        """
        expected = "40 lower-case hexadecimal digits of a git object id"
        if isinstance(value, str) and _HEX64.fullmatch(value):
            found = f"64 digits, the length of a SHA-256 such as source_sha256: {value}"
            raise WrongKindError(subject, expected=expected, found=found)
        if not isinstance(value, str) or _HEX40.fullmatch(value) is None or value == "0" * 40:
            raise FormatError(subject, expected=expected, found=_instead_of_object_id(value))
        return super().__new__(cls, value)


class CommitId(GitObjectId):
    """The id of a commit."""

    __slots__ = ()


class TreeId(GitObjectId):
    """The id of a commit's tree."""

    __slots__ = ()


def _instead_of_object_id(value: object) -> str:
    if not isinstance(value, str) or _HEX.fullmatch(value) is None:
        return shown(value)
    if len(value) == 40:
        return "forty zeros, git's name for no object"
    if 4 <= len(value) < 40:
        return f"{len(value)} digits: an abbreviation names one object today and several tomorrow: {value}"
    return shown(value)


def parse_source_sha256(value: object) -> Digest:
    """Take a foreign value as the digest of a source tree.

    Raises:
        WrongKindError: 40 digits.
        FormatError: not 64 lower-case hexadecimal digits.
    """
    if isinstance(value, str) and _HEX40.fullmatch(value):
        raise WrongKindError(
            "source_sha256",
            expected="64 lower-case hexadecimal digits of a SHA-256",
            found=f"40 digits, the length of a git object id such as a commit or tree: {value}",
        )
    return Digest.parse(value, subject="source_sha256")


def parse_repository(value: object) -> str:
    """Take a foreign value as the name or address of a repository.

    Raises:
        FormatError: not one line of 1 to 500 characters, or an address that carries a secret.
    """
    if not isinstance(value, str) or len(value) > LONGEST_REPOSITORY or _LINE.fullmatch(value) is None:
        raise FormatError("repository", expected="one line of 1 to 500 characters", found=shown(value))
    if _CREDENTIALS.match(value):
        raise FormatError("repository", expected="no credentials in an address", found="a user before the @")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceIdentity:
    """The parts of a source identity. A part that is not known is None, which is a value like any other:
    an identity with it and one without are two identities.

    Raises:
        WrongKindError: commit and tree are the same object.
        FormatError: no part is known.
    """

    repository: str | None
    commit: CommitId | None
    tree: TreeId | None
    source_sha256: Digest | None

    def __post_init__(self) -> None:
        if all(part is None for part in (self.repository, self.commit, self.tree, self.source_sha256)):
            raise FormatError("source identity", expected="at least one known part", found="none")
        if self.commit is not None and str(self.commit) == self.tree:
            raise WrongKindError(
                "source identity",
                expected="two different objects as commit and tree",
                found=f"the same id in both: {self.commit}",
            )

    @classmethod
    def of(cls, *, repository: object, commit: object, tree: object, source_sha256: object) -> Self:
        """The identity of foreign values; None for a part that is not known.

        Raises:
            FormatError: a part is not in form; it is named.
        """
        return cls(
            repository=None if repository is None else parse_repository(repository),
            commit=None if commit is None else CommitId.parse(commit, subject="commit"),
            tree=None if tree is None else TreeId.parse(tree, subject="tree"),
            source_sha256=None if source_sha256 is None else parse_source_sha256(source_sha256),
        )

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        """Read the canonical text.

        Raises:
            FormatError: not canonical JSON of exactly these parts, or a part is not in form.
        """
        value = decode_canonical(raw, subject="source identity")
        keys = frozenset({"schema", "repository", "commit", "tree", "source_sha256"})
        document = expect_object(value, subject="source identity", keys=keys)
        if document["schema"] != SCHEMA:
            raise FormatError(
                "source identity.schema", expected=repr(SCHEMA), found=shown(document["schema"])
            )
        return cls.of(**{name: document[name] for name in keys - {"schema"}})

    def to_document(self) -> dict[str, JsonValue]:
        return {
            "schema": SCHEMA,
            "repository": self.repository,
            "commit": self.commit,
            "tree": self.tree,
            "source_sha256": self.source_sha256,
        }

    def encode(self) -> bytes:
        """The canonical text."""
        return encode_canonical(self.to_document())


class SourceContent:
    """The digest of one file's content with CRLF → LF, over chunks as they are read."""

    __slots__ = ("_held", "_running")

    def __init__(self) -> None:
        self._running = RunningDigest()
        self._held = b""

    def update(self, chunk: bytes) -> None:
        """Append; a CR at the end waits for what follows it."""
        text = self._held + chunk
        self._held = b"\r" if text.endswith(b"\r") else b""
        self._running.update(text[: len(text) - len(self._held)].replace(b"\r\n", b"\n"))

    def digest(self) -> Digest:
        """The digest of everything so far; more may follow."""
        running = self._running.copy()
        running.update(self._held)
        return running.digest()


def is_excluded(path: str) -> bool:
    """Whether a path below the root is left out of a source tree: version control, caches, build folders,
    compiled Python. A file that is only called like a build folder or a cache is a source."""
    *folders, name = path.split("/")
    return (
        any(is_excluded_folder(folder) for folder in folders)
        or name in _VERSION_CONTROL  # a file `.git` is that of a worktree or submodule
        or name.endswith(_COMPILED)
    )


def is_excluded_folder(name: str) -> bool:
    """Whether a folder of this name, anywhere in the tree, holds no sources."""
    return (
        name in _VERSION_CONTROL
        or name in _BUILD_FOLDERS
        or name == "__pycache__"
        or (name.startswith(".") and name.endswith("cache"))
        or name.endswith(".egg-info")
    )


def parse_path(raw: bytes) -> str:
    """Take foreign bytes as the path of a file below the root, with ``/`` between its parts.

    Raises:
        FormatError: empty, absolute, with an empty part, ``.``, ``..`` or NUL, or not UTF-8.
    """
    parts = raw.split(b"/")
    if b"\0" in raw or any(part in (b"", b".", b"..") for part in parts):
        raise FormatError(f"path {shown(raw)}", expected="a path below the root", found="another")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"path {shown(raw)}", expected="UTF-8", found=f"byte 0x{raw[error.start]:02x} at {error.start}"
        ) from None


def source_tree_digest(files: Iterable[tuple[str, Digest]]) -> Digest:
    """The digest of a source tree (evidence-model §11.4).

    Args:
        files: path below the root and `SourceContent` digest of every file, in any order.

    Raises:
        FormatError: a path twice, or one that has no UTF-8 form.
    """
    named = sorted((_path_bytes(path), content) for path, content in files)
    running = RunningDigest(SEED)
    before = None
    for path, content in named:
        if path == before:
            raise FormatError("source tree", expected="every path once", found=f"{path.decode()!r} twice")
        running.update(len(path).to_bytes(4, "little") + path + bytes.fromhex(content))
        before = path
    return running.digest()


def _path_bytes(path: str) -> bytes:
    try:
        return path.encode("utf-8")
    except UnicodeEncodeError:
        raise FormatError(f"path {shown(path)}", expected="UTF-8", found="a name that is not") from None
