"""What one rank says with *ready* about the question: its part of the answer, and how long that took it."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from app.core.canonical_json import JsonObject, JsonValue, expect_int, expect_object, expect_text
from app.core.errors import FormatError, shown
from app.core.oracle.partials import RankPartials, parse_partials
from app.errors import Refused
from app.restores.repository.words import Held

KEY: Final = "oracle"
_SUBJECT: Final = "rank report.oracle"
_KEYS: Final = frozenset({"start_ns", "duration_ns", "partials", "problem"})
_HOUR_NS: Final = 3600 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class OraclePart:
    """One rank's part of an answer; either partials or the problem that kept it from having any.

    Attributes:
        start_ns, duration_ns: of the asking, counted from the start of service and after its end.
    """

    start_ns: int
    duration_ns: int
    partials: RankPartials | None
    problem: str | None

    def partials_or_raise(self, *, rank: int) -> RankPartials:
        """The partials.

        Raises:
            FormatError: the rank has none, and says why.
        """
        if self.partials is None:
            raise FormatError(f"rank {rank}", expected="its part of the answer", found=self.problem or "none")
        return self.partials


def part_of(document: JsonObject) -> OraclePart | None:
    """The part in a rank's report document; nothing where the rank was not asked.

    Raises:
        FormatError: there is something else in its place.
    """
    return read_part(document[KEY]) if KEY in document else None


def read_part(value: JsonValue) -> OraclePart:
    """A part by itself.

    Raises:
        FormatError: it is something else.
    """
    part = expect_object(value, subject=_SUBJECT, keys=_KEYS)
    partials, problem = part["partials"], part["problem"]
    if (partials is None) == (problem is None):
        raise FormatError(_SUBJECT, expected="either partials or a problem", found=shown(part))
    return OraclePart(
        start_ns=expect_int(part["start_ns"], subject=f"{_SUBJECT}.start_ns", minimum=0, maximum=_HOUR_NS),
        duration_ns=expect_int(
            part["duration_ns"], subject=f"{_SUBJECT}.duration_ns", minimum=0, maximum=_HOUR_NS
        ),
        partials=None if partials is None else parse_partials(partials),
        problem=None if problem is None else expect_text(problem, subject=f"{_SUBJECT}.problem"),
    )


def check_part(part: OraclePart | None, *, held: Held) -> None:
    """Return if a part is this rank's, of the question its restore is asked.

    A missing part is not refused here: the restore then has no answer, and nothing is published.

    Raises:
        Refused: it is another rank's or another question's, or nothing was asked.
    """
    if part is None:
        return
    if held.question_sha256 is None:
        raise Refused(_told(held.id, expected="no part of an answer: nothing was asked", found="one"))
    if part.partials is None:
        return
    asked, said = held.question_sha256, str(part.partials.question_sha256)
    if asked != said:
        raise Refused(_told(held.id, expected=f"the question {asked}", found=said))
    if part.partials.rank != held.rank:
        raise Refused(_told(held.id, expected=f"rank {held.rank}", found=str(part.partials.rank)))


def _told(attempt_id: UUID, *, expected: str, found: str) -> str:
    return f"attempt {attempt_id}, {_SUBJECT}: expected {expected}, found {found}"
