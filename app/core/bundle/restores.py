"""The restore log: a line per restore and one per rank, when it has ended (evidence-model §14 item 6)."""

from collections.abc import Callable, Iterator, Mapping

from app.core.bundle.csv_text import digest_text, utc_text
from app.core.bundle.records import CheckedLeaf, RowRecord
from app.core.canonical_json import JsonObject, decode_strict, expect_object
from app.core.errors import CoreError

_Rows = Mapping[str, Mapping[str, RowRecord]]


class RestoreTables:
    """Keeps what was ordered until it has ended: as much as there are open restores."""

    def __init__(self, write: Callable[[str, list[str]], None]) -> None:
        self._write = write
        self._orders: dict[str, RowRecord] = {}
        self._purposes: dict[str, tuple[str, str]] = {}
        self._questions: dict[str, tuple[str, str]] = {}
        self._ranks: dict[str, RowRecord] = {}
        self._devices: dict[str, tuple[str, str]] = {}
        self._nodes: dict[str, str] = {}

    def take(self, leaf: CheckedLeaf) -> None:
        """What an entry says of restores."""
        views: dict[str, dict[str, RowRecord]] = {}
        for row in leaf.rows:
            if row.view.startswith(("rank_", "restore.", "node.", "device.")):
                views.setdefault(row.view, {})[row.key] = row
        if views:
            self._keep(views)
            for row in views.get("restore.result", {}).values():
                answered = views.get("restore.semantic", {}).get(row.key)
                self._restore(row, answered, leaf=leaf.index)
            for row in views.get("rank_attempt.result", {}).values():
                report = views.get("rank_report", {}).get(row.key)
                self._rank(row, report, leaf=leaf.index)

    def _keep(self, views: _Rows) -> None:
        for row in views.get("node.registration", {}).values():
            self._nodes[row.key] = row.text("name")
        for row in views.get("device.registration", {}).values():
            self._devices[row.key] = (row.text("node_id"), row.text("name"))
        self._orders |= views.get("restore.order", {})
        self._ranks |= views.get("rank_attempt.order", {})
        for row in views.get("restore.purpose", {}).values():
            self._purposes[row.key] = (row.text("purpose"), row.text("image_config_id"))
        for row in views.get("restore.question", {}).values():
            fault = f"{row.text('fault_name')} on rank {row.text('fault_rank')}"
            self._questions[row.key] = (row.text("question_sha256"), fault if row.text("fault_name") else "")

    def _restore(self, row: RowRecord, answered: RowRecord | None, *, leaf: int) -> None:
        order = self._orders.pop(row.key, None)
        purpose, image = self._purposes.pop(row.key, ("qualification", ""))
        question, fault = self._questions.pop(row.key, ("", ""))
        if not row.selected:
            return
        ordered = ["", "", "", "", ""] if order is None else _ordered(order)
        self._write(
            "restores",
            [
                str(leaf),
                row.key,
                *ordered[:2],
                purpose,
                digest_text(image),
                *ordered[2:],
                row.text("outcome"),
                "" if answered is None else answered.text("semantic"),
                digest_text(question),
                fault,
                row.text("decision"),
                row.text("problem"),
                utc_text(row.text("admitted_at")),
                utc_text(row.text("ended_at")),
            ],
        )

    def _rank(self, row: RowRecord, report: RowRecord | None, *, leaf: int) -> None:
        order = self._ranks.pop(row.key, None)
        if not row.selected:
            return
        node, device = self._devices.get("" if order is None else order.text("device_id"), ("", ""))
        restore, rank, number, root = ["", "", "", ""] if order is None else _rank_ordered(order)
        self._write(
            "restore_ranks",
            [
                str(leaf),
                restore,
                rank,
                number,
                row.key,
                self._nodes.get(node, node),
                device,
                digest_text(root),
                row.text("outcome"),
                row.text("state"),
                row.text("problem"),
                *_measured(report),
                _image_of(row.text("runtime")),
                utc_text(row.text("claimed_at")),
                utc_text(row.text("ended_at")),
            ],
        )


def _ordered(order: RowRecord) -> list[str]:
    return [
        utc_text(order.text("created_at")),
        order.text("created_by"),
        digest_text(order.text("context_digest")),
        order.text("rank_count"),
        order.text("span_tokens"),
    ]


def _rank_ordered(order: RowRecord) -> list[str]:
    return [order.text(column) for column in ("restore_id", "rank", "number", "root_document_sha256")]


def _measured(report: RowRecord | None) -> Iterator[str]:
    says = {} if report is None or report.document is None else _object(report.document)
    yield from (_number(says, name) for name in ("bytes", "objects", "service_ns", "unattributed_ns"))
    phases = says.get("phases_ns")
    spent = sorted(phases.items()) if isinstance(phases, dict) else []
    yield "; ".join(f"{phase} {nanoseconds}" for phase, nanoseconds in spent)


def _number(says: JsonObject, name: str) -> str:
    value = says.get(name)
    return str(value) if isinstance(value, int) else ""


def _image_of(runtime: str) -> str:
    """The image a rank measured of itself."""
    image = _object(runtime.encode()).get("image_config_id") if runtime else None
    if not isinstance(image, str):
        return ""
    return digest_text(image) if len(image) == 64 else image


def _object(raw: bytes) -> JsonObject:
    """A worker's document; an empty one where it cannot be read: the bytes are in the rows."""
    try:
        return expect_object(decode_strict(raw, subject="document"), subject="document")
    except CoreError:
        return {}
