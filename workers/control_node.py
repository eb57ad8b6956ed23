"""Celery entry beside PostgreSQL: consumes the control queue and runs the timetable.

celery -A workers.control_node worker --beat --pool solo --queues control
"""

from functools import cache

from app.config import settings
from app.db.session import Database, open_database
from app.ledger.service.signing import load_signer
from app.queue import HOUSEKEEPING, create_queue
from app.restores.dispatch import CeleryRankMessages
from workers.bundle_builder import BundleBuilder
from workers.housekeeping import keep_house

celery = create_queue(settings())


@cache
def database() -> Database:
    return open_database(settings())


@cache
def messages() -> CeleryRankMessages:
    return CeleryRankMessages(celery)


@cache
def bundles() -> BundleBuilder:
    return BundleBuilder(database(), settings=settings(), signer=load_signer(settings()))


@celery.task(name=HOUSEKEEPING)
def housekeeping() -> None:
    keep_house(database(), messages=messages(), settings=settings(), bundles=bundles())
