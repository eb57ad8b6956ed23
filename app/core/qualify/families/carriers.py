"""Every status word of a document, with class and level (evidence-model §2.2, §2.3; Appendix B, status
column).
"""

from collections.abc import Iterator
from itertools import islice

from app.core.canonical_json import ExactValue
from app.core.qualify.facts import Capability, Carrier, CarrierLevel, StatusClass
from app.core.qualify.pointer import last_step, step
from app.core.qualify.reading import Place
from app.core.qualify.schema_table import Spec, status_class

_NESTED_WORDS = frozenset(
    [
        "status",
        "result",
        "verdict",
        "maturity",
        "runtime_status",
        "live_qualification",
        "semantic_result",
        "structural_result",
        "machine_verdict",
        "validation_status",
        "configuration_status",
        "evidence_status",
        "publication_status",
        "outcome",
        "org.sparkring.runtime.status",
    ]
)
_NESTED_FLAGS = frozenset(
    [
        "qualified",
        "deployable",
        "gpu_qualified",
        "serving_qualified",
        "model_qualified",
        "full_model_qualification",
        "general_qualification",
        "serving_qualification_added",
        "gpu_serving_qualified",
    ]
)
# Shown, not judged: enough for the largest release status of the corpus twenty times over.
_MOST_NESTED = 1000
# A word is a word: longer texts under such keys are prose and stay unread.
_MOST_CHARACTERS = 100


def carriers(place: Place, spec: Spec, *, of_cases: tuple[Carrier, ...]) -> tuple[Carrier, ...]:
    """All carriers: those of the status column, those of the cases, then what is only shown."""
    column = tuple(dict.fromkeys((*_column(place, spec.part("status")), *of_cases)))
    taken = {carrier.pointer for carrier in column}
    nested = (one for one in _nested(place.document, at="") if one.pointer not in taken)
    return column + tuple(islice(nested, _MOST_NESTED))


def case_carriers(place: Place, spec: Spec) -> tuple[Carrier, ...]:
    """The words that stand for one case."""
    return tuple(
        carrier
        for pointer, value in place.values(spec.paths("status"))
        for carrier in _word(pointer, value, CarrierLevel.CASE)
    )


def _column(place: Place, spec: Spec) -> Iterator[Carrier]:
    said = False
    yield from _silent(place, spec.paths("document"))
    for pointer, value in place.values(spec.paths("document")):
        for carrier in _declared(pointer, value):
            said = True
            yield carrier
    if not said:
        for pointer, value in place.values(spec.paths("fallback")):
            yield from _word(pointer, value, CarrierLevel.DOCUMENT)
    for pointer, value in place.values(spec.paths("accepted")):
        if isinstance(value, bool):
            yield _carrier(
                pointer, value, CarrierLevel.DOCUMENT, StatusClass.POLICY if value else StatusClass.RESEARCH
            )
    for key, level in _BOOLEANS:
        for pointer, value in place.values(spec.paths(key)):
            if isinstance(value, bool):
                yield _carrier(pointer, value, level, _BOOLEAN_CLASS[level])


# Those of the schema, and those at the places where documents of every schema have them.
_BOOLEANS = (
    ("flags", CarrierLevel.FLAG),
    ("checks", CarrierLevel.CHECK),
    ("admission", CarrierLevel.ADMISSION),
    ("flags_anywhere", CarrierLevel.FLAG),
    ("admission_anywhere", CarrierLevel.ADMISSION),
)
_BOOLEAN_CLASS = {
    CarrierLevel.FLAG: StatusClass.NONE,
    CarrierLevel.CHECK: StatusClass.CHECK,
    CarrierLevel.ADMISSION: StatusClass.NONE,
}


def _silent(place: Place, patterns: tuple[str, ...]) -> Iterator[Carrier]:
    """A part of the document that should say its status and does not: no word is less than Q (§2.3)."""
    for pattern in patterns:
        head = pattern.rpartition("/")[0]
        said = any(isinstance(value, str | dict) and value for _, value in place.values((pattern,)))
        if head and not said and place.has(head):
            yield Carrier(
                pointer=pattern,
                word="",
                status=StatusClass.NONE,
                level=CarrierLevel.DOCUMENT,
                key=last_step(pattern),
            )


def _declared(pointer: str, value: ExactValue) -> Iterator[Carrier]:
    if isinstance(value, dict):
        for key, word in value.items():
            if isinstance(word, str):
                yield Carrier(
                    pointer=pointer + step(key),
                    word=word.strip(),
                    status=status_class(word),
                    level=CarrierLevel.MAP,
                    key=key,
                    capability=_capability_of(key),
                )
    else:
        yield from _word(pointer, value, CarrierLevel.DOCUMENT)


def _capability_of(key: str) -> Capability | None:
    """In a map the capability restore reads the keys that contain it, without ``…_performance`` (§2.3)."""
    speaks = "restore" in key and not key.endswith("_performance")
    return Capability.RESTORE if speaks else None


def _word(pointer: str, value: ExactValue, level: CarrierLevel) -> Iterator[Carrier]:
    if isinstance(value, str) and value.strip():
        yield _carrier(pointer, value, level, status_class(value))


def _carrier(pointer: str, value: str | bool, level: CarrierLevel, status: StatusClass) -> Carrier:
    word = value.strip() if isinstance(value, str) else str(value).lower()
    return Carrier(pointer=pointer, word=word, status=status, level=level, key=last_step(pointer))


def _nested(value: ExactValue, *, at: str) -> Iterator[Carrier]:
    if isinstance(value, dict):
        for key, member in value.items():
            here = at + step(key)
            if key in _NESTED_FLAGS and isinstance(member, bool):
                yield _carrier(here, member, CarrierLevel.NESTED, StatusClass.NONE)
            elif key in _NESTED_WORDS and isinstance(member, str) and len(member) <= _MOST_CHARACTERS:
                yield from _known(here, member)
            else:
                yield from _nested(member, at=here)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from _nested(element, at=at + step(index))


def _known(pointer: str, word: str) -> Iterator[Carrier]:
    """A nested word of a known class; other short texts under the same keys are prose."""
    status = status_class(word)
    if status is not StatusClass.UNKNOWN:
        yield _carrier(pointer, word, CarrierLevel.NESTED, status)
