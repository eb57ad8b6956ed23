"""Exports over HTTP: asked for, followed, fetched, called off, given up; every refusal with its reason."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.config import Settings
from app.core.digest import sha256
from app.core.ledger.leaf import parse_leaf
from app.db.session import Database
from app.evidence.service import reading
from app.main import create_app
from app.models import LedgerCheckpoint, LedgerLeaf
from tests.app.conftest import RecordedMessages
from tests.app.evidence_exports import BYTES, ROOT, ask, end_by_hand, with_key
from tests.app.evidence_rows import GOOD, add_papers, own_papers


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return with_key(settings, tmp_path)


@pytest.fixture
def auditor(client: TestClient, keys: dict[str, str], database: Database) -> TestClient:
    """Some evidence, and a client with an auditor's key."""
    with database.transaction() as session:
        add_papers(session, own_papers())
    client.headers["Authorization"] = f"Bearer {keys['auditor']}"
    return client


@pytest.fixture
def key(keys: dict[str, str]) -> str:
    return keys["auditor"]


def size_now(auditor: TestClient) -> int:
    return int(auditor.get("/api/v1/ledger").json()["size"])


def problem(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_everything_is_covered_up_to_the_head_and_the_request_comes_after(
    auditor: TestClient, key: str, database: Database
) -> None:
    size = size_now(auditor)
    answer = ask(auditor, key=key)
    export = answer.raise_for_status().json()
    assert (answer.status_code, answer.headers["location"]) == (202, f"{ROOT}/{export['id']}")
    assert (export["state"], export["done"], export["bundle"]) == ("waiting", False, None)
    assert (export["first_index"], export["ledger_size"]) == (0, size)
    with database.reading() as session:
        assert session.get(LedgerCheckpoint, size) is not None
        last = session.query(LedgerLeaf).order_by(LedgerLeaf.index.desc()).first()
        assert last is not None
        assert last.index >= size
        leaf = parse_leaf(last.document, subject="leaf")
    assert leaf.kind == "evidence-requested"
    assert export["id"] in leaf.rows["evidence_export.order"]
    assert leaf.by == "ada/auditor"


def test_what_was_asked_for_is_shown_and_listed(auditor: TestClient, key: str) -> None:
    topology = {"tp": "2", "dcp": "1"}
    export = ask(auditor, key=key, images=[GOOD], topology=topology, ledger_size=2).json()
    assert (export["images"], export["topology"], export["ledger_size"]) == ([GOOD], topology, 2)
    shown = auditor.get(f"{ROOT}/{export['id']}")
    assert shown.json() == export
    assert auditor.get(shown.url, headers={"If-None-Match": shown.headers["etag"]}).status_code == 304
    later = ask(auditor, key=key).json()
    listed = auditor.get(ROOT, params={"page_size": 1}).json()
    assert ([one["id"] for one in listed["exports"]], listed["total"]["count"]) == ([later["id"]], 2)
    rest = auditor.get(ROOT, params={"page_size": 1, "page_token": listed["next_page_token"]}).json()
    assert ([one["id"] for one in rest["exports"]], rest["next_page_token"]) == ([export["id"]], "")


def test_a_period_is_the_leaves_of_it(auditor: TestClient, key: str, database: Database) -> None:
    with database.reading() as session:
        query = session.query(LedgerLeaf.index, LedgerLeaf.created_at).order_by(LedgerLeaf.index)
        leaves = list(query)
    at = sorted({leaf.created_at for leaf in leaves})
    middle = next(leaf for leaf in leaves if leaf.created_at == at[1])
    export = ask(auditor, key=key, period_from=at[1].isoformat()).json()
    assert (export["first_index"], export["ledger_size"]) == (middle.index, len(leaves))
    export = ask(auditor, key=key, period_to=at[1].isoformat()).json()
    assert (export["first_index"], export["ledger_size"]) == (0, middle.index)
    elsewhere = at[1].astimezone().isoformat()
    assert ask(auditor, key=key, period_to=elsewhere).json()["ledger_size"] == middle.index


def test_the_same_request_is_one_export(auditor: TestClient, key: str) -> None:
    first, again = (ask(auditor, key=key, once="a") for _ in range(2))
    assert first.json()["id"] == again.json()["id"]
    assert problem(ask(auditor, key=key, once="a", ledger_size=1)) == (422, "idempotency-key-reused")


LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"ledger_size": 10_000_000}, (400, "ledger-out-of-range")),
        ({"ledger_size": 0}, (422, "validation-failed")),
        ({"images": ["0" * 64]}, (422, "refused")),
        ({"images": ["sha256:" + "0" * 64]}, (422, "validation-failed")),
        ({"topology": {"tp": "0", "dcp": "1"}}, (422, "validation-failed")),
        ({"topology": {"tp": "1"}}, (422, "validation-failed")),
        ({"period_to": LONG_AGO.isoformat()}, (422, "evidence-empty")),
        ({"period_from": "2101-01-01T00:00:00Z"}, (422, "evidence-empty")),
        (
            {"period_from": "2026-01-02T00:00:00Z", "period_to": "2026-01-02T00:00:00Z"},
            (400, "bad-request"),
        ),
        ({"period_from": "2026-01-02T00:00:00"}, (422, "validation-failed")),
        ({"period_from": "yesterday"}, (422, "validation-failed")),
        ({"everything": True}, (422, "validation-failed")),
    ],
)
def test_what_cannot_be_exported_is_refused_with_the_reason(
    auditor: TestClient, key: str, body: dict[str, Any], expected: tuple[int, str]
) -> None:
    size = size_now(auditor)
    answer = ask(auditor, key=key, **body)
    assert problem(answer) == expected, answer.text
    assert size_now(auditor) == size


