"""How a container was started: the members of a container inspection that are judged (profile-contract
§10.2, §18.15).
"""

from dataclasses import dataclass
from typing import Final

from app.core.canonical_json import ExactValue
from app.core.digest import Digest
from app.core.errors import shown
from app.core.profiles.documents import DocumentKind, ProfileDocument, read_profile_document
from app.core.profiles.fields import Fields, Problems
from app.core.qualify.pointer import step

OVERLAY_VARIABLE: Final = "R33_PROFILE_CONTRACT_HOST_ROOT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mount; ``pointer`` is its place in the document."""

    source: str
    destination: str
    writable: bool
    pointer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One ``KEY=VALUE`` of the container's environment, split at the first ``=``."""

    name: str
    value: str
    pointer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Path, entrypoint, environment and mounts of one container; ``image_id`` is empty where none is said."""

    sha256: Digest
    image_id: str
    path: str
    entrypoint: tuple[str, ...]
    environment: tuple[Variable, ...]
    mounts: tuple[Mount, ...]

    def variables(self, name: str) -> tuple[Variable, ...]:
        """Every setting of a variable; more than one is a duplicate, of which the last counts."""
        return tuple(one for one in self.environment if one.name == name)

    def mounts_at(self, destination: str) -> tuple[Mount, ...]:
        """The mounts whose target is exactly this path."""
        return tuple(one for one in self.mounts if one.destination == destination)


def parse_launch(raw: bytes | ProfileDocument, *, subject: str = "launch document") -> Launch:
    """Read a launch document, in which an inspection may hold any further members.

    Raises:
        ProfileDocumentError: no strict JSON, or ``Path``, ``Config.Entrypoint``, ``Config.Env`` or
            ``Mounts`` not in form.
    """
    document = raw
    if isinstance(document, bytes):
        document = read_profile_document(document, subject=subject, kind=DocumentKind.LAUNCH)
    problems = Problems(subject=subject, sha256=document.sha256)
    fields = Fields.of(document.value, problems=problems)
    config = fields.object("Config")
    launch = Launch(
        sha256=document.sha256,
        image_id=_optional(fields, "Image"),
        path=fields.text("Path"),
        entrypoint=tuple(_text(value, at=at, problems=problems) for at, value in _list(config, "Entrypoint")),
        environment=tuple(_variable(value, at=at, problems=problems) for at, value in _list(config, "Env")),
        mounts=tuple(_mount(value, at=at, problems=problems) for at, value in _list(fields, "Mounts")),
    )
    problems.refuse()
    return launch


def normal_path(path: str) -> str:
    """A container path without doubled and closing slashes; ``..`` stays, and then fits nothing."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _list(fields: Fields, name: str) -> list[tuple[str, ExactValue]]:
    """The elements with their pointers; absent and null, as Docker writes an empty one, is none."""
    value = fields.value.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        fields.problems.add(fields.place(name), expected="a list", found=shown(value))
        return []
    return [(fields.place(name) + step(index), element) for index, element in enumerate(value)]


def _optional(fields: Fields, name: str) -> str:
    """A string that may be absent or empty (a memory mount has no source)."""
    return fields.text(name) if fields.value.get(name) else ""


def _text(value: ExactValue, *, at: str, problems: Problems) -> str:
    if isinstance(value, str):
        return value
    problems.add(at, expected="a string", found=shown(value))
    return ""


def _variable(value: ExactValue, *, at: str, problems: Problems) -> Variable:
    """What stands in an environment may be a secret: of a wrong one only its place is told."""
    if not isinstance(value, str) or "=" not in value:
        problems.add(at, expected="KEY=VALUE", found="something else")
        return Variable(name="", value="", pointer=at)
    name, _, text = value.partition("=")
    return Variable(name=name, value=text, pointer=at)


def _mount(value: ExactValue, *, at: str, problems: Problems) -> Mount:
    fields = Fields.of(value, problems=problems, at=at)
    return Mount(
        source=_optional(fields, "Source"),
        destination=normal_path(fields.text("Destination")),
        writable=fields.boolean("RW"),
        pointer=at,
    )
