"""The whole corpus through PostgreSQL into a bundle; its verifier knows no database and says the same."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.config import Settings
from app.core.bundle.verify import Verification, VerifyOptions, verify_bundle
from app.core.dsse import fingerprint
from app.core.errors import DocumentError
from app.core.qualify.facts import Capability
from app.core.qualify.values import Basis
from app.db.session import Database
from app.evidence.service import reading
from app.evidence.service.request import ExportOrder, request_export
from app.ledger.service.signing import read_signer
from app.receipts.service import Origin
from app.receipts.service.stored import facts_of_bytes
from app.verdicts.service.declare import declare
from app.verdicts.service.rejudge import rejudge_part
from app.verdicts.service.submit import submit
from tests.app.evidence_exports import with_key
from tests.data.evidence_verdicts import corpus_index
from workers.bundle_builder import BundleBuilder

PATIENCE_S = 300


@pytest.fixture
def evidence(shared_dir: Path) -> Path:
    folder = shared_dir / "evidence"
    if not (folder / "INDEX.json").is_file():
        pytest.skip(f"evidence corpus: expected {folder}/INDEX.json, found none; set SPARKGATE_SHARED")
    return folder


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return with_key(settings, tmp_path)


def _import(database: Database, evidence: Path) -> list[str]:
    """Every document, those that supersede first, so that many are judged again; their digests."""
    digests = []
    for entry in sorted(corpus_index(evidence), key=lambda one: not one.get("superseded")):
        raw = (evidence / entry["file"]).read_bytes()
        try:
            facts = facts_of_bytes(raw)
        except DocumentError:
            continue
        place = Origin(
            repository=entry["repo"],
            path=entry["path"],
            commit=entry.get("commit") or "",
            committed_at=datetime(2026, 1, 1, tzinfo=UTC) if entry.get("superseded") else None,
        )
        with database.transaction() as session:
            submit(session, raw=raw, facts=facts, origin=place, by="import", grade=Basis.ATTESTED)
        digests.append(str(facts.sha256))
    return digests


def _verified(database: Database, settings: Settings) -> Verification:
    assert settings.ledger_key_file is not None
    signer = read_signer(settings.ledger_key_file)
    with database.transaction() as session:
        export_id = request_export(session, order=ExportOrder(), signer=signer, by="aurora").id
    builder = BundleBuilder(database, clock=lambda: 0.0, settings=settings, signer=signer)
    builder.tend()
    builder.wait(PATIENCE_S)
    options = VerifyOptions(key=str(fingerprint(signer.verifier.public)))
    return verify_bundle(reading.bundle_path(settings, export_id=export_id), options=options)


def test_every_verdict_over_the_corpus_is_made_again_to_the_same_bytes(
    evidence: Path, database: Database, settings: Settings
) -> None:
    digests = _import(database, evidence)
    with database.transaction() as session:
        declare(
            session,
            reason="meant for qualification",
            digests=digests[::7],
            capability=Capability.RESTORE,
            by="ada",
            grade=Basis.ATTESTED,
        )
    while rejudge_part(database, grade=Basis.SELF_CONSISTENT):
        pass
    found = _verified(database, settings)
    assert [str(one) for one in found.findings] == []
    assert found.exit_code == 0
    assert found.counts["receipts"] == len(set(digests)) > 200
    assert found.counts["verdicts_judged"] == found.counts["verdicts"] > 500
