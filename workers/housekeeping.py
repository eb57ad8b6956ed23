"""What the timetable runs: every tick the services' upkeep, a database that is away left to the next tick."""

import logging

from sqlalchemy.exc import OperationalError

from app.config import Settings
from app.core.qualify.values import Basis
from app.db.session import Database
from app.restores.dispatch import RankMessages
from app.restores.service import upkeep
from app.restores.service.receipt import write_receipts
from app.verdicts.service.rejudge import rejudge_part
from workers.bundle_builder import BundleBuilder

log = logging.getLogger(__name__)


def keep_house(
    database: Database, *, messages: RankMessages, settings: Settings, bundles: BundleBuilder
) -> None:
    """One tick of everything that happens by time."""
    try:
        upkeep.run(database, messages=messages, settings=settings)
        write_receipts(database, settings=settings)
        rejudge_part(database, grade=Basis(settings.deployable_grade))
        bundles.tend()
    except OperationalError as error:
        log.warning("database: away, left to the next tick: %s", error.orig)
