"""The coverage matrix: the newest verdict of every scope, and images nobody brought evidence for."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from app.core.bundle.csv_text import digest_text, named_text, utc_text
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
        # Subject key → numbers of what it shares with others and of the texts it names, then its own cells.
        self._scopes: dict[bytes, bytes] = {}
        self._shared: dict[str, int] = {}
        self._texts: dict[tuple[int, ...], int] = {}
        self._titles: dict[str, str] = {}
        self._judged: set[str] = set()
        self._open: dict[str, int] = {}
        self.outcomes: Counter[str] = Counter()

    def take_image(self, row: RowRecord) -> None:
        """A registered image; one without a config id is known by its registry digest."""
        name = row.text("config_id") or row.text("manifest_digest") or row.text("index_digest")
        if not self._images or name in self._images:
            self._titles[name] = row.text("title")[:_LONGEST_TITLE]

    def take_verdict(self, row: RowRecord, says: JsonObject) -> None:
        """A verdict; only those over a scope count, and the last of each."""
        if row.text("kind") != "scope" or not self._asked_for(row):
            return
        self._judged.add(row.text("image_config_id"))
        texts = says.get("not_established")
        listed = [one for one in texts if isinstance(one, str)] if isinstance(texts, list) else []
        numbers = tuple(self._open.setdefault(one, len(self._open)) for one in listed)
        shared = self._shared.setdefault(_BREAK.join(_shared_cells(row)), len(self._shared))
        texts_of_it = self._texts.setdefault(numbers, len(self._texts))
        own = (str(shared), str(texts_of_it), *_own_cells(row))
        self._scopes[bytes.fromhex(row.text("subject_key"))] = _BREAK.join(own).encode("utf-8")

    def lines(self) -> Iterator[list[str]]:
        """Every line, by image, and those without evidence behind them: each registered image has one."""
        shared = list(self._shared)

        def order(packed: bytes) -> tuple[str, str, str]:
            number, _, image, verdict, _ = packed.decode("utf-8").split(_BREAK)
            return image, shared[int(number)], verdict

        for packed in sorted(self._scopes.values(), key=order):
            number, _, image, verdict, created_at = packed.decode("utf-8").split(_BREAK)
            cells = shared[int(number)].split(_BREAK)
            self.outcomes[cells[8]] += 1
            yield [digest_text(image), self._titles.get(image, ""), *cells, verdict, created_at]
        for image, title in self.without_evidence():
            self.outcomes[NO_EVIDENCE] += 1
            yield [digest_text(image), title, *[""] * 8, NO_EVIDENCE, *[""] * 5]

    def without_evidence(self) -> list[tuple[str, str]]:
        """Images no scope of which was judged, of the topology that was asked for: digest and title."""
        return sorted(one for one in self._titles.items() if one[0] not in self._judged)

    def not_established(self) -> list[tuple[int, str]]:
        """What the newest verdicts say was not shown: of how many scopes, and the text."""
        names = list(self._open)
        sets = list(self._texts)
        of_scopes = Counter(int(packed.split(_BREAK.encode())[1]) for packed in self._scopes.values())
        counted: Counter[int] = Counter()
        for place, scopes in of_scopes.items():
            counted.update(dict.fromkeys(sets[place], scopes))
        return sorted(
            ((count, names[number]) for number, count in counted.items()), key=lambda one: (-one[0], one[1])
        )

    def _asked_for(self, row: RowRecord) -> bool:
        topology = f"TP{row.text('tp')}/DCP{row.text('dcp')}"
        return (not self._images or row.text("image_config_id") in self._images) and (
            not self._topology or topology == self._topology
        )


def _shared_cells(row: RowRecord) -> Iterator[str]:
    """What scopes have in common with others; without the sign that stands between cells."""
    yield _cell(row, "capability")
    yield from (named_text(_cell(row, column)) for column in ("target", "draft"))
    plain = ("tp", "dcp", "publication_schema", "manifest_schema", "source", "outcome")
    yield from (_cell(row, column) for column in plain)
    yield {"true": "yes", "false": "no"}.get(row.text("deployable"), "")
    yield from (_cell(row, column) for column in ("deployable_reason", "evidence_grade"))


def _own_cells(row: RowRecord) -> Iterator[str]:
    yield from (_cell(row, column) for column in ("image_config_id", "id"))
    yield utc_text(row.text("created_at"))


def _cell(row: RowRecord, column: str) -> str:
    return row.text(column).replace(_BREAK, " ")
