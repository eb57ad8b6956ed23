"""Two roots, or two ranks of one snapshot: which entries both have, and what of them is equal or differs.

An entry is taken apart into named facts, and facts are compared as canonical JSON: ``True`` is not 1. Roots
are walked in order of context digests; 66 bytes are kept per entry of either, and one pair of documents.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath

from app.core.canonical_json import JsonObject, JsonValue, encode_canonical
from app.core.digest import Digest, RunningDigest
from app.core.errors import IncompatibleError, StoreError
from app.core.store.decode import PageDecoding
from app.core.store.digest_table import DigestTable, DigestTableBuilder
from app.core.store.entry import Entry, judge_alias, judge_root
from app.core.store.files import RootFiles, read_whole
from app.core.store.folders import list_folder
from app.core.store.layout import ALIASES_FOLDER, MANIFESTS_FOLDER, DocumentName
from app.core.store.manifest import (
    ExtentPayload,
    FlatSnapshotManifest,
    LegacyManifest,
    PageDeltaManifest,
    PageRoot,
    chain_of,
    terminal_base_of,
)
from app.core.store.rows import decode_rows
from app.core.store.snapshot import PageLayout

_EXTRA_BYTES = 33
# The facts that hold between any two entries are compared one by one, objects all together.
_OBJECTS = "objects"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Side:
    """An entry of one of the two roots, by where it is filed."""

    name: DocumentName
    alias: bool

    def to_document(self) -> JsonObject:
        """The place as JSON."""
        return {
            "storage_key": self.name.storage_key,
            "context_digest": self.name.context_digest,
            "alias": self.alias,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One fact that differs; ``None`` where a side does not have it."""

    fact: str
    a: JsonValue
    b: JsonValue

    def to_document(self) -> JsonObject:
        """The difference as JSON."""
        return {"fact": self.fact, "a": self.a, "b": self.b}


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryDiff:
    """Two entries of one context, or one that only one root has.

    Attributes:
        equal: names of the facts both have alike.
    """

    a: Side | None
    b: Side | None
    equal: tuple[str, ...] = ()
    different: tuple[Difference, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether both roots have it and nothing differs."""
        return self.a is not None and self.b is not None and not self.different

    def to_document(self) -> JsonObject:
        """The comparison as JSON."""
        return {
            "a": None if self.a is None else self.a.to_document(),
            "b": None if self.b is None else self.b.to_document(),
            "equal": list(self.equal),
            "different": [difference.to_document() for difference in self.different],
        }


def diff_roots(
    a: RootFiles, b: RootFiles, *, context: Digest | None = None, layout: PageLayout | None = None
) -> Iterator[EntryDiff]:
    """Compare all entries of two roots, or those of one context, in order of context digests.

    Entries of one context and one storage key are a pair; where each root has just one more of that context,
    those two are compared as ranks of one snapshot.

    Args:
        a, b: the roots; a missing one is an empty one.
        context: only this context.
        layout: with one, both sides are decoded and compared per layer, rows per kind of record.

    Raises:
        FormatError: a folder of documents cannot be listed.
        ResourceError: out of descriptors or memory.
    """
    for sides_a, sides_b in _merged(_list_sides(a, context=context), _list_sides(b, context=context)):
        for side_a, side_b in _pairs(sides_a, sides_b):
            yield _compare(a, b, side_a=side_a, side_b=side_b, layout=layout)


def _list_sides(files: RootFiles, *, context: Digest | None) -> DigestTable:
    """Rows of context, storage key and whether it is an alias."""
    builder = DigestTableBuilder(extra_bytes=_EXTRA_BYTES, several=True)
    for folder, alias in ((MANIFESTS_FOLDER, False), (ALIASES_FOLDER, True)):
        for key in _digests(files, folder, suffix=""):
            extra = bytes.fromhex(key) + bytes([alias])
            for found in _digests(files, folder / key, suffix=".json"):
                if context in (None, found):
                    builder.add(found, extra=extra)
    return builder.build()


def _digests(files: RootFiles, folder: PurePosixPath, *, suffix: str) -> Iterator[Digest]:
    names = (item.digest(suffix) for item in list_folder(files, folder))
    return (name for name in names if name is not None)


def _merged(a: DigestTable, b: DigestTable) -> Iterator[tuple[list[Side], list[Side]]]:
    """What either root has of each context, contexts in order."""
    groups_a, groups_b = _groups(a), _groups(b)
    left, right = next(groups_a, None), next(groups_b, None)
    while left or right:
        first = min(group[0] for group in (left, right) if group)
        yield (
            left[1] if left and left[0] == first else [],
            right[1] if right and right[0] == first else [],
        )
        if left and left[0] == first:
            left = next(groups_a, None)
        if right and right[0] == first:
            right = next(groups_b, None)


def _groups(table: DigestTable) -> Iterator[tuple[Digest, list[Side]]]:
    for context, rows in groupby(range(len(table)), key=table.digest):
        yield context, [_side(context, extra=table.extra(row)) for row in rows]


def _side(context: Digest, *, extra: bytearray) -> Side:
    key = Digest(extra[:-1].hex())
    return Side(name=DocumentName(storage_key=key, context_digest=context), alias=bool(extra[-1]))


def _pairs(a: list[Side], b: list[Side]) -> Iterator[tuple[Side | None, Side | None]]:
    shared = set(a) & set(b)
    only_a = [side for side in a if side not in shared]
    only_b = [side for side in b if side not in shared]
    yield from ((side, side) for side in a if side in shared)
    for alias in (False, True):
        rest_a = [side for side in only_a if side.alias is alias]
        rest_b = [side for side in only_b if side.alias is alias]
        if len(rest_a) == len(rest_b) == 1:
            yield rest_a[0], rest_b[0]
        else:
            yield from ((side, None) for side in rest_a)
            yield from ((None, side) for side in rest_b)


def _compare(
    a: RootFiles, b: RootFiles, *, side_a: Side | None, side_b: Side | None, layout: PageLayout | None
) -> EntryDiff:
    if side_a is None or side_b is None:
        lone = Difference(fact="present", a=side_a is not None, b=side_b is not None)
        return EntryDiff(a=side_a, b=side_b, different=(lone,))
    facts_a, objects_a = _take_apart(a, side=side_a, layout=layout)
    facts_b, objects_b = _take_apart(b, side=side_b, layout=layout)
    equal: list[str] = []
    different: list[Difference] = []
    for fact in dict.fromkeys((*facts_a, *facts_b)):
        value_a, value_b = facts_a.get(fact), facts_b.get(fact)
        if encode_canonical(value_a) == encode_canonical(value_b):
            equal.append(fact)
        else:
            different.append(Difference(fact=fact, a=value_a, b=value_b))
    if objects_a == objects_b:
        equal.append(_OBJECTS)
    else:
        different.append(_diff_objects(objects_a, objects_b))
    return EntryDiff(a=side_a, b=side_b, equal=tuple(equal), different=tuple(different))


def _diff_objects(a: Sequence[Digest], b: Sequence[Digest]) -> Difference:
    """How many each has, how many of those the other has too, and how many stand at the same place."""
    same_place = sum(one == other for one, other in zip(a, b, strict=False))
    places = (place for place, (one, other) in enumerate(zip(a, b, strict=False)) if one != other)
    first = next(places, min(len(a), len(b)))
    shared = len(set(a) & set(b))
    sides: list[JsonObject] = [
        {
            "count": len(side),
            "distinct": len(set(side)),
            "also_in_other": shared,
            "same_place": same_place,
            "first_difference": first,
            "sha256_there": side[first] if first < len(side) else None,
        }
        for side in (a, b)
    ]
    return Difference(fact=_OBJECTS, a=sides[0], b=sides[1])


def _take_apart(
    files: RootFiles, *, side: Side, layout: PageLayout | None
) -> tuple[JsonObject, tuple[Digest, ...]]:
    """The facts of an entry and its objects, in order of use; of an unsound one only what is wrong."""
    try:
        entry = _read(files, side=side)
    except StoreError as error:
        return {"document": str(error)}, ()
    facts: JsonObject = {"document": "sound", **dict(_document_facts(entry))}
    if layout is not None:
        try:
            facts |= dict(_content_facts(files, entry=entry, layout=layout))
            facts["content"] = "sound"
        except StoreError as error:
            facts["content"] = str(error)
    return facts, tuple(item.sha256 for item in entry.references)


def _read(files: RootFiles, *, side: Side) -> Entry:
    name = side.name
    path = name.alias_path if side.alias else name.path
    judge = judge_alias if side.alias else judge_root
    raw = read_whole(files, path, subject="document")
    entry = judge(files, raw=raw, name=name, identity=None)
    if entry.identity.storage_key != name.storage_key:
        raise IncompatibleError("storage key", expected=entry.identity.storage_key, found=name.storage_key)
    return entry


def _document_facts(entry: Entry) -> Iterator[tuple[str, JsonValue]]:
    for field, value in entry.identity.to_wire().items():
        yield f"identity.{field}", value
    yield "kind", entry.kind
    yield "document_sha256", entry.sha256
    yield "committed_tokens", entry.committed_tokens
    yield "object_sizes", _sizes(entry)
    if entry.chunks:
        yield "chunk_tokens", list[JsonValue](sorted({chunk.tokens for chunk in entry.chunks}))
    document = entry.document
    if isinstance(document, FlatSnapshotManifest | PageDeltaManifest):
        yield from _page_facts(document)


def _page_facts(root: PageRoot) -> Iterator[tuple[str, JsonValue]]:
    base = terminal_base_of(root)
    prefix = "base." if isinstance(root, PageDeltaManifest) else ""
    if isinstance(base, FlatSnapshotManifest):
        yield f"{prefix}encoded_bytes", base.encoded_bytes
        yield f"{prefix}object_bytes", base.object_bytes
        yield f"{prefix}snapshot_sha256", base.snapshot_sha256
    if prefix:
        yield "base.kind", base.kind
        yield "base.committed_tokens", base.committed_tokens
    if isinstance(root, PageDeltaManifest):
        yield "layout_sha256", root.layout_sha256
        yield "version", root.version
    for number, stage in enumerate(chain_of(root)):
        yield f"stage{number}.committed_tokens", stage.result.committed_tokens
        yield f"stage{number}.block_counts", list[JsonValue](stage.result.block_counts)
        if isinstance(stage.payload, ExtentPayload):
            yield f"stage{number}.delta_sha256", stage.payload.sha256


def _sizes(entry: Entry) -> JsonValue:
    """Sizes in order of use, equal neighbours counted: ``[[size, how many], …]``."""
    sizes = (item.byte_count for item in entry.references)
    return [[size, sum(1 for _ in run)] for size, run in groupby(sizes)]


def _content_facts(files: RootFiles, *, entry: Entry, layout: PageLayout) -> Iterator[tuple[str, JsonValue]]:
    """Digests per layer, or per kind of record; nothing is told unless all of it is sound."""
    document = entry.document
    pages = isinstance(document, FlatSnapshotManifest | PageDeltaManifest)
    if pages or (isinstance(document, LegacyManifest) and document.identity.stores_pages):
        decoding = PageDecoding(files, entry=entry, layout=layout)
        layers = [RunningDigest() for _ in decoding.layers]
        for block in decoding.blocks():
            layers[block.layer.index].update(block.memory)
        yield "stream_sha256", decoding.stream_sha256
        for layer, digest in zip(decoding.layers, layers, strict=True):
            yield f"layer.{layer.name}", digest.digest()
        return
    records: dict[str, RunningDigest] = {}
    for part in decode_rows(files, entry=entry):
        records.setdefault(part.kind, RunningDigest()).update(part.memory)
    for kind in sorted(records):
        yield f"record.{kind}", records[kind].digest()
