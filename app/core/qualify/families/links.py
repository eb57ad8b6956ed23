"""Digests of other documents and files (Appendix B, §9): pins, and the one document that holds the
answers.
"""

from collections.abc import Iterator
from itertools import islice

from app.core.qualify.gates import Pin, PinForm
from app.core.qualify.pointer import last_step, parent
from app.core.qualify.reading import Place, hex64, name, taken
from app.core.qualify.schema_table import Spec
from app.core.qualify.values import UNMAPPED, Found

_MOST_PINS = 4096


def pins(place: Place, spec: Spec) -> tuple[Pin, ...]:
    """Every digest the schema maps as one of another document, in the order of the table."""
    return tuple(islice(_pins(place, spec), _MOST_PINS))


def linked_document(place: Place, spec: Spec) -> Pin | None:
    """A document that must be read beside this one, by path or by name beside it, with its digest if
    recorded."""
    if not spec.members:
        return None
    path = place.fact(spec.paths("path"), name)
    sibling = place.fact(spec.paths("sibling"), name)
    digest = place.fact(spec.paths("sha256"), hex64) if spec.paths("sha256") else UNMAPPED
    named = path if isinstance(path, Found) else sibling
    if not isinstance(named, Found):
        return None
    return Pin(
        pointer=named.pointer,
        sha256=digest,
        name="answers",
        path=path.value if isinstance(path, Found) else "",
        sibling=sibling.value if isinstance(sibling, Found) else "",
    )


def _pins(place: Place, spec: Spec) -> Iterator[Pin]:
    for part in spec.parts("pins"):
        form = PinForm.CANONICAL if part.says("canonical") else PinForm.RAW
        for pointer, value in place.values(part.paths("at")):
            beside = Place(document=place.document, base=parent(pointer))
            path = beside.fact(part.paths("path"), name)
            sibling = beside.fact(part.paths("sibling"), name)
            yield Pin(
                pointer=pointer,
                sha256=taken(value, hex64, pointer=pointer),
                name=last_step(pointer),
                path=path.value if isinstance(path, Found) else "",
                sibling=sibling.value if isinstance(sibling, Found) else _named_sibling(pointer, part),
                form=form,
            )


def _named_sibling(pointer: str, spec: Spec) -> str:
    """``repository_manifest_inspection_json`` names ``manifest-inspection.json`` beside the document."""
    prefix = spec.text("sibling_after")
    key = last_step(pointer)
    if not prefix or not key.startswith(prefix) or not key.endswith("_json"):
        return ""
    return key.removeprefix(prefix).removesuffix("_json").replace("_", "-") + ".json"
