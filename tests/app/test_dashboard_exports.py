"""Pages of evidence exports: the population, progress, past exports, how to verify; who may do what."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from fastapi.testclient import TestClient

from app.accounts import service as accounts
from app.config import Settings
from app.core.digest import sha256
from app.core.dsse import fingerprint
from app.core.image import ConfigId, ImageDigests
from app.core.ledger.proof import parse_inclusion
from app.db.session import Database
from app.evidence.service import work
from app.images import service as images
from app.images.service import ImageStatement
from app.ledger.service.signing import read_signer
from app.models import EvidenceExport
from app.web.auth import PRESETS
from tests.app import dashboard_rows as rows
from tests.app.browser import form_token, text_of
from tests.app.dashboard_rows import HOSTILE, PASSWORD
from tests.app.evidence_exports import BYTES, end_by_hand, with_key
from tests.app.evidence_rows import BAD, GOOD, add_papers, own_papers
from tests.app.test_dashboard_evidence import digest_of, page
from tests.core import evidence_documents as made

AUDITOR = "aurora"


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return with_key(settings, tmp_path)


@pytest.fixture
def empty(client: TestClient, database: Database) -> TestClient:
    """An auditor's browser on an installation without evidence."""
    with database.transaction() as session:
        rows.add_people(session)
        accounts.create_account(session, name=AUDITOR, password=PASSWORD, scopes=PRESETS["auditor"])
    client.headers["Accept"] = "text/html"
    client.follow_redirects = False
    client.post("/login", data={"name": AUDITOR, "password": PASSWORD})
    return client


@pytest.fixture
def filled(empty: TestClient, database: Database) -> TestClient:
    with database.transaction() as session:
        add_papers(session, own_papers())
    return empty


def send(browser: TestClient, address: str = "/evidence/new", **fields: str) -> str:
    """Send the form as it stands on its page, and return where it leads."""
    html = page(browser, address)
    hidden = html.split('method="post" action="/evidence/new"')[1].split("</form>")[0]
    names = ("form_token", "once", "from", "to", "images", "tp", "dcp", "ledger_size")
    values = {name: hidden.split(f'name="{name}" value="')[1].split('"')[0] for name in names}
    answer = browser.post("/evidence/new", data=values | fields)
    assert answer.status_code == 303, text_of(answer.text)
    return str(answer.headers["location"])


def own_fingerprint(settings: Settings) -> str:
    assert settings.ledger_key_file is not None
    return str(fingerprint(read_signer(settings.ledger_key_file).verifier.public))


def test_without_exports_the_page_says_how_to_have_one(empty: TestClient, settings: Settings) -> None:
    said = text_of(page(empty, "/evidence"))
    assert "Nothing was exported yet." in said
    assert "sparkgate evidence export" in said
    assert f"--key {own_fingerprint(settings)}" in said


def test_the_population_is_seen_before_it_is_exported(filled: TestClient, database: Database) -> None:
    with database.transaction() as session:
        statement = ImageStatement(
            digests=ImageDigests(config_id=ConfigId("c" * 64)), title=HOSTILE, origin="registered"
        )
        images.register_image(session, statement=statement, by="dana")
    html = page(filled, "/evidence/new")
    said = text_of(html)
    assert HOSTILE not in html
    assert "of them without evidence 1" in said
    assert "Export everything" in said
    today = datetime.now(UTC).date()
    said = text_of(page(filled, f"/evidence/new?from={today - timedelta(days=1)}&to={today}"))
    assert "Export this" in said
    said = text_of(page(filled, "/evidence/new?from=2001-01-01&to=2001-02-01"))
    assert "no entry in this period" in said
    assert "Ledger entries 0" in said
    one = text_of(page(filled, f"/evidence/new?images={GOOD}"))
    assert "Scopes as they stand now" in one
    assert "rejected" not in one.split("Scopes as they stand now")[1].split("Restores")[0]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("from=yesterday", "From: expected a day as YYYY-MM-DD"),
        ("to=2026-13-01", "To: expected a day as YYYY-MM-DD"),
        ("tp=4", "Topology: expected both TP and DCP"),
        ("tp=four&dcp=1", "TP: expected a number"),
        ("images=abc", "Images: expected config ids of 64 digits, found abc"),
        ("from=2026-01-02&to=2026-01-01", "expected an end after"),
        ("images=%3Cscript%3E", "found &lt;script&gt;"),
    ],
)
def test_what_is_not_understood_is_said(filled: TestClient, query: str, sentence: str) -> None:
    answer = filled.get(f"/evidence/new?{query}")
    assert answer.status_code in {400, 422}
    assert sentence in answer.text.replace("&#39;", "'")
    assert 'action="/evidence/new"' in answer.text


def test_the_same_form_twice_is_one_export(filled: TestClient, database: Database) -> None:
    html = page(filled, "/evidence/new")
    once = html.split('name="once" value="')[1].split('"')[0]
    size = html.split('name="ledger_size" value="')[1].split('"')[0]
    places = {send(filled, once=once, ledger_size=size) for _ in range(2)}
    assert len(places) == 1
    with database.reading() as session:
        assert session.query(EvidenceExport).count() == 1


