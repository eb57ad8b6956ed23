"""Root documents: bytes in, one typed value or a reason out (store-format §7).

One file per kind of document; this one decides which of them is asked. ``document`` holds what they share.
"""

from typing import TypeAlias

from app.core.digest import Digest
from app.core.errors import FormatError, shown
from app.core.store.identity import CacheIdentity
from app.core.store.manifest.alias import ALIAS_SCHEMA, PrefixAlias, encode_alias, parse_alias
from app.core.store.manifest.delta import (
    DeltaVersion,
    PageDeltaManifest,
    PageRoot,
    chain_of,
    encode_page_delta,
    parse_delta_document,
    terminal_base_of,
)
from app.core.store.manifest.descriptors import MAX_DESCRIPTORS, ChunkDescriptor, ObjectDescriptor
from app.core.store.manifest.document import (
    FORMAT_ABI,
    ROOT_SUBJECT,
    Asked,
    Document,
    RootKind,
    StorageMode,
    read_document,
)
from app.core.store.manifest.flat import (
    FLAT_SNAPSHOT_SCHEMA,
    FlatSnapshotManifest,
    encode_flat_manifest,
    parse_flat_document,
)
from app.core.store.manifest.legacy import (
    LegacyManifest,
    encode_legacy_manifest,
    is_legacy,
    parse_legacy_document,
)
from app.core.store.manifest.segment import (
    SEGMENT_CHUNKS,
    SEGMENT_SCHEMA,
    DescriptorSegment,
    encode_segment,
    follow_chain,
    parse_segment,
)
from app.core.store.manifest.stage import ChunkPayload, DeltaStage, ExtentPayload, StageEnd
from app.core.store.manifest.tail import (
    TAIL_SCHEMA,
    RowTailManifest,
    encode_row_tail,
    parse_tail_document,
)

__all__ = [
    "ALIAS_SCHEMA",
    "FLAT_SNAPSHOT_SCHEMA",
    "FORMAT_ABI",
    "MAX_DESCRIPTORS",
    "SEGMENT_CHUNKS",
    "SEGMENT_SCHEMA",
    "TAIL_SCHEMA",
    "ChunkDescriptor",
    "ChunkPayload",
    "DeltaStage",
    "DeltaVersion",
    "DescriptorSegment",
    "ExtentPayload",
    "FlatSnapshotManifest",
    "LegacyManifest",
    "ObjectDescriptor",
    "PageDeltaManifest",
    "PageRoot",
    "PrefixAlias",
    "RootDocument",
    "RootKind",
    "RowTailManifest",
    "StageEnd",
    "StorageMode",
    "chain_of",
    "encode_alias",
    "encode_flat_manifest",
    "encode_legacy_manifest",
    "encode_page_delta",
    "encode_row_tail",
    "encode_segment",
    "follow_chain",
    "parse_alias",
    "parse_flat_manifest",
    "parse_manifest",
    "parse_segment",
    "terminal_base_of",
]

RootDocument: TypeAlias = FlatSnapshotManifest | LegacyManifest | RowTailManifest | PageDeltaManifest

_DELTA_SCHEMAS = frozenset(DeltaVersion)


def parse_manifest(
    raw: bytes,
    *,
    identity: CacheIdentity | None,
    context_digest: Digest,
    storage_key: Digest | None = None,
) -> RootDocument:
    """Judge the bytes of a root document of any kind; its schema decides whose rules apply (store-format §7).

    Args:
        raw: the file as read.
        identity: the asked identity, or ``None`` where only its key or nothing of it is known.
        context_digest: the asked digest, which is also the file's name.
        storage_key: of the asked identity, if that is all one knows; without both the stored one is judged by
            itself.

    Returns:
        The document as a value. Its objects have not been looked at, nor a row tail's segments.

    Raises:
        FormatError: corrupt in form, or of no known kind.
        IntegrityError: a digest does not cover what it should.
        IncompatibleError: another ABI, storage mode, identity, record set or context.
    """
    asked = Asked(identity=identity, context_digest=context_digest, storage_key=storage_key)
    return _parse(read_document(raw), asked=asked)


def parse_flat_manifest(
    raw: bytes, *, identity: CacheIdentity | None, context_digest: Digest
) -> FlatSnapshotManifest:
    """As ``parse_manifest``, for callers that restore flat snapshots only.

    Raises:
        FormatError: also where it is a sound document of another kind, which is then named.
    """
    document = read_document(raw)
    if document.schema != FLAT_SNAPSHOT_SCHEMA:
        raise _not_flat(document)
    return parse_flat_document(document, asked=Asked(identity=identity, context_digest=context_digest))


def _parse(document: Document, *, asked: Asked) -> RootDocument:
    schema = document.schema
    if schema == FLAT_SNAPSHOT_SCHEMA:
        return parse_flat_document(document, asked=asked)
    if schema == TAIL_SCHEMA:
        return parse_tail_document(document, asked=asked)
    if isinstance(schema, str) and schema in _DELTA_SCHEMAS:
        return parse_delta_document(document, asked=asked)
    # No schema, or one that names no root document: a legacy one, where an extra key is corrupt.
    return parse_legacy_document(document, asked=asked)


def _not_flat(document: Document) -> FormatError:
    schema = document.schema
    subject = f"{ROOT_SUBJECT}.schema"
    known = schema == TAIL_SCHEMA or (isinstance(schema, str) and schema in _DELTA_SCHEMAS)
    if not known and not is_legacy(document):
        return FormatError(subject, expected=FLAT_SNAPSHOT_SCHEMA, found=shown(schema))
    kind = shown(schema) if known else "a legacy chunk manifest"
    return FormatError(
        subject,
        expected=FLAT_SNAPSHOT_SCHEMA,
        found=f"{kind}, a known kind that is not restorable by this version",
    )
