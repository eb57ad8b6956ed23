"""Which rows of the log a request is about, and whether a bundle answers the request it names.

All other rows go along as context: verdicts are judged with them. What is decided here depends on the covered
leaves alone, never on what came later: the server chooses with it, the verifier chooses again.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, Protocol

from app.core.bundle.derive import BundleRequest
from app.core.bundle.records import CheckedLeaf
from app.core.canonical_json import decode_strict, expect_list, expect_object
from app.core.errors import CoreError, FormatError, IntegrityError, shown
from app.core.ledger.leaf import instant_text

_DECIDING: Final = frozenset(
    {
        "receipt",
        "verdict",
        "image",
        "operational_exception",
        "restore.purpose",
        "restore.receipt",
    }
)
_OF_RESTORES: Final = frozenset(
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
"""Views whose key is a restore."""
_TOPOLOGY: Final = re.compile(r"TP([1-9][0-9]{0,3})/DCP([1-9][0-9]{0,3})")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class Row(Protocol):
    """A row as a leaf mentions it."""

    @property
    def view(self) -> str:
        """Of which view."""

    @property
    def key(self) -> str:
        """Which row of it."""

    @property
    def columns(self) -> Mapping[str, tuple[str, str] | None]:
        """What its digest is over, each with its type."""


class Selection:
    """The rows that a request is about: of some images and a topology, from its first leaf on.

    Attributes:
        deciding: views that say which receipts, restores and sources belong to an image or a topology.
        attempts: the view that says which attempts belong to a restore.
    """

    deciding: Final = _DECIDING
    attempts: Final = frozenset({"rank_attempt.order"})

    def __init__(self, request: BundleRequest) -> None:
        self._start = request.start
        self._images = frozenset(request.images)
        found = _TOPOLOGY.fullmatch(request.topology)
        self._topology = None if found is None else (found[1], found[2])
        self._receipts: set[str] = set()
        self._restores: set[str] = set()
        self._attempts: set[str] = set()
        self._sources: set[str] = set()
        self._exceptions: set[str] = set()

    @property
    def limits(self) -> bool:
        """Whether rows are chosen at all, so that `learn` must see them first."""
        return bool(self._images or self._topology)

    def learn(self, rows: Iterable[Row]) -> None:
        """Take in what belongs to what; every covered row of `deciding`, in order."""
        for row in rows:
            match row.view:
                case "receipt" if self._topology is None and _text(row, "image_config_id") in self._images:
                    self._receipts.add(row.key)
                case "verdict" if self._topology is not None and self._is_judged(row):
                    self._receipts.add(_text(row, "receipt_sha256"))
                case "image" if _text(row, "config_id") in self._images:
                    self._sources.add(_text(row, "source_id"))
                case "restore.receipt" if _text(row, "receipt_sha256") in self._receipts:
                    self._restores.add(row.key)
                case "restore.purpose" if _text(row, "image_config_id") in self._images:
                    self._restores.add(row.key)
                case "operational_exception" if self._is_image(row) and self._is_scope(row):
                    self._exceptions.add(row.key)
        self._receipts.discard("")

    def learn_attempts(self, rows: Iterable[Row]) -> None:
        """Take in which attempts belong to the restores; after `learn`, since a receipt comes after them."""
        for row in rows:
            if _text(row, "restore_id") in self._restores:
                self._attempts.add(row.key)

    def takes(self, index: int, row: Row) -> bool:
        """Whether a row of this leaf is meant, and not only there to judge what is."""
        if index < self._start:
            return False
        return not self.limits or self._is_about(row)

    def _is_about(self, row: Row) -> bool:
        match row.view:
            case "receipt":
                return row.key in self._receipts
            case "receipt_origin":
                return _text(row, "receipt_sha256") in self._receipts
            case "image_identity":
                return self._is_image(row) and _text(row, "receipt_sha256") in self._receipts
            case "verdict":
                return self._is_judged(row)
            case "declaration":
                return not self._receipts.isdisjoint(_receipts_named(row))
            case "operational_exception":
                return self._is_image(row) and self._is_scope(row)
            case "operational_exception_end":
                return row.key in self._exceptions
            case "image":
                return not self._images or _text(row, "config_id") in self._images
            case "source_identity":
                return row.key in self._sources
            case view if view in _OF_RESTORES:
                return row.key in self._restores
            case "rank_attempt.order" | "rank_attempt.result" | "rank_attempt.release" | "rank_report":
                return row.key in self._attempts
        return False

    def _is_image(self, row: Row) -> bool:
        return not self._images or _text(row, "image_config_id") in self._images

    def _is_judged(self, row: Row) -> bool:
        """A verdict about a chosen image and the topology."""
        same = self._topology is None or (_text(row, "tp"), _text(row, "dcp")) == self._topology
        return same and self._is_image(row)

    def _is_scope(self, row: Row) -> bool:
        if self._topology is None:
            return True
        scope = expect_object(
            decode_strict(_text(row, "scope").encode(), subject="scope of an exception"), subject="scope"
        )
        return (str(scope.get("tp")), str(scope.get("dcp"))) == self._topology


class Answered:
    """Whether a bundle holds what its request says: the period's leaves, every row chosen that must be."""

    def __init__(self, request: BundleRequest, *, selection: Selection) -> None:
        self._request = request
        self._selection = selection
        self._since = _instant(request.period_from)
        self._until = _instant(request.period_to)

    def begin(self) -> Iterator[CoreError]:
        """What of the request contradicts itself."""
        request = self._request
        if request.everything != (not self._limits):
            yield _unlike("everything", expected=str(not self._limits).lower(), found=request.everything)
        if request.start and not request.period_from:
            yield _unlike("start", expected="0, as no period begins later", found=request.start)
        for name, at in (("period_from", self._since), ("period_to", self._until)):
            text = str(getattr(request, name))
            if text and (at is None or instant_text(at) != text):
                yield _unlike(name, expected="YYYY-MM-DDThh:mm:ss.ffffffZ", found=text)
        images = request.images
        if list(images) != sorted(set(images)) or not all(map(_DIGEST.fullmatch, images)):
            yield _unlike("images", expected="config ids in order, each once", found=list(images))
        if request.topology and _TOPOLOGY.fullmatch(request.topology) is None:
            yield _unlike("topology", expected="TPn/DCPn", found=request.topology)

    def take(self, leaf: CheckedLeaf) -> Iterator[CoreError]:
        """What of an entry is not as the request has it."""
        request, at = self._request, leaf.says.at
        subject = f"entry {leaf.index}"
        if self._since is not None and leaf.index == request.start and at < self._since:
            yield IntegrityError(subject, expected=f"one of {request.period_from} or later", found=f"{at}")
        if self._since is not None and leaf.index == request.start - 1 and at >= self._since:
            yield IntegrityError(
                subject, expected=f"one before the period from {request.period_from}", found=f"{at}"
            )
        if self._until is not None and leaf.index == request.size - 1 and at >= self._until:
            yield IntegrityError(subject, expected=f"one before {request.period_to}", found=f"{at}")
        for row in leaf.rows:
            taken = self._selection.takes(leaf.index, row)
            if row.selected != taken:
                yield IntegrityError(
                    f"{subject}: row {row.view} {row.key}",
                    expected="selected, as it was asked for" if taken else "context: nobody asked for it",
                    found="context" if taken else "selected",
                )

    @property
    def _limits(self) -> bool:
        one = self._request
        return bool(one.period_from or one.period_to or one.images or one.topology)


def _unlike(name: str, *, expected: str, found: object) -> FormatError:
    return FormatError(f"MANIFEST.json.request.{name}", expected=expected, found=shown(found))


def _instant(text: str) -> datetime | None:
    """An instant with its offset; None for another text."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if at.tzinfo is None else at


def _text(row: Row, column: str) -> str:
    """A column as the database prints it; empty for NULL."""
    value = row.columns[column]
    return "" if value is None else value[1]


def _receipts_named(row: Row) -> set[str]:
    text = _text(row, "receipts")
    if text == "[]":
        return set()
    named = decode_strict(text.encode(), subject="receipts of a declaration")
    return {str(one) for one in expect_list(named, subject="receipts of a declaration")}
