"""A simulated ring whose snapshot has a question: every rank restores for real, with or without a fault."""

import json
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from httpx2 import Response

from app.core.oracle.partials import SemanticFault
from app.core.oracle.question import OracleQuestion
from app.core.oracle.synthesis import SynthesizedOracle
from app.core.restore.buffers import BufferPool
from app.core.restore.execute import RankOrder, restore_rank
from app.core.restore.host_device import HostDevice
from app.core.restore.host_placement import HostProducer
from app.core.restore.reader import BoundedReader, list_documents
from app.core.store.snapshot import PageLayout
from tests.app.ring import POOL_BYTES, Ring, SimulatedRank, wire
from workers.rank_oracle import RankOracle

SERVICE_NS = 5_000_000


@dataclass
class AskedRing:
    """A ring, and the question of its snapshot, which is registered."""

    ring: Ring
    made: SynthesizedOracle

    @property
    def question(self) -> OracleQuestion:
        return self.made.question

    def register(self, question: OracleQuestion | None = None) -> Response:
        raw = (question or self.question).to_bytes()
        return self.ring.client.post("/api/v1/oracles", headers=self.ring.operator_headers, content=raw)

    def said(self, rank: int, *, fault: str | None = None) -> dict[str, Any]:
        """What a rank's worker sends with *ready*."""
        root, layout = self.made.snapshot.roots[rank], self.made.snapshot.layout
        report, part = really_asked(root, layout, self.question, rank, fault)
        return {**json.loads(wire(json.loads(report))), "oracle": json.loads(part)}

    def ready(self, rank: SimulatedRank, **changes: Any) -> Response:
        """*Ready*, with the fault the claim names; `changes` to the document, None takes a key out."""
        said = {**self.said(rank.claim["rank"], fault=rank.claim["fault"]), **changes}
        content = json.dumps({key: value for key, value in said.items() if value is not None})
        return rank.say("ready", content=content.encode())

    def run(self, **changes: Any) -> tuple[dict[str, Any], list[SimulatedRank]]:
        """A restore whose ranks have all said *ready*, and who is to hear what is decided."""
        restore = self.ring.start_restore(**changes)
        ranks = self.ring.claim_all(restore)
        for rank in ranks:
            self.ready(rank).raise_for_status()
        return self.ring.restore(restore["id"]), ranks

    def follow(self, restore: dict[str, Any], ranks: list[SimulatedRank]) -> dict[str, Any]:
        """Every rank does what is decided."""
        for rank in ranks:
            decision = rank.decision()
            if decision["decision"] == "publish":
                rank.publish(decision["epoch"]).raise_for_status()
            else:
                rank.say("retracted").raise_for_status()
        return self.ring.restore(restore["id"])


@cache
def really_asked(
    root: Path, layout: PageLayout, question: OracleQuestion, rank: int, fault: str | None
) -> tuple[str, str]:
    """Report and part of the answer of a real restore, as JSON."""
    name = next(iter(list_documents(root)))
    order = RankOrder(
        identity=None, storage_key=name.storage_key, context_digest=name.context_digest, layout=layout
    )
    oracle = RankOracle(question=question, fault=None if fault is None else SemanticFault(fault), rank=rank)
    with (
        HostDevice("host0", pool_bytes=POOL_BYTES, arena_bytes=65_536) as device,
        BoundedReader(root, buffers=BufferPool(buffer_bytes=65_536)) as reader,
    ):
        done = restore_rank(
            order,
            reader=reader,
            device=oracle.device(device),
            clock=time.monotonic_ns,
            producer=HostProducer(),
        )
        assert done.pages is not None, done.report
        part = oracle.ask(device, done.pages, clock=time.monotonic_ns, started_ns=time.monotonic_ns())
    return json.dumps(done.report.to_document()), json.dumps(part)
