"""From the log with its rows to everything that is shown of it: tables, coverage, statements, counts.

The builder writes down what comes out; the verifier lets the same come out again and compares.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from app.core.bundle.coverage import Coverage
from app.core.bundle.csv_text import csv_line, digest_text, utc_text
from app.core.bundle.layout import RUNS, VERDICTS
from app.core.bundle.records import CheckedLeaf, RowRecord
from app.core.bundle.restores import RestoreTables
from app.core.bundle.statements import run_statement, scope_statement
from app.core.bundle.tables import CONFLICTING, HEADERS, ROW_TABLES, WITHDRAWN
from app.core.canonical_json import JsonObject, decode_canonical, expect_object

MOST_SHOWN: Final = 200
"""So many lines of a table stand in the report."""
_IN_REPORT: Final = frozenset({"conflicts", "coverage", "exception_ends", "exceptions", "withdrawals"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRequest:
    """What was asked for.

    Attributes:
        name: of the log.
        everything: no period and no selection: every entry from 0 on is there, every row is selected.
        start: first entry of the range; from here on every entry is there in full.
        size: of the log that is covered: entries `start` … `size` - 1.
        period_from: for people, ISO 8601 in UTC; or empty.
        images: config ids; all if empty. topology: ``TP4/DCP1``; all if empty.
    """

    name: str
    everything: bool
    start: int
    size: int
    period_from: str = ""
    period_to: str = ""
    images: tuple[str, ...] = ()
    topology: str = ""


class Sink(Protocol):
    """Takes what is derived, in order."""

    def table(self, name: str, line: bytes) -> None:
        """A line of a table."""

    def statement(self, path: str, payload: bytes) -> None:
        """A statement that is to be signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What the report tells: counts by table, outcomes of scopes, the first lines of some tables."""

    counts: Mapping[str, int]
    outcomes: Mapping[str, int]
    shown: Mapping[str, Sequence[Sequence[str]]]
    without_evidence: Sequence[tuple[str, str]]
    not_established: Sequence[tuple[int, str]]


class Derivation:
    """Takes the entries in order."""

    def __init__(self, request: BundleRequest, *, sink: Sink) -> None:
        self._name = request.name
        self._sink = sink
        self._coverage = Coverage(images=request.images, topology=request.topology)
        self._restores = RestoreTables(self._line)
        self._shown: dict[str, list[list[str]]] = {name: [] for name in _IN_REPORT}
        self.counts: Counter[str] = Counter(dict.fromkeys((*HEADERS, RUNS, VERDICTS, "rows", "context"), 0))
        for name, header in HEADERS.items():
            sink.table(name, csv_line(header))

    def take(self, leaf: CheckedLeaf) -> None:
        """Everything that follows from one entry.

        Raises:
            FormatError: a row in another form than its view has.
        """
        self._restores.take(leaf)
        for row in leaf.rows:
            self.counts["rows" if row.selected else "context"] += 1
            if row.view == "image":
                self._coverage.take_image(row)
            table = ROW_TABLES.get(row.view)
            if row.selected and table is not None:
                self._line(table.name, table.cells(row, leaf=leaf.index))
            if row.view == "verdict":
                self._verdict(row, leaf=leaf.index)

    def finish(self) -> Summary:
        """What needs the whole log."""
        for cells in self._coverage.lines():
            self._line("coverage", cells)
        return Summary(
            counts=dict(sorted(self.counts.items())),
            outcomes=dict(sorted(self._coverage.outcomes.items())),
            shown=self._shown,
            without_evidence=self._coverage.without_evidence(),
            not_established=self._coverage.not_established()[:MOST_SHOWN],
        )

    def _verdict(self, row: RowRecord, *, leaf: int) -> None:
        says = _says(row)
        self._coverage.take_verdict(row, says)
        if not row.selected:
            return
        self._state(RUNS, run_statement(row, says))
        self._state(VERDICTS, scope_statement(row, says, verifier=self._name))
        if row.text("kind") != "receipt":
            return
        for finding in _findings(says):
            code = str(finding.get("code")).partition(":")[0]
            for name, codes in (("withdrawals", WITHDRAWN), ("conflicts", CONFLICTING)):
                if code in codes:
                    self._line(name, _finding_cells(row, finding, leaf=leaf))

    def _state(self, path: str, payload: bytes | None) -> None:
        if payload is not None:
            self.counts[path] += 1
            self._sink.statement(path, payload)

    def _line(self, name: str, cells: list[str]) -> None:
        self.counts[name] += 1
        self._sink.table(name, csv_line(cells))
        if name in self._shown and len(self._shown[name]) < MOST_SHOWN:
            self._shown[name].append(cells)


def _says(row: RowRecord) -> JsonObject:
    subject = f"verdict {row.key}"
    return expect_object(decode_canonical(row.document or b"", subject=subject), subject=subject)


def _findings(says: JsonObject) -> list[JsonObject]:
    found = says.get("findings")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _finding_cells(row: RowRecord, finding: JsonObject, *, leaf: int) -> list[str]:
    return [
        str(leaf),
        row.text("id"),
        digest_text(row.text("receipt_sha256")),
        digest_text(row.text("image_config_id")),
        row.text("capability"),
        str(finding.get("code")),
        str(finding.get("says")),
        str(finding.get("pointer")),
        str(finding.get("value")),
        digest_text(str(finding.get("document") or "")),
        utc_text(row.text("created_at")),
    ]
