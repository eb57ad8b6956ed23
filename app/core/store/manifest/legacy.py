"""The legacy chunk manifest: no schema, no digest of its own (store-format §9.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from app.core.canonical_json import JsonObject, JsonValue, encode_canonical
from app.core.digest import Digest, sha256
from app.core.store.identity import INTERLEAVE_KEY, CacheIdentity, IdentityForm, form_of, parse_identity
from app.core.store.manifest.descriptors import ChunkDescriptor, take_chunks, verify_ranges
from app.core.store.manifest.document import FORMAT_ABI, Asked, Document, RootKind

_KEYS = frozenset({"format_abi", "identity", "context_digest", "committed_tokens", "chunks"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyManifest:
    """A legacy document that passed every check of §9.1; its chunks hold rows or parts of a page stream.

    Attributes:
        committed_tokens: the span; it may end inside the last chunk.
        chunks: from token 0 on, without gap.
        sha256: digest of the document's own bytes.
    """

    kind: ClassVar[RootKind] = RootKind.MANIFEST

    identity: CacheIdentity
    context_digest: Digest
    committed_tokens: int
    chunks: tuple[ChunkDescriptor, ...]
    sha256: Digest


def is_legacy(document: Document) -> bool:
    """Whether the document has a legacy one's keys and no others."""
    return document.fields.keys() == _KEYS


def parse_legacy_document(document: Document, *, asked: Asked) -> LegacyManifest:
    """Judge a legacy document, in the order that decides its reason (store-format §9.1).

    Raises:
        FormatError: corrupt in form, also where the identity is none in the asked one's form.
        IncompatibleError: another ABI, identity or context.
    """
    # Step 1: exact keys; a document of an unknown schema ends here, by its extra key (§7).
    document.require_keys(_KEYS)
    # Step 2: the identity is a valid one by itself.
    stored = _parse_stored_identity(document, asked=asked)
    # Step 3: is it the entry that was asked for?
    identity = asked.identity or stored
    document.require_equal("format_abi", wanted=FORMAT_ABI)
    document.require_key(asked)
    document.require_equal("context_digest", wanted=asked.context_digest)
    document.require_equal("identity", wanted=identity.to_wire())
    # Step 4: geometry.
    committed_tokens = document.take_int("committed_tokens", minimum=1)
    chunks = take_chunks(document, key="chunks")
    verify_ranges(
        chunks,
        chunk_tokens=identity.chunk_tokens,
        committed_tokens=committed_tokens,
        subject=document.named("chunks"),
    )
    return LegacyManifest(
        identity=identity,
        context_digest=asked.context_digest,
        committed_tokens=committed_tokens,
        chunks=chunks,
        sha256=document.sha256,
    )


def encode_legacy_manifest(
    *,
    identity: CacheIdentity,
    context_digest: Digest,
    committed_tokens: int,
    chunks: Sequence[ChunkDescriptor],
) -> bytes:
    """The root document of an entry whose chunks cover the span in order (store-format §9.1)."""
    document: JsonObject = {
        "format_abi": FORMAT_ABI,
        "identity": identity.to_wire(),
        "context_digest": context_digest,
        "committed_tokens": committed_tokens,
        "chunks": [chunk.to_wire() for chunk in chunks],
    }
    return encode_canonical(document)


def _parse_stored_identity(document: Document, *, asked: Asked) -> CacheIdentity:
    value = document.fields["identity"]
    form = _form_asked(value, asked=asked)
    return parse_identity(_interleave_by_value(value), subject=document.named("identity"), form=form)


def _form_asked(value: JsonValue, *, asked: Asked) -> IdentityForm:
    """The form of the asked identity. Of one whose key alone is known it is the other form than the stored
    one's, if what is stored would have that key in it (§5.4)."""
    if asked.identity is not None:
        return asked.identity.form
    if not isinstance(value, dict) or asked.storage_key is None:
        return form_of(value)
    other: JsonObject = {key: item for key, item in value.items() if key != INTERLEAVE_KEY}
    if INTERLEAVE_KEY not in value:
        other[INTERLEAVE_KEY] = 1
    return form_of(other if sha256(encode_canonical(other)) == asked.storage_key else value)


def _interleave_by_value(value: JsonValue) -> JsonValue:
    """Validity looks at the interleave size's value only: ``1.0`` passes here and fails in step 3 (§9.1)."""
    if not isinstance(value, dict):
        return value
    size = value.get(INTERLEAVE_KEY)
    return value | {INTERLEAVE_KEY: 1} if isinstance(size, bool | float) and size >= 1 else value
