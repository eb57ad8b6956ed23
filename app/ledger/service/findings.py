"""What an audit says: one finding per thing that is not as it was written, and sums."""

from collections.abc import Callable
from dataclasses import dataclass, field

from app.core.canonical_json import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing behind the application's back.

    Attributes:
        code: entry-…, node-…, checkpoint-…, row-changed, row-removed, row-added, history-…
        subject: the row: table (or view) and key.
    """

    code: str
    subject: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.code}: {self.subject}: expected {self.expected}, found {self.found}"

    def to_document(self) -> JsonObject:
        """For ``--json``."""
        return {"code": self.code, "subject": self.subject, "expected": self.expected, "found": self.found}


@dataclass(slots=True, kw_only=True)
class AuditTotals:
    """How much was looked at so far; `size` and `root` once the log was read to its end.

    Attributes:
        root: hex, or None where entries are missing and no tree can be built.
    """

    entries: int = 0
    nodes: int = 0
    checkpoints: int = 0
    signatures: int = 0
    rows: int = 0
    findings: int = 0
    root: str | None = None
    by_view: dict[str, int] = field(default_factory=dict)

    def to_document(self) -> JsonObject:
        """For ``--json``."""
        return {
            "entries": self.entries,
            "nodes": self.nodes,
            "checkpoints": self.checkpoints,
            "signatures": self.signatures,
            "rows": self.rows,
            "findings": self.findings,
            "root": self.root,
            "rows_by_view": dict(self.by_view),
        }


AuditProgress = Callable[[AuditTotals], None]
