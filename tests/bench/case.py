"""A store of one rank, everything that is prepared once, and one restore of it."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from app.core.digest import Digest, sha256
from app.core.restore.buffers import BufferPool
from app.core.restore.conditions import CacheMode, Conditions
from app.core.restore.execute import RankOrder, restore_rank
from app.core.restore.host_device import HostDevice
from app.core.restore.host_placement import HostProducer
from app.core.restore.page_cache import prepare_cache
from app.core.restore.page_plan import PagePlan, plan_restore
from app.core.restore.reader import BoundedReader, list_documents, read_document
from app.core.restore.report import RankOutcome, RankReport
from app.core.store.layout import MAX_OBJECT_BYTES, DocumentName, object_path
from app.core.store.manifest import parse_flat_manifest
from app.core.store.snapshot import PageLayout
from app.core.store.synth import synthesize_store

CORES = len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One rank's root and what its document says."""

    root: Path
    name: DocumentName
    layout: PageLayout
    plan: PagePlan
    sha256: Digest
    object_bytes: int

    @property
    def paths(self) -> list[Path]:
        return [self.root / object_path(source.descriptor.sha256) for source in self.plan.sources]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A stored rank with a device and buffers that are touched once."""

    stored: Stored
    buffers: BufferPool
    device: HostDevice

    def restore(
        self, *, pinned: bool, readers: int | None = None, cache: CacheMode = CacheMode.WARM
    ) -> RankReport:
        """One restore; its pages are given back.

        Raises:
            RuntimeError: it did not restore.
        """
        with self.prepared(pinned=pinned, readers=readers, cache=cache) as service:
            return service()

    @contextmanager
    def prepared(
        self, *, pinned: bool, readers: int | None = None, cache: CacheMode = CacheMode.WARM
    ) -> Iterator[Callable[[], RankReport]]:
        """The page cache as asked for and measured; what is left to call is the service, see ``restore``."""
        stored = self.stored
        order = RankOrder(
            identity=None,
            storage_key=stored.name.storage_key,
            context_digest=stored.name.context_digest,
            layout=stored.layout,
            manifest_sha256=stored.sha256,
            stream_pinned=pinned,
        )
        with BoundedReader(stored.root, readers=readers, buffers=self.buffers) as reader:
            state = prepare_cache(reader.files, sources=stored.plan.sources, mode=cache)
            conditions = Conditions(cache=state, cores=CORES)
            yield partial(self._serve, order, reader=reader, conditions=conditions)

    def _serve(self, order: RankOrder, *, reader: BoundedReader, conditions: Conditions) -> RankReport:
        done = restore_rank(
            order,
            reader=reader,
            device=self.device,
            clock=time.monotonic_ns,
            producer=HostProducer(),
            conditions=conditions,
        )
        if done.report.outcome is not RankOutcome.RESTORED or done.pages is None:
            raise RuntimeError(f"restore: expected restored, found {done.report.problem}")
        self.device.discard(done.pages)
        return done.report


def make_stored(folder: Path, *, byte_count: int, object_bytes: int = MAX_OBJECT_BYTES) -> Stored:
    """Synthesise one rank; equal content is adopted."""
    made = synthesize_store(folder, ranks=1, bytes_per_rank=byte_count, object_bytes=object_bytes)
    root = made.roots[0]
    name = next(iter(list_documents(root)))
    raw = read_document(root, name=name)
    manifest = parse_flat_manifest(raw, identity=None, context_digest=name.context_digest)
    return Stored(
        root=root,
        name=name,
        layout=made.layout,
        plan=plan_restore(manifest, layout=made.layout),
        sha256=sha256(raw),
        object_bytes=object_bytes,
    )


def open_case(stored: Stored) -> Case:
    """Commit all memory a restore of it needs."""
    payload_bytes = stored.plan.payload_bytes
    device = HostDevice("host0", pool_bytes=2 * payload_bytes, arena_bytes=stored.object_bytes)
    device.prepare_pool(stored.layout, block_counts=stored.plan.block_counts)
    return Case(stored=stored, buffers=BufferPool(buffer_bytes=stored.object_bytes), device=device)
