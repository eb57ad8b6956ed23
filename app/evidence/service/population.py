"""What a bundle would hold, counted before it is asked for: an auditor looks at the population first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy.orm import Session

from app.errors import Refused
from app.evidence.repository import population
from app.evidence.repository.population import Wanted
from app.evidence.service.request import ExportOrder, Range, range_of
from app.models import Image

# Of the images without evidence so many are named on the page; the bundle names all.
NAMED: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """What there is to be exported now.

    Attributes:
        covered: the leaves; None where no leaf is in the period.
        receipts: by kind of document. verdicts: made in the period, by outcome. standing: verdicts over
            scopes that stand now, by outcome. restores: by outcome.
        images: registered ones that are meant; without_evidence: the first of those no scope was judged of.
    """

    covered: Range | None
    receipts: dict[str, int]
    verdicts: dict[str, int]
    standing: dict[str, int]
    restores: dict[str, int]
    declarations: int
    exceptions: int
    images: int
    without_evidence: Sequence[Image]
    without_evidence_count: int


def count_population(session: Session, *, order: ExportOrder) -> Population:
    """Count what an order is about, as the database has it now.

    Raises:
        BadRequest: the period ends before it begins, or the log is not that long.
    """
    wanted = Wanted(
        period_from=order.period_from,
        period_until=order.period_until,
        image_config_ids=order.image_config_ids,
        topology=order.topology,
    )
    said = population.people_said(session, wanted=wanted)
    without, count = population.images_without_evidence(session, wanted=wanted, limit=NAMED)
    return Population(
        covered=_range(session, order),
        receipts=population.receipts(session, wanted=wanted),
        verdicts=population.verdicts_made(session, wanted=wanted),
        standing=population.standing(session, wanted=wanted),
        restores=population.restores(session, wanted=wanted),
        declarations=said["declarations"],
        exceptions=said["exceptions"],
        images=population.images(session, wanted=wanted),
        without_evidence=without,
        without_evidence_count=count,
    )


def _range(session: Session, order: ExportOrder) -> Range | None:
    try:
        return range_of(session, order)
    except Refused:
        return None
