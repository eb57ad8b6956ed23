"""What the core's tests share: vectors as values, and one restore of one rank with everything around it."""

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from app.core.canonical_json import encode_canonical
from app.core.digest import Digest
from app.core.restore.buffers import BufferPool
from app.core.restore.device import Producer
from app.core.restore.execute import Progress, RankOrder, RankRestore, restore_rank
from app.core.restore.host_device import HostDevice
from app.core.restore.host_placement import HostProducer
from app.core.restore.page_slots import FixedPool
from app.core.restore.reader import BoundedReader
from app.core.store.identity import CacheIdentity, form_of, parse_identity
from app.core.store.snapshot import PageLayout, parse_page_layout

FLAT_SCHEMA = "sparkcache-page-snapshot-manifest/v2"
BUFFER_BYTES = 128 * 1024


class FakeClock:
    """Monotonic ns that stand still unless told."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def __call__(self) -> int:
        return self.now_ns

    def pass_ms(self, milliseconds: int) -> None:
        self.now_ns += milliseconds * 1_000_000


@dataclass(frozen=True, kw_only=True)
class Vector:
    """One good entry of ``index.json``; the layout of rows has no groups."""

    name: str
    root: Path
    layout: PageLayout
    identity: CacheIdentity
    entry: dict[str, Any]

    def order(self, **changes: Any) -> RankOrder:
        values = {
            "identity": self.identity,
            "storage_key": self.identity.storage_key,
            "context_digest": Digest(self.entry["context_digest"]),
            "layout": self.layout,
        }
        return RankOrder(**(values | changes))

    def device(self, kind: type[HostDevice] = HostDevice, **changes: Any) -> Any:
        """A device whose pool has the shape and slots the vector was placed with, if it was."""
        placement = self.entry.get("placement")
        if placement is None:
            return kind("host0", **({"pool_bytes": 1 << 20, "arena_bytes": BUFFER_BYTES} | changes))
        fixed = FixedPool(
            pages=placement["pool_pages"],
            page_stride_bytes=tuple(placement["page_stride_bytes"]),
            group_slots=tuple(tuple(slots) for slots in placement["group_slots"]),
        )
        values: dict[str, Any] = {"pool_bytes": 1 << 20, "arena_bytes": BUFFER_BYTES, "fixed_pool": fixed}
        return kind("host0", **(values | changes))

    @property
    def is_flat(self) -> bool:
        return self.entry.get("schema") == FLAT_SCHEMA

    @property
    def layer_digests(self) -> list[str]:
        return [layer["sha256"] for layer in self.entry["layers"]]


def read_vectors(shared: Path) -> dict[str, Vector]:
    """Every good entry of the shared vectors, by id."""
    folder = shared / "vectors"
    index = json.loads((folder / "index.json").read_bytes())
    layouts = {
        name: parse_page_layout(encode_canonical(item["layout"])) for name, item in index["layouts"].items()
    }
    return {
        entry["id"]: Vector(
            name=entry["id"],
            root=folder / entry["root"],
            layout=layouts[entry["layout"]] if "layout" in entry else PageLayout(groups=()),
            identity=parse_identity(entry["identity"], form=form_of(entry["identity"])),
            entry=entry,
        )
        for entry in index["entries"]
    }


def import_make_broken(shared: Path) -> ModuleType:
    """The script that damages the vectors by name; it lies beside them, not in a package."""
    path = shared / "vectors" / "make_broken.py"
    spec = importlib.util.spec_from_file_location("make_broken", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up while they are made; no bytecode is left beside the vectors.
    sys.modules["make_broken"] = module
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


@contextmanager
def opened(
    root: Path,
    *,
    readers: int = 4,
    buffers: BufferPool | None = None,
    kind: type[BoundedReader] = BoundedReader,
) -> Iterator[BoundedReader]:
    """A reader over small buffers."""
    with kind(root, readers=readers, buffers=buffers or BufferPool(buffer_bytes=BUFFER_BYTES)) as reader:
        yield reader


def restore(
    order: RankOrder,
    *,
    reader: BoundedReader,
    device: HostDevice,
    producer: Producer | None = None,
    clock: Callable[[], int] | None = None,
    progress: Callable[[Progress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> RankRestore:
    """``restore_rank`` with nothing else going on."""
    return restore_rank(
        order,
        reader=reader,
        device=device,
        clock=clock or FakeClock(),
        producer=producer or HostProducer(),
        progress=progress,
        cancelled=cancelled,
    )


def restore_at(root: Path, *, order: RankOrder, device: HostDevice, **options: Any) -> RankRestore:
    """One restore with a reader of its own; afterwards nothing may be left running or held."""
    buffers = BufferPool(buffer_bytes=BUFFER_BYTES)
    with opened(root, buffers=buffers) as reader:
        restored = restore(order, reader=reader, device=device, **options)
        assert reader.active_reads == 0
        assert buffers.held_buffers == 0
    return restored


def flip_byte(path: Path) -> None:
    """Change one bit in the middle of a file, size unchanged."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
