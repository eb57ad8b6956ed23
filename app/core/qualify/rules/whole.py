"""What rules ask of a document as a whole, worked out once for all its cases: a document may have a thousand
cases and thousands of words and pins."""

from dataclasses import dataclass

from app.core.qualify.facts import Capability, Carrier, CarrierLevel, Case, DocumentFacts, StatusClass
from app.core.qualify.gates import OracleForm, Pin
from app.core.qualify.values import Gap, Missing

MOST_SHOWN = 20
"""So many nested words, remarks and pins of one kind are findings of a case; the rest is in the facts."""
_POINTERS = ("/qualification/", "/profiles/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Carriers by what they may do, and the cases other cases are judged beside."""

    words: tuple[Carrier, ...]
    """At document level."""
    of_map: tuple[Carrier, ...]
    taking: tuple[Carrier, ...]
    """Flags that are false: they take a claim away."""
    denying: tuple[Carrier, ...]
    nested_rejections: tuple[Carrier, ...]
    pointer_claims: tuple[Carrier, ...]
    malformed_pins: tuple[Pin, ...]
    speaking: frozenset[Capability]
    """Capabilities of which some case has a word of its own."""
    restores: tuple[Case, ...]
    unanswered: tuple[Case, ...]
    """Restore cases about whose answer nothing is recorded."""
    recoveries: tuple[Case, ...]


def whole_of(facts: DocumentFacts) -> Whole:
    """The document as a whole."""
    by_level: dict[CarrierLevel, list[Carrier]] = {level: [] for level in CarrierLevel}
    for carrier in facts.carriers:
        by_level[carrier.level].append(carrier)
    nested = by_level[CarrierLevel.NESTED]
    restores = tuple(case for case in facts.cases if case.capability is Capability.RESTORE)
    return Whole(
        words=tuple(by_level[CarrierLevel.DOCUMENT]),
        of_map=tuple(by_level[CarrierLevel.MAP]),
        taking=_false(by_level[CarrierLevel.FLAG]),
        denying=_false(by_level[CarrierLevel.ADMISSION]),
        nested_rejections=tuple(one for one in nested if one.status is StatusClass.NEGATIVE),
        pointer_claims=tuple(one for one in nested if _points(one)),
        malformed_pins=tuple(one for one in facts.pins if _is_malformed(one)),
        speaking=frozenset(case.capability for case in facts.cases if case.carriers),
        restores=restores,
        unanswered=tuple(case for case in restores if case.oracle.form is OracleForm.NONE),
        recoveries=tuple(case for case in facts.cases if case.capability is Capability.RECOVERY),
    )


def _false(carriers: list[Carrier]) -> tuple[Carrier, ...]:
    return tuple(one for one in carriers if one.word == "false")


def _points(carrier: Carrier) -> bool:
    return carrier.status is StatusClass.QUALIFIED and carrier.pointer.startswith(_POINTERS)


def _is_malformed(pin: Pin) -> bool:
    return isinstance(pin.sha256, Missing) and pin.sha256.gap is Gap.MALFORMED
