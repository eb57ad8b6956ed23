"""Which rows of the log a request is about. All others go along as context: verdicts are judged with them.

What is decided here depends on the covered leaves alone, never on what came later: the same request must
select the same rows again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from app.core.canonical_json import decode_strict, expect_list, expect_object
from app.ledger.service.contents import Content, Entry
from app.models import EvidenceExport

# Views that say which receipts, restores, attempts and sources belong to an image or a topology.
DECIDING = frozenset(
    {
        "receipt",
        "verdict",
        "image",
        "operational_exception",
        "restore.purpose",
        "restore.receipt",
        "rank_attempt.order",
    }
)

# Views whose key is a restore.
_OF_RESTORES = frozenset(
    {
        "restore.order",
        "restore.purpose",
        "restore.question",
        "restore.receipt",
        "restore.release",
        "restore.result",
        "restore.semantic",
        "restore_answer",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleOrder:
    """The request of one export, apart from its row: building takes longer than a transaction may."""

    period_from: datetime | None
    period_until: datetime | None
    image_config_ids: frozenset[str]
    topology: tuple[str, str] | None
    first_index: int
    ledger_size: int

    @classmethod
    def of(cls, export: EvidenceExport) -> Self:
        """What an export asks for."""
        return cls(
            period_from=export.period_from,
            period_until=export.period_until,
            image_config_ids=frozenset(export.image_config_ids),
            topology=(export.tp, export.dcp) if export.tp and export.dcp else None,
            first_index=export.first_index,
            ledger_size=export.ledger_size,
        )


@dataclass(slots=True, kw_only=True)
class Selection:
    """The rows that an order is about: of some images and a topology, from its first leaf on."""

    order: BundleOrder
    _receipts: set[str] = field(default_factory=set)
    _restores: set[str] = field(default_factory=set)
    _attempts: set[str] = field(default_factory=set)
    _sources: set[str] = field(default_factory=set)
    _exceptions: set[str] = field(default_factory=set)

    @property
    def limits(self) -> bool:
        """Whether rows are chosen at all, so that `learn` must see the entries first."""
        return bool(self.order.image_config_ids or self.order.topology)

    def learn(self, entries: Iterable[Entry]) -> None:
        """Take in what belongs to what; every covered entry in order, with its rows of `DECIDING`."""
        images = self.order.image_config_ids
        for row in (row for entry in entries for row in entry.rows):
            match row.view:
                case "receipt" if self.order.topology is None and text_of(row, "image_config_id") in images:
                    self._receipts.add(row.key)
                case "verdict" if self.order.topology is not None and self._is_judged(row):
                    self._receipts.add(text_of(row, "receipt_sha256"))
                case "image" if text_of(row, "config_id") in images:
                    self._sources.add(text_of(row, "source_id"))
                case "restore.receipt" if text_of(row, "receipt_sha256") in self._receipts:
                    self._restores.add(row.key)
                case "restore.purpose" if text_of(row, "image_config_id") in images:
                    self._restores.add(row.key)
                case "operational_exception" if self._is_image(row) and self._is_scope(row):
                    self._exceptions.add(row.key)
        self._receipts.discard("")

    def learn_attempts(self, entries: Iterable[Entry]) -> None:
        """Take in which attempts belong to the restores; after `learn`, since a receipt comes after them."""
        for row in (row for entry in entries for row in entry.rows):
            if row.view == "rank_attempt.order" and text_of(row, "restore_id") in self._restores:
                self._attempts.add(row.key)

    def takes(self, index: int, row: Content) -> bool:
        """Whether a row of this leaf is meant, and not only there to judge what is."""
        if index < self.order.first_index:
            return False
        return not self.limits or self._is_about(row)

    def _is_about(self, row: Content) -> bool:
        match row.view:
            case "receipt":
                return row.key in self._receipts
            case "receipt_origin":
                return text_of(row, "receipt_sha256") in self._receipts
            case "image_identity":
                return self._is_image(row) and text_of(row, "receipt_sha256") in self._receipts
            case "verdict":
                return self._is_judged(row)
            case "declaration":
                return not self._receipts.isdisjoint(_receipts_named(row))
            case "operational_exception":
                return self._is_image(row) and self._is_scope(row)
            case "operational_exception_end":
                return row.key in self._exceptions
            case "image":
                return (
                    not self.order.image_config_ids
                    or text_of(row, "config_id") in self.order.image_config_ids
                )
            case "source_identity":
                return row.key in self._sources
            case view if view in _OF_RESTORES:
                return row.key in self._restores
            case "rank_attempt.order" | "rank_attempt.result" | "rank_attempt.release" | "rank_report":
                return row.key in self._attempts
        return False

    def _is_image(self, row: Content) -> bool:
        return (
            not self.order.image_config_ids or text_of(row, "image_config_id") in self.order.image_config_ids
        )

    def _is_judged(self, row: Content) -> bool:
        """A verdict about a chosen image and the topology."""
        same = self.order.topology is None or (text_of(row, "tp"), text_of(row, "dcp")) == self.order.topology
        return same and self._is_image(row)

    def _is_scope(self, row: Content) -> bool:
        if self.order.topology is None:
            return True
        scope = expect_object(
            decode_strict(text_of(row, "scope").encode(), subject="scope of an exception"), subject="scope"
        )
        return (str(scope.get("tp")), str(scope.get("dcp"))) == self.order.topology


def text_of(row: Content, column: str) -> str:
    """A column as the database prints it; empty for NULL."""
    value = row.columns[column]
    return "" if value is None else value[1]


def _receipts_named(row: Content) -> set[str]:
    named = decode_strict(text_of(row, "receipts").encode(), subject="receipts of a declaration")
    return {str(one) for one in expect_list(named, subject="receipts of a declaration")}
