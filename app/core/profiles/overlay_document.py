"""The result of an overlay check as a document: ``sparkgate-overlay-check/v1``, written and read again."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from app.core.canonical_json import JsonObject, JsonValue
from app.core.digest import Digest
from app.core.errors import shown
from app.core.profiles.codes import CODES, Severity
from app.core.profiles.documents import DocumentKind, ProfileDocument, read_profile_document
from app.core.profiles.fields import Fields, Problems
from app.core.profiles.findings import CheckResult, ProfileFinding, finding_object
from app.core.profiles.overlay import OverlayResult
from app.core.profiles.overlay_bindings import OverlayIdentity
from app.core.profiles.overlay_files import MOST_NAMED, FileLine, Standing

CHECK_SCHEMA: Final = "sparkgate-overlay-check/v1"
# Differences of image and overlay are bounded apart; findings tell each once more, and all that is no file.
_MOST_LISTED: Final = 4 * MOST_NAMED


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayCheckDocument:
    """A check that somebody made where the image root lies; taken for what it says and no more."""

    sha256: Digest
    result: CheckResult
    identity: OverlayIdentity
    image_id: str
    rank: int | None
    checked_files: int
    byte_count: int
    counts: Mapping[str, int]
    findings: tuple[ProfileFinding, ...]
    files: tuple[FileLine, ...]
    files_left_out: int
    not_covered: tuple[str, ...]


def overlay_document(result: OverlayResult, *, rank: int | None = None) -> JsonObject:
    """The check as JSON; paths of the machine it ran on are not in it."""
    files: list[JsonValue] = [_file_object(one) for one in result.files]
    findings: list[JsonValue] = [finding_object(one) for one in result.findings]
    return {
        "schema": CHECK_SCHEMA,
        "result": result.result.value,
        "identity": result.identity.to_object(),
        "contract_sha256": result.identity.contract,
        "image_id": result.image_id,
        "rank": rank,
        "checked_files": result.checked_files,
        "bytes": result.byte_count,
        "counts": dict(result.counts),
        "findings": findings,
        "files": files,
        "files_left_out": result.files_left_out,
        "not_covered": list(result.not_covered),
    }


def parse_overlay_check(
    raw: bytes | ProfileDocument, *, subject: str = "overlay check"
) -> OverlayCheckDocument:
    """Read a check again.

    Raises:
        ProfileDocumentError: no strict JSON, another schema, a member that is not in form, a code or a word
            that is not known.
    """
    document = raw
    if isinstance(document, bytes):
        document = read_profile_document(document, subject=subject, kind=DocumentKind.OVERLAY_CHECK)
    problems = Problems(subject=subject, sha256=document.sha256)
    top = Fields.of(document.value, problems=problems)
    counts = top.object("counts")
    read = OverlayCheckDocument(
        sha256=document.sha256,
        result=CheckResult(_word(top, "result", [one.value for one in CheckResult])),
        identity=_identity(top.object("identity")),
        image_id=_string(top, "image_id"),
        rank=_rank(top),
        checked_files=top.integer("checked_files", minimum=0),
        byte_count=top.integer("bytes", minimum=0),
        counts=MappingProxyType(
            {one.value: counts.integer(one.value, minimum=0) for one in Standing if counts.has(one.value)}
        ),
        findings=tuple(_finding(one) for one in top.objects("findings", maximum_count=_MOST_LISTED)),
        files=tuple(_file(one) for one in _rows(top, "files")),
        files_left_out=top.integer("files_left_out", minimum=0),
        not_covered=top.texts("not_covered"),
    )
    problems.refuse()
    return read


def _file_object(line: FileLine) -> JsonObject:
    return {
        "path": line.path,
        "state": line.standing.value,
        "expected": line.expected,
        "found": line.found,
        "detail": line.detail,
        "warns": line.warns,
        "anchored_by": line.anchored_by,
    }


def _file(fields: Fields) -> FileLine:
    return FileLine(
        path=fields.text("path"),
        standing=Standing(_word(fields, "state", [one.value for one in Standing])),
        expected=_string(fields, "expected"),
        found=_string(fields, "found"),
        detail=_string(fields, "detail"),
        warns=fields.boolean("warns"),
        anchored_by=_string(fields, "anchored_by"),
    )


def _finding(fields: Fields) -> ProfileFinding:
    code = fields.text("code", one_of=CODES)
    return ProfileFinding(
        code=code,
        result=CheckResult(_word(fields, "result", [one.value for one in CheckResult])),
        severity=Severity(_word(fields, "severity", [one.value for one in Severity])),
        pointer=_string(fields, "pointer"),
        detail=_string(fields, "detail"),
        expected=_string(fields, "expected"),
        found=_string(fields, "found"),
        rank=_rank(fields),
        document_sha256=_digest(fields, "document_sha256"),
        reason=_string(fields, "reason"),
    )


def _identity(fields: Fields) -> OverlayIdentity:
    return OverlayIdentity(
        contract=_digest(fields, "contract"),
        validator=_digest(fields, "validator"),
        entrypoint=_digest(fields, "entrypoint"),
        source_lock=_digest(fields, "source_lock"),
    )


def _digest(fields: Fields, name: str) -> Digest | None:
    return None if fields.raw(name) is None else fields.digest(name)


def _rank(fields: Fields) -> int | None:
    return None if fields.raw("rank") is None else fields.integer("rank", minimum=0)


def _word(fields: Fields, name: str, permitted: list[str]) -> str:
    """One of the permitted words; the first stands in for any other, which is refused later."""
    word = fields.text(name, one_of=permitted)
    return word if word in permitted else permitted[0]


def _string(fields: Fields, name: str) -> str:
    """A string that may be empty."""
    value = fields.raw(name)
    if isinstance(value, str):
        return value
    if fields.has(name):
        fields.problems.add(fields.place(name), expected="a string", found=shown(value))
    return ""


def _rows(fields: Fields, name: str) -> list[Fields]:
    """A list of objects that may be empty."""
    if fields.raw(name) == []:
        return []
    return fields.objects(name, maximum_count=_MOST_LISTED)
