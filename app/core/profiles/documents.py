"""Bytes to a document of a known kind, or a refusal that carries a code and a place (profile-contract §18.2).

Only form is judged here. References are not followed, nothing is compared with anything else.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from app.core.canonical_json import ExactValue, JsonLimits, JsonObject
from app.core.digest import Digest
from app.core.errors import DocumentError, shown
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.qualify.document import Document, read_document

MAX_DOCUMENT_BYTES: Final = 16 * 1024 * 1024
MAX_DEPTH: Final = 64
MAX_LOCK_ENTRIES: Final = 200_000
# Commas are counted before anything is decoded; a lock of the largest permitted size fits.
LIMITS: Final = JsonLimits(
    byte_count=MAX_DOCUMENT_BYTES, depth=MAX_DEPTH, number_characters=4096, values=MAX_LOCK_ENTRIES + 50_000
)

_MERGE_MARKER = re.compile(rb"^(?:<{7} |\|{7} |={7}\r?$|>{7} )", re.MULTILINE)
# What the decoder says when a limit, not the form, was the offence.
_LIMIT_WORDS = re.compile(r"at most \d+ (?:bytes|values|levels of nesting)")


class DocumentKind(StrEnum):
    """What a document is for; decided by its schema, for templates and launch documents by their form."""

    CONTRACT = "contract"
    TEMPLATE = "template"
    TEMPLATE_SET = "template_set"
    ARTIFACT_LOCK = "artifact_lock"
    SOURCE_LOCK = "source_lock"
    IMAGE_RECEIPT = "image_receipt"
    RELEASE_SELECTION = "release_selection"
    PUBLICATION = "publication"
    CATALOG = "catalog"
    DEPLOYMENT = "deployment"
    MESH_PINS = "mesh_pins"
    MESH_HOST = "mesh_host"
    TRANSPORT_MANIFEST = "transport_manifest"
    LEASE_CONTRACT = "lease_contract"
    CAPABILITIES = "capabilities"
    VERIFICATION = "verification"
    SITE = "site"
    FABRIC = "fabric"
    ACTIVATION = "activation"
    CLAIM = "claim"
    DRILL = "drill"
    PERFORMANCE_RECORD = "performance_record"
    ANCHORS = "anchors"
    LAUNCH = "launch"
    PLAN = "plan"
    OVERLAY_CHECK = "overlay_check"


SCHEMAS: Final[Mapping[str, DocumentKind]] = MappingProxyType(
    {
        "sparkring-r33-profile-contract/v1": DocumentKind.CONTRACT,
        "steering-derived-env-templates/v1": DocumentKind.TEMPLATE_SET,
        "sparkring-r33-candidate-inputs/v1": DocumentKind.ARTIFACT_LOCK,
        "sparkring-r33-candidate-source-lock/v1": DocumentKind.SOURCE_LOCK,
        "sparkring-r33-image-receipt/v1": DocumentKind.IMAGE_RECEIPT,
        "sparkring-release-selection/v1": DocumentKind.RELEASE_SELECTION,
        "sparkring-ghcr-publication/v1": DocumentKind.PUBLICATION,
        "sparkring-catalog/v1": DocumentKind.CATALOG,
        "sparkring-deployment/v1": DocumentKind.DEPLOYMENT,
        "sparkring-glm53-spark-mtp3-mesh/v1": DocumentKind.MESH_PINS,
        "sparkring-r33-mesh-host-contract/v1": DocumentKind.MESH_HOST,
        "sparkring-transport-bundle/v1": DocumentKind.TRANSPORT_MANIFEST,
        "sparkring-vllm-kv-block-lease-contract/v1": DocumentKind.LEASE_CONTRACT,
        "sparkring-r33-runtime-capabilities/v1": DocumentKind.CAPABILITIES,
        "sparkring-r33-candidate-verification/v1": DocumentKind.VERIFICATION,
        "sparkring-glm53-mtp3-mesh-site/v1": DocumentKind.SITE,
        "sparkring-cx7-hardware-diagonal-fabric/v1": DocumentKind.FABRIC,
        "sparkring-r33-activation-receipt/v1": DocumentKind.ACTIVATION,
        "sparkgate-activation/v1": DocumentKind.ACTIVATION,
        "sparkgate-claim/v1": DocumentKind.CLAIM,
        "sparkgate-drill/v1": DocumentKind.DRILL,
        "sparkgate-performance-record/v1": DocumentKind.PERFORMANCE_RECORD,
        "sparkgate-overlay-anchors/v1": DocumentKind.ANCHORS,
        "sparkgate-rank-plan/v1": DocumentKind.PLAN,
        "sparkgate-overlay-check/v1": DocumentKind.OVERLAY_CHECK,
    }
)


class ProfileDocumentError(DocumentError):
    """A document that cannot be taken: the code of the first offence, and all that were found.

    ``findings`` holds at least one failed check; the first is the one the message tells of.
    """

    def __init__(self, subject: str, *, findings: tuple[ProfileFinding, ...], offset: int = 0) -> None:
        first = findings[0]
        super().__init__(
            subject,
            expected=first.expected,
            found=first.found,
            pointer=first.pointer,
            offset=offset,
        )
        self.code = first.code
        self.findings = findings


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDocument:
    """A JSON document of a known kind; ``value`` is never changed, ``sha256`` is that of the bytes."""

    sha256: Digest
    byte_count: int
    kind: DocumentKind
    schema: str | None
    value: dict[str, ExactValue]


def refusal(
    subject: str,
    *,
    code: str,
    expected: str,
    found: object,
    pointer: str = "",
    offset: int = 0,
    sha256: Digest | None = None,
) -> ProfileDocumentError:
    """The error of one offence."""
    failed = finding(
        code, CheckResult.FAIL, pointer=pointer, expected=expected, found=found, document_sha256=sha256
    )
    return ProfileDocumentError(subject, findings=(failed,), offset=offset)


def check_size(byte_count: int, *, subject: str) -> None:
    """Refuse a size before anything is read or decoded.

    Raises: ProfileDocumentError: DOC_TOO_LARGE.
    """
    if byte_count > MAX_DOCUMENT_BYTES:
        raise refusal(
            subject,
            code="DOC_TOO_LARGE",
            expected=f"at most {MAX_DOCUMENT_BYTES} bytes",
            found=f"{byte_count} bytes",
        )


def read_profile_document(
    raw: bytes, *, subject: str = "document", kind: DocumentKind | None = None
) -> ProfileDocument:
    """Decode a JSON document and say what it is.

    Args: raw: the bytes as they are. subject: its name in messages. kind: the only kind that will do.

    Raises: ProfileDocumentError: DOC_TOO_LARGE, DOC_JSON_INVALID or DOC_SCHEMA_UNKNOWN, with pointer and
    offset; ``IMG_PUBLICATION_AS_RECEIPT`` where a publication stands for an image receipt (§9.4).
    """
    document = _decoded(raw, subject=subject)
    value = document.value
    if not isinstance(value, dict):
        raise refusal(
            subject, code="DOC_SCHEMA_UNKNOWN", expected="a JSON object", found=value, sha256=document.sha256
        )
    found = SCHEMAS.get(document.schema or "") or _by_form(value)
    if found is None or (kind is not None and found is not kind):
        raise _wrong_kind(document, subject=subject, found=found, kind=kind)
    return ProfileDocument(
        sha256=document.sha256,
        byte_count=document.byte_count,
        kind=found,
        schema=document.schema,
        value=value,
    )


def document_head(document: ProfileDocument) -> JsonObject:
    """Digest, size, kind and schema as JSON."""
    return {
        "sha256": document.sha256,
        "byte_count": document.byte_count,
        "kind": document.kind.value,
        "schema": document.schema,
    }


def _decoded(raw: bytes, *, subject: str) -> Document:
    check_size(len(raw), subject=subject)
    try:
        return read_document(raw, subject=subject, limits=LIMITS)
    except DocumentError as error:
        too_large = _LIMIT_WORDS.fullmatch(error.expected) is not None
        marker = None if too_large else _MERGE_MARKER.search(raw)
        raise refusal(
            subject,
            code="DOC_TOO_LARGE" if too_large else "DOC_JSON_INVALID",
            expected=error.expected,
            found=error.found if marker is None else _at_marker(raw, marker.start()),
            pointer=error.pointer,
            offset=error.offset,
        ) from None


def _at_marker(raw: bytes, start: int) -> str:
    line = raw.count(b"\n", 0, start) + 1
    return f"an unresolved merge marker in line {line}"


def _by_form(value: dict[str, ExactValue]) -> DocumentKind | None:
    """A container inspection names no schema (§18.15)."""
    if "schema" not in value and "$schema" not in value and {"Path", "Config"} <= value.keys():
        return DocumentKind.LAUNCH
    return None


def _wrong_kind(
    document: Document, *, subject: str, found: DocumentKind | None, kind: DocumentKind | None
) -> ProfileDocumentError:
    names = [name for name, named in SCHEMAS.items() if kind in (None, named)]
    is_publication = found is DocumentKind.PUBLICATION and kind is DocumentKind.IMAGE_RECEIPT
    return refusal(
        subject,
        code="IMG_PUBLICATION_AS_RECEIPT" if is_publication else "DOC_SCHEMA_UNKNOWN",
        expected=" or ".join(names) if kind is not None else "a schema of a profile document",
        found=shown(document.schema) if document.schema is not None else "no schema",
        pointer="/schema",
        sha256=document.sha256,
    )
