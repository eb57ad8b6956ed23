"""What a check of a root says: one value per problem, one per entry, and the totals."""

from dataclasses import dataclass, field
from enum import StrEnum

from app.core.canonical_json import JsonObject
from app.core.errors import Stage
from app.core.store.layout import DocumentName
from app.core.store.manifest import RootKind


class ProblemCode(StrEnum):
    """Everything that can be wrong in a root; there is nothing else."""

    # Damage: an entry, or something an entry needs, is not what it should be.
    FOLDER_UNREADABLE = "folder-unreadable"
    LOCK_UNSOUND = "lock-unsound"
    DOCUMENT_UNREADABLE = "document-unreadable"
    DOCUMENT_CORRUPT = "document-corrupt"
    DOCUMENT_INCOMPATIBLE = "document-incompatible"
    DOCUMENT_MISPLACED = "document-misplaced"
    CHAIN_CORRUPT = "chain-corrupt"
    SEGMENT_MISSING = "segment-missing"
    SEGMENT_CORRUPT = "segment-corrupt"
    OBJECT_MISSING = "object-missing"
    OBJECT_UNREADABLE = "object-unreadable"
    OBJECT_SIZE = "object-size"
    OBJECT_CONTENT = "object-content"
    CHUNK_CORRUPT = "chunk-corrupt"
    STREAM_CORRUPT = "stream-corrupt"
    # Leftovers: nothing needs them, and nothing is lost with them.
    SEGMENT_UNREFERENCED = "segment-unreferenced"
    OBJECT_UNREFERENCED = "object-unreferenced"
    DEBRIS = "debris"
    UNKNOWN_NAME = "unknown-name"

    @property
    def is_leftover(self) -> bool:
        """Whether no entry is worse for it."""
        return self in _LEFTOVERS


_LEFTOVERS = frozenset(
    {
        ProblemCode.SEGMENT_UNREFERENCED,
        ProblemCode.OBJECT_UNREFERENCED,
        ProblemCode.DEBRIS,
        ProblemCode.UNKNOWN_NAME,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong; a fault is told once, however many entries suffer from it.

    Attributes:
        path: relative to the root, printable (see ``shown_path``).
        entry: the entry it was found with, where it was found with one.
        stage: how far one had to look (store-format §18).
    """

    code: ProblemCode
    path: str
    stage: Stage
    expected: str
    found: str
    entry: DocumentName | None = None

    def to_document(self) -> JsonObject:
        """The problem as JSON."""
        return {
            "finding": "problem",
            "code": self.code,
            "leftover": self.code.is_leftover,
            "path": self.path,
            "stage": self.stage,
            "expected": self.expected,
            "found": self.found,
            "entry": None if self.entry is None else _name_document(self.entry),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryStanding:
    """One entry whose document is sound, and what stands in the way of restoring it.

    Attributes:
        schema: of its document; ``legacy`` where there is none.
        rank: tensor-parallel rank of ``rank_count``.
        objects: distinct files it needs, embedded bases' included; ``byte_count`` their declared sizes.
        obstacles: why it cannot be restored; the first of them, each one sentence.
        obstacle_count: how many there are.
    """

    name: DocumentName
    kind: RootKind
    schema: str
    committed_tokens: int
    rank: int
    rank_count: int
    objects: int
    byte_count: int
    obstacles: tuple[str, ...] = ()
    obstacle_count: int = 0

    @property
    def restorable(self) -> bool:
        """Whether nothing was found, as deep as was looked."""
        return self.obstacle_count == 0

    def to_document(self) -> JsonObject:
        """The entry as JSON."""
        return {
            "finding": "entry",
            **_name_document(self.name),
            "kind": self.kind,
            "schema": self.schema,
            "span_tokens": self.committed_tokens,
            "rank": self.rank,
            "rank_count": self.rank_count,
            "objects": self.objects,
            "bytes": self.byte_count,
            "restorable": self.restorable,
            "obstacles": list(self.obstacles),
            "obstacle_count": self.obstacle_count,
        }


@dataclass(slots=True, kw_only=True)
class Amount:
    """Some files; on the disk a file counts under each of its names, as upstream counts (§15.1)."""

    files: int = 0
    byte_count: int = 0
    stored_bytes: int = 0

    def add(self, *, byte_count: int, stored_bytes: int) -> None:
        """Count one more file."""
        self.files += 1
        self.byte_count += byte_count
        self.stored_bytes += stored_bytes

    def to_document(self) -> JsonObject:
        """The sums as JSON."""
        return {"files": self.files, "bytes": self.byte_count, "stored_bytes": self.stored_bytes}


@dataclass(slots=True, kw_only=True)
class CheckTotals:
    """Sums over the root, complete once the last finding was given.

    Attributes:
        documents: root documents and aliases, sound or not.
        objects: files named like objects; ``unreferenced`` those of them that no entry names.
        referenced_objects: distinct objects that sound entries name and that are there; shared ones once.
        referenced_bytes: their sizes.
        entries: sound documents by schema; ``restorable`` how many of them nothing was found against.
        problems: by code.
    """

    documents: Amount = field(default_factory=Amount)
    segments: Amount = field(default_factory=Amount)
    objects: Amount = field(default_factory=Amount)
    unreferenced: Amount = field(default_factory=Amount)
    debris: Amount = field(default_factory=Amount)
    unknown: Amount = field(default_factory=Amount)
    markers: Amount = field(default_factory=Amount)
    referenced_objects: int = 0
    referenced_bytes: int = 0
    entries: dict[str, int] = field(default_factory=dict)
    restorable: int = 0
    problems: dict[ProblemCode, int] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether there was no problem at all, leftovers included."""
        return not self.problems

    def to_document(self) -> JsonObject:
        """The totals as JSON."""
        return {
            "documents": self.documents.to_document(),
            "segments": self.segments.to_document(),
            "objects": self.objects.to_document(),
            "unreferenced": self.unreferenced.to_document(),
            "debris": self.debris.to_document(),
            "unknown": self.unknown.to_document(),
            "markers": self.markers.to_document(),
            "referenced_objects": self.referenced_objects,
            "referenced_bytes": self.referenced_bytes,
            "entries": dict(sorted(self.entries.items())),
            "restorable": self.restorable,
            "problems": dict(sorted(self.problems.items())),
        }


def _name_document(name: DocumentName) -> JsonObject:
    return {"storage_key": name.storage_key, "context_digest": name.context_digest}
