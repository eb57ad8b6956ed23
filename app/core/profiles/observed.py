"""What one rank really holds: its environment file or the inspection of its container, read
(profile-contract §5, §18.15).

Values are kept for comparing; whoever shows them masks them by name (``secrets``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.core.canonical_json import ExactValue
from app.core.digest import Digest, sha256
from app.core.errors import DocumentError, shown
from app.core.profiles.documents import (
    LIMITS,
    DocumentKind,
    ProfileDocument,
    check_size,
    read_profile_document,
    refusal,
)
from app.core.profiles.launch import Launch, Mount, parse_launch
from app.core.profiles.template import read_template
from app.core.qualify.document import read_document
from app.core.qualify.pointer import step

MOST_VARIABLES: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRank:
    """One rank as it was seen.

    Attributes:
        rank: its number; none where the caller does not know it.
        environment: the value that counts, the last one where a key stands twice.
        duplicates: keys that stand more than once.
        command: path and arguments of the process, entrypoint and mounts; none for an environment file.
        image_id: ``sha256:`` and 64 hexadecimal characters as inspected; none where it is not said.
    """

    name: str
    sha256: Digest
    environment: Mapping[str, str]
    duplicates: tuple[str, ...] = ()
    rank: int | None = None
    command: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    mounts: tuple[Mount, ...] | None = None
    image_id: str | None = None


def observe(raw: bytes, *, name: str, rank: int | None = None) -> ObservedRank:
    """Read an environment file or a container inspection, whichever the bytes are.

    Args: raw: at most 16 MiB; an inspection may be the object or a list of one, as the engine prints it.
    name: what it is called in messages.

    Raises: ProfileDocumentError: as ``read_template`` or ``parse_launch``.
    """
    check_size(len(raw), subject=name)
    if raw.lstrip()[:1] in (b"{", b"["):
        return _from_inspection(raw, name=name, rank=rank)
    return _from_file(raw, name=name, rank=rank)


def _from_file(raw: bytes, *, name: str, rank: int | None) -> ObservedRank:
    template = read_template(raw, name=name)
    return ObservedRank(name=name, sha256=sha256(raw), environment=template.pairs, rank=rank)


def _from_inspection(raw: bytes, *, name: str, rank: int | None) -> ObservedRank:
    document = _inspection(raw, name=name)
    launch = parse_launch(document, subject=name)
    if len(launch.environment) > MOST_VARIABLES:
        raise refusal(
            name,
            code="DOC_TOO_LARGE",
            expected=f"at most {MOST_VARIABLES} variables",
            found=f"{len(launch.environment)}",
            pointer="/Config/Env",
            sha256=document.sha256,
        )
    counted: dict[str, int] = {}
    for one in launch.environment:
        counted[one.name] = counted.get(one.name, 0) + 1
    return ObservedRank(
        name=name,
        sha256=document.sha256,
        environment={one.name: one.value for one in launch.environment},
        duplicates=tuple(key for key, times in counted.items() if times > 1),
        rank=rank,
        command=_command(document, launch=launch, name=name),
        entrypoint=launch.entrypoint,
        mounts=launch.mounts,
        image_id=_image_id(document.value),
    )


def _inspection(raw: bytes, *, name: str) -> ProfileDocument:
    if raw.lstrip()[:1] == b"{":
        return read_profile_document(raw, subject=name, kind=DocumentKind.LAUNCH)
    try:
        document = read_document(raw, subject=name, limits=LIMITS)
    except DocumentError as error:
        raise refusal(
            name,
            code="DOC_JSON_INVALID",
            expected=error.expected,
            found=error.found,
            pointer=error.pointer,
            offset=error.offset,
        ) from None
    listed = document.value
    if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], dict):
        expected = "the inspection of one container"
        raise refusal(name, code="DOC_FIELD", expected=expected, found=shown(listed), sha256=document.sha256)
    return ProfileDocument(
        sha256=document.sha256,
        byte_count=document.byte_count,
        kind=DocumentKind.LAUNCH,
        schema=None,
        value=listed[0],
    )


def _command(document: ProfileDocument, *, launch: Launch, name: str) -> tuple[str, ...]:
    """Path and ``Args``: what the process was really started with."""
    arguments = document.value.get("Args")
    if arguments is None:
        return (launch.path,)
    if not isinstance(arguments, list):
        raise refusal(name, code="DOC_FIELD", expected="a list", found=shown(arguments), pointer="/Args")
    taken = []
    for index, value in enumerate(arguments):
        if not isinstance(value, str):
            place = "/Args" + step(index)
            raise refusal(name, code="DOC_FIELD", expected="a string", found="something else", pointer=place)
        taken.append(value)
    return (launch.path, *taken)


def _image_id(value: dict[str, ExactValue]) -> str | None:
    found = value.get("Image")
    return found if isinstance(found, str) else None
