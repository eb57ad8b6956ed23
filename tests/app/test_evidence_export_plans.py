"""What the timetable and the lists read of 20,000 exports, and a receipt's proof of 20,000 entries."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import Engine, text

from app.db.session import Database
from app.evidence.repository import exports
from app.ledger.service import extent
from app.web.paging import COUNTED, Cursor
from tests.app.test_list_plans import rows_read

ROWS = 20_000
START = datetime(2026, 1, 1, tzinfo=UTC)
_FILL = (
    """
    INSERT INTO evidence_export (id, created_at, created_by, image_config_ids, first_index, ledger_size,
                                 state, ended_at, bundle_sha256, bundle_bytes, manifest_sha256, expired_at)
    SELECT gen_random_uuid(), :start + n * interval '1 minute', 'bench', ARRAY[]::text[], 0, n,
           CASE WHEN n < :rows - 100 THEN 'expired' ELSE 'finished' END, :start + n * interval '1 minute',
           repeat('a', 64), 1, repeat('b', 64),
           CASE WHEN n < :rows - 100 THEN :start + n * interval '2 minutes' END
      FROM generate_series(1, :rows) AS n
    """,
    """
    INSERT INTO ledger_leaf (index, kind, document, leaf_hash, created_at)
    SELECT n, 'receipt-appended', convert_to(n::text || repeat('x', 400), 'UTF8'), repeat('c', 64),
           :start + n * interval '1 minute'
      FROM generate_series(0, :rows - 1) AS n
    """,
)


@pytest.fixture
def filled(database: Database, owner_engine: Engine) -> Engine:
    with owner_engine.begin() as connection:
        for statement in _FILL:
            connection.execute(text(statement), {"rows": ROWS, "start": START})
    with owner_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE evidence_export, ledger_leaf"))
    return owner_engine


def test_the_timetable_looks_at_open_and_kept_exports_only(filled: Engine) -> None:
    late = START + timedelta(days=1000)
    assert rows_read(filled, partial(exports.lock_next_due, now=late)) == 0
    assert rows_read(filled, partial(exports.finished_before, until=late, limit=20)) <= 100


def test_a_page_of_exports_reads_a_page_at_any_depth(filled: Engine) -> None:
    after = Cursor(created_at=START + timedelta(minutes=500), id="7e1c0000-0000-4000-8000-000000000000")
    for place in (None, after):
        assert rows_read(filled, partial(exports.list_exports, after=place, limit=51)) <= 51
    assert rows_read(filled, exports.count_exports) <= COUNTED + 1


def test_an_instant_is_found_by_few_entries(filled: Engine) -> None:
    at = START + timedelta(minutes=12_345)
    # The whole log, and then a half each time.
    assert rows_read(filled, partial(extent.first_from, at=at, size=ROWS)) <= 1 + ROWS.bit_length()
