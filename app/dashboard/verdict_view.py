"""A stored verdict as a page shows it: gates as lines, findings with the place they were read from."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from uuid import UUID

from app.core.canonical_json import JsonObject, JsonValue
from app.core.qualify.codes import CODES
from app.core.qualify.findings import Gate, GateState, Row
from app.core.qualify.values import Gap
from app.dashboard.raw_text import raw_link
from app.dashboard.verdict_words import GATES, why
from app.models import VerdictRow

_GAPS: Final = frozenset(map(str, Gap))
# Gates nobody needs and nobody tried are named in one sentence instead of a row each.
_SILENT: Final = frozenset({GateState.NOT_TESTED, GateState.NOT_APPLICABLE})
_SHOWN_ALWAYS: Final = frozenset(
    (
        Gate.IDENTITY,
        Gate.STRUCTURAL,
        Gate.PLACEMENT,
        Gate.SEMANTIC,
        Gate.CONTROL,
        Gate.ROLLBACK,
        Gate.ADMISSION,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLine:
    """One gate: its question, its state as a word, on what that rests, and the receipt that says so."""

    gate: str
    question: str
    state: str
    basis: str
    needed: bool
    pointer: str
    says: str
    document: str

    @property
    def link(self) -> str:
        return raw_link(self.document, self.pointer) if self.document and self.pointer else ""

    @property
    def is_silent(self) -> bool:
        return self.state in _SILENT and not self.needed and self.gate not in _SHOWN_ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingLine:
    """One finding: code, sentence, place and what stood there; `document` is the receipt it was read from,
    empty where it is not known."""

    code: str
    says: str
    gate: str
    row: int
    pointer: str
    value: str
    document: str
    is_missing: bool

    @property
    def link(self) -> str:
        return raw_link(self.document, self.pointer) if self.document else ""


@dataclass(frozen=True)
class VerdictView:
    """One verdict, with the receipt verdicts it was composed of; those of a receipt or case have none.

    What a composed verdict says is read from its own document; the parts tell which receipt said it.
    """

    row: VerdictRow
    parts: tuple[VerdictRow, ...] = ()

    @cached_property
    def document(self) -> JsonObject:
        return document_of(self.row)

    @cached_property
    def why(self) -> str:
        first = next((line for line in self.findings if line.code in self.row.codes), None)
        return why(self.row.outcome, reason=self.row.reason, value=first.value if first else "")

    @cached_property
    def gates(self) -> tuple[GateLine, ...]:
        sources = self._sources("gates")
        return tuple(
            _gate(line, document=sources.get(_key(line), "")) for line in _objects(self.document, "gates")
        )

    @property
    def shown_gates(self) -> list[GateLine]:
        return [line for line in self.gates if not line.is_silent]

    @property
    def silent_gates(self) -> list[GateLine]:
        return [line for line in self.gates if line.is_silent]

    @cached_property
    def findings(self) -> tuple[FindingLine, ...]:
        """Each once, in the order of their rows."""
        sources = self._sources("findings")
        lines = [
            _finding(line, document=sources.get(_key(line), ""))
            for line in _objects(self.document, "findings")
        ]
        return tuple(sorted(dict.fromkeys(lines), key=lambda line: line.row))

    @property
    def blocking(self) -> list[FindingLine]:
        """What keeps it from being qualified."""
        return [line for line in self.findings if Row(line.row).blocks]

    @property
    def warnings(self) -> list[FindingLine]:
        return [line for line in self.findings if line.row == Row.WARNING]

    @property
    def supporting(self) -> list[FindingLine]:
        return [line for line in self.findings if line.row in (Row.QUALIFIED, Row.SUPPORT)]

    @property
    def notes(self) -> list[FindingLine]:
        return [line for line in self.findings if line.row == Row.NOTE]

    @property
    def established(self) -> list[str]:
        return _texts(self.document.get("established"))

    @property
    def not_established(self) -> list[str]:
        return _texts(self.document.get("not_established"))

    def _sources(self, member: str) -> dict[str, str]:
        """What is said, to the receipt that says it: those that decided before the others."""
        own = self.row.receipt_sha256
        if own is not None:
            return {_key(line): own for line in _objects(self.document, member)}
        last_first = sorted(self.parts, key=lambda part: part.receipt_sha256 in self.row.receipts)
        return {
            _key(line): part.receipt_sha256 or ""
            for part in last_first
            for line in _objects(self._documents[part.id], member)
        }

    @cached_property
    def _documents(self) -> dict[UUID, JsonObject]:
        return {part.id: document_of(part) for part in self.parts}


def verdict_views(rows: Sequence[VerdictRow], parts: Iterable[VerdictRow]) -> list[VerdictView]:
    """Each scope's verdict with the receipt verdicts about exactly this scope and capability."""
    by_scope: dict[tuple[str, str], list[VerdictRow]] = {}
    for part in parts:
        by_scope.setdefault((part.scope_digest, part.capability), []).append(part)
    return [
        VerdictView(row=row, parts=tuple(by_scope.get((row.scope_digest, row.capability), ())))
        for row in rows
    ]


def document_of(row: VerdictRow) -> JsonObject:
    """The verdict as it was written down, by this program: nobody else's text is in its form."""
    value = json.loads(row.document)
    return value if isinstance(value, dict) else {}


def gate_state(gates: Mapping[str, JsonValue], gate: str) -> tuple[str, str]:
    """State and basis of a gate as a list keeps them; "not tested" where nothing is kept."""
    kept = gates.get(gate)
    if not isinstance(kept, dict):
        return GateState.NOT_TESTED.value, ""
    return str(kept.get("state") or GateState.NOT_TESTED.value), str(kept.get("basis") or "")


def _gate(line: JsonObject, *, document: str) -> GateLine:
    gate = _text(line.get("gate"))
    return GateLine(
        gate=gate,
        question=GATES.get(gate, ""),
        state=_text(line.get("state")),
        basis=_text(line.get("basis")),
        needed=line.get("needed") is True,
        pointer=_text(line.get("pointer")),
        says=_said(_text(line.get("says"))),
        document=document,
    )


def _said(text: str) -> str:
    """A gate may name a code instead of a sentence."""
    name, _, detail = text.partition(":")
    known = CODES.get(name)
    if known is None:
        return text
    return f"{detail}: {known.says}" if detail else known.says


def _finding(line: JsonObject, *, document: str) -> FindingLine:
    value, row = _text(line.get("value")), line.get("row")
    return FindingLine(
        code=_text(line.get("code")),
        says=_text(line.get("says")),
        gate=_text(line.get("gate")),
        row=row if isinstance(row, int) else int(Row.NOTE),
        pointer=_text(line.get("pointer")),
        value="" if value in _GAPS else value,
        document=_text(line.get("document")) or document,
        is_missing=value in _GAPS,
    )


def _key(line: JsonObject) -> str:
    """The same for lines that say the same; an image has a thousand."""
    return repr(sorted(line.items()))


def _objects(document: JsonObject, member: str) -> list[JsonObject]:
    value = document.get(member)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _texts(value: JsonValue) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
