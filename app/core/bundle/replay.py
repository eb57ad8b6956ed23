"""Every verdict made again: the log is gone through as it grew, and each row must be what the rules say then.

What a verdict rests on is what earlier entries brought: receipts, the places they stood in, declarations. A
verdict of other rules than ours cannot be made again; it is counted, and what it says is taken as given.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from app.core.bundle.alike import Alike
from app.core.bundle.csv_text import instant
from app.core.bundle.population import Mark, Population, Stood
from app.core.bundle.records import CheckedLeaf, RowRecord
from app.core.bundle.standing import Current, Scope, Standing
from app.core.bundle.tables import texts
from app.core.canonical_json import JsonValue, decode_strict
from app.core.digest import sha256
from app.core.errors import CoreError, FormatError, IntegrityError, shown
from app.core.qualify.around import around
from app.core.qualify.composition import saying
from app.core.qualify.drafts import (
    Draft,
    closing_draft,
    composed_draft,
    draft_from,
    index_columns,
    receipt_drafts,
    subject_key,
)
from app.core.qualify.facts import Capability
from app.core.qualify.findings import Outcome
from app.core.qualify.keys import receipt_columns
from app.core.qualify.ruleset import ruleset_version
from app.core.qualify.surroundings import Declaration
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict

_MOST_KEPT: Final = 8192
_RECEIPT_VIEWS: Final = frozenset({"declaration", "receipt", "receipt_origin"})
ReadReceipt = Callable[[str], bytes]
ReadRow = Callable[[int], RowRecord]


class Replay:
    """Takes the entries in order.

    Args:
        read_receipt: the bytes of a receipt by digest.
        read_row: a row by its place in the file of rows.
        is_whole: whether everything that was said and judged so far is there: then what is only context is
            made again too, and a verdict not written is missing.

    Attributes:
        counts: verdicts made again, and not; receipts read.
    """

    def __init__(self, *, read_receipt: ReadReceipt, read_row: ReadRow, is_whole: Callable[[], bool]) -> None:
        self.counts: Counter[str] = Counter(judged=0, other_rules=0, context=0, receipts=0)
        self._population = Population(read_receipt)
        self._standing = Standing(self._verdict_of)
        self._read_row = read_row
        self._is_whole = is_whole
        self._ruleset = str(ruleset_version())
        self._verdicts: OrderedDict[str, Verdict] = OrderedDict()
        self._alike = Alike()
        self._made_of: dict[Scope, str] = {}
        # When something was said last about the receipts under a mark, and when a receipt was judged last.
        self._marked: dict[Mark, tuple[int, datetime]] = {}
        self._judged_at: dict[str, int] = {}
        self._index = 0
        self._grade = Basis.SELF_CONSISTENT
        self._last = datetime.min.replace(tzinfo=UTC)

    def take(self, leaf: CheckedLeaf) -> Iterator[CoreError]:
        """What of an entry is not as receipts and rules have it."""
        self._index = leaf.index
        verdicts = [row for row in leaf.rows if row.view == "verdict"]
        for row in sorted((row for row in leaf.rows if row.view in _RECEIPT_VIEWS), key=lambda row: row.view):
            try:
                yield from self._said(row, at=leaf.says.at)
            except CoreError as error:
                yield error
        if verdicts:
            yield from self._judged(verdicts)
        self._last = leaf.says.at

    def finish(self) -> Iterator[CoreError]:
        """Receipts that were not judged after what was said last: their newest verdicts must still hold.

        Whom the last entry's transaction concerned is left out: its verdicts may lie behind the end, also
        where a mark of theirs is older, as every mark of a receipt may be that came in last.
        """
        marked = self._marked.items() if self._is_whole() else ()
        late = self._population.marked(mark for mark, (_, at) in marked if at == self._last)
        open_receipts = {
            receipt
            for mark, (index, _) in marked
            for receipt in self._population.marked([mark])
            if self._judged_at.get(receipt, -1) < index
        }
        for receipt in sorted(open_receipts - late):
            current = list(self._standing.of_receipt(receipt))
            if not all(one.again for one in current):
                continue
            try:
                grade = self._grade_of(current[0]) if current else self._grade
                yield from self._missing(receipt, self._drafts(receipt, grade=grade))
            except CoreError as error:
                yield error

    def _said(self, row: RowRecord, *, at: datetime) -> Iterator[CoreError]:
        """A receipt, a place or a declaration."""
        if row.view == "receipt":
            self.counts["receipts"] += 1
            digest = row.text("sha256")
            marks = self._population.add_receipt(digest)
            yield from _differing(row, receipt_columns(self._population.facts(digest)))
        elif row.view == "receipt_origin":
            marks = self._population.add_place(_stood(row))
        else:
            declared = instant(row.text("created_at"))
            marks = self._population.add_declaration(_declaration(row), at=declared, row=row.text("id"))
        self._marked |= dict.fromkeys(marks, (self._index, at))

    def _judged(self, rows: Sequence[RowRecord]) -> Iterator[CoreError]:
        """The verdicts of one entry: those of receipts first, then those of scopes, which rest on them."""
        kept: dict[str, tuple[RowRecord, Draft]] = {}
        for row in rows:
            try:
                draft = draft_from(row.document or b"", subject=f"verdict {row.key}")
            except CoreError as error:
                yield error
                continue
            yield from _differing(row, index_columns(draft))
            kept[str(draft.subject_key)] = (row, draft)
        touched: set[Scope] = set()
        receipts = sorted({draft.receipt for _, draft in kept.values() if draft.receipt})
        for receipt in receipts:
            own = {key: one for key, one in kept.items() if one[1].receipt == receipt}
            yield from self._receipt(receipt, own, touched)
        scopes = {key: one for key, one in kept.items() if one[1].receipt is None}
        yield from self._scopes(scopes, touched)
        ours = [draft for row, draft in kept.values() if self._may_be_made_again(row, draft)]
        if ours and self._is_whole():
            yield from self._unwritten(touched, grade=ours[0].deployable_grade)

    def _receipt(
        self, receipt: str, kept: dict[str, tuple[RowRecord, Draft]], touched: set[Scope]
    ) -> Iterator[CoreError]:
        judged_again = any(self._may_be_made_again(row, draft) for row, draft in kept.values())
        expected: dict[str, Draft] = {}
        if judged_again:
            self._grade = next(iter(kept.values()))[1].deployable_grade
            try:
                expected = self._drafts(receipt, grade=self._grade)
            except (CoreError, KeyError) as error:
                yield IntegrityError(
                    f"verdicts of receipt {receipt}", expected="what they rest on", found=str(error)
                )
                judged_again = False
        # Cases first: whether a receipt of other rules seems to compose is told by the cases it has.
        cases_first = sorted(kept.items(), key=lambda one: one[1][1].kind != "case")
        for key, (row, draft) in cases_first:
            if self._may_be_made_again(row, draft) and judged_again:
                yield from self._compare(row, draft, expected.get(key))
            composes = expected[key].composes if key in expected else self._seems_to_compose(draft)
            touched |= self._put(row, draft, composes=composes)
        if judged_again:
            self._judged_at[receipt] = self._index
        if judged_again and self._is_whole():
            yield from self._missing(receipt, expected)

    def _scopes(self, kept: dict[str, tuple[RowRecord, Draft]], touched: set[Scope]) -> Iterator[CoreError]:
        """Those that have a row, and those that what was judged here may have changed."""
        for row, draft in kept.values():
            scope = _scope(draft)
            if self._may_be_made_again(row, draft):
                expected = self._composed(scope, grade=draft.deployable_grade)
                yield from self._compare(row, draft, expected)
            touched.discard(scope)
            self._put(row, draft, composes=False)

    def _unwritten(self, touched: set[Scope], *, grade: Basis) -> Iterator[CoreError]:
        """Scopes that changed without a verdict over them."""
        for scope in sorted(touched):
            composing = self._standing.composing(scope)
            if self._made_of.get(scope) == _signature(composing, grade):
                continue
            last = self._standing.get(str(subject_key("scope", of=scope[0], capability=scope[1])))
            expected = self._composed(scope, grade=grade)
            if expected is None and last is not None and last.outcome == Outcome.NONE:
                continue
            if last is None or expected is None or sha256(expected.document) != last.document_sha256:
                found = "none" if last is None else f"verdict {last.verdict_id}, which says otherwise"
                yield IntegrityError(
                    f"scope {scope[0]} ({scope[1]})", expected="a verdict over it", found=found
                )

    def _compare(self, row: RowRecord, draft: Draft, expected: Draft | None) -> Iterator[CoreError]:
        """Whether the rules say what the row keeps."""
        self.counts["judged"] += 1
        if expected is None:
            expected = self._closed(draft)
        if expected is None:
            yield IntegrityError(
                f"verdict {row.key}",
                expected="none: the rules see no such case",
                found=draft.verdict.outcome.value,
            )
        elif expected.document != draft.document:
            made, kept = _difference(draft, expected)
            yield IntegrityError(f"verdict {row.key}", expected=made, found=kept)

    def _closed(self, draft: Draft) -> Draft | None:
        """What is written where nothing is judged any more."""
        last = self._standing.get(str(draft.subject_key))
        if last is None:
            return None
        return closing_draft(
            self._standing.verdict(last),
            kind=draft.kind,
            receipt=draft.receipt,
            grade=draft.deployable_grade,
            ruleset=self._ruleset,
        )

    def _missing(self, receipt: str, expected: dict[str, Draft]) -> Iterator[CoreError]:
        """What the rules say of a receipt and no verdict does."""
        for key, draft in expected.items():
            current = self._standing.get(key)
            if current is None or current.document_sha256 != sha256(draft.document):
                yield IntegrityError(
                    f"receipt {receipt}",
                    expected=f"a verdict {draft.verdict.outcome.value} for {draft.verdict.capability.value} "
                    f"{draft.verdict.case}".rstrip(),
                    found="none"
                    if current is None
                    else f"verdict {current.verdict_id}, which says otherwise",
                )
        for current in self._standing.of_receipt(receipt):
            if current.subject_key not in expected and current.outcome != Outcome.NONE:
                yield IntegrityError(
                    f"verdict {current.verdict_id}", expected="closed: no such case any more", found="current"
                )

    def _composed(self, scope: Scope, *, grade: Basis) -> Draft | None:
        composing = self._standing.composing(scope)
        self._made_of[scope] = _signature(composing, grade)
        if not composing:
            return None
        receipts = self._standing.receipts(composing)
        return composed_draft(receipts, capability=Capability(scope[1]), grade=grade)

    def _drafts(self, receipt: str, *, grade: Basis) -> dict[str, Draft]:
        facts, surroundings = around(receipt, others=self._population)
        return {str(draft.subject_key): draft for draft in receipt_drafts(facts, surroundings, grade=grade)}

    def _may_be_made_again(self, row: RowRecord, draft: Draft) -> bool:
        return draft.verdict.ruleset == self._ruleset and (row.selected or self._is_whole())

    def _put(self, row: RowRecord, draft: Draft, *, composes: bool) -> set[Scope]:
        if draft.verdict.ruleset != self._ruleset:
            self.counts["other_rules"] += 1
        elif not self._may_be_made_again(row, draft):
            self.counts["context"] += 1
        self._keep(row.key, draft.verdict)
        return self._standing.put(
            Current(
                subject_key=str(draft.subject_key),
                kind=draft.kind,
                verdict_id=row.key,
                document_sha256=str(sha256(draft.document)),
                receipt=draft.receipt or "",
                composes=composes,
                scope=_scope(draft),
                outcome=draft.verdict.outcome.value,
                superseded_by=draft.superseded_by or "",
                saying=saying(draft.verdict) if composes else "",
                again=self._may_be_made_again(row, draft),
                place=row.place,
            )
        )

    def _seems_to_compose(self, draft: Draft) -> bool:
        """Whether a verdict that is not made again took part in its scope: each case does, and a receipt
        that has none."""
        one = draft.verdict
        if one.outcome is Outcome.NONE or one.is_drill or not (one.scope.image or one.scope.source):
            return False
        if draft.kind == "case":
            return True
        return not any(
            current.kind == "case" and current.scope[1] == one.capability.value
            for current in self._standing.of_receipt(draft.receipt or "")
        )

    def _verdict_of(self, current: Current) -> Verdict:
        verdict = self._verdicts.get(current.verdict_id)
        if verdict is None:
            row = self._read_row(current.place)
            verdict = draft_from(row.document or b"", subject=f"verdict {row.key}").verdict
            self._keep(current.verdict_id, verdict)
        return verdict

    def _grade_of(self, current: Current) -> Basis:
        row = self._read_row(current.place)
        return draft_from(row.document or b"", subject=f"verdict {row.key}").deployable_grade

    def _keep(self, verdict_id: str, verdict: Verdict) -> None:
        self._verdicts[verdict_id] = self._alike.verdict(verdict)
        while len(self._verdicts) > _MOST_KEPT:
            self._verdicts.popitem(last=False)


def _scope(draft: Draft) -> Scope:
    return str(draft.verdict.scope.digest()), draft.verdict.capability.value


def _signature(composing: Sequence[Current], grade: Basis) -> str:
    return str(sha256("\n".join((grade.value, *(one.verdict_id for one in composing))).encode()))


def _differing(row: RowRecord, expected: dict[str, JsonValue]) -> Iterator[CoreError]:
    """Columns that are an index over the document and say something else."""
    for name, value in expected.items():
        found = _value(row, name)
        if found != value:
            subject = f"row {row.view} {row.key}.{name}"
            yield IntegrityError(
                subject, expected=f"{shown(value)} as the document has it", found=shown(found)
            )


def _value(row: RowRecord, name: str) -> JsonValue:
    """A column as a value."""
    if row.columns.get(name) is None:
        return None
    kind, text = row.columns[name] or ("", "")
    if kind == "integer":
        return int(text) if text.lstrip("-").isdigit() else text
    if kind == "boolean":
        return text == "true"
    if kind in ("json", "texts"):
        return decode_strict(text.encode(), subject=f"row {row.view} {row.key}.{name}")
    return text


def _difference(draft: Draft, expected: Draft) -> tuple[str, str]:
    """The first thing in which two documents differ: as it must be, and as it is."""
    kept, made = index_columns(draft), index_columns(expected)
    for name in ("outcome", "deployable", "deployable_reason", "evidence_grade", *kept):
        if kept[name] != made[name] and name != "document_sha256":
            return f"{name} {shown(made[name])} as the rules have it", shown(kept[name])
    return f"the document {sha256(expected.document)} as the rules have it", str(sha256(draft.document))


def _stood(row: RowRecord) -> Stood:
    committed = row.text("committed_at")
    return Stood(
        receipt_sha256=row.text("receipt_sha256"),
        repository=row.text("repository"),
        path=row.text("path"),
        commit=row.text("commit"),
        committed_at=instant(committed) if committed else None,
        created_at=instant(row.text("created_at")),
        row=row.text("id"),
    )


def _declaration(row: RowRecord) -> Declaration:
    subject = f"row {row.view} {row.key}"
    try:
        return Declaration(
            who=row.text("created_by"),
            when=instant(row.text("created_at")).isoformat(),
            reason=row.text("reason"),
            receipts=tuple(texts(row.text("receipts"))),
            capability=Capability(row.text("capability")),
        )
    except ValueError as error:
        raise FormatError(subject, expected="a declaration", found=str(error)) from None
