"""A snapshot made from nothing, what the host device makes of it, and restores of it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from app.core.digest import Digest
from app.core.restore.buffers import BufferPool
from app.core.restore.device import Producer
from app.core.restore.execute import Progress, RankOrder, RankRestore, restore_rank
from app.core.restore.host_device import HostDevice
from app.core.restore.plan import CopySpan
from app.core.restore.reader import BoundedReader
from app.core.store.snapshot import LayerSpan, PageLayout
from tests.bench.case import Stored as Root
from tests.bench.case import make_stored

SNAPSHOT_BYTES: Final = 300_000
OBJECT_BYTES: Final = 16 * 1024


@dataclass(kw_only=True)
class Stored:
    """One rank's root and the digests of its layers."""

    root: Root
    layer_digests: list[str] = field(default_factory=list)

    @property
    def layout(self) -> PageLayout:
        return self.root.layout

    @property
    def block_counts(self) -> tuple[int, ...]:
        return self.root.plan.block_counts

    @property
    def layers(self) -> tuple[LayerSpan, ...]:
        return self.root.plan.layers

    @property
    def payload_bytes(self) -> int:
        return self.root.plan.payload_bytes

    @property
    def object_bytes(self) -> int:
        return self.root.object_bytes

    @property
    def object_files(self) -> list[Path]:
        return self.root.paths

    @property
    def layer_bytes(self) -> list[int]:
        return [layer.end - layer.start for layer in self.layers]

    def order(self, *, pinned: bool = False) -> RankOrder:
        return RankOrder(
            identity=None,
            storage_key=self.root.name.storage_key,
            context_digest=self.root.name.context_digest,
            layout=self.layout,
            manifest_sha256=self.root.sha256,
            stream_pinned=pinned,
        )

    @contextmanager
    def reading(self, buffers: BufferPool) -> Iterator[BoundedReader]:
        with BoundedReader(self.root.root, buffers=buffers) as reader:
            yield reader

    def restore(
        self,
        device: Any,
        *,
        buffers: BufferPool,
        producer: Producer | None = None,
        pinned: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> RankRestore:
        with self.reading(buffers) as reader:
            return restore_rank(
                self.order(pinned=pinned),
                reader=reader,
                device=device,
                clock=time.monotonic_ns,
                producer=producer or device.producer(),
                progress=progress,
            )

    def first_span(self, byte_count: int) -> CopySpan:
        return CopySpan(
            arena_offset=0, snapshot_offset=0, destination_offset=0, byte_count=byte_count, destination=0
        )


def stored_snapshot(
    folder: Path, *, byte_count: int = SNAPSHOT_BYTES, object_bytes: int = OBJECT_BYTES
) -> Stored:
    """Synthesise one rank and let the host device say what its layers are."""
    stored = Stored(root=make_stored(folder, byte_count=byte_count, object_bytes=object_bytes))
    with HostDevice("host0", pool_bytes=2 * byte_count, arena_bytes=object_bytes) as host:
        result = stored.restore(host, buffers=BufferPool(buffer_bytes=object_bytes))
        if result.pages is None:
            raise RuntimeError(f"restore: expected restored, found {result.report.problem}")
        digests: list[Digest] = [layer.sha256 for layer in host.digest(result.pages)]
    stored.layer_digests = list(digests)
    return stored
