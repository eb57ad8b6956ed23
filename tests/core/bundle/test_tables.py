"""Tables, coverage, restore log, report and envelopes in their details."""

import csv
import io
from datetime import timedelta
from typing import Any

import pytest

from app.core.base64_text import encode_base64
from app.core.bundle import layout
from app.core.bundle.csv_text import csv_line, digest_text, named_text, utc_text
from app.core.bundle.sample import ORIGIN, Sample
from app.core.bundle.sample_log import BEGINNING, SampleLog, record
from app.core.bundle.tables import CONFLICTING, WITHDRAWN
from app.core.canonical_json import encode_canonical
from app.core.dsse import open_envelope, parse_public_pem, public_pem, seal
from app.core.errors import CoreError, FormatError
from app.core.ledger.checkpoint import NoteSigner
from app.core.qualify.codes import CODES
from app.core.signature import public_key, sign
from tests.core.bundle import rig

RESTORE = "11111111-1111-1111-1111-111111111111"
ATTEMPT = "22222222-2222-2222-2222-222222222222"
DEVICE = "33333333-3333-3333-3333-333333333333"
NODE = "44444444-4444-4444-4444-444444444444"


def _table(raw: bytes, name: str) -> list[dict[str, str]]:
    text = rig.unpack(raw)[layout.table_path(name)].decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def _bundle(log: SampleLog) -> bytes:
    raw = rig.build(Sample(log=log, signer=NoteSigner(name=ORIGIN, seed=rig.SEED), previous=0))
    found = rig.verify(raw)
    assert (rig.said(found), found.exit_code) == ("", 0)
    return raw


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("plain", "plain"),
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t'=1"),
        ("\r\n=1", "\"'\r\n'=1\""),
        ("\ufeff=1", "'\ufeff=1"),
        ("x;=1", "x;'=1"),
        ("x; \t;@y;-2;z=1", "x; \t;'@y;'-2;z=1"),
        ("x\ty\n +1", '"x\ty\n \'+1"'),
        ("a - b; c", "a - b; c"),
        ('say "-1"', '"say ""-1"""'),
        ("  =1", "'  =1"),
        ("\uff1d1", "'\uff1d1"),
        ('say "x", y', '"say ""x"", y"'),
        ("two\nlines", '"two\nlines"'),
        ("Käse", "Käse"),
        ("", ""),
    ],
)
def test_cells(cell: str, text: str) -> None:
    assert csv_line([cell, "x"]) == f"{text},x\r\n".encode()
    ((read, last),) = csv.reader(io.StringIO(csv_line([cell, "x"]).decode(), newline=""), strict=True)
    assert (read.replace("'", ""), last) == (cell, "x")


@pytest.mark.parametrize("parting", [",", ";", "\t"])
@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\uff1d"])
@pytest.mark.parametrize("before", ["", " ", "x;", "x\t", "x\n", "x\r", "x;;", "x; \t", '"x";', "x,", 'x";"'])
def test_no_spreadsheet_finds_a_formula_wherever_it_parts_cells(parting: str, sign: str, before: str) -> None:
    """A semicolon parts cells in half of the world, and a quote within a cell means nothing then."""
    line = csv_line(["plain", f"{before}{sign}1", "x"]).decode()
    records = csv.reader(io.StringIO(line, newline=""), delimiter=parting)
    cells = [cell.strip(" \x00") for record in records for cell in record]
    assert not [cell for cell in cells if cell.startswith(sign)]


def test_a_long_cell_of_blanks_costs_nothing() -> None:
    """Quadratic, these would take hours."""
    for text in ("\n" * 300_000 + "x", ";" * 300_000, "\t;" * 150_000 + "="):
        assert len(csv_line([text])) > 300_000


def test_targets_that_are_digests_are_texts() -> None:
    for name in ("verdicts", "coverage"):
        assert not [line for line in _table(rig.small(), name) if len(line["target"]) == 64]
    assert (named_text("12" * 32), named_text("GLM-5"), named_text("")) == (
        "sha256:" + "12" * 32,
        "GLM-5",
        "",
    )


def test_the_codes_of_tables_are_codes() -> None:
    """A code that is renamed must not silently leave the tables."""
    assert CODES.keys() >= WITHDRAWN | CONFLICTING


