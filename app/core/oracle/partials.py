"""What one rank found in its pages, as a document of integers and strings (docs/FORMAT.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.core.canonical_json import JsonObject, JsonValue, expect_int, expect_object, expect_text
from app.core.digest import Digest
from app.core.errors import FormatError, shown

PARTIALS_SCHEMA: Final = "sparkgate-oracle-partials/v1"
SCALE: Final = 1 << 20
"""Logits are kept as integers, this many to the unit."""
MOST_BLOCKS: Final = 16
"""So many wrong blocks a finding lists."""

_SUBJECT: Final = "oracle partials"
_MOST_LOGIT: Final = 2**53
_KEYS: Final = frozenset(
    {"schema", "question_sha256", "rank", "restored", "control", "most", "layers", "wrong_pages", "finding"}
)
_LAYER_KEYS: Final = frozenset({"name", "pages", "wrong", "expected_sha256", "found_sha256"})
_FINDING_KEYS: Final = frozenset({"fault", "blocks", "detail"})
_MOST_DETAIL: Final = 300


class SemanticFault(StrEnum):
    """How pages are wrong although every stored byte was right. All but the last can be put in on purpose."""

    SWAP_PAGES = "swap-pages"
    SLOTS_OFF_BY_ONE = "slots-off-by-one"
    FOREIGN_SLOTS = "foreign-slots"
    SKIPPED_FENCE = "skipped-fence"
    STALE_BATCH = "stale-batch"
    STALE_GENERATION = "stale-generation"
    UNKNOWN = "unknown"


INJECTABLE: Final = tuple(fault for fault in SemanticFault if fault is not SemanticFault.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLayer:
    """One layer of the question read back: its pages, how many of them are wrong, and both digests."""

    name: str
    pages: int
    wrong: int
    expected_sha256: Digest
    found_sha256: Digest

    def to_document(self) -> JsonObject:
        """The layer by name of field."""
        return {
            "name": self.name,
            "pages": self.pages,
            "wrong": self.wrong,
            "expected_sha256": self.expected_sha256,
            "found_sha256": self.found_sha256,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the wrong pages of a rank look like: the first ``blocks`` of them, and a sentence."""

    fault: SemanticFault
    blocks: tuple[int, ...]
    detail: str

    def to_document(self) -> JsonObject:
        """The finding by name of field."""
        return {"fault": self.fault.value, "blocks": list(self.blocks), "detail": self.detail}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPartials:
    """One rank's part of the answer; logits in units of 1 / ``SCALE``, by word.

    Attributes:
        restored: from the placed pages; ``control`` from the tokens of the control's prompt.
        most: what a rank with right pages adds to the expected word.
        wrong_pages: blocks of which a page of either layer is not what it should be.
        finding: what those look like; None if there are none.
    """

    question_sha256: Digest
    rank: int
    restored: Mapping[str, int]
    control: Mapping[str, int]
    most: int
    layers: tuple[CheckedLayer, ...]
    wrong_pages: int
    finding: Finding | None

    def to_document(self) -> JsonObject:
        """The document; ``parse_partials`` is the inverse."""
        return {
            "schema": PARTIALS_SCHEMA,
            "question_sha256": self.question_sha256,
            "rank": self.rank,
            "restored": dict(self.restored),
            "control": dict(self.control),
            "most": self.most,
            "layers": [layer.to_document() for layer in self.layers],
            "wrong_pages": self.wrong_pages,
            "finding": None if self.finding is None else self.finding.to_document(),
        }


