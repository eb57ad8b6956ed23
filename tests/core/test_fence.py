"""The ordering rule of restore-contract §3.1, whose absence made upstream answer ``spark``."""

from app.core.digest import sha256
from app.core.restore.device import PageSet, Producer
from app.core.restore.host_device import HostDevice
from app.core.restore.host_placement import HostProducer
from app.core.restore.report import RankOutcome
from app.core.store.snapshot import PageLayout

from .rig import Vector, restore_at

FILL = 0x5A


class BusyDevice(HostDevice):
    """Reserving pages queues an earlier write to them, which runs when somebody waits for it, or too late."""

    producer: HostProducer

    def reserve(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> PageSet:
        pages = super().reserve(layout, block_counts=block_counts)
        self.producer.queue(lambda: self.fill(pages, byte=FILL))
        return pages


class UnfencedDevice(BusyDevice):
    """What a restorer without the rule amounts to."""

    def fence(self, pages: PageSet, *, producer: Producer) -> None:
        pass


def restored_digests(vector: Vector, *, kind: type[BusyDevice]) -> list[str]:
    producer = HostProducer()
    with vector.device(kind) as device:
        device.producer = producer
        restored = restore_at(vector.root, order=vector.order(), device=device, producer=producer)
        assert restored.report.outcome is RankOutcome.RESTORED
        assert restored.pages is not None
        producer.wait()
        return [layer.sha256 for layer in device.digest(restored.pages)]


def test_fence_orders_restore_after_earlier_writes(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    assert restored_digests(vector, kind=BusyDevice) == vector.layer_digests


def test_without_the_fence_the_pages_contain_the_earlier_writes(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    fills = [
        sha256(bytes([FILL]) * (layer["pages"] * layer["bytes_per_page"])) for layer in vector.entry["layers"]
    ]
    assert restored_digests(vector, kind=UnfencedDevice) == fills


def test_the_fence_comes_before_the_transaction_and_after_the_header(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-single"]
    steps: list[str] = []

    class Watched(HostDevice):
        def fence(self, pages: PageSet, *, producer: Producer) -> None:
            steps.append("fence")
            super().fence(pages, producer=producer)

        def begin(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
            steps.append("begin")
            return super().begin(*arguments, **options)  # type: ignore[arg-type]

    with vector.device(Watched) as device:
        restore_at(vector.root, order=vector.order(), device=device)
    assert steps == ["fence", "begin"]
