"""``sparkcache-page-delta-manifest/v1 … v3``: the pages of a longer span on an embedded base (§11)."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeAlias

from app.core.canonical_json import JsonObject, decode_canonical
from app.core.digest import Digest, sha256
from app.core.errors import FormatError, IncompatibleError, IntegrityError, shown
from app.core.store.identity import CacheIdentity, PublicationSchema
from app.core.store.layout import MAX_OBJECT_BYTES
from app.core.store.manifest.document import (
    FORMAT_ABI,
    ROOT_SUBJECT,
    Asked,
    Document,
    RootKind,
    embedded_document,
    encode_signed,
)
from app.core.store.manifest.flat import (
    FLAT_SNAPSHOT_SCHEMA,
    FlatSnapshotManifest,
    parse_flat_document,
    require_pages,
)
from app.core.store.manifest.legacy import LegacyManifest, parse_legacy_document
from app.core.store.manifest.stage import (
    ChunkPayload,
    DeltaStage,
    ExtentPayload,
    StageEnd,
    take_delta_chunks,
    take_ends,
    take_extents,
)

# At most two deltas are stacked in one another (store-format §11.1).
MAX_STACKED_DELTAS = 2
# Our own limit: each stage needs an open file and a running digest while pages are put together.
MAX_STAGES = 4_096


class DeltaVersion(StrEnum):
    """The three schemas of page deltas."""

    V1 = "sparkcache-page-delta-manifest/v1"
    V2 = "sparkcache-page-delta-manifest/v2"
    V3 = "sparkcache-page-delta-manifest/v3"


_COMMON_KEYS = frozenset(
    {
        "schema",
        "format_abi",
        "identity",
        "context_digest",
        "committed_tokens",
        "base_context_digest",
        "base_committed_tokens",
        "base_root",
        "base_root_sha256",
        "layout_sha256",
        "base_block_counts",
        "result_block_counts",
        "metadata_sha256",
    }
)
_EXTENT_KEYS = frozenset({"delta_encoded_bytes", "delta_object_bytes", "delta_objects", "delta_sha256"})
_KEYS = {
    DeltaVersion.V1: _COMMON_KEYS | {"delta_chunks"},
    DeltaVersion.V2: _COMMON_KEYS | _EXTENT_KEYS | {"logical_chunk_tokens"},
    DeltaVersion.V3: _COMMON_KEYS | {"delta_stages", "logical_chunk_tokens"},
}
_STAGE_KEYS = _EXTENT_KEYS | {
    "context_digest",
    "committed_tokens",
    "base_context_digest",
    "base_committed_tokens",
    "base_block_counts",
    "result_block_counts",
}
_PUBLICATIONS = {
    DeltaVersion.V1: PublicationSchema.PAGE_TAIL_COW_V1,
    DeltaVersion.V2: PublicationSchema.PAGE_TAIL_COW_V1,
    DeltaVersion.V3: PublicationSchema.PAGE_TAIL_COW_V2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageDeltaManifest:
    """A page delta that passed every check a lookup can make, together with its embedded base.

    Attributes:
        base: the embedded root document, itself fully judged.
        base_sha256: digest of that document's bytes.
        layout_sha256: the layout its pages were cut in; compared with a real one at restore.
        stages: the steps from ``base`` to this entry; one in v1 and v2.
        sha256: digest of the document's own bytes.
    """

    kind: ClassVar[RootKind] = RootKind.PAGE_DELTA

    version: DeltaVersion
    identity: CacheIdentity
    context_digest: Digest
    committed_tokens: int
    base: "PageRoot"
    base_sha256: Digest
    layout_sha256: Digest
    stages: tuple[DeltaStage, ...]
    metadata_sha256: Digest
    sha256: Digest


PageRoot: TypeAlias = FlatSnapshotManifest | LegacyManifest | PageDeltaManifest


def chain_of(root: PageRoot) -> tuple[DeltaStage, ...]:
    """All steps from the terminal base to an entry, those of an embedded delta first; none without delta."""
    return (*chain_of(root.base), *root.stages) if isinstance(root, PageDeltaManifest) else ()


def terminal_base_of(root: PageRoot) -> FlatSnapshotManifest | LegacyManifest:
    """The entry at the bottom, which is no delta."""
    return terminal_base_of(root.base) if isinstance(root, PageDeltaManifest) else root


def parse_delta_document(document: Document, *, asked: Asked, depth: int = 1) -> PageDeltaManifest:
    """Judge a page delta, in the order that decides its reason (store-format §11.1, §11.4, §20.5, §20.7).

    ``depth`` says how many deltas deep this one lies.

    Raises:
        FormatError, IntegrityError, IncompatibleError: an embedded base is answered with its own reason.
    """
    version = DeltaVersion(str(document.schema))
    # Steps 1, 2 and 3: exact keys, digest syntax, the document's own digest.
    metadata_sha256 = _verify_form(document, version=version)
    # Step 4: is it the entry that was asked for?
    identity = _take_compatible(document, asked=asked, version=version)
    # Step 5: geometry, and the embedded base is the one that is named.
    start, end = take_ends(document, context_digest=asked.context_digest, chunk_tokens=identity.chunk_tokens)
    embedded = _take_embedded(document, version=version)
    # Step 6: the delta's own objects, chunks or stages.
    stages = _take_stages(document, version=version, base=start, result=end, identity=identity)
    # Step 7: the base, by its own rules, and that the delta starts where it ends.
    base_asked = Asked(identity=identity, context_digest=start.context_digest)
    base = _parse_base(embedded, asked=base_asked, version=version, depth=depth)
    layout_sha256 = document.take_digest("layout_sha256")
    _verify_fit(document, base=base, start=start, layout_sha256=layout_sha256)
    return PageDeltaManifest(
        version=version,
        identity=identity,
        context_digest=asked.context_digest,
        committed_tokens=end.committed_tokens,
        base=base,
        base_sha256=embedded.sha256,
        layout_sha256=layout_sha256,
        stages=stages,
        metadata_sha256=metadata_sha256,
        sha256=document.sha256,
    )


def encode_page_delta(
    version: DeltaVersion,
    *,
    identity: CacheIdentity,
    base_root: bytes,
    layout_sha256: Digest,
    stages: Sequence[DeltaStage],
) -> bytes:
    """The root document of an extension of ``base_root`` by ``stages`` (store-format §11.1, §11.4).

    Args:
        version: v1 takes one stage of chunks, v2 one of extents, v3 any number of extents.
        identity: of the entry; its publication schema must be the version's.
        base_root: the base's root document as published.
        layout_sha256: of the page layout.
        stages: from the base to the entry.
    """
    first, last = stages[0], stages[-1]
    document: JsonObject = {
        "schema": version,
        "format_abi": FORMAT_ABI,
        "identity": identity.to_wire(),
        "context_digest": last.result.context_digest,
        "committed_tokens": last.result.committed_tokens,
        "base_context_digest": first.base.context_digest,
        "base_committed_tokens": first.base.committed_tokens,
        "base_root": decode_canonical(base_root, subject=ROOT_SUBJECT),
        "base_root_sha256": sha256(base_root),
        "layout_sha256": layout_sha256,
        "base_block_counts": list(first.base.block_counts),
        "result_block_counts": list(last.result.block_counts),
    }
    if version is DeltaVersion.V3:
        document |= {"delta_stages": [stage.to_wire() for stage in stages]}
    else:
        document |= first.payload.to_wire()
    if version is not DeltaVersion.V1:
        document |= {"logical_chunk_tokens": identity.chunk_tokens}
    return encode_signed(document)


def _verify_form(document: Document, *, version: DeltaVersion) -> Digest:
    document.require_keys(_KEYS[version])
    for key in ("metadata_sha256", "base_context_digest", "base_root_sha256", "layout_sha256"):
        document.take_digest(key)
    if version is DeltaVersion.V2:
        document.take_digest("delta_sha256")
    try:
        return document.verify_metadata_digest()
    except IntegrityError as error:
        raise _misfit(error, version=version) from None


def _take_embedded(document: Document, *, version: DeltaVersion) -> Document:
    base = embedded_document(document.fields["base_root"], subject=document.named("base_root"))
    stated = document.take_digest("base_root_sha256")
    if stated != base.sha256:
        error = IntegrityError(document.named("base_root_sha256"), expected=base.sha256, found=stated)
        raise _misfit(error, version=version)
    return base


def _misfit(error: IntegrityError, *, version: DeltaVersion) -> IntegrityError | IncompatibleError:
    """What v1 and v2 call corrupt, v3 calls incompatible (store-format §11.4, §20.7)."""
    if version is not DeltaVersion.V3:
        return error
    return IncompatibleError(error.subject, expected=error.expected, found=error.found)


def _take_compatible(document: Document, *, asked: Asked, version: DeltaVersion) -> CacheIdentity:
    document.require_equal("format_abi", wanted=FORMAT_ABI)
    identity = document.take_identity(asked=asked)
    require_pages(document, identity=identity, publications=frozenset({_PUBLICATIONS[version]}))
    document.require_equal("context_digest", wanted=asked.context_digest)
    return identity


def _take_stages(
    document: Document, *, version: DeltaVersion, base: StageEnd, result: StageEnd, identity: CacheIdentity
) -> tuple[DeltaStage, ...]:
    chunk_tokens = identity.chunk_tokens
    if version is not DeltaVersion.V1:
        document.take_int("logical_chunk_tokens", minimum=chunk_tokens, maximum=chunk_tokens)
    if version is DeltaVersion.V3:
        return _take_stage_list(document, base=base, result=result, chunk_tokens=chunk_tokens)
    payload: ExtentPayload | ChunkPayload
    if version is DeltaVersion.V2:
        payload = take_extents(document)
    else:
        payload = take_delta_chunks(
            document, chunk_tokens=chunk_tokens, committed_tokens=result.committed_tokens
        )
    return (DeltaStage(base=base, result=result, payload=payload),)


def _take_stage_list(
    document: Document, *, base: StageEnd, result: StageEnd, chunk_tokens: int
) -> tuple[DeltaStage, ...]:
    """Stages start at the document's base, each where the one before ends, and reach its result (§11.4)."""
    stages: list[DeltaStage] = []
    at = base
    for index, value in enumerate(document.take_list("delta_stages", maximum=MAX_STAGES)):
        part = embedded_document(value, subject=f"{document.subject}.delta_stages[{index}]")
        stage = _parse_stage(part, chunk_tokens=chunk_tokens)
        _require_joint(stage.base, wanted=at, subject=f"{part.subject} start")
        stages.append(stage)
        at = stage.result
    _require_joint(at, wanted=result, subject=f"{document.subject}.delta_stages end")
    return tuple(stages)


