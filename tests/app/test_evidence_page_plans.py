"""What the pages of evidence read of 50,000 receipts, at any depth: rows, not time (as `test_list_plans`)."""

from functools import partial

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from app.core.digest import sha256
from app.dashboard import queries_evidence as queries
from app.dashboard.queries_evidence import MOST_OF_AN_IMAGE, ScopeFilters
from app.dashboard.verdict_words import TABS
from app.verdicts import repository as verdicts
from app.verdicts.repository import VerdictFilter
from app.verdicts.repository.listing import WALKED
from app.web.paging import COUNTED
from tests.app.test_evidence_plans import IMAGE, PAGE, UNTIL, deep, filled
from tests.app.test_list_plans import rows_read

__all__ = ["filled"]

FILTERS = [
    *(ScopeFilters(outcomes=tuple(map(str, outcomes))) for outcomes in TABS.values()),
    ScopeFilters(outcomes=("qualified",), tp="4", dcp="4"),
    ScopeFilters(),
    ScopeFilters(outcomes=("unsupported", "incomplete", "implemented"), terms=("code:CODE_5",)),
    ScopeFilters(outcomes=("qualified",), words=("nobody",)),
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_a_page_of_images(filled: Engine, filters: ScopeFilters) -> None:
    for after in (None, deep(filled, table="verdict_current", key="verdict_id", where="kind = 'scope'")):
        ask = partial(queries.scopes, filters=filters, after=after, limit=PAGE)
        assert rows_read(filled, ask) <= (WALKED if filters.terms or filters.words else 8 * PAGE)
    count = rows_read(filled, partial(queries.count_scopes, filters=filters))
    assert count <= 4 * (COUNTED + 1)


def test_what_a_page_of_a_day_asks(filled: Engine) -> None:
    with Session(filled) as session:
        wanted = VerdictFilter(outcome="qualified")
        ids = verdicts.ids_as_of(session, wanted=wanted, until=UNTIL, after=None, limit=PAGE)
        rows = queries.scope_rows(session, verdict_ids=ids[::-1])
    assert [row.id for row in rows] == ids[::-1]
    assert all(row.outcome == "qualified" and (row.title is None) != (row.said == "") for row in rows)
    ask = partial(queries.scope_rows, verdict_ids=ids)
    assert rows_read(filled, ask) <= queries.MOST_NAMING * PAGE


def test_what_one_image_and_one_receipt_ask(filled: Engine) -> None:
    assert rows_read(filled, partial(queries.parts_of_image, config_id=IMAGE)) <= 4 * MOST_OF_AN_IMAGE
    assert rows_read(filled, partial(queries.history_of_image, config_id=IMAGE)) <= 4 * MOST_OF_AN_IMAGE
    assert rows_read(filled, partial(queries.is_known, config_id="0" * 64)) <= 1
    names = partial(queries.names_from_receipts, config_ids=[IMAGE, str(sha256(b"i9")), None])
    assert rows_read(filled, names) <= 4 * queries.MOST_NAMING
    assert rows_read(filled, partial(queries.outcomes_of_images, config_ids=[IMAGE])) <= MOST_OF_AN_IMAGE
    with filled.connect() as connection:
        receipt = connection.execute(
            text("SELECT receipt_sha256 FROM verdict_current WHERE composes LIMIT 1")
        ).scalar_one()
        keys = list(connection.execute(text("SELECT subject_key FROM verdict_current LIMIT 3")).scalars())
    assert rows_read(filled, partial(queries.current_under, keys=keys)) <= len(keys)
    assert rows_read(filled, partial(queries.declarations_of_receipt, sha256=receipt)) <= PAGE


def test_images_of_which_nothing_is_known(filled: Engine) -> None:
    for after in (None, deep(filled, table="image", key="id")):
        ask = partial(queries.images_without_evidence, after=after, limit=PAGE)
        assert rows_read(filled, ask) <= 4 * PAGE
    assert rows_read(filled, queries.count_images_without_evidence) <= COUNTED + 1


def test_the_counts_of_the_overview(filled: Engine) -> None:
    assert rows_read(filled, queries.outcome_counts) <= COUNTED + 1
