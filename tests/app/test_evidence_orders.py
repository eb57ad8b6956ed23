"""In whatever order evidence comes in, an untouched bundle has no findings, and the verdicts are the same."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from app.config import Settings
from app.core.bundle import code_archive
from app.core.bundle.verify import Verification, VerifyOptions, verify_bundle
from app.core.dsse import fingerprint
from app.core.ledger.checkpoint import NoteSigner
from app.db.session import Database
from app.errors import BadRequest, Refused
from app.evidence.service import bundle, reading
from app.evidence.service.request import ExportOrder, request_export
from app.ledger.service.signing import read_signer
from app.models import LedgerLeaf, VerdictCurrent, VerdictRow
from tests.app.conftest import empty_tables
from tests.app.evidence_exports import with_key
from tests.app.evidence_orders import FIRST, SECOND, Stage, Step, arriving, drawn, script
from workers.bundle_builder import BundleBuilder

PATIENCE_S = 60
# Drawn from these: scripts that had findings before, and some more.
SEEDS = (0, 1, 4, 7, 17, 27)
ORDERS = ("everything", "since", "a period", "an image", "two images since", "a topology", "a part")
SOAKED = 300
MOST = 24


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return with_key(settings, tmp_path)


class Bundles:
    """Plays scripts in an empty database each, and verifies bundles of what came of them."""

    def __init__(
        self, database: Database, *, settings: Settings, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert settings.ledger_key_file is not None
        self.database, self.settings, self.engine, self.monkeypatch = database, settings, engine, monkeypatch
        self.signer: NoteSigner = read_signer(settings.ledger_key_file)

    def play(self, steps: Sequence[Step]) -> None:
        empty_tables(self.engine)
        Stage(self.database, self.monkeypatch).play(steps)

    def orders(self) -> Iterator[tuple[str, ExportOrder]]:
        """The whole, a period, images, a topology."""
        with self.database.reading() as session:
            at = session.scalars(select(LedgerLeaf.created_at).order_by(LedgerLeaf.index)).all()
        images = [image.removeprefix("sha256:") for image in (FIRST, SECOND)]
        third = len(at) // 3
        yield "everything", ExportOrder()
        yield "since", ExportOrder(period_from=at[third])
        yield "a period", ExportOrder(period_from=at[third], period_until=at[2 * third])
        yield "an image", ExportOrder(image_config_ids=(images[0],))
        yield "two images since", ExportOrder(image_config_ids=tuple(images), period_from=at[third])
        yield "a topology", ExportOrder(topology=("2", "1"))
        yield "a part", ExportOrder(ledger_size=2 * third + 1)

    def verify(self, order: ExportOrder) -> Verification | None:
        """None where there is nothing to take away."""
        try:
            with self.database.transaction() as session:
                asked = request_export(session, order=order, signer=self.signer, by="aurora").id
        except (BadRequest, Refused):
            return None
        builder = BundleBuilder(self.database, clock=lambda: 0.0, settings=self.settings, signer=self.signer)
        builder.tend()
        builder.wait(PATIENCE_S)
        with self.database.reading() as session:
            assert reading.get_export(session, export_id=asked).problem is None
        options = VerifyOptions(key=str(fingerprint(self.signer.verifier.public)))
        return verify_bundle(reading.bundle_path(self.settings, export_id=asked), options=options)

    def findings(self, names: Sequence[str]) -> list[str]:
        """Of bundles of what there is now."""
        every = [(name, self.verify(order)) for name, order in self.orders() if name in names]
        return [f"{name}: {one}" for name, found in every if found for one in found.findings]

    def shortest(self, steps: Sequence[Step], *, names: Sequence[str]) -> list[Step]:
        """Of a script with findings what is left without which there are none."""
        kept, at = list(steps), 0
        while at < len(kept):
            for fewer in without_some(kept, at=at):
                self.play(fewer)
                if self.findings(names):
                    kept = fewer
                    break
            else:
                at += 1
        return kept

    def current(self) -> dict[str, Any]:
        """What is judged now, but for what is closed: every byte of it. Of an identity that is not one the
        document counts that said so first; of that verdict what a person reads in lists."""
        with self.database.reading() as session:
            newest = select(VerdictCurrent.verdict_id).where(VerdictCurrent.outcome != "none")
            rows = session.scalars(select(VerdictRow).where(VerdictRow.id.in_(newest)))
            return {row.subject_key: _said(row) for row in rows}


def _said(row: VerdictRow) -> tuple[Any, ...]:
    codes = row.finding_codes
    read = row.kind, row.receipt_sha256, row.outcome, row.deployable, row.deployable_reason, codes
    return read if "IDENTITY_CONFLICT" in codes else (*read, row.document_sha256)


@pytest.fixture
def bundles(
    database: Database, settings: Settings, owner_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> Bundles:
    # The verifier in them is the same each time.
    monkeypatch.setattr(bundle, "verifier_archive", cache(code_archive.verifier_archive))
    return Bundles(database, settings=settings, engine=owner_engine, monkeypatch=monkeypatch)


def without_some(steps: Sequence[Step], *, at: int) -> Iterator[list[Step]]:
    """Without one step; without one document of it."""
    rest = [*steps[:at]], [*steps[at + 1 :]]
    if any(one.documents for half in rest for one in half):
        yield [*rest[0], *rest[1]]
    documents = steps[at].documents if len(steps[at].documents) > 1 else ()
    for place in range(len(documents)):
        fewer = replace(steps[at], documents=documents[:place] + documents[place + 1 :])
        yield [*rest[0], fewer, *rest[1]]


def told(step: Step) -> str:
    """What is read by who looks for the reason."""
    if not step.documents:
        return f"{step!r}"
    return "\n".join(f"  {one.digest[:8]} {one.path} {one.day} {one.raw.decode()}" for one in step.documents)


def untouched(bundles: Bundles, seed: int, *, names: Sequence[str]) -> None:
    steps = script(seed, most=MOST)
    bundles.play(steps)
    if found := bundles.findings(names):
        shortest = "\n".join(map(told, bundles.shortest(steps, names=names)))
        pytest.fail(f"script {seed}: {found}\nshortest:\n{shortest}")


@pytest.mark.parametrize("seed", SEEDS)
def test_an_untouched_bundle_has_no_findings(bundles: Bundles, seed: int) -> None:
    untouched(bundles, seed, names=[ORDERS[0], ORDERS[1 + seed % (len(ORDERS) - 1)]])


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAKED))
def test_an_untouched_bundle_has_no_findings_whatever_the_order(bundles: Bundles, seed: int) -> None:
    untouched(bundles, seed, names=ORDERS)


def same_in_any_order(bundles: Bundles, seed: int) -> None:
    """Of one population, each document at one place, in two orders and together in other ways."""
    chosen = drawn(seed, most=MOST, places=False)
    verdicts = []
    for order in (1, 2):
        random.Random(f"{seed} {order}").shuffle(chosen)
        bundles.play(list(arriving(chosen, seed=order)))
        verdicts.append(bundles.current())
    assert verdicts[0] == verdicts[1], f"population {seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_documents_in_any_order_come_to_the_same_verdicts(bundles: Bundles, seed: int) -> None:
    same_in_any_order(bundles, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAKED))
def test_documents_come_to_the_same_verdicts_whatever_the_order(bundles: Bundles, seed: int) -> None:
    same_in_any_order(bundles, seed)
