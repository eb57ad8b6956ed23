"""Whole roots for tests: all the vectors' stores in one, and what a check says of it."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.core.store.check import EntryStanding, Problem, RootCheck
from app.core.store.lookup import Depth

# All that can stand side by side: page-delta-v1 has the key and contexts of page-delta-v2.
STORES = (
    "flat-v2-tp4/rank0",
    "flat-v2-tp4/rank1",
    "flat-v2-single",
    "legacy-pages-chunks",
    "legacy-rows",
    "rows-tail-cow",
    "page-delta-v2",
    "page-delta-v3",
    "release-0.1.0a2-chunks",
)


def canonical(value: Any) -> bytes:
    """The store's form of JSON, by other code than the core's."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class WholeRoot:
    """A root that a test may damage, and where its entries lie."""

    def __init__(self, path: Path, *, entries: dict[str, Any]) -> None:
        self.path = path
        self.entries = entries

    def document(self, entry: str) -> Path:
        """The file of an entry's document or alias."""
        found = self.entries[entry]
        return self.path / (found.get("alias") or found["manifest"])

    def read(self, entry: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.document(entry).read_bytes())
        return document

    def object_file(self, digest: str) -> Path:
        return self.path / "chunks" / f"{digest}.spcc"

    def rewrite(self, entry: str, change: Callable[[dict[str, Any]], object], *, sign: bool = True) -> None:
        """Change a document and make its own digest right again."""
        document = self.read(entry)
        change(document)
        if sign and "metadata_sha256" in document:
            del document["metadata_sha256"]
            document["metadata_sha256"] = sha(canonical(document))
        self.document(entry).write_bytes(canonical(document))

    def check(self, depth: Depth = Depth.FULL) -> list[Problem]:
        return problems_of(self.path, depth=depth)


def whole_root(shared: Path, *, folder: Path, stores: tuple[str, ...] = STORES) -> WholeRoot:
    """Copy stores of the vectors into one root; their entries do not collide."""
    root = folder / "root"
    for store in stores:
        shutil.copytree(shared / "vectors" / store, root, dirs_exist_ok=True)
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (root / ".maintenance.lock").touch()
    index = json.loads((shared / "vectors" / "index.json").read_bytes())
    return WholeRoot(root, entries={item["id"]: item for item in index["entries"] if item["root"] in stores})


def problems_of(root: Path, *, depth: Depth = Depth.FULL) -> list[Problem]:
    return [finding for finding in RootCheck(root, depth=depth).findings() if isinstance(finding, Problem)]


def standings_of(root: Path, *, depth: Depth = Depth.FULL) -> list[EntryStanding]:
    found = RootCheck(root, depth=depth).findings()
    return [finding for finding in found if isinstance(finding, EntryStanding)]