def test_digests_and_instants_are_texts() -> None:
    assert digest_text("12" * 32) == "sha256:" + "12" * 32
    assert digest_text("") == utc_text("") == ""
    assert utc_text("1700000000000001") == "2023-11-14T22:13:20.000001Z"
    for wrong in ("now", "Infinity", "9" * 40):
        with pytest.raises(FormatError):
            utc_text(wrong)


ENDED = BEGINNING + timedelta(seconds=90)


def _machine(log: SampleLog) -> None:
    node = record("node.registration", NODE, {"id": NODE, "name": "spark-1", "created_at": log.now})
    says = {"id": DEVICE, "node_id": NODE, "name": "gpu0", "kind": "cuda"}
    log.append("node-registered", [node, record("device.registration", DEVICE, {**says})])


def _order(log: SampleLog) -> None:
    order: dict[str, Any] = {
        "id": RESTORE,
        "created_at": log.now,
        "created_by": "ada",
        "context_digest": "ab" * 32,
        "rank_count": 1,
        "span_tokens": 4096,
    }
    rank: dict[str, Any] = {
        "id": ATTEMPT,
        "restore_id": RESTORE,
        "rank": 0,
        "number": 1,
        "device_id": DEVICE,
        "root_document_sha256": "cd" * 32,
    }
    purpose = {"purpose": "operational", "image_config_id": "a1" * 32}
    question: dict[str, Any] = {"question_sha256": "ef" * 32, "fault_name": "swap-pages", "fault_rank": 0}
    rows = [
        record("restore.order", RESTORE, {**order}),
        record("restore.purpose", RESTORE, {**purpose}),
        record("restore.question", RESTORE, {**question}),
        record("rank_attempt.order", ATTEMPT, {**rank}),
    ]
    log.append("restore-requested", rows)


def _end(log: SampleLog, *, report: bytes) -> None:
    ended: dict[str, Any] = {
        "problem": None,
        "outcome": "restored",
        "ended_at": BEGINNING + timedelta(seconds=90),
    }
    runtime = {"image_config_id": "a1" * 32}
    result: dict[str, Any] = {"decision": "publish", "admitted_at": log.now, **ended}
    rank: dict[str, Any] = {"state": "reported", "runtime": runtime, "claimed_at": log.now, **ended}
    rows = [
        record("restore.result", RESTORE, {**result}),
        record("restore.semantic", RESTORE, {"id": RESTORE, "semantic": "right"}),
        record("rank_attempt.result", ATTEMPT, {**rank}),
        record("rank_report", ATTEMPT, {"document": report}, document=report),
    ]
    log.append("restore-ended", rows)


def test_the_restore_log_has_a_line_per_restore_and_per_rank() -> None:
    log = SampleLog()
    _machine(log)
    _order(log)
    measured = {"bytes": 4096, "objects": 3, "service_ns": 1000, "unattributed_ns": 10}
    _end(log, report=encode_canonical({**measured, "phases_ns": {"read": 990}}))
    raw = _bundle(log)
    (line,) = _table(raw, "restores")
    assert (line["restore"], line["outcome"], line["ordered_by"]) == (RESTORE, "restored", "ada")
    assert (line["purpose"], line["image"]) == ("operational", "sha256:" + "a1" * 32)
    assert line["ended_at"] == "2026-01-01T00:01:30.000000Z"
    assert (line["semantic"], line["injected_fault"]) == ("right", "swap-pages on rank 0")
    (line,) = _table(raw, "restore_ranks")
    assert (line["node"], line["device"], line["rank"], line["number"]) == ("spark-1", "gpu0", "0", "1")
    assert (line["bytes"], line["objects"], line["phases_ns"]) == ("4096", "3", "read 990")
    assert line["measured_image"] == "sha256:" + "a1" * 32


@pytest.mark.parametrize("report", [b'{"bytes": 1}', b"no json", b"\xff", b"[]"])
def test_a_report_in_any_form_is_carried_as_it_came(report: bytes) -> None:
    log = SampleLog()
    _order(log)
    _end(log, report=report)
    (line,) = _table(_bundle(log), "restore_ranks")
    assert line["bytes"] == ("1" if report.startswith(b"{") else "")


