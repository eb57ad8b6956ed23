"""What executed a restore, as its worker measured it: the document ``sparkgate-runtime/v1``.

It is flat, so that two of them can be laid side by side, and every fact is always there: one that does not
exist is ``none``, one that exists and could not be measured is ``unknown``.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final, Self

from app.core.digest import Digest
from app.core.errors import FormatError, shown
from app.core.image import ConfigId

SCHEMA: Final = "sparkgate-runtime/v1"
NONE: Final = "none"
UNKNOWN: Final = "unknown"
LONGEST_FACT: Final = 200
MOST_FILES: Final = 1_000_000

RuntimeDocument = dict[str, str | int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The measured identity of one rank worker process.

    Attributes:
        engine: whose code restores; ``sparkgate`` is ours.
        engine_sha256: source-tree digest of ``app/core`` alone, the code that judges stored bytes.
        source_sha256: source-tree digest of ``app`` and ``workers``, all code the process may run.
        image_config_id: config id of the container's image; ``none`` outside a container, ``unknown`` in one
            whose operator did not say.
        cupy: distribution and version, or ``none``.
        system: kernel name and release.
    """

    engine: str
    engine_sha256: Digest
    engine_files: int
    source_sha256: Digest
    source_files: int
    image_config_id: str
    python: str
    numpy: str
    cupy: str
    machine: str
    system: str

    def to_document(self) -> RuntimeDocument:
        return {
            "schema": SCHEMA,
            **{name: value if isinstance(value, int) else str(value) for name, value in asdict(self).items()},
        }

    @classmethod
    def parse(cls, document: Mapping[str, object]) -> Self:
        """Read a document.

        Raises:
            FormatError: another schema, a fact that is missing, not known here or not in form; it is named.
        """
        if document.get("schema") != SCHEMA:
            raise FormatError("runtime.schema", expected=repr(SCHEMA), found=shown(document.get("schema")))
        names = {"schema", *(field.name for field in fields(cls))}
        if set(document) != names:
            missing, unknown = sorted(names - set(document)), sorted(set(document) - names)
            raise FormatError(
                "runtime",
                expected="exactly the facts of its schema",
                found=f"missing {shown(missing)}, not known {shown(unknown)}",
            )
        return cls(
            engine_sha256=Digest.parse(document["engine_sha256"], subject="runtime.engine_sha256"),
            source_sha256=Digest.parse(document["source_sha256"], subject="runtime.source_sha256"),
            engine_files=_count(document, name="engine_files"),
            source_files=_count(document, name="source_files"),
            image_config_id=_image(document["image_config_id"]),
            engine=_fact(document, name="engine"),
            python=_fact(document, name="python"),
            numpy=_fact(document, name="numpy"),
            cupy=_fact(document, name="cupy"),
            machine=_fact(document, name="machine"),
            system=_fact(document, name="system"),
        )


def first_difference(expected: Mapping[str, object], *, found: Mapping[str, object]) -> str | None:
    """The first fact, by name, in which two documents differ, as a sentence; None if they are equal."""
    for name in sorted({*expected, *found}):
        before, now = expected.get(name), found.get(name)
        if before != now or (name in expected) != (name in found):
            return f"runtime.{name}: expected {shown(before)}, found {shown(now)}"
    return None


def _count(document: Mapping[str, object], *, name: str) -> int:
    value = document[name]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_FILES:
        raise FormatError(
            f"runtime.{name}", expected=f"an integer from 0 to {MOST_FILES}", found=shown(value)
        )
    return value


def _fact(document: Mapping[str, object], *, name: str) -> str:
    value = document[name]
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_FACT or not value.isprintable():
        raise FormatError(
            f"runtime.{name}", expected=f"1 to {LONGEST_FACT} printable characters", found=shown(value)
        )
    return value


def _image(value: object) -> str:
    if value in (NONE, UNKNOWN):
        return str(value)
    return ConfigId.parse(value, subject=f"runtime.image_config_id, neither {NONE!r} nor {UNKNOWN!r}")
