"""Pages of receipts: read beside their bytes, listed, declared; hostile texts; what a restore is for."""

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.core.digest import sha256
from app.core.qualify.own_receipt import restore_receipt
from app.db.session import Database
from app.models import DeclarationRow, ReceiptRow, Restore, VerdictRow
from tests.app import dashboard_rows as rows
from tests.app.browser import form_token, text_of
from tests.app.dashboard_rows import PASSWORD
from tests.app.evidence_rows import BAD, GOOD, Paper, add_papers, own_papers, wrong_answer
from tests.app.test_dashboard_evidence import digest_of, own_digest, page
from tests.core import evidence_documents as made
from tests.core.test_own_receipt import asked as restore_asked

NEW_PAGES = (
    "/images",
    "/images?tab=rejected",
    "/images/compare",
    "/qualified",
    "/receipts",
    "/declarations/new",
)


@pytest.fixture
def filled(empty: TestClient, database: Database) -> TestClient:
    with database.transaction() as session:
        add_papers(session, own_papers())
    return empty


def test_a_receipt_shows_what_was_read_beside_its_bytes(filled: TestClient) -> None:
    document = made.single_restore()
    digest = digest_of(document)
    html = page(filled, f"/receipts/{digest}")
    said = text_of(html)
    assert f"{len(made.raw(document)):,} bytes" in said
    assert "runs/single-restore.json" in said
    assert "by dana" in said
    assert "Qualified for restore, TP 2 · DCP 1" in re.sub(r" +", " ", said)
    assert 'id="/artifact/image_id"' in html
    assert 'href="#/artifact/image_id"' in html
    shown = text_of(html.split('<ol class="raw"')[1].split("</ol>")[0])
    assert "&#34;tensor_parallel_size&#34;: 2" in shown
    assert html.count('class="bar k-service"><title>') == 2
    assert html.count('class="bar k-unattributed"><title>remainder') == 2
    assert "Shown, never judged" in said
    anchors = set(re.findall(r'id="([^"]+)"', html))
    links = set(re.findall(r'href="#([^"]+)"', html))
    assert links <= {anchor.replace("%", "%25") for anchor in anchors} | {"main"}, "every place exists"


def test_a_restore_of_our_own_shows_its_phases_as_bars_of_each_rank(
    filled: TestClient, database: Database
) -> None:
    raw = restore_receipt(restore_asked())
    with database.transaction() as session:
        add_papers(session, [Paper(path="runs/asked.json", raw=raw)])
    html = page(filled, f"/receipts/{sha256(raw)}")
    said = re.sub(r"\s+", " ", text_of(html))
    assert html.count('class="bar k-prior_device_work"><title>prior device work') == 2
    assert html.count('class="bar k-unattributed"><title>remainder') == 2
    assert "the restore" in said
    assert "Remainder: service less its phases." in said


def test_bytes_are_given_as_they_came_and_never_as_a_page(filled: TestClient) -> None:
    raw = made.raw(made.single_restore())
    answer = filled.get(f"/receipts/{digest_of(made.single_restore())}/bytes")
    assert answer.content == raw
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert filled.get(f"/receipts/{'0' * 64}/bytes").status_code == 404
    assert filled.get(f"/receipts/{'0' * 64}").status_code == 404


def test_receipts_are_listed_and_filtered(filled: TestClient, database: Database) -> None:
    with database.reading() as session:
        count = session.query(ReceiptRow).count()
    said = page(filled, "/receipts")
    assert f"{count} in all" in text_of(said)
    assert f"/receipts/{digest_of(wrong_answer())}" in said
    only = page(filled, f"/receipts?image={BAD}")
    assert re.findall(r'data-label="Receipt"><a href="/receipts/(\w+)"', only) == [digest_of(wrong_answer())]
    assert "No receipt fits these filters" in text_of(page(filled, "/receipts?kind=withdrawal"))
    assert "kind: expected one of restore-receipt" in text_of(page(filled, "/receipts?kind=good"))


