"""The question of a restore as a page shows it: expected, answered, what each rank gave to it, and why."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy.orm import Session

from app.core.oracle.judgement import OracleJudgement
from app.core.oracle.partials import SCALE, RankPartials
from app.core.oracle.question import OracleQuestion
from app.dashboard import queries_answers
from app.dashboard.queries_answers import AskedAlike
from app.dashboard.timing import Timing
from app.models import Restore, RestoreAnswer
from app.oracles import service as oracles
from app.restores.service.answers import Semantic, judged_again

# A restore of the demo has four ranks; what has more is counted in digits.
_COUNTS: Final = {1: "one rank", 2: "two ranks", 3: "three ranks", 4: "four ranks"}
FAULTS: Final[dict[str, str]] = {
    "swap-pages": "two pages lie in each other’s place",
    "slots-off-by-one": "every page lies one slot too far",
    "foreign-slots": "one rank reads the slots of another",
    "skipped-fence": "pages are overwritten after they were placed: the fence was skipped",
    "stale-batch": "pages of a batch that failed were left in place",
    "stale-generation": "pages of an earlier generation of the same context",
    "unknown": "wrong in a way that has no name here",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankVotes:
    """What one rank gave to the answer.

    Attributes:
        share: of what a rank with right pages gives to the expected word, in percent; ``missing`` the rest,
            as a logit.
        partials: none where the rank had no part, `problem` says why.
    """

    rank: int
    partials: RankPartials | None
    problem: str
    share: float
    missing: int
    asked_ns: int | None

    @property
    def pages(self) -> int:
        """Pages that were looked at in each layer of the question."""
        return self.partials.layers[0].pages if self.partials else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerView:
    """Question and answer of one restore.

    Attributes:
        sentence: the whole story in one line.
        alike: newest restores that were asked the same, this one among them.
    """

    question: OracleQuestion
    semantic: str | None
    row: RestoreAnswer | None
    sentence: str
    ranks: tuple[RankVotes, ...]
    judged: OracleJudgement | None
    alike: tuple[AskedAlike, ...]

    @property
    def voted(self) -> bool:
        """Whether some rank had its part."""
        return any(one.partials or one.problem for one in self.ranks)


def answer_view(session: Session, *, restore: Restore, timing: Timing) -> AnswerView | None:
    """What was asked and answered; nothing where nothing was asked."""
    if restore.question_sha256 is None:
        return None
    question = oracles.known_question(session, sha256=restore.question_sha256)
    row = queries_answers.answer(session, restore_id=restore.id)
    ranks = _ranks(timing, expected=question.expected)
    return AnswerView(
        question=question,
        semantic=restore.semantic,
        row=row,
        sentence=sentence_of(restore, expected=question.expected, row=row),
        ranks=ranks,
        judged=None if row is None else judged_again(session, restore=restore),
        alike=tuple(queries_answers.asked_alike(session, question_sha256=restore.question_sha256)),
    )


def sentence_of(restore: Restore, *, expected: str, row: RestoreAnswer | None) -> str:
    """Bytes and answer in one sentence: they are two judgements."""
    on = _COUNTS.get(restore.rank_count, f"{restore.rank_count} ranks")
    if restore.semantic is None:
        return f"Asked once every rank has placed its pages; {expected} is expected."
    if row is None:
        return "Not answered: not every rank placed its pages."
    if restore.semantic == Semantic.RIGHT:
        return f"Every hash right on {on} — answer {row.observed}, as expected."
    if restore.semantic == Semantic.WRONG:
        if row.observed == expected:
            return f"Every hash right on {on} — answer {expected}, from pages some of which are wrong."
        return f"Every hash right on {on} — answer {row.observed} for {expected}."
    return f"Every hash right on {on} — no answer."


def _ranks(timing: Timing, *, expected: str) -> tuple[RankVotes, ...]:
    found = []
    for rank in timing.ranks:
        part = rank.part
        partials = None if part is None else part.partials
        votes = 0 if partials is None else partials.restored.get(expected, 0)
        found.append(
            RankVotes(
                rank=rank.rank,
                partials=partials,
                problem="" if part is None else part.problem or "",
                share=_percent(votes, most=partials.most if partials else 0),
                missing=partials.most - votes if partials else 0,
                asked_ns=None if part is None else part.duration_ns,
            )
        )
    return tuple(found)


def _percent(votes: int, *, most: int) -> float:
    return round(100 * min(max(votes, 0), most) / most, 3) if most else 0.0


def votes(logit: int) -> str:
    """A logit in votes, of which a right page gives one for each head."""
    return f"{logit / SCALE:,.2f}"