def test_images_without_evidence_stand_in_the_matrix() -> None:
    lines = _table(rig.small(), "coverage")
    assert len(lines) == 3
    (without,) = [line for line in lines if line["outcome"] == "no evidence"]
    assert (without["image"], without["title"]) == ("sha256:" + "c3" * 32, "runtime 2")


def test_the_report_escapes_what_people_wrote_and_refers_to_nothing() -> None:
    log = SampleLog(by="<script>alert(1)</script>")
    log.add_image(config_id="a1" * 32, title='<img src=x onerror="alert(1)">')
    log.add_exception(config_id="a1" * 32, reason="<b>& 'more'", days=1)
    page = rig.unpack(_bundle(log))[layout.REPORT].decode()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;b&gt;&amp; &#x27;more&#x27;" in page
    for outside in ("http:", "https:", "src=", "href=", "url(", "@import"):
        assert outside not in page.replace("&lt;img src=x", "")


def test_words_of_the_report_are_whole_on_paper_and_digests_break() -> None:
    """Cells that may break anywhere take no width: a column of them would leave one letter a line."""
    page = rig.unpack(rig.small())[layout.REPORT].decode()
    assert f'<td class="long">sha256:{"a1" * 32}</td>' in page
    assert "<td>restore</td>" in page
    (cells,) = [line for line in page.splitlines() if line.startswith("th,td{border")]
    assert cells.endswith("overflow-wrap:break-word}")


def test_an_empty_log_is_a_bundle() -> None:
    log = SampleLog()
    raw = rig.build(Sample(log=log, signer=NoteSigner(name=ORIGIN, seed=rig.SEED), previous=0))
    found = rig.verify(raw)
    assert (rig.said(found), found.exit_code, found.counts["entries"]) == ("", 0, 0)


KIND = "application/x"


def _sealed(payload: bytes = b"payload") -> bytes:
    return seal(
        payload, payload_type=KIND, sign=lambda one: sign(one, seed=rig.SEED), public=public_key(rig.SEED)
    )


def test_an_envelope_opens_for_its_key_and_type_only() -> None:
    public = public_key(rig.SEED)
    assert open_envelope(_sealed(), payload_type=KIND, public=public, subject="x") == b"payload"
    with pytest.raises(CoreError, match="payloadType"):
        open_envelope(_sealed(), payload_type="application/y", public=public, subject="x")
    with pytest.raises(CoreError, match="keyid"):
        open_envelope(_sealed(), payload_type=KIND, public=public_key(rig.OTHER_SEED), subject="x")


def test_every_flipped_bit_of_an_envelope_is_refused() -> None:
    sealed, public = _sealed(), public_key(rig.SEED)
    for place in range(len(sealed)):
        for bit in range(8):
            changed = bytearray(sealed)
            changed[place] ^= 1 << bit
            with pytest.raises(CoreError):
                open_envelope(bytes(changed), payload_type=KIND, public=public, subject="x")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"payload"', b' "payload"'),
        (b"==", b""),
        (b'"signatures":[', b'"signatures":[{},'),
        (b'"keyid"', b'"kid"'),
        (encode_base64(b"payload").encode(), encode_base64(b"payload")[:-3].encode() + b"B=="),
        (b'"sig"', b'"sig":"","sig"'),
    ],
)
def test_an_envelope_in_another_spelling_is_refused(old: bytes, new: bytes) -> None:
    changed = _sealed().replace(old, new, 1)
    assert changed != _sealed()
    with pytest.raises(CoreError):
        open_envelope(changed, payload_type=KIND, public=public_key(rig.SEED), subject="x")


def test_a_key_in_another_spelling_is_refused() -> None:
    pem = public_pem(public_key(rig.SEED))
    assert parse_public_pem(pem, subject="key") == public_key(rig.SEED)
    for changed in (
        pem + b"\n",
        pem.replace(b"PUBLIC", b"PRIVATE"),
        pem.replace(b"MCow", b"MCox"),
        b"",
        public_pem(bytes(32)),
    ):
        with pytest.raises(FormatError):
            parse_public_pem(changed, subject="key")
