"""The newest verdict of everything that was judged, and what stands for each scope.

The same order and bounds as the server's (`app/core/qualify/composition.py` says which), so that the same
verdict over a scope comes out.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.core.qualify.composition import MOST_OF_A_SAYING, MOST_SAYINGS, Receipt
from app.core.qualify.verdict import Verdict

Scope = tuple[str, str]
"""Digest of a scope, and a capability."""
_Bucket = tuple[bool, str]
_Place = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """The newest verdict of a subject.

    Attributes:
        composes: it takes part in the verdict of its scope.
        saying: what it says but for places and values.
        again: it is of our rules, and can be made again.
        place: where its row can be read again.
    """

    subject_key: str
    kind: str
    verdict_id: str
    document_sha256: str
    receipt: str
    composes: bool
    scope: Scope
    outcome: str
    superseded_by: str
    saying: str
    again: bool
    place: int


class Standing:
    """What is newest now.

    Args: read: the verdict of a subject, read again.
    """

    def __init__(self, read: Callable[[Current], Verdict]) -> None:
        self._read = read
        self._current: dict[str, Current] = {}
        self._of_receipt: dict[str, list[str]] = {}
        self._scopes: dict[Scope, dict[_Bucket, list[_Place]]] = {}

    def get(self, subject_key: str) -> Current | None:
        """The newest of a subject."""
        return self._current.get(subject_key)

    def verdict(self, current: Current) -> Verdict:
        """What it says."""
        return self._read(current)

    def of_receipt(self, sha256: str) -> Iterator[Current]:
        """The newest of a receipt and of its cases."""
        yield from (self._current[key] for key in self._of_receipt.get(sha256, ()))

    def put(self, new: Current) -> set[Scope]:
        """A verdict that is now the newest of its subject; the scopes that may change by it."""
        old = self._current.get(new.subject_key)
        self._current[new.subject_key] = new
        if old is None and new.receipt:
            self._of_receipt.setdefault(new.receipt, []).append(new.subject_key)
        touched = set()
        if old is not None and old.composes:
            bucket = self._scopes[old.scope][_bucket(old)]
            del bucket[bisect_left(bucket, _place(old))]
            touched.add(old.scope)
        if new.composes:
            insort(self._scopes.setdefault(new.scope, {}).setdefault(_bucket(new), []), _place(new))
            touched.add(new.scope)
        return touched

    def composing(self, scope: Scope) -> list[Current]:
        """What a scope's verdict is made of, by receipt: what nothing supersedes, else what is superseded."""
        buckets = self._scopes.get(scope, {})
        for superseded in (False, True):
            sayings = sorted(one for one, held in buckets.items() if held and one[0] is superseded)
            places = [place for one in sayings[:MOST_SAYINGS] for place in buckets[one][:MOST_OF_A_SAYING]]
            if places:
                found = [self._current[subject_key] for _, _, subject_key in places]
                return sorted(found, key=lambda one: (one.receipt, one.verdict_id))
        return []

    def receipts(self, composing: Sequence[Current]) -> list[Receipt]:
        """The same with what their verdicts say."""
        return [
            Receipt(sha256=one.receipt, verdict=self._read(one), superseded_by=one.superseded_by)
            for one in composing
        ]


def _bucket(current: Current) -> _Bucket:
    return bool(current.superseded_by), current.saying


def _place(current: Current) -> _Place:
    return current.receipt, current.verdict_id, current.subject_key
