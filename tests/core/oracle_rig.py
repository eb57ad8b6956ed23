"""What the tests of the oracle share: questions of a seed, their right pages, and one asked restore."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from app.core.oracle.asking import ask_rank
from app.core.oracle.attention import Bytes
from app.core.oracle.faults import FaultyDevice
from app.core.oracle.pages import OraclePages
from app.core.oracle.partials import RankPartials, SemanticFault
from app.core.oracle.question import OracleQuestion
from app.core.oracle.reference_decoder import restored_logits
from app.core.oracle.synthesis import (
    SynthesizedOracle,
    least_bytes,
    oracle_layers,
    pose_question,
    synthesize_oracle,
)
from app.core.restore.device import Device, LayerDigest
from app.core.restore.execute import RankOrder, RankRestore
from app.core.restore.host_device import HostDevice
from app.core.restore.report import RankOutcome
from app.core.store.snapshot import PageLayout
from app.core.store.synth.design import design_layout

from .rig import opened, restore

RANKS = 4
OBJECT_BYTES = 65_536
Pages = tuple[Bytes, Bytes]


@cache
def layout_of(dtype: str = "float16", byte_count: int | None = None) -> tuple[PageLayout, int]:
    return design_layout(byte_count or least_bytes(dtype), beside=oracle_layers(dtype))


def question_of(seed: int, *, ranks: int = RANKS, dtype: str = "float16") -> OracleQuestion:
    layout, span_tokens = layout_of(dtype)
    return pose_question(layout, span_tokens=span_tokens, ranks=ranks, seed=seed, dtype=dtype)


def right_pages(question: OracleQuestion, *, rank: int) -> Pages:
    """Keys and values as they must lie in a rank's pages; may be written to."""
    made = OraclePages(question, rank=rank)
    keys, values = (
        made.oracle_pages(name, first=0, last=question.lines).copy()
        for name in (question.key_layer, question.value_layer)
    )
    return keys, values


def logits_of(question: OracleQuestion, *, rank: int, pages: Pages) -> dict[str, int]:
    keys, values = pages
    return restored_logits(np, question=question, rank=rank, keys=keys, values=values)


def synthesize(path: Path, *, seed: int = 5, ranks: int = RANKS) -> SynthesizedOracle:
    return synthesize_oracle(path, ranks=ranks, object_bytes=OBJECT_BYTES, seed=seed)


def order_of(made: SynthesizedOracle, *, rank: int) -> RankOrder:
    published = made.snapshot.published[rank]
    return RankOrder(
        identity=None,
        storage_key=published.name.storage_key,
        context_digest=made.question.context_digest,
        layout=made.snapshot.layout,
        span_tokens=made.snapshot.span_tokens,
        manifest_sha256=published.manifest_sha256,
    )


@contextmanager
def device_of(made: SynthesizedOracle) -> Iterator[HostDevice]:
    """A host device with room for one rank."""
    with HostDevice("host0", pool_bytes=2 * made.snapshot.bytes_per_rank, arena_bytes=OBJECT_BYTES) as device:
        yield device


def restored(made: SynthesizedOracle, *, rank: int, device: Device) -> RankRestore:
    """A restore that must end well: every hash and every count right."""
    with opened(made.snapshot.roots[rank]) as reader:
        result = restore(order_of(made, rank=rank), reader=reader, device=device)
    assert result.report.outcome is RankOutcome.RESTORED, result.report.problem
    return result


def asked(
    made: SynthesizedOracle, *, rank: int, fault: SemanticFault | None = None
) -> tuple[RankPartials, RankRestore, tuple[LayerDigest, ...]]:
    """Restore one rank, with a fault if one is named, and ask what its pages say."""
    with device_of(made) as real:
        device: Device = real
        if fault is not None:
            device = FaultyDevice(real, fault=fault, question=made.question, rank=rank)
        result = restored(made, rank=rank, device=device)
        assert result.pages is not None
        partials = ask_rank(device, result.pages, question=made.question, rank=rank)
        return partials, result, device.digest(result.pages)
