"""In whatever order documents about an image come in, the verifier makes the same verdicts of them."""

from pathlib import Path

import pytest

from app.config import Settings
from app.core.bundle.verify import VerifyOptions, verify_bundle
from app.core.digest import sha256
from app.core.qualify.values import Basis
from app.db.session import Database
from app.evidence.service import reading
from app.evidence.service.request import ExportOrder, request_export
from app.ledger.service.signing import read_signer
from app.receipts.service import Origin, Submission
from app.receipts.service.stored import facts_of_bytes
from app.verdicts.service.submit import submit_many
from tests.app.evidence_documents import IMAGE, SCHEMA, publication, raw, receipt
from tests.app.evidence_exports import with_key
from tests.core import evidence_more as more
from workers.bundle_builder import BundleBuilder

PATIENCE_S = 60


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return with_key(settings, tmp_path)


def come_in(database: Database, *documents: bytes) -> None:
    """Together."""
    place_in(database, *((one, "") for one in documents))


def place_in(database: Database, *documents: tuple[bytes, str]) -> None:
    """Together, each with the path it stands at."""
    submissions = [
        Submission(
            raw=one,
            facts=facts_of_bytes(one),
            origin=Origin(repository="lab", path=path) if path else None,
        )
        for one, path in documents
    ]
    with database.transaction() as session:
        submit_many(session, submissions=submissions, by="ada", grade=Basis.SELF_CONSISTENT)


def findings(database: Database, settings: Settings) -> list[str]:
    assert settings.ledger_key_file is not None
    signer = read_signer(settings.ledger_key_file)
    with database.transaction() as session:
        export_id = request_export(session, order=ExportOrder(), signer=signer, by="aurora").id
    builder = BundleBuilder(database, clock=lambda: 0.0, settings=settings, signer=signer)
    builder.tend()
    builder.wait(PATIENCE_S)
    found = verify_bundle(reading.bundle_path(settings, export_id=export_id), options=VerifyOptions())
    return [str(one) for one in found.findings]


def publications(count: int) -> list[bytes]:
    """Records of one publication that differ in a remark, in the order of their digests."""
    return sorted((raw(publication(remark=f"copy {n}")) for n in range(count)), key=sha256)


@pytest.mark.parametrize("together", [1, 2], ids=["one by one", "by twos"])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 3, 0, 1)], ids=str)
def test_an_image_that_was_published_more_than_once(
    database: Database, settings: Settings, order: tuple[int, ...], together: int
) -> None:
    """The digest is read in the first of the records, whichever came in first."""
    records = publications(len(order))
    come_in(database, raw(receipt(artifact__image="local build")))
    for start in range(0, len(order), together):
        come_in(database, *(records[at] for at in order[start : start + together]))
    # What came in last may be judged behind the end of a bundle, and is not asked for.
    come_in(database, raw({"schema": "example/unknown-v1"}))
    assert findings(database, settings) == []


def test_an_image_whose_identity_is_not_one(database: Database, settings: Settings) -> None:
    """Who is first to say something of another axis is asked about every axis from now on: one conflict more
    for whoever came before."""
    own, other = "5f" * 20, "99" * 20
    for said in (
        {"sparkcache_commit": own},
        {"sparkcache_commit": other},
        {"sparkcache_commit": other, "sparkcache_tree": own},
    ):
        artifact = {"image_id": IMAGE, **said}
        come_in(database, raw({"schema": SCHEMA, "status": "qualified", "artifact": artifact}))
    come_in(database, raw({"schema": "example/unknown-v1"}))
    assert findings(database, settings) == []


def test_the_same_bytes_at_two_places_at_once(database: Database, settings: Settings) -> None:
    """Whoever points to the first of the places is judged again, too."""
    linking = more.split_page()
    linking["measurement"] |= {"client_result_path": "answers.json", "client_result_sha256": "12" * 32}
    place_in(database, (raw(linking), "runs/split.json"))
    answers = raw({"schema": "example/answers-v1"})
    place_in(database, (answers, "runs/answers.json"), (answers, "copies/answers.json"))
    come_in(database, raw({"schema": "example/unknown-v1"}))
    assert findings(database, settings) == []