def _parse_stage(part: Document, *, chunk_tokens: int) -> DeltaStage:
    part.require_keys(_STAGE_KEYS)
    base, result = take_ends(
        part, context_digest=part.take_digest("context_digest"), chunk_tokens=chunk_tokens
    )
    payload = take_extents(part, smallest=MAX_OBJECT_BYTES)
    return DeltaStage(base=base, result=result, payload=payload)


def _require_joint(found: StageEnd, *, wanted: StageEnd, subject: str) -> None:
    if found != wanted:
        raise FormatError(subject, expected=shown(wanted), found=shown(found))


def _parse_base(base: Document, *, asked: Asked, version: DeltaVersion, depth: int) -> PageRoot:
    """A base is a flat snapshot, a legacy entry or, below v1 and v2 only, one more delta (§11.1)."""
    if base.schema == FLAT_SNAPSHOT_SCHEMA:
        return parse_flat_document(base, asked=asked)
    if base.schema not in (DeltaVersion.V1, DeltaVersion.V2):
        return parse_legacy_document(base, asked=asked)
    if version is DeltaVersion.V3 or depth == MAX_STACKED_DELTAS:
        raise FormatError(
            base.subject,
            expected="a base that is no delta"
            if version is DeltaVersion.V3
            else f"at most {MAX_STACKED_DELTAS} stacked deltas",
            found=shown(base.schema),
        )
    return parse_delta_document(base, asked=asked, depth=depth + 1)


def _verify_fit(document: Document, *, base: PageRoot, start: StageEnd, layout_sha256: Digest) -> None:
    """The base ends where the delta starts (store-format §11.1, §20.5)."""
    if base.committed_tokens != start.committed_tokens:
        raise FormatError(
            document.named("base_committed_tokens"),
            expected=f"{base.committed_tokens}, as in the base",
            found=str(start.committed_tokens),
        )
    if isinstance(base, PageDeltaManifest):
        counts = base.stages[-1].result.block_counts
        if counts != start.block_counts or base.layout_sha256 != layout_sha256:
            raise FormatError(
                document.named("base_block_counts"),
                expected=f"{shown(list(counts))} and layout {base.layout_sha256}, as in the base",
                found=f"{shown(list(start.block_counts))} and layout {layout_sha256}",
            )
