"""Faults of documents: spelling, digests, place; some signed as if nothing were wrong."""

import re

from app.core.canonical_json import JsonObject, JsonValue, expect_list, expect_object
from app.core.digest import sha256
from app.core.store.check import ProblemCode
from app.core.store.damage.fault import Fault
from app.core.store.damage.objects import flipped
from app.core.store.damage.target import Candidate, Target
from app.core.store.folders import FileKind
from app.core.store.layout import DocumentName
from app.core.store.manifest import FlatSnapshotManifest, PrefixAlias

_CORRUPT = frozenset({ProblemCode.DOCUMENT_CORRUPT})
# A v3 delta whose own digest is wrong is said to be incompatible (store-format §11.4).
_UNSIGNED = _CORRUPT | {ProblemCode.DOCUMENT_INCOMPATIBLE}
_UNREADABLE = frozenset({ProblemCode.DOCUMENT_UNREADABLE})
_MISPLACED = frozenset({ProblemCode.DOCUMENT_MISPLACED})

_DIGEST = re.compile(rb"[0-9a-f]{64}")


def _is_signed(candidate: Candidate) -> bool:
    return candidate.is_signed


def _flip(target: Target) -> None:
    """Outside digest texts, so that no object is forgotten over it."""
    raw = target.candidate.raw
    inside = {at for match in _DIGEST.finditer(raw) for at in range(*match.span())}
    free = [at for at in range(len(raw)) if at not in inside]
    bit = free[target.choose(len(free))] * 8 + target.choose(8)
    target.replace(target.candidate.path, flipped(raw, bit=bit))


def _truncate(target: Target) -> None:
    target.replace(target.candidate.path, target.candidate.raw[:-1])


def _extend(target: Target) -> None:
    target.replace(target.candidate.path, target.candidate.raw + b"\n")


def _remove(target: Target) -> None:
    target.remove(target.candidate.path)


def _link(target: Target) -> None:
    target.replace_by(target.candidate.path, kind=FileKind.LINK)


def _fifo(target: Target) -> None:
    target.replace_by(target.candidate.path, kind=FileKind.FIFO)


def _folder(target: Target) -> None:
    target.replace_by(target.candidate.path, kind=FileKind.FOLDER)


def _blank(target: Target) -> None:
    """The same value, one blank after its first colon."""
    target.replace(target.candidate.path, target.candidate.raw.replace(b":", b": ", 1))


def _double(target: Target) -> None:
    raw = target.candidate.raw
    key = b'"format_abi":1'
    target.replace(target.candidate.path, raw.replace(key, key + b"," + key, 1))


def _exchange_signature(target: Target) -> None:
    raw = target.candidate.raw
    own = str(target.candidate.fields["metadata_sha256"]).encode("ascii")
    other = sha256(b"another document").encode("ascii")
    target.replace(target.candidate.path, raw.replace(own, other, 1))


def _add_key(target: Target) -> None:
    target.rewrite(target.candidate.fields | {"comment": "nobody knows this key"})


def _raise_abi(target: Target) -> None:
    target.rewrite(target.candidate.fields | {"format_abi": 2})


def _misplace(target: Target) -> None:
    name = target.candidate.name
    key = sha256(f"{name.storage_key}/another identity".encode())
    other = DocumentName(storage_key=key, context_digest=name.context_digest)
    alias = isinstance(target.candidate.entry.document, PrefixAlias)
    target.move(target.candidate.path, to=other.alias_path if alias else other.path)


def _rename(target: Target) -> None:
    other = sha256(f"{target.candidate.name.context_digest}/another context".encode())
    target.move(target.candidate.path, to=target.candidate.path.with_name(f"{other}.json"))


def _exchangeable(candidate: Candidate) -> list[tuple[int, int]]:
    """Neighbours of one size and two digests in a flat snapshot."""
    document = candidate.entry.document
    if not isinstance(document, FlatSnapshotManifest):
        return []
    objects = document.objects
    return [
        (place - 1, place)
        for place in range(1, len(objects))
        if objects[place].byte_count == objects[place - 1].byte_count
        and objects[place].sha256 != objects[place - 1].sha256
    ]


