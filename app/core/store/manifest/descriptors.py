"""Descriptors: which stored file holds which part of an entry (store-format §8.2, §9.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.canonical_json import JsonObject, JsonValue, expect_int, expect_object
from app.core.digest import Digest
from app.core.errors import FormatError
from app.core.store.manifest.document import MAX_NUMBER, Document

# Recommended limit, store-format §19.
MAX_DESCRIPTORS = 65_536

_OBJECT_KEYS = frozenset({"sha256", "bytes", "encoded_start", "encoded_end"})
_CHUNK_KEYS = frozenset({"sha256", "bytes", "logical_start", "logical_end"})


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
class ChunkDescriptor:
    """One legacy chunk: tokens ``start … end`` lie in the ``SPCKV001`` file named by ``sha256``."""

    sha256: Digest
    byte_count: int
    start: int
    end: int

    @property
    def tokens(self) -> int:
        """How many tokens the chunk covers."""
        return self.end - self.start

    def to_wire(self) -> JsonObject:
        """The descriptor as it stands in the document (store-format §9.1)."""
        return {
            "bytes": self.byte_count,
            "logical_end": self.end,
            "logical_start": self.start,
            "sha256": self.sha256,
        }


def take_objects(
    document: Document, *, key: str, object_bytes: int, encoded_bytes: int
) -> tuple[ObjectDescriptor, ...]:
    """The objects of a stream, in order, gapless and covering it exactly (store-format §8.2).

    Args:
        document: what holds the list under ``key``.
        object_bytes: size of every object but the last, which may be smaller.
        encoded_bytes: length of the whole stream.

    Raises:
        FormatError: a descriptor of another shape, a gap, an overlap, a wrong size, or wrong coverage.
    """
    subject = document.named(key)
    values = document.take_list(key, maximum=MAX_DESCRIPTORS)
    objects: list[ObjectDescriptor] = []
    for index, value in enumerate(values):
        start = objects[-1].end if objects else 0
        last = index == len(values) - 1
        smallest = 1 if last else object_bytes
        objects.append(
            _parse_object(
                value, subject=f"{subject}[{index}]", start=start, minimum=smallest, maximum=object_bytes
            )
        )
    if objects[-1].end != encoded_bytes:
        raise FormatError(
            subject, expected=f"coverage of {encoded_bytes} bytes", found=f"{objects[-1].end} bytes"
        )
    return tuple(objects)


def take_chunks(
    document: Document, *, key: str, maximum: int = MAX_DESCRIPTORS
) -> tuple[ChunkDescriptor, ...]:
    """Chunk descriptors, each judged by itself; how they fit together is ``verify_ranges``' part.

    Raises:
        FormatError: not a list of 1 … ``maximum`` descriptors, or one of another shape.
    """
    subject = document.named(key)
    return tuple(
        _parse_chunk(value, subject=f"{subject}[{index}]")
        for index, value in enumerate(document.take_list(key, maximum=maximum))
    )


def verify_ranges(
    chunks: Sequence[ChunkDescriptor], *, chunk_tokens: int, committed_tokens: int, subject: str
) -> None:
    """Chunks follow each other from token 0 to the span's end; only the last may be narrower (§9.1).

    Raises:
        FormatError: a gap, an overlap, a width, or an end that differs from the span.
    """
    at = 0
    for index, chunk in enumerate(chunks):
        last = index == len(chunks) - 1
        if chunk.start != at or not (chunk.tokens == chunk_tokens or (last and chunk.tokens < chunk_tokens)):
            raise FormatError(
                f"{subject}[{index}]",
                expected=f"tokens {at} … {at + chunk_tokens}{', or fewer' if last else ''}",
                found=f"{chunk.start} … {chunk.end}",
            )
        at = chunk.end
    if at != committed_tokens:
        raise FormatError(subject, expected=f"coverage of {committed_tokens} tokens", found=f"{at} tokens")


def _parse_object(
    value: JsonValue, *, subject: str, start: int, minimum: int, maximum: int
) -> ObjectDescriptor:
    wire = expect_object(value, subject=subject, keys=_OBJECT_KEYS)
    digest = Digest.parse(wire["sha256"], subject=f"{subject}.sha256")
    size = expect_int(wire["bytes"], subject=f"{subject}.bytes", minimum=minimum, maximum=maximum)
    end = start + size
    expect_int(wire["encoded_start"], subject=f"{subject}.encoded_start", minimum=start, maximum=start)
    expect_int(wire["encoded_end"], subject=f"{subject}.encoded_end", minimum=end, maximum=end)
    return ObjectDescriptor(sha256=digest, start=start, end=end)


def _parse_chunk(value: JsonValue, *, subject: str) -> ChunkDescriptor:
    wire = expect_object(value, subject=subject, keys=_CHUNK_KEYS)
    start = expect_int(
        wire["logical_start"], subject=f"{subject}.logical_start", minimum=0, maximum=MAX_NUMBER
    )
    return ChunkDescriptor(
        sha256=Digest.parse(wire["sha256"], subject=f"{subject}.sha256"),
        byte_count=expect_int(wire["bytes"], subject=f"{subject}.bytes", minimum=1, maximum=MAX_NUMBER),
        start=start,
        end=expect_int(
            wire["logical_end"], subject=f"{subject}.logical_end", minimum=start + 1, maximum=MAX_NUMBER
        ),
    )
