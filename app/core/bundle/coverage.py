"""The coverage matrix: the newest verdict of every scope, and images nobody brought evidence for."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from app.core.bundle.csv_text import digest_text, utc_text
from app.core.bundle.records import RowRecord
from app.core.canonical_json import JsonObject

NO_EVIDENCE: Final = "no evidence"
_LONGEST_TITLE: Final = 200
_BREAK: Final = "\x1f"


class Coverage:
    """Kept small: one short text per scope and image.

    Args:
        images: config ids that are asked for; all if empty.
        topology: ``TP4/DCP1``; all if empty.
    """

    def __init__(self, *, images: Sequence[str], topology: str) -> None:
        self._images = frozenset(images)
        self._topology = topology
        # Subject key → its line, and the numbers of the texts it names; the numbers are shared.
        self._scopes: dict[bytes, tuple[bytes, tuple[int, ...]]] = {}
        self._numbers: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._titles: dict[str, str] = {}
        self._with_receipts: set[str] = set()
        self._open: dict[str, int] = {}
        self.outcomes: Counter[str] = Counter()

    def take_image(self, row: RowRecord) -> None:
        """A registered image; one without a config id is known by its registry digest."""
        name = row.text("config_id") or row.text("manifest_digest") or row.text("index_digest")
        if not self._images or name in self._images:
            self._titles[name] = row.text("title")[:_LONGEST_TITLE]

    def take_receipt(self, row: RowRecord) -> None:
        """A receipt about an image."""
        self._with_receipts.add(row.text("image_config_id"))

    def take_verdict(self, row: RowRecord, says: JsonObject) -> None:
        """A verdict; only those over a scope count, and the last of each."""
        if row.text("kind") != "scope" or not self._asked_for(row):
            return
        texts = says.get("not_established")
        listed = [one for one in texts if isinstance(one, str)] if isinstance(texts, list) else []
        numbers = tuple(self._open.setdefault(one, len(self._open)) for one in listed)
        shared = self._numbers.setdefault(numbers, numbers)
        line = _BREAK.join(_cells(row)).encode("utf-8")
        self._scopes[bytes.fromhex(row.text("subject_key"))] = (line, shared)

    def lines(self) -> Iterator[list[str]]:
        """Every line, by image, and those without evidence behind them."""
        for joined in sorted(cells for cells, _ in self._scopes.values()):
            image, *rest = joined.decode("utf-8").split(_BREAK)
            self.outcomes[rest[8]] += 1
            yield [digest_text(image), self._titles.get(image, ""), *rest]
        for image, title in self.without_evidence():
            self.outcomes[NO_EVIDENCE] += 1
            yield [digest_text(image), title, *[""] * 8, NO_EVIDENCE, *[""] * 5]

    def without_evidence(self) -> list[tuple[str, str]]:
        """Images that no receipt is about: digest and title."""
        return sorted(one for one in self._titles.items() if one[0] not in self._with_receipts)

    def not_established(self) -> list[tuple[int, str]]:
        """What the newest verdicts say was not shown: of how many scopes, and the text."""
        names = list(self._open)
        counted = Counter(number for _, numbers in self._scopes.values() for number in set(numbers))
        return sorted(
            ((count, names[number]) for number, count in counted.items()), key=lambda one: (-one[0], one[1])
        )

    def _asked_for(self, row: RowRecord) -> bool:
        topology = f"TP{row.text('tp')}/DCP{row.text('dcp')}"
        return (not self._images or row.text("image_config_id") in self._images) and (
            not self._topology or topology == self._topology
        )


def _cells(row: RowRecord) -> Iterator[str]:
    plain = ("capability", "target", "draft", "tp", "dcp", "publication_schema", "manifest_schema", "source")
    yield row.text("image_config_id")
    yield from (row.text(column).replace(_BREAK, " ") for column in (*plain, "outcome"))
    yield {"true": "yes", "false": "no"}.get(row.text("deployable"), "")
    yield from (row.text(column) for column in ("deployable_reason", "evidence_grade", "id"))
    yield utc_text(row.text("created_at"))
