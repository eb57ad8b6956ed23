"""What one rank measured and what all ranks together amount to.

A report crosses a process border as a document of integers and strings; ``parse_report`` takes nothing on
trust: intervals must be disjoint and the sums must add up.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import pairwise
from typing import TypeVar

from app.core.canonical_json import JsonObject, JsonValue, expect_int, expect_object, expect_text
from app.core.digest import Digest
from app.core.errors import FormatError, Stage, shown
from app.core.restore.conditions import Conditions, parse_conditions
from app.core.restore.device import LayerDigest, PlacementStats
from app.core.restore.timeline import Interval, Phase

REPORT_SCHEMA = "sparkgate-rank-report/v1"

Choice = TypeVar("Choice", bound=StrEnum)

_MAX_NUMBER = 2**63 - 1
_SUBJECT = "rank report"
_INTERVAL_KEYS = frozenset({"phase", "start_ns", "end_ns"})
_WORK_KEYS = frozenset({"object", "start_ns", "end_ns", "bytes"})
_LAYER_KEYS = frozenset({"name", "pages", "bytes", "sha256"})
_PROBLEM_KEYS = frozenset({"code", "subject", "stage", "expected", "found", "detail"})
_REPORT_KEYS = frozenset(
    {
        "schema",
        "outcome",
        "problem",
        "manifest_sha256",
        "objects",
        "bytes",
        "intervals_ns",
        "phases_ns",
        "bytes_per_second",
        "unattributed_ns",
        "service_ns",
        "reader_work",
        "reader_work_ns",
        "readers",
        "stream_digest",
        "submissions",
        "statistics",
        "layers",
        "conditions",
    }
)


class RankOutcome(StrEnum):
    """How one rank's restore ended; corrupt, absent and incompatible are never one."""

    RESTORED = "restored"
    CORRUPT = "corrupt"
    ABSENT = "absent"
    INCOMPATIBLE = "incompatible"
    CANCELLED = "cancelled"
    FAILED = "failed"


class RestoreOutcome(StrEnum):
    """How a restore over all ranks ended."""

    RESTORED = "restored"
    CORRUPT = "corrupt"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


class ProblemCode(StrEnum):
    """Which kind of error ended a restore."""

    FORMAT = "format"
    INTEGRITY = "integrity"
    ABSENT = "absent"
    INCOMPATIBLE = "incompatible"
    PLAN = "plan"
    DEVICE = "device"
    RESOURCE = "resource"
    CANCELLED = "cancelled"


