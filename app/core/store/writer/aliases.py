"""Publish shorter prefixes of a row entry under names of their own (store-format §10.3)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.core.digest import Digest, sha256
from app.core.errors import PlanError, shown
from app.core.store.entry import Entry, find_entry
from app.core.store.files import RootFiles
from app.core.store.identity import CacheIdentity
from app.core.store.layout import DocumentName
from app.core.store.manifest import SEGMENT_CHUNKS, encode_alias
from app.core.store.writer.calls import SYSTEM_CALLS, FileCalls
from app.core.store.writer.publication import NewFile, publishing
from app.core.store.writer.segments import store_chain

MAX_ALIASES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAliases:
    """What was published: aliases by their span, over ``segments`` descriptor segments."""

    names: Mapping[int, DocumentName]
    segments: tuple[Digest, ...]


def alias_boundaries(committed_tokens: int, *, chunk_tokens: int) -> tuple[int, ...]:
    """Where a writer cuts by default: each sixteen chunks and at the end, the longest 64 (§10.3).

    Args:
        committed_tokens: span of the source, whole chunks.
        chunk_tokens: width of a chunk.
    """
    stride = SEGMENT_CHUNKS * chunk_tokens
    boundaries = (*range(stride, committed_tokens, stride), committed_tokens)
    return boundaries[-MAX_ALIASES:]


def publish_aliases(
    root: Path,
    *,
    identity: CacheIdentity,
    source_context_digest: Digest,
    context_digests: Mapping[int, Digest],
    new_id: Callable[[], str],
    calls: FileCalls = SYSTEM_CALLS,
) -> PublishedAliases:
    """Publish aliases of a row entry that stands in this root.

    Each is an entry of its own as soon as it has its name; the source is not needed afterwards.

    Args:
        root: the rank-local root; its shared lock is held for the whole publication (store-format §14).
        identity: of the rank.
        source_context_digest: of the entry to cut; an exact one, of rows, of whole chunks.
        context_digests: for each prefix its context digest, by its span; at most 64.
        new_id: a source of 32 hexadecimal characters nobody else uses.
        calls: the system calls to use.

    Raises:
        PlanError: no prefix or too many, one that does not end with a chunk, or a source of pages.
        AbsentError, IncompatibleError, FormatError: the source cannot be read.
        IntegrityError: another alias stands under a name, of another source for instance; it was left alone.
        ResourceError: the file system refused (full, read-only, no permission).
    """
    with publishing(root, new_id=new_id, calls=calls) as publication:
        source = find_entry(RootFiles(root=root), identity=identity, context_digest=source_context_digest)
        _check(source, boundaries=sorted(context_digests))
        longest = max(context_digests) // identity.chunk_tokens
        segments = store_chain(publication, storage_key=identity.storage_key, chunks=source.chunks[:longest])
        made = {
            tokens: _alias(source, tokens=tokens, context_digest=digest, segments=segments)
            for tokens, digest in sorted(context_digests.items())
        }
        publication.store_all([file for _, file in made.values()])
    return PublishedAliases(names={tokens: name for tokens, (name, _) in made.items()}, segments=segments)


def _check(source: Entry, *, boundaries: list[int]) -> None:
    chunk_tokens = source.identity.chunk_tokens
    if not 1 <= len(boundaries) <= MAX_ALIASES:
        raise PlanError("aliases", expected=f"1 … {MAX_ALIASES}", found=str(len(boundaries)))
    if not source.chunks or source.identity.stores_pages or source.committed_tokens % chunk_tokens:
        raise PlanError(
            "source of aliases",
            expected="rows in whole chunks",
            found=f"{source.kind} of {source.committed_tokens} tokens",
        )
    ends = {chunk.end for chunk in source.chunks}
    if not ends.issuperset(boundaries):
        raise PlanError("aliases", expected="ends of chunks of the source", found=shown(boundaries))


def _alias(
    source: Entry, *, tokens: int, context_digest: Digest, segments: tuple[Digest, ...]
) -> tuple[DocumentName, NewFile]:
    identity = source.identity
    chunk_count = tokens // identity.chunk_tokens
    content = encode_alias(
        identity=identity,
        context_digest=context_digest,
        committed_tokens=tokens,
        chunk_count=chunk_count,
        tail_segment_sha256=segments[(chunk_count - 1) // SEGMENT_CHUNKS],
        source_manifest_sha256=source.sha256,
    )
    name = DocumentName(storage_key=identity.storage_key, context_digest=context_digest)
    file = NewFile(path=name.alias_path, content=content, digest=sha256(content), content_named=False)
    return name, file
