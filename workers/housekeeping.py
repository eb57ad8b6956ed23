"""What the timetable runs: every tick the services' upkeep, a database that is away left to the next tick."""

import logging

from sqlalchemy.exc import OperationalError

from app.config import Settings
from app.db.session import Database
from app.restores.dispatch import RankMessages
from app.restores.service import upkeep

log = logging.getLogger(__name__)


def keep_house(database: Database, *, messages: RankMessages, settings: Settings) -> None:
    """One tick of everything that happens by time."""
    try:
        upkeep.run(database, messages=messages, settings=settings)
    except OperationalError as error:
        log.warning("database: away, left to the next tick: %s", error.orig)
