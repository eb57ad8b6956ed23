"""Faults of objects and segments: what a disk, a careless copy or a crash does to payload files."""

from pathlib import PurePosixPath

from app.core.store.check import ProblemCode
from app.core.store.damage.fault import Fault
from app.core.store.damage.target import Candidate, Target
from app.core.store.folders import FileKind
from app.core.store.layout import object_path, segment_path
from app.core.store.manifest import PrefixAlias, RowTailManifest

_CONTENT = frozenset({ProblemCode.OBJECT_CONTENT})
_SIZE = frozenset({ProblemCode.OBJECT_SIZE})
_UNREADABLE = frozenset({ProblemCode.OBJECT_UNREADABLE})


def flipped(content: bytes, *, bit: int) -> bytes:
    """The same bytes but for one bit."""
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _flip(target: Target) -> None:
    path = target.chosen_object()
    content = target.read(path)
    target.replace(path, flipped(content, bit=target.choose(len(content) * 8)))


def _make_hole(target: Target) -> None:
    path = target.chosen_object()
    target.replace_by_hole(path, byte_count=len(target.read(path)))


def _truncate(target: Target) -> None:
    path = target.chosen_object()
    content = target.read(path)
    target.replace(path, content[: target.choose(len(content))])


def _extend(target: Target) -> None:
    path = target.chosen_object()
    target.replace(path, target.read(path) + bytes(1))


def _empty(target: Target) -> None:
    target.replace(target.chosen_object(), b"")


def _remove(target: Target) -> None:
    target.remove(target.chosen_object())


def _link(target: Target) -> None:
    target.replace_by(target.chosen_object(), kind=FileKind.LINK)


def _fifo(target: Target) -> None:
    target.replace_by(target.chosen_object(), kind=FileKind.FIFO)


def _folder(target: Target) -> None:
    target.replace_by(target.chosen_object(), kind=FileKind.FOLDER)


def _equally_long(candidate: Candidate) -> list[tuple[PurePosixPath, PurePosixPath]]:
    """Two objects that could be taken for each other by their size."""
    by_size: dict[int, PurePosixPath] = {}
    pairs = []
    for size, digest in {(item.byte_count, item.sha256): None for item in candidate.entry.references}:
        path = object_path(digest)
        if size in by_size:
            pairs.append((by_size[size], path))
        by_size[size] = path
    return pairs


def _exchange(target: Target) -> None:
    pairs = _equally_long(target.candidate)
    first, second = pairs[target.choose(len(pairs))]
    contents = target.read(first), target.read(second)
    target.replace(first, contents[1])
    target.replace(second, contents[0])


def _last_segment(candidate: Candidate) -> PurePosixPath | None:
    document = candidate.entry.document
    digest = None
    if isinstance(document, PrefixAlias):
        digest = document.tail_segment_sha256
    elif isinstance(document, RowTailManifest):
        digest = document.base_tail_segment_sha256
    return None if digest is None else segment_path(digest, storage_key=candidate.name.storage_key)


def _has_segment(candidate: Candidate) -> bool:
    return _last_segment(candidate) is not None


def _segment(target: Target) -> PurePosixPath:
    path = _last_segment(target.candidate)
    if path is None:
        raise RuntimeError("a fault of segments was given an entry without one")
    return path


def _flip_segment(target: Target) -> None:
    path = _segment(target)
    content = target.read(path)
    # The schema's name: no digest is changed into another one.
    at = content.index(b"descriptor-segment")
    target.replace(path, flipped(content, bit=(at + target.choose(10)) * 8))


def _remove_segment(target: Target) -> None:
    target.remove(_segment(target))


OBJECT_FAULTS = (
    Fault(name="object-flipped-bit", says="one bit of an object differs", apply=_flip, codes=_CONTENT),
    Fault(
        name="object-hole",
        says="an object of the right size was never written",
        apply=_make_hole,
        codes=_CONTENT,
    ),
    Fault(name="object-truncated", says="an object lost its end", apply=_truncate, codes=_SIZE),
    Fault(name="object-extended", says="an object has one byte too many", apply=_extend, codes=_SIZE),
    Fault(name="object-emptied", says="an object is empty", apply=_empty, codes=_SIZE),
    Fault(
        name="object-missing",
        says="an object is gone",
        apply=_remove,
        codes=frozenset({ProblemCode.OBJECT_MISSING}),
    ),
    Fault(name="object-symlink", says="a link stands at an object's name", apply=_link, codes=_UNREADABLE),
    Fault(name="object-fifo", says="a FIFO stands at an object's name", apply=_fifo, codes=_UNREADABLE),
    Fault(name="object-folder", says="a folder stands at an object's name", apply=_folder, codes=_UNREADABLE),
    Fault(
        name="objects-exchanged",
        says="two objects of one size carry each other's bytes",
        apply=_exchange,
        suits=lambda candidate: bool(_equally_long(candidate)),
        codes=_CONTENT,
        problems=2,
    ),
    Fault(
        name="segment-flipped-bit",
        says="one bit of a descriptor segment differs",
        apply=_flip_segment,
        suits=_has_segment,
        codes=frozenset({ProblemCode.SEGMENT_CORRUPT}),
    ),
    Fault(
        name="segment-missing",
        says="a descriptor segment is gone",
        apply=_remove_segment,
        suits=_has_segment,
        codes=frozenset({ProblemCode.SEGMENT_MISSING}),
    ),
)
