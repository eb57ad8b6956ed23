"""A log with receipts, places, declarations and verdicts, written without a database: for samples and tests.

What the server does in SQL is done here in memory, with the same judging; rows have the columns of its views.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from app.core.bundle.population import Population, Stood
from app.core.bundle.records import Columns, Leaf, RowRecord
from app.core.bundle.standing import Current, Scope, Standing
from app.core.canonical_json import JsonValue, encode_verbatim
from app.core.digest import sha256
from app.core.ledger.leaf import Leaf as LeafText
from app.core.ledger.leaf import encode_leaf, row_digest
from app.core.ledger.merkle import leaf_hash
from app.core.qualify.around import around
from app.core.qualify.composition import saying
from app.core.qualify.drafts import Draft, composed_draft, index_columns, receipt_drafts
from app.core.qualify.facts import Capability
from app.core.qualify.findings import Outcome
from app.core.qualify.keys import receipt_columns
from app.core.qualify.surroundings import Declaration
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict

BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_JSON_COLUMNS: Final = frozenset({"gates", "scope", "runtime", "problem"})
_UUID_COLUMNS: Final = frozenset({"id", "previous_id", "source_id"})
_Value: TypeAlias = "JsonValue | datetime | bytes"


def cell(name: str, value: _Value) -> tuple[str, str] | None:
    """A column's value as the ledger prints it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "boolean", "true" if value else "false"
    if isinstance(value, datetime):
        return "microseconds", str((value - _EPOCH) // timedelta(microseconds=1))
    if isinstance(value, bytes):
        return "bytes", f"{len(value)} {sha256(value)}"
    if isinstance(value, int):
        return "integer", str(value)
    if isinstance(value, list):
        return "texts", encode_verbatim(value).decode()
    if isinstance(value, dict) or name in _JSON_COLUMNS:
        return "json", encode_verbatim(value).decode()
    return ("uuid" if name in _UUID_COLUMNS else "text"), str(value)


def record(
    view: str,
    key: str,
    values: dict[str, _Value],
    *,
    document: bytes | None = None,
) -> RowRecord:
    """A row of a view."""
    columns: Columns = {name: cell(name, value) for name, value in values.items()}
    return RowRecord(view=view, key=key, columns=columns, document=document)


@dataclass(slots=True, kw_only=True)
class SampleLog:
    """Grows event by event, a second apart; `grade` is the weakest with which anything is deployable.

    Attributes:
        leaves: the log so far, each entry with its rows.
        documents: the bytes of receipts by digest.
    """

    by: str = "sample"
    grade: Basis = Basis.SELF_CONSISTENT
    leaves: list[Leaf] = field(default_factory=list)
    documents: dict[str, bytes] = field(default_factory=dict)
    _population: Population = field(init=False)
    _standing: Standing = field(init=False)
    _verdicts: dict[str, Verdict] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._population = Population(self.documents.__getitem__)
        self._standing = Standing(lambda current: self._verdicts[current.verdict_id])

    @property
    def now(self) -> datetime:
        """The instant of the next entry."""
        return BEGINNING + timedelta(seconds=len(self.leaves))

    def leaf_hashes(self) -> list[bytes]:
        """Hashes of all entries."""
        return [leaf_hash(leaf.document) for leaf in self.leaves]

    def append(self, kind: str, rows: Sequence[RowRecord]) -> None:
        """An entry that covers these rows."""
        digests: dict[str, dict[str, str]] = {}
        for row in rows:
            digests.setdefault(row.view, {})[row.key] = row_digest(row.view, values=row.columns)
        text = LeafText(kind=kind, at=self.now, by=self.by, rows=digests)
        self.leaves.append(Leaf(index=len(self.leaves), document=encode_leaf(text), rows=tuple(rows)))

    def add_image(self, *, config_id: str, title: str, manifest_digest: str | None = None) -> None:
        """A registered image."""
        key = self._id("image", config_id)
        values: dict[str, _Value] = {
            "id": key,
            "config_id": config_id,
            "manifest_digest": manifest_digest,
            "index_digest": None,
            "title": title,
            "origin": "registered",
            "record": None,
            "source_id": None,
            "created_at": self.now,
            "created_by": self.by,
        }
        self.append("image-registered", [record("image", key, values)])

    def add_receipt(self, raw: bytes, *, repository: str = "", path: str = "", commit: str = "") -> str:
        """A document comes in and is judged, with everything that it bears on; its digest."""
        digest = str(sha256(raw))
        self.documents[digest] = raw
        concerned = self._population.add_receipt(digest)
        values: dict[str, _Value] = {
            **receipt_columns(self._population.facts(digest)),
            "document": raw,
            "created_at": self.now,
            "created_by": self.by,
        }
        rows = [record("receipt", digest, values)]
        if path:
            place = self._place(digest, repository=repository, path=path, commit=commit)
            concerned |= self._population.add_place(place)
            rows.append(self._origin(place))
        self.append("receipt-appended", rows)
        self.judge(self._population.marked(concerned))
        return digest

    def declare(self, receipts: Sequence[str], *, reason: str, capability: Capability) -> None:
        """A person declares receipts meant for qualification."""
        key = self._id("declaration", reason, *receipts)
        values: dict[str, _Value] = {
            "id": key,
            "reason": reason,
            "receipts": list(receipts),
            "capability": capability.value,
            "created_at": self.now,
            "created_by": self.by,
        }
        declaration = Declaration(
            who=self.by,
            when=self.now.isoformat(),
            reason=reason,
            receipts=tuple(receipts),
            capability=capability,
        )
        self._population.add_declaration(declaration, at=self.now, row=key)
        self.append("receipts-declared", [record("declaration", key, values)])
        self.judge(receipts)

    def add_exception(self, *, config_id: str, reason: str, days: int) -> None:
        """Somebody allows operational restores of an image for a while."""
        key = self._id("exception", config_id, reason)
        scope: dict[str, JsonValue] = {"tp": 4, "dcp": 1, "target": "ab" * 32, "draft": "cd" * 32}
        values: dict[str, _Value] = {
            "id": key,
            "image_config_id": config_id,
            "scope_digest": str(sha256(encode_verbatim(scope))),
            "scope": scope,
            "reason": reason,
            "expires_at": self.now + timedelta(days=days),
            "created_at": self.now,
            "created_by": self.by,
        }
        self.append("exception-granted", [record("operational_exception", key, values)])

    def judge(self, receipts: Iterable[str]) -> None:
        """Judge receipts and the scopes they take part in; an entry where anything changed."""
        rows: list[RowRecord] = []
        touched: set[Scope] = set()
        for receipt in sorted(set(receipts)):
            facts, surroundings = around(receipt, others=self._population)
            for draft in receipt_drafts(facts, surroundings, grade=self.grade):
                touched |= self._write(draft, rows)
        for scope in sorted(touched):
            composing = self._standing.composing(scope)
            if composing:
                made_of = self._standing.receipts(composing)
                composed = composed_draft(made_of, capability=Capability(scope[1]), grade=self.grade)
                if composed is not None:
                    self._write(composed, rows)
        if rows:
            self.append("verdicts-made", rows)

    def _write(self, draft: Draft, rows: list[RowRecord]) -> set[Scope]:
        key, digest = str(draft.subject_key), str(sha256(draft.document))
        last = self._standing.get(key)
        if last is not None and last.document_sha256 == digest:
            return set()
        verdict_id = self._id("verdict", key, str(len(self.leaves)))
        values: dict[str, _Value] = {
            "id": verdict_id,
            **index_columns(draft),
            "document": draft.document,
            "previous_id": None if last is None else last.verdict_id,
            "cause": "receipt-imported",
            "cause_detail": "a receipt came in",
            "cause_receipt": draft.receipt,
            "created_at": self.now,
            "created_by": self.by,
        }
        rows.append(record("verdict", verdict_id, values, document=draft.document))
        self._verdicts[verdict_id] = draft.verdict
        return self._standing.put(
            Current(
                subject_key=key,
                kind=draft.kind,
                verdict_id=verdict_id,
                document_sha256=digest,
                receipt=draft.receipt or "",
                composes=draft.composes and draft.verdict.outcome is not Outcome.NONE,
                scope=(str(draft.verdict.scope.digest()), draft.verdict.capability.value),
                outcome=draft.verdict.outcome.value,
                superseded_by=draft.superseded_by or "",
                saying=saying(draft.verdict),
                again=True,
                place=-1,
            )
        )

    def _place(self, digest: str, *, repository: str, path: str, commit: str) -> Stood:
        return Stood(
            receipt_sha256=digest,
            repository=repository,
            path=path,
            commit=commit,
            committed_at=None,
            created_at=self.now,
            row=self._id("origin", digest, repository, path, commit),
        )

    def _origin(self, place: Stood) -> RowRecord:
        values: dict[str, _Value] = {
            "id": place.row,
            "receipt_sha256": place.receipt_sha256,
            "repository": place.repository,
            "path": place.path,
            "commit": place.commit,
            "committed_at": None,
            "keys": [],
            "created_at": self.now,
            "created_by": self.by,
        }
        return record("receipt_origin", place.row, values)

    def _id(self, *names: str) -> str:
        """An id that is the same every time."""
        digits = sha256("\n".join(names).encode())[:32]
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