class StreamDigestState(StrEnum):
    """Whether the digests over whole streams were computed again and agreed, or had been before (pinned).

    ``not_stated``: the entry states none. Legacy chunks and rows are vouched for chunk by chunk.
    """

    RECOMPUTED = "recomputed"
    PINNED = "pinned"
    NOT_STATED = "not_stated"
    NOT_REACHED = "not_reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a restore ended without pages.

    Attributes:
        subject: the object, document or device.
        stage: how far the reader had come, for answers about the store.
        detail: all of it as one sentence.
    """

    code: ProblemCode
    subject: str
    stage: Stage | None
    expected: str
    found: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderWork:
    """What a reader did with one object: ``[start_ns, end_ns)``, overlapping the phases and each other."""

    object: Digest
    start_ns: int
    end_ns: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """What one rank measured; times in ns since its service began, sizes in bytes.

    Attributes:
        manifest_sha256: the root document that was read, if one was.
        objects: different objects of the placed submissions; ``bytes`` the length of those.
        intervals_ns: disjoint, in order.
        reader_work: one per read, in the order they were asked for.
        readers: reads that could run at once.
        submissions: placements queued, also when the restore failed later.
        layers: digests read back from the pool, where they were asked for.
    """

    outcome: RankOutcome
    problem: Problem | None
    manifest_sha256: Digest | None
    objects: int
    bytes: int
    intervals_ns: tuple[Interval, ...]
    service_ns: int
    reader_work: tuple[ReaderWork, ...]
    readers: int
    stream_digest: StreamDigestState
    submissions: int
    statistics: PlacementStats | None
    layers: tuple[LayerDigest, ...] = ()
    conditions: Conditions = field(default_factory=Conditions)

    @property
    def reader_work_ns(self) -> int:
        """Time summed over readers."""
        return sum(work.end_ns - work.start_ns for work in self.reader_work)

    @property
    def bytes_per_second(self) -> dict[Phase, int]:
        """Submitted bytes over each phase's time, where that is not 0."""
        return {phase: self.bytes * 10**9 // spent for phase, spent in self.phases_ns.items() if spent}

    @property
    def phases_ns(self) -> dict[Phase, int]:
        """Time per phase that occurred, in the order of the closed list."""
        sums = dict.fromkeys(Phase, 0)
        for interval in self.intervals_ns:
            sums[interval.phase] += interval.end_ns - interval.start_ns
        occurred = {interval.phase for interval in self.intervals_ns}
        return {phase: total for phase, total in sums.items() if phase in occurred}

    @property
    def unattributed_ns(self) -> int:
        """Service time no phase claims."""
        return self.service_ns - sum(self.phases_ns.values())

    def to_document(self) -> JsonObject:
        """The report as integers, strings, lists and objects; ``parse_report`` is the inverse."""
        return {
            "schema": REPORT_SCHEMA,
            "outcome": self.outcome,
            "problem": None if self.problem is None else _fields_of(self.problem),
            "manifest_sha256": self.manifest_sha256,
            "objects": self.objects,
            "bytes": self.bytes,
            "intervals_ns": [_fields_of(interval) for interval in self.intervals_ns],
            "phases_ns": {str(phase): total for phase, total in self.phases_ns.items()},
            "bytes_per_second": {str(phase): rate for phase, rate in self.bytes_per_second.items()},
            "unattributed_ns": self.unattributed_ns,
            "service_ns": self.service_ns,
            "reader_work": [_fields_of(work) for work in self.reader_work],
            "reader_work_ns": self.reader_work_ns,
            "readers": self.readers,
            "stream_digest": self.stream_digest,
            "submissions": self.submissions,
            "statistics": None if self.statistics is None else _fields_of(self.statistics),
            "layers": [_fields_of(layer) for layer in self.layers],
            "conditions": self.conditions.to_wire(),
        }


def parse_report(document: JsonValue) -> RankReport:
    """Take a report from another process.

    Raises:
        FormatError: keys, types or ranges are wrong; intervals overlap or leave the service; phases or the
            unattributed rest are not what the intervals give; the outcome and the problem contradict.
    """
    wire = expect_object(document, subject=_SUBJECT, keys=_REPORT_KEYS)
    if wire["schema"] != REPORT_SCHEMA:
        raise FormatError(f"{_SUBJECT}.schema", expected=REPORT_SCHEMA, found=shown(wire["schema"]))
    report = RankReport(
        outcome=_choose(wire["outcome"], key="outcome", choices=RankOutcome),
        problem=None if wire["problem"] is None else _parse_problem(wire["problem"]),
        manifest_sha256=_parse_optional_digest(wire["manifest_sha256"], key="manifest_sha256"),
        objects=_take_int(wire, key="objects"),
        bytes=_take_int(wire, key="bytes"),
        intervals_ns=tuple(_parse_interval(item) for item in _take_list(wire, key="intervals_ns")),
        service_ns=_take_int(wire, key="service_ns"),
        reader_work=tuple(_parse_work(item) for item in _take_list(wire, key="reader_work")),
        readers=_take_int(wire, key="readers"),
        stream_digest=_choose(wire["stream_digest"], key="stream_digest", choices=StreamDigestState),
        submissions=_take_int(wire, key="submissions"),
        statistics=None if wire["statistics"] is None else _parse_statistics(wire["statistics"]),
        layers=tuple(_parse_layer(item) for item in _take_list(wire, key="layers")),
        conditions=parse_conditions(wire["conditions"]),
    )
    _check_outcome(report)
    _check_times(report, wire=wire)
    return report


def combine(outcomes: Iterable[RankOutcome | None]) -> RestoreOutcome:
    """Judge a restore by its ranks: one rank that is not restored and nothing is (restore-contract §1, §3).

    Corrupt weighs most: it is about the stored bytes. A rank that is absent, incompatible or lost leaves the
    restore incomplete; what is left is a failure of the machine, or a rank called off for another's sake.

    Args:
        outcomes: one for each rank of the restore; ``None`` for a rank that was lost.
    """
    found = set(outcomes)
    if RankOutcome.CORRUPT in found:
        return RestoreOutcome.CORRUPT
    if not found or found & {RankOutcome.ABSENT, RankOutcome.INCOMPATIBLE, None}:
        return RestoreOutcome.INCOMPLETE
    return RestoreOutcome.RESTORED if found == {RankOutcome.RESTORED} else RestoreOutcome.FAILED


def _fields_of(value: Problem | Interval | ReaderWork | PlacementStats | LayerDigest) -> JsonObject:
    return {item.name: getattr(value, item.name) for item in fields(value)}


def _check_outcome(report: RankReport) -> None:
    restored = report.outcome is RankOutcome.RESTORED
    whole = report.statistics is not None and report.stream_digest is not StreamDigestState.NOT_REACHED
    if restored != (report.problem is None) or (restored and not whole):
        raise FormatError(
            _SUBJECT,
            expected="restored with statistics and stream digest, or another outcome with its problem",
            found=f"{report.outcome}, problem {report.problem is not None}, complete {whole}",
        )


def _check_times(report: RankReport, *, wire: JsonObject) -> None:
    intervals = report.intervals_ns
    ordered = all(before.end_ns <= after.start_ns for before, after in pairwise(intervals))
    if not ordered or (intervals and intervals[-1].end_ns > report.service_ns):
        raise FormatError(
            f"{_SUBJECT}.intervals_ns", expected="disjoint intervals within the service", found="others"
        )
    if any(work.end_ns > report.service_ns for work in report.reader_work):
        raise FormatError(f"{_SUBJECT}.reader_work", expected="reads within the service", found="others")
    derived = report.to_document()
    for key in ("phases_ns", "bytes_per_second", "unattributed_ns", "reader_work_ns"):
        if wire[key] != derived[key] or isinstance(wire[key], bool | float):
            raise FormatError(
                f"{_SUBJECT}.{key}",
                expected=f"{shown(derived[key])}, what the intervals give",
                found=shown(wire[key]),
            )


def _parse_problem(value: JsonValue) -> Problem:
    subject = f"{_SUBJECT}.problem"
    wire = expect_object(value, subject=subject, keys=_PROBLEM_KEYS)
    stage = wire["stage"]
    return Problem(
        code=_choose(wire["code"], key="problem.code", choices=ProblemCode),
        subject=expect_text(wire["subject"], subject=f"{subject}.subject"),
        stage=None if stage is None else _choose(stage, key="problem.stage", choices=Stage),
        expected=expect_text(wire["expected"], subject=f"{subject}.expected"),
        found=expect_text(wire["found"], subject=f"{subject}.found"),
        detail=expect_text(wire["detail"], subject=f"{subject}.detail"),
    )


def _parse_interval(value: JsonValue) -> Interval:
    subject = f"{_SUBJECT}.intervals_ns"
    wire = expect_object(value, subject=subject, keys=_INTERVAL_KEYS)
    start_ns = expect_int(wire["start_ns"], subject=f"{subject}.start_ns", minimum=0, maximum=_MAX_NUMBER)
    return Interval(
        phase=_choose(wire["phase"], key="intervals_ns.phase", choices=Phase),
        start_ns=start_ns,
        end_ns=expect_int(wire["end_ns"], subject=f"{subject}.end_ns", minimum=start_ns, maximum=_MAX_NUMBER),
    )


def _parse_work(value: JsonValue) -> ReaderWork:
    subject = f"{_SUBJECT}.reader_work"
    wire = expect_object(value, subject=subject, keys=_WORK_KEYS)
    start_ns = expect_int(wire["start_ns"], subject=f"{subject}.start_ns", minimum=0, maximum=_MAX_NUMBER)
    return ReaderWork(
        object=Digest.parse(wire["object"], subject=f"{subject}.object"),
        start_ns=start_ns,
        end_ns=expect_int(wire["end_ns"], subject=f"{subject}.end_ns", minimum=start_ns, maximum=_MAX_NUMBER),
        bytes=expect_int(wire["bytes"], subject=f"{subject}.bytes", minimum=0, maximum=_MAX_NUMBER),
    )


def _parse_statistics(value: JsonValue) -> PlacementStats:
    names = [item.name for item in fields(PlacementStats)]
    wire = expect_object(value, subject=f"{_SUBJECT}.statistics", keys=frozenset(names))
    return PlacementStats(**{name: _take_int(wire, key=name) for name in names})


def _parse_layer(value: JsonValue) -> LayerDigest:
    wire = expect_object(value, subject=f"{_SUBJECT}.layers", keys=_LAYER_KEYS)
    return LayerDigest(
        name=expect_text(wire["name"], subject=f"{_SUBJECT}.layers.name"),
        pages=_take_int(wire, key="pages"),
        bytes=_take_int(wire, key="bytes"),
        sha256=Digest.parse(wire["sha256"], subject=f"{_SUBJECT}.layers.sha256"),
    )


def _parse_optional_digest(value: JsonValue, *, key: str) -> Digest | None:
    return None if value is None else Digest.parse(value, subject=f"{_SUBJECT}.{key}")


def _take_int(wire: JsonObject, *, key: str) -> int:
    return expect_int(wire[key], subject=f"{_SUBJECT}.{key}", minimum=0, maximum=_MAX_NUMBER)


def _take_list(wire: JsonObject, *, key: str) -> list[JsonValue]:
    value = wire[key]
    if not isinstance(value, list):
        raise FormatError(f"{_SUBJECT}.{key}", expected="a list", found=shown(value))
    return value


def _choose(value: JsonValue, *, key: str, choices: type[Choice]) -> Choice:
    for choice in choices:
        if value == choice.value:
            return choice
    raise FormatError(f"{_SUBJECT}.{key}", expected=f"one of {', '.join(choices)}", found=shown(value))
