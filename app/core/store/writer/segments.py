"""Descriptor segments: a chunk list in content-named files, sixteen descriptors each (store-format §10.2)."""

from collections.abc import Sequence

from app.core.digest import Digest, sha256
from app.core.store.layout import segment_path
from app.core.store.manifest import SEGMENT_CHUNKS, ChunkDescriptor, encode_segment
from app.core.store.writer.publication import NewFile, Publication


def store_chain(
    publication: Publication, *, storage_key: Digest, chunks: Sequence[ChunkDescriptor]
) -> tuple[Digest, ...]:
    """Publish the segments of a chunk list, each naming the one before it.

    Equal chunk lists have equal segments, so what another entry published is found and adopted.

    Returns:
        The segments' digests, first to last; none for an empty list.
    """
    files: list[NewFile] = []
    for first in range(0, len(chunks), SEGMENT_CHUNKS):
        content = encode_segment(
            storage_key=storage_key,
            parent_sha256=files[-1].digest if files else None,
            first_chunk_index=first,
            chunks=chunks[first : first + SEGMENT_CHUNKS],
        )
        digest = sha256(content)
        path = segment_path(digest, storage_key=storage_key)
        files.append(NewFile(path=path, content=content, digest=digest, content_named=True))
    publication.store_all(files)
    return tuple(file.digest for file in files)
