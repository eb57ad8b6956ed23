"""The request of one export as building it needs it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from app.models import EvidenceExport


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
