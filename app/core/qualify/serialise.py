"""Facts as JSON values: for the golden tables, the parsed view of a receipt, and replaying a verdict.

Members without content are left out; a missing fact stays, with its gap, unless the schema has no place
for it. Fractions are written as text, exactly as they stood.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum

from app.core.canonical_json import JsonObject, JsonValue, encode_canonical
from app.core.qualify.values import Found, Gap, Missing


def facts_document(facts: object) -> JsonObject:
    """A frozen dataclass of facts as a JSON object.

    A case whose subject is its document's is written without it.
    """
    document = dict(_members(facts))
    cases = document.get("cases")
    for case in cases if isinstance(cases, list) else ():
        if isinstance(case, dict) and case.get("subject") == document.get("subject"):
            case.pop("subject", None)
    return document


def facts_bytes(facts: object) -> bytes:
    """The canonical form of ``facts_document``: equal facts, equal bytes."""
    return encode_canonical(facts_document(facts))


def _members(facts: object) -> Iterator[tuple[str, JsonValue]]:
    if not is_dataclass(facts):
        raise TypeError(f"expected a dataclass of facts, found {type(facts).__name__}")
    for member in fields(facts):
        value = _json(getattr(facts, member.name))
        if value not in (None, "", [], {}):
            yield member.name, value


def _json(value: object) -> JsonValue:
    if isinstance(value, Missing):
        return None if value.gap is Gap.UNMAPPED else dict(_members(value))
    if isinstance(value, Found):
        return {"value": _json(value.value), "pointer": value.pointer, "basis": value.basis.value}
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, tuple):
        return [_json(element) for element in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    return dict(_members(value))