def test_without_a_key_nothing_is_promised(
    settings: Settings, database: Database, messages: RecordedMessages, auditor: TestClient, key: str
) -> None:
    without = settings.model_copy(update={"ledger_key_file": None})
    with TestClient(create_app(without, database=database, messages=messages)) as client:
        assert problem(ask(client, key=key)) == (503, "ledger-key-missing")


def test_a_bundle_is_given_out_with_its_length_and_digest(
    auditor: TestClient, key: str, database: Database, settings: Settings
) -> None:
    ask(auditor, key=key)
    path = f"{ROOT}/{end_by_hand(database, settings=settings)}"
    export = auditor.get(path).json()
    assert (export["state"], export["done"]) == ("finished", True)
    assert (export["bundle"]["sha256"], export["bundle"]["bytes"]) == (sha256(BYTES), len(BYTES))
    kept = datetime.fromisoformat(export["kept_until"]) - datetime.fromisoformat(export["ended_at"])
    assert kept == timedelta(days=settings.evidence_days)
    whole = auditor.get(f"{path}/bundle")
    assert (whole.status_code, whole.content) == (200, BYTES)
    assert whole.headers["content-length"] == str(len(BYTES))
    assert whole.headers["etag"] == f'"{sha256(BYTES)}"'
    assert whole.headers["content-type"] == "application/x-tar"
    name = f"sparkgate-evidence-0-{export['ledger_size']}-{sha256(BYTES)[:12]}.tar"
    assert whole.headers["content-disposition"] == f'attachment; filename="{name}"'
    same = auditor.get(f"{path}/bundle", headers={"If-None-Match": whole.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    part = auditor.get(f"{path}/bundle", headers={"Range": "bytes=5-9"})
    assert (part.status_code, part.content) == (206, BYTES[5:10])
    assert auditor.head(f"{path}/bundle").headers["content-length"] == str(len(BYTES))


@pytest.mark.parametrize("found", [None, b"", BYTES[:-1]])
def test_a_file_that_is_not_what_was_written_is_not_given_out(
    auditor: TestClient, key: str, database: Database, settings: Settings, found: bytes | None
) -> None:
    ask(auditor, key=key)
    export_id = end_by_hand(database, settings=settings)
    path = reading.bundle_path(settings, export_id=export_id)
    path.unlink() if found is None else path.write_bytes(found)
    assert problem(auditor.get(f"{ROOT}/{export_id}/bundle")) == (410, "evidence-gone")


def test_what_waits_can_be_called_off_once(auditor: TestClient, key: str, database: Database) -> None:
    path = f"{ROOT}/{ask(auditor, key=key).json()['id']}"
    assert problem(auditor.get(f"{path}/bundle")) == (409, "evidence-not-ready")
    assert problem(auditor.post(f"{path}/discard")) == (409, "conflict")
    ended = auditor.post(f"{path}/cancel").raise_for_status().json()
    assert (ended["state"], ended["problem"]["code"]) == ("failed", "cancelled")
    assert "ada/auditor" in ended["problem"]["detail"]
    assert auditor.get(path).json() == ended
    assert problem(auditor.post(f"{path}/cancel")) == (409, "conflict")
    assert problem(auditor.get(f"{path}/bundle")) == (409, "evidence-not-ready")


def test_a_file_can_be_given_up_and_the_record_stays(
    auditor: TestClient, key: str, database: Database, settings: Settings
) -> None:
    ask(auditor, key=key)
    path = f"{ROOT}/{end_by_hand(database, settings=settings)}"
    assert problem(auditor.post(f"{path}/cancel")) == (409, "conflict")
    ended = auditor.post(f"{path}/discard").raise_for_status().json()
    assert (ended["state"], ended["kept_until"]) == ("expired", None)
    assert ended["bundle"]["sha256"] == sha256(BYTES)
    assert problem(auditor.get(f"{path}/bundle")) == (410, "evidence-gone")
    assert problem(auditor.post(f"{path}/discard")) == (409, "conflict")


def test_one_that_is_not_there(auditor: TestClient) -> None:
    path = f"{ROOT}/7e1c0000-0000-4000-8000-000000000000"
    for answer in (auditor.get(path), auditor.get(f"{path}/bundle"), auditor.post(f"{path}/cancel")):
        assert problem(answer) == (404, "not-found")