def _exchange_descriptors(target: Target) -> None:
    pairs = _exchangeable(target.candidate)
    first, second = pairs[target.choose(len(pairs))]
    fields = target.candidate.fields
    objects = [
        expect_object(item, subject="descriptor")
        for item in expect_list(fields["snapshot_objects"], subject="descriptors")
    ]
    one, other = objects[first]["sha256"], objects[second]["sha256"]
    objects[first] |= {"sha256": other}
    objects[second] |= {"sha256": one}
    listed: list[JsonValue] = [*objects]
    target.rewrite(fields | {"snapshot_objects": listed})


def _stream_digest_holder(fields: JsonObject) -> str | None:
    return next((key for key in ("snapshot_sha256", "delta_sha256") if key in fields), None)


def _exchange_stream_digest(target: Target) -> None:
    fields = target.candidate.fields
    key = _stream_digest_holder(fields)
    target.rewrite(fields | {str(key): sha256(b"another stream")})


DOCUMENT_FAULTS = (
    Fault(
        name="document-flipped-bit",
        says="one bit of a document differs",
        apply=_flip,
        suits=_is_signed,
        codes=_UNSIGNED,
    ),
    Fault(name="document-truncated", says="a document lost its last byte", apply=_truncate, codes=_CORRUPT),
    Fault(name="document-extended", says="a line feed follows a document", apply=_extend, codes=_CORRUPT),
    Fault(
        name="document-missing",
        says="a document is gone, its objects are not",
        apply=_remove,
        codes=frozenset({ProblemCode.OBJECT_UNREFERENCED, ProblemCode.SEGMENT_UNREFERENCED}),
        problems=0,
    ),
    Fault(name="document-symlink", says="a link stands at a document's name", apply=_link, codes=_UNREADABLE),
    Fault(name="document-fifo", says="a FIFO stands at a document's name", apply=_fifo, codes=_UNREADABLE),
    Fault(
        name="document-folder", says="a folder stands at a document's name", apply=_folder, codes=_UNREADABLE
    ),
    Fault(name="document-blank", says="a document has a blank too many", apply=_blank, codes=_CORRUPT),
    Fault(
        name="document-duplicate-key",
        says="a document states a key twice, with one value",
        apply=_double,
        codes=_CORRUPT,
    ),
    Fault(
        name="document-metadata-digest",
        says="a document's own digest is that of another",
        apply=_exchange_signature,
        suits=_is_signed,
        codes=_UNSIGNED,
    ),
    Fault(
        name="document-additional-key",
        says="a document has a key nobody knows, and is signed",
        apply=_add_key,
        codes=_CORRUPT,
    ),
    Fault(
        name="document-other-abi",
        says="a document is of the next ABI, and signed",
        apply=_raise_abi,
        codes=frozenset({ProblemCode.DOCUMENT_INCOMPATIBLE}),
    ),
    Fault(
        name="document-misplaced",
        says="a document lies under another storage key",
        apply=_misplace,
        codes=_MISPLACED,
    ),
    Fault(
        name="document-renamed",
        says="a document lies under another context digest",
        apply=_rename,
        codes=_MISPLACED,
    ),
    Fault(
        name="descriptors-exchanged",
        says="two descriptors carry each other's digest, and the document is signed",
        apply=_exchange_descriptors,
        suits=lambda candidate: bool(_exchangeable(candidate)),
        codes=frozenset({ProblemCode.STREAM_CORRUPT}),
    ),
    Fault(
        name="stream-digest",
        says="the stated digest of a stream is that of another, and the document is signed",
        apply=_exchange_stream_digest,
        suits=lambda candidate: _stream_digest_holder(candidate.fields) is not None,
        codes=frozenset({ProblemCode.STREAM_CORRUPT}),
    ),
)
