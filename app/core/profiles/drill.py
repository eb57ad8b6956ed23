"""A drill as a document: ``sparkgate-drill/v1`` (profile-contract §12.3 to §12.5, §18.9)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.core.canonical_json import ExactValue, JsonObject
from app.core.digest import Digest
from app.core.errors import shown
from app.core.profiles.documents import DocumentKind, ProfileDocument, read_profile_document
from app.core.profiles.fields import Fields, Problems
from app.core.qualify.pointer import step

DRILL_SCHEMA: Final = "sparkgate-drill/v1"
NOT_EXERCISED: Final = (
    "killing one rank alone",
    "killing during a capture",
    "loss of power of a host",
    "a full storage",
    "a corrupt page",
    "a change of the clock",
)
"""What §12.4 lists as never tried; told with every drill."""
_FIELDS: Final = (
    "schema",
    "kind",
    "node_ids",
    "snapshot",
    "before",
    "after",
    "exit_status",
    "answers",
    "prefix_cases",
)
_MOST_RANKS: Final = 1_024
_MOST_CASES: Final = 10_000


class DrillKind(StrEnum):
    """What was done between the two sights."""

    RESTART = "restart"
    """All containers stopped and created anew (§12.3)."""
    SIGKILL = "sigkill"
    """All containers killed, started cold (§12.4)."""
    PREFIX = "prefix"
    """Prefix cases alone; nothing was restarted (§12.5)."""


class RestoreSource(StrEnum):
    """Where restored tokens came from (§18.9)."""

    GPU_SNAPSHOT = "gpu_snapshot"
    DISK = "disk"
    IN_ENGINE = "in_engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSight:
    """One rank before or after. ``generation`` names the container or process, ``tokens`` are those offered
    before and restored after; ``source`` is none before."""

    rank: int
    generation: str
    restore_ns: int
    tokens: int
    source: RestoreSource | None
    cache_state: str
    pointer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillAnswer:
    """What was answered, and what had to be."""

    expected: str
    observed: str
    pointer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixCase:
    """A suffix after a known prefix: tokens offered, found and restored; an answer where one was asked for.

    ``cached_tokens`` is an engine's own word and stands only where an engine was asked (§18.9).
    """

    name: str
    offered_tokens: int
    found_tokens: int
    restored_tokens: int
    cached_tokens: int | None
    answer: DrillAnswer | None
    pointer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """A drill document.

    Attributes:
        snapshot: what was to come back, as the document names or describes it.
        offered_tokens: of the snapshot, where the document says so beside the ranks' own.
        exit_status: by node, in the order of ``node_ids``; none where one was not seen.
    """

    sha256: Digest
    kind: DrillKind
    node_ids: tuple[str, ...]
    snapshot: str
    offered_tokens: int | None
    before: tuple[RankSight, ...]
    after: tuple[RankSight, ...]
    exit_status: tuple[int | None, ...]
    answers: tuple[DrillAnswer, ...]
    prefix_cases: tuple[PrefixCase, ...]


def parse_drill(raw: bytes | ProfileDocument, *, subject: str = "drill") -> Drill:
    """Read a drill document.

    Raises:
        ProfileDocumentError: no strict JSON, another schema, a member absent, unknown or not in form.
    """
    document = raw
    if isinstance(document, bytes):
        document = read_profile_document(document, subject=subject, kind=DocumentKind.DRILL)
    problems = Problems(subject=subject, sha256=document.sha256)
    top = Fields.of(document.value, problems=problems)
    top.only(_FIELDS)
    kind = top.text("kind", one_of=list(DrillKind))
    drill = Drill(
        sha256=document.sha256,
        kind=DrillKind(kind) if kind in list(DrillKind) else DrillKind.RESTART,
        node_ids=_names(top, "node_ids"),
        snapshot=_snapshot(top),
        offered_tokens=_offered(top),
        before=tuple(_sight(one, offered=True) for one in _rows(top, "before", most=_MOST_RANKS)),
        after=tuple(_sight(one, offered=False) for one in _rows(top, "after", most=_MOST_RANKS)),
        exit_status=_statuses(top),
        answers=tuple(_answer(one) for one in _rows(top, "answers", most=_MOST_CASES)),
        prefix_cases=tuple(_case(one) for one in _rows(top, "prefix_cases", most=_MOST_CASES)),
    )
    problems.refuse()
    return drill


def drill_object(drill: Drill) -> JsonObject:
    """What the document is about, and what it does not show."""
    return {
        "sha256": drill.sha256,
        "kind": drill.kind.value,
        "node_ids": list(drill.node_ids),
        "snapshot": drill.snapshot,
        "ranks": len(drill.before),
        "prefix_cases": len(drill.prefix_cases),
        "not_exercised": list(NOT_EXERCISED),
    }


def _rows(fields: Fields, name: str, *, most: int) -> list[Fields]:
    """A list of objects that may be empty."""
    return [] if fields.raw(name) == [] else fields.objects(name, maximum_count=most)


def _sight(fields: Fields, *, offered: bool) -> RankSight:
    fields.only(("rank", "generation", "restore_ns", "tokens", "source", "cache_state"))
    absent = offered and fields.value.get("source") is None
    source = "" if absent else fields.text("source", one_of=list(RestoreSource))
    return RankSight(
        rank=fields.integer("rank", minimum=0, maximum=_MOST_RANKS),
        generation=_name(fields, "generation"),
        restore_ns=fields.integer("restore_ns", minimum=0),
        tokens=fields.integer("tokens", minimum=0),
        source=RestoreSource(source) if source in list(RestoreSource) else None,
        cache_state=fields.text("cache_state"),
        pointer=fields.at,
    )


def _statuses(fields: Fields) -> tuple[int | None, ...]:
    listed = fields.raw("exit_status")
    taken: list[int | None] = []
    for index, value in enumerate(_list(fields, "exit_status", listed)):
        if value is not None and (type(value) is not int or not 0 <= value <= 255):
            place = fields.place("exit_status") + step(index)
            fields.problems.add(place, expected="an exit status, 0 to 255, or null", found=shown(value))
        else:
            taken.append(value)
    return tuple(taken)


def _names(fields: Fields, name: str) -> tuple[str, ...]:
    """Names, as text or whole numbers, each once and one at least."""
    listed = _list(fields, name, fields.raw(name))
    members = {str(index): value for index, value in enumerate(listed)}
    inner = Fields(value=members, problems=fields.problems, at=fields.place(name))
    taken = tuple(_name(inner, str(index)) for index in range(len(listed)))
    if not taken or len(set(taken)) != len(taken):
        fields.problems.add(fields.place(name), expected="every node once, one at least", found=shown(listed))
    return taken


def _name(fields: Fields, name: str) -> str:
    value = fields.raw(name)
    return str(value) if type(value) is int else fields.text(name)


def _list(fields: Fields, name: str, value: ExactValue) -> list[ExactValue]:
    """A list that may be empty."""
    if not isinstance(value, list) or len(value) > _MOST_RANKS:
        if fields.has(name):
            expected = f"a list of at most {_MOST_RANKS}"
            fields.problems.add(fields.place(name), expected=expected, found=shown(value))
        return []
    return value


def _snapshot(fields: Fields) -> str:
    """A name, or an object that describes it, shown bounded."""
    value = fields.raw("snapshot")
    if isinstance(value, dict) and value:
        return shown(value)
    return fields.text("snapshot") if fields.has("snapshot") else ""


def _offered(fields: Fields) -> int | None:
    value = fields.value.get("snapshot")
    if not isinstance(value, dict) or "offered_tokens" not in value:
        return None
    return fields.object("snapshot").integer("offered_tokens", minimum=1)


def _answer(fields: Fields) -> DrillAnswer:
    return DrillAnswer(
        expected=fields.text("expected"), observed=_text(fields, "observed"), pointer=fields.at
    )


def _case(fields: Fields) -> PrefixCase:
    offered = fields.integer("offered_tokens", minimum=0)
    found = fields.integer("found_tokens", minimum=0, maximum=max(offered, 0))
    return PrefixCase(
        name=fields.text("name"),
        offered_tokens=offered,
        found_tokens=found,
        restored_tokens=fields.integer("restored_tokens", minimum=0, maximum=max(offered, 0)),
        cached_tokens=fields.integer("cached_tokens", minimum=0) if fields.has("cached_tokens") else None,
        answer=_answer(fields.object("answer")) if fields.has("answer") else None,
        pointer=fields.at,
    )


def _text(fields: Fields, name: str) -> str:
    """A string that may be empty: an answer may be nothing."""
    value = fields.raw(name)
    if isinstance(value, str):
        return value
    if fields.has(name):
        fields.problems.add(fields.at + step(name), expected="a string", found=shown(value))
    return ""
