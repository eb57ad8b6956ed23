"""Root documents: bytes in, one typed value or a reason out (store-format §7, §8.1 – §8.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.canonical_json import (
    JsonObject,
    JsonValue,
    decode_canonical,
    encode_canonical,
    expect_int,
    expect_list,
    expect_object,
)
from app.core.digest import Digest, sha256
from app.core.errors import FormatError, IncompatibleError, IntegrityError, shown
from app.core.store.identity import CacheIdentity, PublicationSchema, RecordKind, parse_identity
from app.core.store.layout import MAX_OBJECT_BYTES

FLAT_SNAPSHOT_SCHEMA = "sparkcache-page-snapshot-manifest/v2"
FORMAT_ABI = 1
PAGE_STORAGE_MODE = "block_pages_v1"
# Recommended limit, store-format §19.
MAX_DESCRIPTORS = 65_536

_SUBJECT = "root document"
_KNOWN_SCHEMAS = frozenset(
    {
        "sparkcache-tail-manifest/v1",
        "sparkcache-page-delta-manifest/v1",
        "sparkcache-page-delta-manifest/v2",
        "sparkcache-page-delta-manifest/v3",
        "sparkcache-prefix-alias/v1",
        "sparkcache-prefix-descriptor-segment/v1",
    }
)
_LEGACY_KEYS = frozenset({"format_abi", "identity", "context_digest", "committed_tokens", "chunks"})
_FLAT_KEYS = frozenset(
    {
        "schema",
        "format_abi",
        "storage_mode",
        "identity",
        "context_digest",
        "committed_tokens",
        "snapshot_encoded_bytes",
        "snapshot_object_bytes",
        "snapshot_objects",
        "snapshot_sha256",
        "logical_chunk_tokens",
        "logical_chunk_count",
        "metadata_sha256",
    }
)
_DESCRIPTOR_KEYS = frozenset({"sha256", "bytes", "encoded_start", "encoded_end"})
_PAGE_RECORDS = frozenset({RecordKind.TARGET_CKV, RecordKind.LOGICAL_POSITIONS})
_PAGE_PUBLICATIONS = frozenset({None, PublicationSchema.PAGE_TAIL_COW_V1, PublicationSchema.PAGE_TAIL_COW_V2})


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectDescriptor:
    """One object: stream bytes ``start … end`` lie in the file named by ``sha256``."""

    sha256: Digest
    start: int
    end: int

    @property
    def byte_count(self) -> int:
        """The exact size of the file."""
        return self.end - self.start

    def to_wire(self) -> JsonObject:
        """The descriptor as it stands in the document (store-format §8.2)."""
        return {
            "bytes": self.byte_count,
            "encoded_end": self.end,
            "encoded_start": self.start,
            "sha256": self.sha256,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatSnapshotManifest:
    """A ``sparkcache-page-snapshot-manifest/v2`` document that passed every check of §8.3.

    Attributes:
        committed_tokens: the span of the prefix.
        encoded_bytes: length of the whole stream, header included.
        object_bytes: size of every object but the last.
        snapshot_sha256: digest of the whole stream.
        sha256: digest of the document's own bytes.
    """

    identity: CacheIdentity
    context_digest: Digest
    committed_tokens: int
    encoded_bytes: int
    object_bytes: int
    objects: tuple[ObjectDescriptor, ...]
    snapshot_sha256: Digest
    metadata_sha256: Digest
    sha256: Digest


def parse_manifest(
    raw: bytes, *, identity: CacheIdentity | None, context_digest: Digest
) -> FlatSnapshotManifest:
    """Judge the bytes of a root document, in the order that decides its reason (store-format §8.3).

    Args:
        raw: the file as read.
        identity: the asked identity, or ``None`` to judge the stored one by itself.
        context_digest: the asked digest, which is also the file's name.

    Returns:
        The document as a value; its objects have not been looked at.

    Raises:
        FormatError: corrupt in form, or of a schema this version does not read (its own text).
        IntegrityError: the metadata digest does not cover these bytes.
        IncompatibleError: another ABI, storage mode, identity, record set or context.
    """
    value = decode_canonical(raw, subject=_SUBJECT)
    # Steps 1 and 2: an object with exactly the keys of its kind.
    document = expect_object(value, subject=_SUBJECT)
    _check_schema_is_read(document)
    expect_object(value, subject=_SUBJECT, keys=_FLAT_KEYS)
    # Step 3: digest syntax.
    metadata_sha256 = Digest.parse(document["metadata_sha256"], subject=f"{_SUBJECT}.metadata_sha256")
    snapshot_sha256 = Digest.parse(document["snapshot_sha256"], subject=f"{_SUBJECT}.snapshot_sha256")
    # Step 4: the document's own digest.
    _check_metadata_digest(document, stated=metadata_sha256)
    # Step 5: is it the entry that was asked for?
    found_identity = _check_compatible(document, asked=identity, context_digest=context_digest)
    # Steps 6, 7 and 8: tokens and sizes, descriptors, coverage.
    committed_tokens = _take_tokens(document, identity=found_identity)
    object_bytes = _take_int(document, key="snapshot_object_bytes", minimum=1, maximum=MAX_OBJECT_BYTES)
    encoded_bytes = _take_int(document, key="snapshot_encoded_bytes", minimum=1)
    return FlatSnapshotManifest(
        identity=found_identity,
        context_digest=context_digest,
        committed_tokens=committed_tokens,
        encoded_bytes=encoded_bytes,
        object_bytes=object_bytes,
        objects=_take_objects(document, object_bytes=object_bytes, encoded_bytes=encoded_bytes),
        snapshot_sha256=snapshot_sha256,
        metadata_sha256=metadata_sha256,
        sha256=sha256(raw),
    )


def encode_flat_manifest(
    *,
    identity: CacheIdentity,
    context_digest: Digest,
    committed_tokens: int,
    object_bytes: int,
    objects: Sequence[ObjectDescriptor],
    snapshot_sha256: Digest,
) -> bytes:
    """The root document of a flat snapshot whose objects cover the stream in order (store-format §8.1)."""
    document: JsonObject = {
        "schema": FLAT_SNAPSHOT_SCHEMA,
        "format_abi": FORMAT_ABI,
        "storage_mode": PAGE_STORAGE_MODE,
        "identity": identity.to_wire(),
        "context_digest": context_digest,
        "committed_tokens": committed_tokens,
        "snapshot_encoded_bytes": objects[-1].end,
        "snapshot_object_bytes": object_bytes,
        "snapshot_objects": [item.to_wire() for item in objects],
        "snapshot_sha256": snapshot_sha256,
        "logical_chunk_tokens": identity.chunk_tokens,
        "logical_chunk_count": committed_tokens // identity.chunk_tokens,
    }
    document["metadata_sha256"] = sha256(encode_canonical(document))
    return encode_canonical(document)


def _check_schema_is_read(document: JsonObject) -> None:
    schema = document.get("schema")
    if schema == FLAT_SNAPSHOT_SCHEMA:
        return
    # A document without a schema is a legacy one; with an unknown schema it is nothing (store-format §7).
    legacy = document.keys() == _LEGACY_KEYS
    if legacy or (isinstance(schema, str) and schema in _KNOWN_SCHEMAS):
        kind = "a legacy chunk manifest" if legacy else shown(schema)
        raise FormatError(
            f"{_SUBJECT}.schema",
            expected=FLAT_SNAPSHOT_SCHEMA,
            found=f"{kind}, a known kind that is not supported by this version",
        )
    raise FormatError(f"{_SUBJECT}.schema", expected=FLAT_SNAPSHOT_SCHEMA, found=shown(schema))


def _check_metadata_digest(document: JsonObject, *, stated: Digest) -> None:
    covered: JsonObject = {key: value for key, value in document.items() if key != "metadata_sha256"}
    actual = sha256(encode_canonical(covered))
    if actual != stated:
        raise IntegrityError(f"{_SUBJECT}.metadata_sha256", expected=actual, found=stated)


def _check_compatible(
    document: JsonObject, *, asked: CacheIdentity | None, context_digest: Digest
) -> CacheIdentity:
    _require_equal(document["format_abi"], wanted=FORMAT_ABI, key="format_abi")
    _require_equal(document["storage_mode"], wanted=PAGE_STORAGE_MODE, key="storage_mode")
    if asked is None:
        identity = parse_identity(document["identity"], subject=f"{_SUBJECT}.identity")
    else:
        identity = asked
        _require_equal(document["identity"], wanted=asked.to_wire(), key="identity")
    if identity.publication_schema not in _PAGE_PUBLICATIONS or identity.required_records != _PAGE_RECORDS:
        raise IncompatibleError(
            f"{_SUBJECT}.identity",
            expected="the records target_ckv and logical_positions, published as pages",
            found=f"{shown(sorted(identity.required_records))}, {identity.publication_schema}",
        )
    _require_equal(document["context_digest"], wanted=context_digest, key="context_digest")
    return identity


def _require_equal(value: JsonValue, *, wanted: JsonValue, key: str) -> None:
    """Canonical bytes are compared, since ``True == 1`` and ``4.0 == 4`` as values (store-format §5.4)."""
    if encode_canonical(value) != encode_canonical(wanted):
        raise IncompatibleError(f"{_SUBJECT}.{key}", expected=shown(wanted), found=shown(value))


def _take_int(document: JsonObject, *, key: str, minimum: int, maximum: int | None = None) -> int:
    return expect_int(document[key], subject=f"{_SUBJECT}.{key}", minimum=minimum, maximum=maximum)


def _take_tokens(document: JsonObject, *, identity: CacheIdentity) -> int:
    tokens = _take_int(document, key="committed_tokens", minimum=1)
    if tokens % identity.chunk_tokens:
        raise FormatError(
            f"{_SUBJECT}.committed_tokens",
            expected=f"a multiple of {identity.chunk_tokens}",
            found=str(tokens),
        )
    chunk_tokens = identity.chunk_tokens
    _take_int(document, key="logical_chunk_tokens", minimum=chunk_tokens, maximum=chunk_tokens)
    chunks = tokens // chunk_tokens
    _take_int(document, key="logical_chunk_count", minimum=chunks, maximum=chunks)
    return tokens


def _take_objects(
    document: JsonObject, *, object_bytes: int, encoded_bytes: int
) -> tuple[ObjectDescriptor, ...]:
    subject = f"{_SUBJECT}.snapshot_objects"
    values = expect_list(document["snapshot_objects"], subject=subject, maximum=MAX_DESCRIPTORS)
    objects: list[ObjectDescriptor] = []
    for index, value in enumerate(values):
        start = objects[-1].end if objects else 0
        last = index == len(values) - 1
        smallest = 1 if last else object_bytes
        objects.append(
            _parse_descriptor(
                value, subject=f"{subject}[{index}]", start=start, minimum=smallest, maximum=object_bytes
            )
        )
    if objects[-1].end != encoded_bytes:
        raise FormatError(
            subject, expected=f"coverage of {encoded_bytes} bytes", found=f"{objects[-1].end} bytes"
        )
    return tuple(objects)


def _parse_descriptor(
    value: JsonValue, *, subject: str, start: int, minimum: int, maximum: int
) -> ObjectDescriptor:
    wire = expect_object(value, subject=subject, keys=_DESCRIPTOR_KEYS)
    digest = Digest.parse(wire["sha256"], subject=f"{subject}.sha256")
    size = expect_int(wire["bytes"], subject=f"{subject}.bytes", minimum=minimum, maximum=maximum)
    expect_int(wire["encoded_start"], subject=f"{subject}.encoded_start", minimum=start, maximum=start)
    expect_int(
        wire["encoded_end"], subject=f"{subject}.encoded_end", minimum=start + size, maximum=start + size
    )
    return ObjectDescriptor(sha256=digest, start=start, end=start + size)