def parse_partials(document: JsonValue) -> RankPartials:
    """Take a rank's part from another process.

    Raises:
        FormatError: another schema, keys, types or ranges; pages and finding contradict each other.
    """
    wire = expect_object(document, subject=_SUBJECT, keys=_KEYS)
    if wire["schema"] != PARTIALS_SCHEMA:
        raise FormatError(f"{_SUBJECT}.schema", expected=PARTIALS_SCHEMA, found=shown(wire["schema"]))
    layers = wire["layers"]
    if not isinstance(layers, list) or len(layers) != 2:
        raise FormatError(f"{_SUBJECT}.layers", expected="the keys' and the values'", found=shown(layers))
    partials = RankPartials(
        question_sha256=Digest.parse(wire["question_sha256"], subject=f"{_SUBJECT}.question_sha256"),
        rank=_take_int(wire, key="rank"),
        restored=_parse_logits(wire["restored"], subject=f"{_SUBJECT}.restored"),
        control=_parse_logits(wire["control"], subject=f"{_SUBJECT}.control"),
        most=_take_int(wire, key="most"),
        layers=tuple(_parse_layer(layer) for layer in layers),
        wrong_pages=_take_int(wire, key="wrong_pages"),
        finding=None if wire["finding"] is None else _parse_finding(wire["finding"]),
    )
    _check_pages(partials)
    return partials


def _check_pages(partials: RankPartials) -> None:
    wrong, finding = partials.wrong_pages, partials.finding
    most = max(layer.wrong for layer in partials.layers)
    least_all = sum(layer.wrong for layer in partials.layers)
    if not most <= wrong <= least_all or (finding is None) != (wrong == 0):
        raise FormatError(
            f"{_SUBJECT}.wrong_pages",
            expected=f"{most} … {least_all}, and a finding if there are any",
            found=f"{wrong}, {'no' if finding is None else 'a'} finding",
        )
    for layer in partials.layers:
        if layer.wrong > layer.pages or (layer.wrong == 0) != (layer.found_sha256 == layer.expected_sha256):
            raise FormatError(
                f"{_SUBJECT}.layers.wrong",
                expected=f"0 … {layer.pages}, 0 exactly if the digests are equal",
                found=f"{layer.wrong} in {layer.name}",
            )


def _parse_logits(value: JsonValue, *, subject: str) -> dict[str, int]:
    wire = expect_object(value, subject=subject)
    return {
        word: expect_int(logit, subject=f"{subject}.{word}", minimum=-_MOST_LOGIT, maximum=_MOST_LOGIT)
        for word, logit in wire.items()
    }


def _parse_layer(value: JsonValue) -> CheckedLayer:
    subject = f"{_SUBJECT}.layers"
    wire = expect_object(value, subject=subject, keys=_LAYER_KEYS)
    return CheckedLayer(
        name=expect_text(wire["name"], subject=f"{subject}.name"),
        pages=_take_int(wire, key="pages"),
        wrong=_take_int(wire, key="wrong"),
        expected_sha256=Digest.parse(wire["expected_sha256"], subject=f"{subject}.expected_sha256"),
        found_sha256=Digest.parse(wire["found_sha256"], subject=f"{subject}.found_sha256"),
    )


def _parse_finding(value: JsonValue) -> Finding:
    subject = f"{_SUBJECT}.finding"
    wire = expect_object(value, subject=subject, keys=_FINDING_KEYS)
    blocks = wire["blocks"]
    if not isinstance(blocks, list) or not 1 <= len(blocks) <= MOST_BLOCKS:
        raise FormatError(f"{subject}.blocks", expected=f"1 … {MOST_BLOCKS} blocks", found=shown(blocks))
    detail = expect_text(wire["detail"], subject=f"{subject}.detail")
    if len(detail) > _MOST_DETAIL:
        raise FormatError(
            f"{subject}.detail", expected=f"at most {_MOST_DETAIL} characters", found=f"{len(detail)}"
        )
    return Finding(
        fault=_parse_fault(wire["fault"], subject=f"{subject}.fault"),
        blocks=tuple(expect_int(block, subject=f"{subject}.blocks", minimum=0) for block in blocks),
        detail=detail,
    )


def _parse_fault(value: JsonValue, *, subject: str) -> SemanticFault:
    for fault in SemanticFault:
        if value == fault.value:
            return fault
    raise FormatError(subject, expected=f"one of {', '.join(SemanticFault)}", found=shown(value))


def _take_int(wire: JsonObject, *, key: str) -> int:
    return expect_int(wire[key], subject=f"{_SUBJECT}.{key}", minimum=0, maximum=_MOST_LOGIT)
