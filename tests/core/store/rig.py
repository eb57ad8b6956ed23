"""What these tests share: the vectors of every kind as values, stores in memory, files that lie."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from app.core.canonical_json import encode_canonical
from app.core.digest import Digest, sha256
from app.core.errors import AbsentError, Stage
from app.core.store.files import RootFiles, StoredFile, StoreFiles
from app.core.store.identity import CacheIdentity, form_of, parse_identity
from app.core.store.layout import DocumentName, object_path
from app.core.store.lookup import Depth, LookupAnswer, lookup
from app.core.store.manifest import StorageMode
from app.core.store.snapshot import PageLayout, parse_page_layout
from app.core.store.verify import Verification, verify

SHARED = Path(os.environ.get("SPARKGATE_SHARED", Path(__file__).parents[4] / "shared"))
STAGES = list(Stage)


def shared_names(file: str, *, key: Callable[[Any], list[str]]) -> list[str]:
    """Names to parametrise with; without the reference data one that no fixture knows."""
    try:
        return key(json.loads((SHARED / "vectors" / file).read_bytes()))
    except OSError:
        return ["reference data missing"]


ENTRY_NAMES = shared_names("index.json", key=lambda index: [entry["id"] for entry in index["entries"]])
VARIANT_NAMES = shared_names("broken-expected.json", key=sorted)


@dataclass(slots=True)
class MemoryFile:
    """A file that is only bytes; a test may make it lie about its size."""

    content: bytes
    byte_count: int

    def read_at(self, offset: int, *, memory: memoryview) -> int:
        part = self.content[offset : offset + len(memory)]
        memory[: len(part)] = part
        return len(part)


@dataclass(slots=True)
class MemoryFiles:
    """A root in memory, by path; counts what is opened and what stays open."""

    contents: dict[str, bytes] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)
    open_now: int = 0

    @contextmanager
    def open(self, path: PurePosixPath, *, subject: str, stage: Stage) -> Iterator[StoredFile]:
        self.opened.append(str(path))
        content = self.contents.get(str(path))
        if content is None:
            raise AbsentError(subject, expected="a file", found="none", stage=stage)
        self.open_now += 1
        try:
            yield self.file(str(path), content)
        finally:
            self.open_now -= 1

    def file(self, path: str, content: bytes) -> StoredFile:
        return MemoryFile(content, len(content))

    def put_object(self, content: bytes) -> Digest:
        digest = sha256(content)
        self.contents[str(object_path(digest))] = content
        return digest

    def put_document(self, raw: bytes, *, identity: CacheIdentity, context_digest: Digest) -> str:
        name = DocumentName(storage_key=identity.storage_key, context_digest=context_digest)
        self.contents[str(name.path)] = raw
        return str(name.path)


@dataclass(frozen=True, kw_only=True)
class StoreVector:
    """One good entry of ``index.json``, of whatever kind."""

    name: str
    files: StoreFiles
    root: Path
    identity: CacheIdentity
    layout: PageLayout | None
    mode: StorageMode | None
    entry: dict[str, Any]

    @property
    def context_digest(self) -> Digest:
        return Digest(self.entry["context_digest"])

    @property
    def document(self) -> str:
        """The path of the root document, or of the alias."""
        return str(self.entry.get("alias") or self.entry["manifest"])

    def in_memory(self) -> "StoreVector":
        """The same entry over a copy that a test may change."""
        contents = {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file()
        }
        return replace(self, files=MemoryFiles(contents))

    @property
    def memory(self) -> dict[str, bytes]:
        assert isinstance(self.files, MemoryFiles)
        return self.files.contents

    def lookup(self, depth: Depth = Depth.FULL, **changes: Any) -> LookupAnswer:
        values: dict[str, Any] = {
            "identity": self.identity,
            "context_digest": self.entry["context_digest"],
            "mode": self.mode,
        }
        return lookup(self.files, depth=depth, **(values | changes))

    def verify(self, **changes: Any) -> Verification:
        values: dict[str, Any] = {
            "identity": self.identity,
            "context_digest": self.entry["context_digest"],
            "mode": self.mode,
            "layout": self.layout,
        }
        return verify(self.files, **(values | changes))


def read_store_vectors(shared: Path) -> dict[str, StoreVector]:
    """Every good entry, by id."""
    folder = shared / "vectors"
    index = json.loads((folder / "index.json").read_bytes())
    layouts = read_layouts(index)
    return {
        entry["id"]: StoreVector(
            name=entry["id"],
            files=RootFiles(folder / entry["root"]),
            root=folder / entry["root"],
            identity=parse_identity(entry["identity"], form=form_of(entry["identity"])),
            layout=layouts.get(entry.get("layout", "")),
            mode=StorageMode.ROWS if "records_sha256" in entry else None,
            entry=entry,
        )
        for entry in index["entries"]
    }


def read_layouts(index: Any) -> dict[str, PageLayout]:
    return {
        name: parse_page_layout(encode_canonical(item["layout"])) for name, item in index["layouts"].items()
    }


def content_of(found: Verification) -> dict[str, str]:
    """The digests a verification gives, by layer or record kind."""
    return {layer.name: layer.sha256 for layer in found.layers} | {
        record.kind.value: record.sha256 for record in found.records
    }


def no_later(found: Stage | None, *, than: Stage) -> bool:
    return found is not None and STAGES.index(found) <= STAGES.index(than)


def flip(content: bytes, *, bit: int) -> bytes:
    """The same bytes with one bit changed."""
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
