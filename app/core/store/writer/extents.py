"""Streams as raw extents: objects without a header, in batches of two (store-format §8.2, §12)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from app.core.digest import Digest, RunningDigest
from app.core.errors import FormatError
from app.core.store.manifest import ObjectDescriptor
from app.core.store.writer.publication import Publication

# Objects written at once, and therefore held in memory (store-format §12).
BATCH_OBJECTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExtents:
    """A stream that lies in objects: where each extent is, and the digest of the whole."""

    objects: tuple[ObjectDescriptor, ...]
    sha256: Digest

    @property
    def byte_count(self) -> int:
        """Length of the stream."""
        return self.objects[-1].end


def cut(stream: memoryview, *, object_bytes: int) -> Iterator[list[memoryview]]:
    """A stream in memory as batches of objects; nothing is copied."""
    objects = [stream[at : at + object_bytes] for at in range(0, len(stream), object_bytes)]
    for index in range(0, len(objects), BATCH_OBJECTS):
        yield objects[index : index + BATCH_OBJECTS]


def fill(parts: Iterable[memoryview], *, stream_bytes: int, object_bytes: int) -> Iterator[list[memoryview]]:
    """A stream that comes in parts as batches of objects, in buffers that serve again for the next batch.

    Args:
        parts: the stream in order; a part may be overwritten when the next one is asked for.
        stream_bytes: length of the stream, or an upper bound.
        object_bytes: size of every object but the last.
    """
    buffers: list[bytearray] = []
    batch: list[memoryview] = []
    used = 0
    for part in parts:
        taken = 0
        while taken < len(part):
            if len(buffers) == len(batch):
                buffers.append(bytearray(min(object_bytes, stream_bytes)))
            size = min(object_bytes - used, len(part) - taken)
            buffers[len(batch)][used : used + size] = part[taken : taken + size]
            used += size
            taken += size
            if used == object_bytes:
                batch.append(memoryview(buffers[len(batch)]))
                used = 0
            if len(batch) == BATCH_OBJECTS:
                yield batch
                batch = []
    if used:
        batch.append(memoryview(buffers[len(batch)])[:used])
    if batch:
        yield batch


def store_stream(publication: Publication, *, batches: Iterable[Sequence[memoryview]]) -> StoredExtents:
    """Publish the objects of a stream and hash it in order while they are written (store-format §12).

    Raises:
        FormatError: there is no object.
        IntegrityError: something that is no file stands at an object's name.
    """
    running = RunningDigest()
    objects: list[ObjectDescriptor] = []
    for batch in filter(None, batches):
        digests = publication.store_objects(batch, meanwhile=partial(_update, running, batch))
        for digest, buffer in zip(digests, batch, strict=True):
            start = objects[-1].end if objects else 0
            objects.append(ObjectDescriptor(sha256=digest, start=start, end=start + len(buffer)))
    if not objects:
        raise FormatError("stream", expected="at least one object", found="none")
    return StoredExtents(objects=tuple(objects), sha256=running.digest())


def _update(running: RunningDigest, buffers: Sequence[memoryview]) -> None:
    for buffer in buffers:
        running.update(buffer)