def test_what_was_seen_is_what_is_exported(filled: TestClient, database: Database) -> None:
    """Evidence that comes between looking and exporting is not in it."""
    html = page(filled, f"/evidence/new?images={GOOD},{BAD}&tp=2&dcp=1")
    size = int(html.split('name="ledger_size" value="')[1].split('"')[0])
    token = form_token(html)
    with database.transaction() as session:
        layer = made.single_restore()
        layer["limitations"] = {"later": "x"}
        add_papers(session, [own_papers()[0].__class__(raw=made.raw(layer), path="runs/later.json")])
    fields = {"images": f"{GOOD} {BAD}", "tp": "2", "dcp": "1", "ledger_size": str(size)}
    answer = filled.post("/evidence/new", data={"form_token": token, "once": "x", **fields})
    assert answer.status_code == 303
    with database.reading() as session:
        export = session.query(EvidenceExport).one()
        assert (export.ledger_size, export.image_config_ids) == (size, sorted([GOOD, BAD]))
        assert (export.tp, export.dcp, export.created_by) == ("2", "1", AUDITOR)


def test_progress_is_followed_and_stops_by_itself(
    filled: TestClient, database: Database, settings: Settings
) -> None:
    place = send(filled)
    html = page(filled, place)
    assert "Waiting . It waits" in text_of(html)
    assert f'hx-get="{place}/live"' in html
    fragment = {"HX-Request": "true"}
    first = filled.get(f"{place}/live", headers=fragment)
    etag = first.headers["etag"]
    assert filled.get(f"{place}/live", headers=fragment | {"If-None-Match": etag}).status_code == 304
    assert filled.get(f"{place}/live").status_code == 303
    with database.transaction() as session:
        taken = work.take_next(session, lease_s=30)
        assert taken is not None
        work.keep(session, taken=taken, progress={"entries": 1234, "receipts": 5}, lease_s=30)
    moved = filled.get(f"{place}/live", headers=fragment | {"If-None-Match": etag})
    assert moved.status_code == 200
    assert "Entries read 1,234 of" in text_of(moved.text)
    with database.transaction() as session:
        session.get_one(EvidenceExport, UUID(place.rsplit("/", 1)[1])).state = "waiting"
    end_by_hand(database, settings=settings)
    ended = filled.get(f"{place}/live", headers=fragment).text
    assert "Finished . It can be downloaded" in text_of(ended)
    assert "hx-get" not in ended


def test_a_finished_export_is_downloaded_and_says_how_to_verify(
    filled: TestClient, database: Database, settings: Settings
) -> None:
    place = send(filled)
    end_by_hand(database, settings=settings)
    html = page(filled, place)
    said = text_of(html)
    size = html.split("over ")[1].split(" entries")[0]
    name = f"sparkgate-evidence-0-{size}-{sha256(BYTES)[:12]}.tar"
    assert f"python3 -I -S verify.pyz {name} --key {own_fingerprint(settings)}" in said
    assert sha256(BYTES) in said
    assert "File kept until" in said
    answer = filled.get(f"{place}/bundle")
    assert (answer.status_code, answer.content) == (200, BYTES)
    listed = text_of(page(filled, "/evidence"))
    assert f"over {size}" in listed
    assert "everything" in listed


def test_calling_off_and_giving_up(filled: TestClient, database: Database, settings: Settings) -> None:
    place = send(filled)
    token = form_token(page(filled, place))
    assert filled.post(f"{place}/cancel", data={"form_token": token}).headers["location"] == place
    said = text_of(page(filled, place))
    assert "Called off . There is no bundle" in said
    assert f"called off by {AUDITOR}" in said
    again = filled.post(f"{place}/cancel", data={"form_token": token})
    assert (again.status_code, "expected one that is not over" in again.text) == (409, True)
    other = send(filled)
    end_by_hand(database, settings=settings)
    assert filled.post(f"{other}/discard", data={"form_token": token}).status_code == 303
    said = text_of(page(filled, other))
    assert "Its file is not kept any more." in said
    assert filled.get(f"{other}/bundle").status_code == 410


def test_a_viewer_sees_no_evidence_pages(filled: TestClient) -> None:
    filled.post("/login", data={"name": "vera", "password": PASSWORD})
    assert filled.get("/evidence").status_code == 403
    assert filled.get("/evidence/new").status_code == 403
    assert 'href="/evidence"' not in page(filled, "/receipts")
    digest = digest_of(made.single_restore())
    assert "Its proof" not in text_of(page(filled, f"/receipts/{digest}"))
    assert filled.get(f"/receipts/{digest}/proof").status_code == 403


def test_a_receipt_shows_its_proof(filled: TestClient, settings: Settings) -> None:
    digest = digest_of(made.single_restore())
    said = text_of(page(filled, f"/receipts/{digest}"))
    assert "No checkpoint that was handed out covers it yet" in said
    answer = filled.get(f"/receipts/{digest}/proof")
    assert answer.headers["content-disposition"] == f'attachment; filename="{digest}.tlog-proof"'
    index = parse_inclusion(answer.content).index
    html = page(filled, f"/receipts/{digest}")
    assert f'href="/ledger/{index}"' in html
    assert answer.text in html.replace("&#43;", "+").replace("&#39;", "'")
    assert settings.ledger_key_file is not None
    assert read_signer(settings.ledger_key_file).verifier.vkey in html


def test_an_auditor_sees_everything_and_is_offered_no_change(filled: TestClient) -> None:
    digest = digest_of(made.single_restore())
    pages = ("/", "/restores", "/snapshots", "/images", f"/images/{GOOD}", "/qualified", "/receipts")
    for address in (*pages, f"/receipts/{digest}", "/ledger", "/ledger/0", "/evidence", "/evidence/new"):
        html = page(filled, address)
        forms = {part.split('"')[0] for part in html.split('method="post" action="')[1:]}
        assert forms <= {"/logout", "/evidence/new"}, address
    assert "which aurora does not have" in text_of(page(filled, "/declarations/new"))
