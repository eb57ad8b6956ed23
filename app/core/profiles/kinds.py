"""Bytes of any kind of profile document, parsed whole: what is stored is what can be read again.

A kind without a parser of its own is held to strict JSON, its schema and the members without which no rule
can speak of it; what merely breaks a rule is stored and judged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from app.core.canonical_json import ExactValue
from app.core.digest import Digest, sha256
from app.core.errors import shown
from app.core.profiles.anchors import parse_anchors
from app.core.profiles.claim import read_claim
from app.core.profiles.contract import read_contract
from app.core.profiles.documents import DocumentKind, ProfileDocument, read_profile_document
from app.core.profiles.drill import parse_drill
from app.core.profiles.fields import Problems
from app.core.profiles.launch import parse_launch
from app.core.profiles.overlay_document import parse_overlay_check
from app.core.profiles.overlay_verification import parse_verification
from app.core.profiles.release import (
    read_artifact_lock,
    read_catalog,
    read_catalog_entry,
    read_publication,
    read_release_selection,
)
from app.core.profiles.site import read_site
from app.core.profiles.source_lock import parse_source_lock
from app.core.profiles.template import Template, read_template, read_template_set
from app.core.qualify.pointer import step


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyDocument:
    """A document of any kind.

    Attributes:
        value: the JSON object; none for a template.
        parsed: what the parser of its kind made of it; none where there is none.
    """

    sha256: Digest
    byte_count: int
    kind: DocumentKind
    schema: str | None
    value: dict[str, ExactValue] | None
    parsed: object | None


_PARSERS: Final[Mapping[DocumentKind, Callable[[ProfileDocument], object]]] = MappingProxyType(
    {
        DocumentKind.CONTRACT: read_contract,
        DocumentKind.TEMPLATE_SET: read_template_set,
        DocumentKind.ARTIFACT_LOCK: read_artifact_lock,
        DocumentKind.SOURCE_LOCK: parse_source_lock,
        DocumentKind.RELEASE_SELECTION: read_release_selection,
        DocumentKind.PUBLICATION: read_publication,
        DocumentKind.CATALOG: read_catalog,
        DocumentKind.DEPLOYMENT: read_catalog_entry,
        DocumentKind.VERIFICATION: parse_verification,
        DocumentKind.SITE: read_site,
        DocumentKind.ANCHORS: parse_anchors,
        DocumentKind.LAUNCH: parse_launch,
        DocumentKind.OVERLAY_CHECK: parse_overlay_check,
        DocumentKind.CLAIM: read_claim,
        DocumentKind.DRILL: parse_drill,
    }
)
_FORMS: Final[Mapping[DocumentKind, Mapping[str, type]]] = MappingProxyType(
    {
        DocumentKind.IMAGE_RECEIPT: {"image_id": str},
        DocumentKind.ACTIVATION: {"profile": str, "image": dict, "ranks": list},
        DocumentKind.CAPABILITIES: {"profile": str, "checks": dict},
        DocumentKind.MESH_PINS: {"target": dict},
        DocumentKind.MESH_HOST: {"target": dict},
        DocumentKind.TRANSPORT_MANIFEST: {"name": str, "files": dict},
        DocumentKind.FABRIC: {"ranks": list},
        DocumentKind.PLAN: {"profile": str, "rank": int, "environment": list},
    }
)
_TYPE_WORDS: Final = {str: "a string", dict: "an object", list: "a list", int: "an integer"}


def read_any(raw: bytes, *, subject: str = "document", kind: DocumentKind | None = None) -> AnyDocument:
    """Parse a document of any kind.

    Args: raw: the bytes as they are. subject: its file name: messages name it, and a template is known by
    it. kind: the only kind that will do; without it bytes that do not start as a JSON object are a template
    if the name ends as one.

    Raises: ProfileDocumentError: with the code of the kind, pointer and every offence.
    """
    if kind is DocumentKind.TEMPLATE or (kind is None and _looks_like_template(raw, subject)):
        return _template(read_template(raw, name=subject), raw)
    document = read_profile_document(raw, subject=subject, kind=kind)
    _check_form(document, subject=subject)
    parse = _PARSERS.get(document.kind)
    return AnyDocument(
        sha256=document.sha256,
        byte_count=document.byte_count,
        kind=document.kind,
        schema=document.schema,
        value=document.value,
        parsed=parse(document) if parse is not None else None,
    )


def _check_form(document: ProfileDocument, *, subject: str) -> None:
    problems = Problems(subject=subject, sha256=document.sha256)
    for name, wanted in _FORMS.get(document.kind, {}).items():
        found = document.value.get(name)
        if name not in document.value:
            problems.lacks(step(name), expected=_TYPE_WORDS[wanted])
        elif type(found) is not wanted:
            problems.add(step(name), expected=_TYPE_WORDS[wanted], found=shown(found))
    problems.refuse()


def _looks_like_template(raw: bytes, subject: str) -> bool:
    return subject.endswith((".env", ".env.example")) and raw.lstrip()[:1] != b"{"


def _template(template: Template, raw: bytes) -> AnyDocument:
    return AnyDocument(
        sha256=sha256(raw),
        byte_count=len(raw),
        kind=DocumentKind.TEMPLATE,
        schema=None,
        value=None,
        parsed=template,
    )
