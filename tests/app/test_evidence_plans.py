"""Every question of receipts and verdicts over 50,000 of them: what is read for it.

Rows read, not time (as `test_list_plans`): a plan that reads a bounded number of rows is quick at any length.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from hashlib import md5
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, func, select, text
from sqlalchemy.orm import Session

from app.core.digest import sha256
from app.db.migrate import upgrade
from app.db.together import ask_together
from app.embedded import DatabaseUrls, create_database, drop_database
from app.models import ReceiptRow, VerdictCurrent
from app.receipts import repository as receipts
from app.receipts.repository import ReceiptFilter
from app.receipts.service import related
from app.verdicts import repository as verdicts
from app.verdicts.repository import VerdictFilter, composing
from app.verdicts.repository.listing import COUNT_WALKED, WALKED
from app.web.paging import COUNTED, Cursor
from tests.app.test_list_plans import rows_read
from tests.bench.evidence_rows import PER_IMAGE, fill
from tests.conftest import database_urls

ROWS = 50_000
PAGE = 51
IMAGE = str(sha256(b"i77"))
UNTIL = datetime(2026, 1, 1, 10, tzinfo=UTC)


@pytest.fixture(scope="module")
def filled(postgres_server: DatabaseUrls, worker_id: str) -> Iterator[Engine]:
    name = f"evidence_{worker_id}"
    create_database(postgres_server.admin, name=name)
    urls = database_urls(postgres_server, name=name)
    upgrade(urls.owner)
    engine = create_engine(urls.owner)
    fill(engine, rows=ROWS, images=ROWS)
    yield engine
    engine.dispose()
    drop_database(postgres_server.admin, name=name)


def deep(engine: Engine, *, table: str, key: str, where: str = "true") -> Cursor:
    """The row nine tenths down a list."""
    with engine.connect() as connection:
        count = connection.execute(text(f"SELECT count(*) FROM {table} WHERE {where}")).scalar_one()
        created_at, row_id = connection.execute(
            text(
                f"SELECT created_at, {key} FROM {table} WHERE {where} "
                f"ORDER BY created_at DESC, {key} DESC OFFSET {int(count * 0.9)} LIMIT 1"
            )
        ).one()
    return Cursor(created_at=created_at, id=row_id)


RECEIPTS: list[dict[str, Any]] = [
    {},
    {"image_config_id": IMAGE},
    {"kind": "publication-receipt"},
    {"kind": "restore-receipt"},
    {"schema_name": "schema-7/v1"},
    {"capability": "restore"},
    {"capability": "serving"},
    {"kind": "publication-receipt", "capability": "serving"},
    {"schema_name": "schema-5/v1", "kind": "publication-receipt"},
    {"schema_name": "schema-7/v1", "kind": "restore-receipt", "capability": "restore"},
    {"schema_name": "schema-7/v1", "kind": "publication-receipt"},
    {"schema_name": "schema-7/v1", "capability": "restore"},
    {"schema_name": "schema-7/v1", "capability": "serving"},
]
VERDICTS: list[dict[str, Any]] = [
    {},
    {"outcome": "qualified"},
    {"outcome": "unsupported"},
    {"deployable": True},
    {"deployable": False},
    {"tp": "4", "dcp": "4", "outcome": "qualified"},
    {"tp": "4", "dcp": "4"},
    {"image_config_id": IMAGE},
    {"kind": "receipt"},
    {"kind": "receipt", "outcome": "rejected"},
]
# What stands in the lists of words: rare enough to be found by it, or frequent enough to meet it soon.
TERMS: list[dict[str, Any]] = [
    {"terms": ("code:CODE_0",)},
    {"terms": ("model:model-20 rev",)},
    {"terms": ("gate:semantic=failed",)},
    {"terms": ("commit:nobody",)},
    {"terms": ("commit:" + md5(b"7").hexdigest() + "01234567",)},
    {"capability": "serving"},
    {"capability": "restore"},
    {"search": ("qualified",)},
    {"search": (IMAGE[:12],)},
    {"search": ("nobody",)},
]


@pytest.mark.parametrize("chosen", RECEIPTS, ids=str)
def test_receipts(filled: Engine, chosen: dict[str, Any]) -> None:
    wanted = ReceiptFilter(**chosen)
    for after in (None, deep(filled, table="receipt", key="sha256")):
        ask = partial(receipts.list_receipts, wanted=wanted, after=after, limit=PAGE)
        assert rows_read(filled, ask) <= 4 * PAGE
    count = rows_read(filled, lambda session: receipts.count_receipts(session, wanted=wanted))
    assert count <= COUNTED + 1


@pytest.mark.parametrize("chosen", [one for one in RECEIPTS if "schema_name" in one], ids=str)
def test_receipts_of_a_schema_are_those_that_are_there(filled: Engine, chosen: dict[str, Any]) -> None:
    """Looked up kind by kind, they come in the order of the list, page after page."""
    wanted = ReceiptFilter(**chosen)
    with Session(filled) as session:
        fitting = session.execute(
            select(ReceiptRow.sha256, ReceiptRow.created_at)
            .filter_by(**chosen)
            .order_by(ReceiptRow.created_at.desc(), ReceiptRow.sha256.desc())
        ).all()
        after = None
        for start in range(0, 3 * PAGE, PAGE):
            found = receipts.list_receipts(session, wanted=wanted, after=after, limit=PAGE)
            assert [one.sha256 for one in found] == [one.sha256 for one in fitting[start : start + PAGE]]
            if found:
                after = Cursor(created_at=found[-1].created_at, id=found[-1].sha256)
        total = receipts.count_receipts(session, wanted=wanted)
    assert (total.count, total.is_exact) == (min(len(fitting), COUNTED), len(fitting) <= COUNTED)


@pytest.mark.parametrize("chosen", VERDICTS, ids=str)
def test_verdicts(filled: Engine, chosen: dict[str, Any]) -> None:
    wanted = VerdictFilter(**chosen)
    for after in (None, deep(filled, table="verdict_current", key="verdict_id", where="kind = 'scope'")):
        ask = partial(verdicts.list_current, wanted=wanted, after=after, limit=PAGE)
        assert rows_read(filled, ask) <= 8 * PAGE
    count = rows_read(filled, lambda session: verdicts.count_current(session, wanted=wanted))
    assert count <= 4 * (COUNTED + 1)


@pytest.mark.parametrize("kind", ["scope", "receipt"])
@pytest.mark.parametrize("chosen", TERMS, ids=str)
def test_words(filled: Engine, chosen: dict[str, Any], kind: str) -> None:
    """A frequent word is met by walking a bounded way, a rare one is found by its index."""
    wanted = VerdictFilter(kind=kind, **chosen)
    for after in (None, deep(filled, table="verdict_current", key="verdict_id", where=f"kind = '{kind}'")):
        ask = partial(verdicts.list_current, wanted=wanted, after=after, limit=PAGE)
        assert rows_read(filled, ask) <= WALKED + PAGE
    count = rows_read(filled, lambda session: verdicts.count_current(session, wanted=wanted))
    assert count <= COUNT_WALKED


@pytest.mark.parametrize("chosen", [one for one in TERMS if "capability" not in one], ids=str)
def test_words_are_found_wherever_they_stand(filled: Engine, chosen: dict[str, Any]) -> None:
    """What is found by walking, by the index, or by both, page after page, is what is there."""
    wanted = VerdictFilter(kind="receipt", **chosen)
    with Session(filled) as session:
        query = select(VerdictCurrent.verdict_id, VerdictCurrent.created_at)
        query = query.where(
            VerdictCurrent.kind == "receipt",
            *(VerdictCurrent.terms.contains([term]) for term in wanted.terms),
            *(
                VerdictCurrent.words.op("@@")(func.to_tsquery("simple", f"{word}:*"))
                for word in wanted.search
            ),
        )
        order = (VerdictCurrent.created_at.desc(), VerdictCurrent.verdict_id.desc())
        expected = session.execute(query.order_by(*order)).all()
        for start in {0, len(expected) // 2, max(len(expected) - PAGE, 0)}:
            before = expected[start - 1] if start else None
            after = before and Cursor(created_at=before.created_at, id=before.verdict_id)
            found = verdicts.newest_ids(session, wanted=wanted, after=after, limit=PAGE)
            assert found == [one.verdict_id for one in expected[start : start + PAGE]]
        total = verdicts.count_current(session, wanted=wanted)
        assert (total.count, total.is_exact) == (min(len(expected), COUNTED), len(expected) <= COUNTED)


@pytest.mark.parametrize("limited", [{}, {"tp": "4"}, {"terms": ("gate:semantic=failed",)}], ids=str)
@pytest.mark.parametrize(
    ("outcome", "outcomes"),
    [(None, ("unsupported", "incomplete", "implemented")), ("incomplete", ("incomplete", "rejected"))],
)
def test_several_outcomes_are_one_list(
    filled: Engine, outcome: str | None, outcomes: tuple[str, ...], limited: dict[str, Any]
) -> None:
    wanted = VerdictFilter(outcome=outcome, outcomes=outcomes, **limited)
    row = VerdictCurrent
    with Session(filled) as session:
        query = select(row).where(row.kind == "scope").order_by(row.created_at.desc(), row.verdict_id.desc())
        every = [
            one
            for one in session.scalars(query)
            if one.outcome in outcomes
            and outcome in (None, one.outcome)
            and wanted.tp in (None, one.tp)
            and set(wanted.terms) <= set(one.terms)
        ]
        assert len(every) > PAGE
        for start in (0, len(every) // 2):
            before = every[start - 1] if start else None
            after = None if before is None else Cursor(created_at=before.created_at, id=before.verdict_id)
            found = verdicts.newest_ids(session, wanted=wanted, after=after, limit=PAGE)
            assert found == [one.verdict_id for one in every[start : start + PAGE]]
        total = verdicts.count_current(session, wanted=wanted)
        assert (total.count, total.is_exact) == (min(len(every), COUNTED), len(every) <= COUNTED)


@pytest.mark.parametrize("chosen", VERDICTS[:8], ids=str)
def test_a_day(filled: Engine, chosen: dict[str, Any]) -> None:
    wanted = VerdictFilter(**chosen)
    read = rows_read(
        filled,
        lambda session: verdicts.list_as_of(session, wanted=wanted, until=UNTIL, after=None, limit=PAGE),
    )
    assert read <= 16 * PAGE


@pytest.mark.parametrize("code", ["A", "A:x", "A:y:z", "B", "x", "x A", "A:"])
def test_a_code_is_found_on_a_day_with_and_without_its_detail(filled: Engine, code: str) -> None:
    """A part of a code is none, and a detail may hold whatever it likes."""
    given = [["A"], ["A:x", "B"], ["B", "A:y:z"], ["AA:x"], ["x A:z"], ["BA", "x:A:x"], ["A:"], []]
    with Session(filled) as session:
        session.execute(text("ALTER TABLE verdict DISABLE TRIGGER USER"))
        newest = VerdictFilter(outcome="qualified")
        ids = verdicts.ids_as_of(session, wanted=newest, until=UNTIL, after=None, limit=len(given))
        for verdict_id, codes in zip(ids, given, strict=True):
            changed = text("UPDATE verdict SET finding_codes = CAST(:codes AS text[]) WHERE id = :id")
            session.execute(changed, {"codes": codes, "id": verdict_id})
        wanted = VerdictFilter(terms=(f"code:{code}",))
        found = verdicts.ids_as_of(session, wanted=wanted, until=UNTIL, after=None, limit=PAGE)
        session.rollback()
    fit = [any(code in (one, one.partition(":")[0]) for one in codes) for codes in given]
    assert found == [one for one, fits in zip(ids, fit, strict=True) if fits]


def test_what_judging_asks(filled: Engine) -> None:
    image = f"image:sha256:{IMAGE}"
    own = str(sha256(b"r1540"))

    def asked(session: Session) -> None:
        assert len(receipts.under_keys(session, keys=[image])[image]) == PER_IMAGE
        every = related.every_by_key(session, keys=[image, "place:r\np7"])
        assert [len(every[image]), len(every["place:r\np7"])] == [PER_IMAGE, 1]
        assert receipts.under_keys(session, keys=["failure:nobody", "withdrawn-release:r1"]) == {}
        assert len(related.around(session, keys=[image], images=[IMAGE]).under[image]) == PER_IMAGE
        receipts.places_of(session, digests=[own])
        ask_together(session, composing.currents_question([own]))
        verdicts.verdicts_of_receipt(session, sha256=own)
        verdicts.scopes_of_image(session, image_config_id=IMAGE, limit=500)
        verdicts.declarations_about(session, sha256=own)
        scope = (str(sha256(b"s77")), "restore")
        now = composing.now_question(scopes=[scope], keys=[str(sha256(b"kscope1540"))])
        _, cases = composing.now(ask_together(session, now)[0])
        assert len(cases) == PER_IMAGE
        composing.superseded_cases(session, scopes=[scope])
        verdicts.deployable_scopes(session, image_config_id=IMAGE, tp="4", dcp="1")
        verdicts.outdated_receipts(session, ruleset="a" * 64, grade="self-consistent", limit=50)
        verdicts.outdated_scopes(session, ruleset="a" * 64, grade="self-consistent", limit=50)

    assert rows_read(filled, asked) <= 8 * PER_IMAGE
