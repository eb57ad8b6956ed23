"""The report document of a rank: read, and held against the runtime its worker registered."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.core.canonical_json import decode_strict, encode_canonical, expect_int, expect_object
from app.core.digest import sha256
from app.core.restore.report import RankReport, parse_report
from app.core.runtime import first_difference
from app.errors import Conflict
from app.restores.repository.words import Held
from app.restores.service import oracle_parts
from app.restores.service.oracle_parts import OraclePart

_REPORT_KEYS: Final = frozenset(
    {"report", "runtime", "service_start_ns", "claim_round_trip_ns", "pool_commit_ns"}
)
_HOUR_NS: Final = 3600 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What a rank worker sends at the end: the report, the columns of the row that keeps it, the runtime it
    names, and its part of the answer where it was asked a question."""

    report: RankReport
    sha256: str
    values: Mapping[str, object]
    runtime: dict[str, Any]
    part: OraclePart | None


def read_report(raw: bytes) -> Reported:
    """The report of one rank with everything that stands beside it.

    Raises:
        FormatError: the document is not one.
    """
    value = decode_strict(raw, subject="rank report")
    document = expect_object(value, subject="rank report")
    asked = document.keys() & {oracle_parts.KEY}  # only of a rank that was asked
    document = expect_object(value, subject="rank report", keys=_REPORT_KEYS | asked)
    report, part = parse_report(document["report"]), oracle_parts.part_of(document)
    digest = str(sha256(raw))
    values = {
        "document": raw,
        "sha256": digest,
        "service_start_ns": _nanoseconds(document, key="service_start_ns"),
        "claim_round_trip_ns": _nanoseconds(document, key="claim_round_trip_ns"),
        "pool_commit_ns": _nanoseconds(document, key="pool_commit_ns"),
        "part": None if part is None else encode_canonical(document[oracle_parts.KEY]),
    }
    return Reported(
        report=report,
        sha256=digest,
        values=values,
        runtime=expect_object(document["runtime"], subject="rank report.runtime"),
        part=part,
    )


def check_runtime(held: Held, *, found: dict[str, Any]) -> None:
    """Return if a report's runtime is the one under which its worker opened the device's generation.

    Raises:
        Conflict: it differs; the first fact that does is named.
    """
    difference = first_difference(held.runtime or {}, found=found)
    if difference is not None:
        raise Conflict(
            f"attempt {held.id}, generation {held.device_generation}: {difference}",
            code="runtime-differs",
        )


def problem_of(report: RankReport) -> dict[str, Any] | None:
    """What kept a rank from restoring, as its attempt tells it."""
    if report.problem is None:
        return None
    problem = report.problem
    return {
        "code": problem.code,
        "subject": problem.subject,
        "stage": problem.stage,
        "expected": problem.expected,
        "found": problem.found,
        "detail": f"{problem.subject}: expected {problem.expected}, found {problem.found}",
    }


def _nanoseconds(document: dict[str, Any], *, key: str) -> int:
    return expect_int(document[key], subject=f"rank report.{key}", minimum=0, maximum=_HOUR_NS)
