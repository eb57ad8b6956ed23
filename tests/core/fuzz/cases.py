"""The vectors' entries as stores in memory, and what may be asked of them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from app.core.canonical_json import encode_canonical
from app.core.errors import AbsentError, Stage
from app.core.store.identity import CacheIdentity, form_of, parse_identity
from app.core.store.layout import DocumentName
from app.core.store.lookup import Depth, LookupAnswer, lookup
from app.core.store.manifest import StorageMode
from app.core.store.snapshot import PageLayout, parse_page_layout
from app.core.store.verify import Verification, verify

NAMES = (
    *(f"flat-v2-tp4-rank{rank}" for rank in range(4)),
    "flat-v2-single",
    "legacy-pages-chunks",
    "legacy-rows",
    "legacy-rows-alias-4096",
    "legacy-rows-partial",
    "rows-tail-cow-base",
    "rows-tail-cow-tail",
    "page-delta-v1-512",
    "page-delta-v1-768",
    *(f"page-delta-v2-{span}" for span in (512, 768, 1024, 1280)),
    *(f"page-delta-v3-{span}" for span in (512, 768, 1024)),
    "release-0.1.0a2-chunks",
)

Store = dict[PurePosixPath, bytes]


@dataclass(frozen=True, kw_only=True)
class MemoryFile:
    """A file whose bytes are at hand."""

    content: bytes

    @property
    def byte_count(self) -> int:
        return len(self.content)

    def read_at(self, offset: int, *, memory: memoryview) -> int:
        part = self.content[offset : offset + len(memory)]
        memory[: len(part)] = part
        return len(part)


@dataclass(frozen=True, kw_only=True)
class MemoryFiles:
    """The files of a root that is nowhere."""

    store: Store

    @contextmanager
    def open(self, path: PurePosixPath, *, subject: str, stage: Stage) -> Iterator[MemoryFile]:
        if path not in self.store:
            raise AbsentError(subject, expected="a file", found="none", stage=stage)
        yield MemoryFile(content=self.store[path])


@dataclass(frozen=True, kw_only=True)
class FuzzCase:
    """One good entry and the question it answers."""

    name: str
    store: Store
    document: PurePosixPath
    identity: CacheIdentity
    context_digest: str
    mode: StorageMode | None
    layout: PageLayout | None
    content: tuple[str, ...]

    def look_up(self, store: Store) -> LookupAnswer:
        return lookup(
            MemoryFiles(store=store),
            identity=self.identity,
            context_digest=self.context_digest,
            depth=Depth.FULL,
            mode=self.mode,
        )

    def verify(self, store: Store, *, layout: PageLayout | None) -> Verification:
        return verify(
            MemoryFiles(store=store),
            identity=self.identity,
            context_digest=self.context_digest,
            mode=self.mode,
            layout=layout,
        )


def read_case(shared: Path, *, name: str) -> FuzzCase:
    """An entry of the vectors with the whole root it lies in."""
    folder = shared / "vectors"
    index = json.loads((folder / "index.json").read_bytes())
    (entry,) = [item for item in index["entries"] if item["id"] == name]
    root = folder / entry["root"]
    store = {
        PurePosixPath(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }
    identity = parse_identity(entry["identity"], form=form_of(entry["identity"]))
    rows = "layers" not in entry
    context = entry["context_digest"]
    document = DocumentName(storage_key=identity.storage_key, context_digest=context)
    return FuzzCase(
        name=name,
        store=store,
        document=document.alias_path if entry.get("alias") else document.path,
        identity=identity,
        context_digest=context,
        mode=StorageMode.ROWS if rows else None,
        layout=None if rows else _layout(index, entry=entry),
        content=_content(entry),
    )


def content_of(verification: Verification) -> tuple[str, ...]:
    """Digests of what was decoded, in a fixed order."""
    return tuple(item.sha256 for item in (*verification.layers, *verification.records))


def _layout(index: dict[str, Any], *, entry: dict[str, Any]) -> PageLayout:
    return parse_page_layout(encode_canonical(index["layouts"][entry["layout"]]["layout"]))


def _content(entry: dict[str, Any]) -> tuple[str, ...]:
    if "layers" in entry:
        return tuple(layer["sha256"] for layer in entry["layers"])
    records = entry["records_sha256"]
    return tuple(records[kind] for kind in sorted(records))