def test_declaring_writes_down_who_why_and_which(filled: TestClient, database: Database) -> None:
    digest = own_digest()
    html = page(filled, f"/declarations/new?receipt={digest}")
    assert f'value="{digest}" checked' in html
    fields = {
        "form_token": form_token(html),
        "capability": "restore",
        "meant": digest,
        "reason": " two\n runs ",
    }
    answer = filled.post("/declarations/new", data=fields)
    assert answer.status_code == 303
    with database.reading() as session:
        row = session.query(DeclarationRow).one()
        assert (row.created_by, row.reason, row.receipts) == ("dana", "two runs", [digest])
        causes = {one.cause for one in session.query(VerdictRow).filter_by(receipt_sha256=digest)}
        assert causes == {"receipt-imported", "declared"}
    said = text_of(page(filled, answer.headers["location"]))
    assert "Meant for restore" in said
    assert "two runs" in said
    assert "dana meant it for restore" in text_of(page(filled, f"/receipts/{digest}"))


REFUSED = (
    ({"reason": "  "}, "Reason: expected why"),
    ({"reason": "x" * 2001}, "Reason: expected at most 2000 characters, found 2001"),
    ({"capability": "beauty"}, "Meant for: expected one of restore"),
    ({"others": ""}, "Receipts: expected at least one, found none"),
    ({"others": "xyz"}, "Receipts: expected 64 hexadecimal digits each, found xyz"),
    ({"others": "0" * 64}, "receipts: expected stored ones, found none"),
    ({"form_token": "x"}, "form_token"),
)


def test_a_declaration_that_cannot_be_is_refused_and_keeps_its_fields(
    filled: TestClient, database: Database
) -> None:
    token = form_token(page(filled, "/declarations/new"))
    good = {"capability": "restore", "others": own_digest(), "reason": "meant so", "form_token": token}
    for wrong, sentence in REFUSED:
        answer = filled.post("/declarations/new", data={**good, **wrong})
        assert answer.status_code in (403, 404, 422), wrong
        assert sentence in text_of(answer.text), wrong
        assert "meant so" in answer.text or wrong.keys() & {"reason", "form_token"}, wrong
    with database.reading() as session:
        assert session.query(DeclarationRow).count() == 0


def test_a_viewer_reads_everything_and_declares_nothing(filled: TestClient) -> None:
    filled.post("/logout", data={"form_token": form_token(page(filled, "/"))})
    filled.post("/login", data={"name": "vera", "password": PASSWORD})
    for address in (*NEW_PAGES, f"/images/{GOOD}", f"/receipts/{digest_of(made.single_restore())}"):
        assert "/declarations/new" not in page(filled, address) or address == "/declarations/new"
    html = page(filled, "/declarations/new")
    assert "images:write" in text_of(html)
    token = form_token(html)
    fields = {
        "form_token": token,
        "reason": "x",
        "capability": "restore",
        "others": own_digest(),
    }
    assert filled.post("/declarations/new", data=fields).status_code == 403


def test_hostile_documents_stay_text(filled: TestClient) -> None:
    addresses = ["/images?tab=qualified", "/receipts", "/qualified", f"/images/{made.OTHER_IMAGE}"]
    hostile = next(paper for paper in own_papers() if paper.path == "runs/hostile.json")
    addresses.append(f"/receipts/{sha256(hostile.raw)}")
    addresses.append(f"/receipts/{sha256(hostile.raw)}?at=<script>alert(1)</script>")
    for address in addresses:
        html = page(filled, address)
        assert "<script>alert" not in html
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)|javascript:", html)


def test_the_overview_counts_scopes_by_outcome(filled: TestClient) -> None:
    html = page(filled, "/").split('class="judged"')[1].split("</section>")[0]
    assert re.search(r'href="/images\?tab=rejected">.*?<b>1</b> rejected', html, flags=re.DOTALL)


def test_what_a_restore_is_for_stands_on_every_page_about_it(
    filled: TestClient, database: Database, tmp_path: Any
) -> None:
    with database.transaction() as session:
        restores = rows.fill(session, folder=tmp_path)
        session.get_one(Restore, restores["running"]).purpose = "operational"
    one, other = restores["restored"], restores["running"]
    for address in ("/restores", "/"):
        said = text_of(page(filled, address))
        assert "qualification run" in said
        assert "operational" in said
    for path in (f"/restores/{one}", f"/restores/{one}/ranks/2", f"/restores/{one}/cancel"):
        assert "qualification run" in text_of(page(filled, path)), path
    assert "operational" in text_of(page(filled, f"/restores/{other}").split("<main")[1])
