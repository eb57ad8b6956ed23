"""Artifact lock, release selection, publication, catalog and its deployments, parsed (profile-contract §9).

A release selection is the root of a deployable release: it pins by digest, never by path (§9.4, §9.5).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from app.core.digest import Digest
from app.core.errors import shown
from app.core.profiles.documents import MAX_LOCK_ENTRIES, DocumentKind, ProfileDocument, read_profile_document
from app.core.profiles.fields import Fields, Problems
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.namespace import IMAGE_ID
from app.core.profiles.references import Base, resolve
from app.core.qualify.pointer import step

IMAGE_REFERENCE: Final = re.compile(r"[a-z0-9][a-z0-9._/:-]*@sha256:[0-9a-f]{64}")
MOST_INPUTS: Final = 1_000
MOST_CATALOG_ENTRIES: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedInput:
    """One document a release selection pins."""

    path: str
    sha256: Digest
    pointer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSelection:
    """A set of documents pinned together (§9.5)."""

    sha256: Digest
    name: str
    selection: str
    image: str
    inputs: tuple[PinnedInput, ...]

    def pins(self, digest: str) -> PinnedInput | None:
        """The pin of a document's digest, if it is pinned."""
        return next((one for one in self.inputs if one.sha256 == digest), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedQualification:
    """What a publication points to for one profile; pointers, not evidence."""

    profile: str
    status: str
    record: str
    record_sha256: Digest
    activation_receipt_sha256: Digest | None
    pointer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Distribution evidence of an image (§9.4); never a runtime receipt.

    Attributes:
        verified_at: the time it states, in UTC; none where it states none that can be read.
        stated_offset: how far from UTC the text was written.
    """

    sha256: Digest
    immutable_reference: str
    manifest_digest: str
    image_id: str
    platform: str
    verified_at: datetime | None
    stated_offset: timedelta | None
    qualification: tuple[PublishedQualification, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """A deployment of the catalog: status and recommendation are two axes (§3.2)."""

    sha256: Digest
    name: str
    title: str
    status: str
    recommendation: str
    contract_path: str
    profile: str
    release_path: str
    evidence_scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactLock:
    """The lock of an image's build inputs (§9.1); what it holds beside is kept in the document only."""

    sha256: Digest
    artifacts: tuple[PinnedInput, ...]


def read_artifact_lock(source: bytes | ProfileDocument, *, subject: str = "artifact lock") -> ArtifactLock:
    """Parse an artifact lock.

    Raises: ProfileDocumentError: as ``read_profile_document``; DOC_FIELD; DOC_TOO_LARGE over 200,000
    artifacts.
    """
    document, top = _opened(source, DocumentKind.ARTIFACT_LOCK, subject)
    for name in ("foundation", "media_runtime", "source_identities"):
        top.object(name)
    artifacts = tuple(
        PinnedInput(path=one.text("destination"), sha256=one.digest("sha256"), pointer=one.at)
        for one in top.objects("artifacts", maximum_count=MAX_LOCK_ENTRIES)
    )
    top.problems.refuse()
    return ArtifactLock(sha256=document.sha256, artifacts=artifacts)


def read_release_selection(
    source: bytes | ProfileDocument, *, subject: str = "release selection"
) -> ReleaseSelection:
    """Parse a release selection.

    Raises: ProfileDocumentError: as ``read_profile_document``; DOC_FIELD; DOC_PATH_UNSAFE for an input that
    leads out of the repository.
    """
    document, top = _opened(source, DocumentKind.RELEASE_SELECTION, subject)
    inputs = tuple(
        PinnedInput(path=one.text("path"), sha256=one.digest("sha256"), pointer=one.at)
        for one in top.objects("inputs", maximum_count=MOST_INPUTS)
    )
    selection = ReleaseSelection(
        sha256=document.sha256,
        name=top.text("id"),
        selection=top.text("selection"),
        image=top.text("image", pattern=IMAGE_REFERENCE),
        inputs=inputs,
    )
    top.problems.refuse()
    for one in inputs:
        resolve(one.path, base=Base.ASSETS, pointer=f"{one.pointer}/path")
    return selection


def read_publication(source: bytes | ProfileDocument, *, subject: str = "publication") -> Publication:
    """Parse a publication.

    Raises: ProfileDocumentError: as ``read_profile_document``; DOC_FIELD.
    """
    document, top = _opened(source, DocumentKind.PUBLICATION, subject)
    stated = top.text("verified_at_utc") if top.has("verified_at_utc") else ""
    moment = _moment(stated)
    if stated and moment is None:
        top.problems.add("/verified_at_utc", expected="a time of RFC 3339", found=shown(stated))
    listed = top.named("qualification") if top.has("qualification") else {}
    publication = Publication(
        sha256=document.sha256,
        immutable_reference=top.text("immutable_reference", pattern=IMAGE_REFERENCE),
        manifest_digest=top.text("manifest_digest", pattern=IMAGE_ID),
        image_id=top.text("config_image_id", pattern=IMAGE_ID),
        platform=top.text("platform"),
        verified_at=moment.astimezone(UTC) if moment is not None else None,
        stated_offset=moment.utcoffset() if moment is not None else None,
        qualification=tuple(_qualification(name, one) for name, one in listed.items()),
    )
    top.problems.refuse()
    return publication


def read_catalog_entry(source: bytes | ProfileDocument, *, subject: str = "deployment") -> CatalogEntry:
    """Parse one deployment of the catalog.

    Raises: ProfileDocumentError: as ``read_profile_document``; DOC_FIELD.
    """
    document, top = _opened(source, DocumentKind.DEPLOYMENT, subject)
    configuration = top.object("configuration")
    entry = CatalogEntry(
        sha256=document.sha256,
        name=top.text("id"),
        title=top.text("title"),
        status=top.text("status"),
        recommendation=top.text("recommendation"),
        contract_path=configuration.text("path"),
        profile=configuration.text("key"),
        release_path=top.text("release") if top.has("release") else "",
        evidence_scope=top.text("evidence_scope") if top.has("evidence_scope") else "",
    )
    top.problems.refuse()
    return entry


def read_catalog(source: bytes | ProfileDocument, *, subject: str = "catalog") -> dict[str, str]:
    """Paths of the deployments a catalog lists, by name.

    Raises: ProfileDocumentError: as ``read_profile_document``; DOC_FIELD, also for a name twice.
    """
    _, top = _opened(source, DocumentKind.CATALOG, subject)
    paths: dict[str, str] = {}
    for one in top.objects("profiles", maximum_count=MOST_CATALOG_ENTRIES):
        name = one.text("id")
        if name in paths:
            top.problems.add(f"{one.at}/id", expected="every name once", found=shown(name))
        paths[name] = one.text("path")
    top.problems.refuse()
    return paths


def publication_findings(publication: Publication) -> tuple[ProfileFinding, ...]:
    """DOC_TIMEZONE: the field named as UTC holds UTC."""
    offset = publication.stated_offset
    if offset is None:
        return (
            finding(
                "DOC_TIMEZONE",
                CheckResult.NOT_TESTED,
                pointer="/verified_at_utc",
                detail="no time stated",
                document_sha256=publication.sha256,
            ),
        )
    return (
        finding(
            "DOC_TIMEZONE",
            CheckResult.FAIL if offset else CheckResult.PASS,
            pointer="/verified_at_utc",
            detail=f"in UTC: {publication.verified_at}",
            expected="an offset of 0",
            found=f"an offset of {offset}" if offset >= timedelta(0) else f"an offset of -{-offset}",
            document_sha256=publication.sha256,
        ),
    )


def pin_findings(selection: ReleaseSelection, digests: Mapping[str, Digest]) -> tuple[ProfileFinding, ...]:
    """DOC_HASH_MISMATCH for every input of a selection.

    Args: digests: of the files that are there, by their path as the selection writes it; the others are
    ``not_tested``.
    """
    return tuple(_pin_finding(selection, one, digests.get(one.path)) for one in selection.inputs)


def unpinned_finding(
    digest: Digest, *, name: str, selections: tuple[ReleaseSelection, ...]
) -> ProfileFinding:
    """DOC_UNPINNED: some release selection pins the document's bytes."""
    pinning = [one for one in selections if one.pins(digest) is not None]
    return finding(
        "DOC_UNPINNED",
        CheckResult.PASS if pinning else CheckResult.FAIL,
        detail=name,
        expected="a release selection that pins it",
        found=", ".join(one.name for one in pinning) or f"none of {len(selections)} given",
        document_sha256=digest,
    )


def _pin_finding(selection: ReleaseSelection, one: PinnedInput, found: Digest | None) -> ProfileFinding:
    result = CheckResult.PASS if found == one.sha256 else CheckResult.FAIL
    return finding(
        "DOC_HASH_MISMATCH",
        CheckResult.NOT_TESTED if found is None else result,
        pointer=f"{one.pointer}/sha256",
        detail=one.path if found is not None else f"not given: {one.path}",
        expected=one.sha256,
        found=found or "",
        document_sha256=selection.sha256,
    )


def _opened(
    source: bytes | ProfileDocument, kind: DocumentKind, subject: str
) -> tuple[ProfileDocument, Fields]:
    document = (
        source
        if isinstance(source, ProfileDocument)
        else read_profile_document(source, subject=subject, kind=kind)
    )
    return document, Fields.of(document.value, problems=Problems(subject=subject, sha256=document.sha256))


def _qualification(profile: str, fields: Fields) -> PublishedQualification:
    has_receipt = fields.has("activation_receipt_sha256")
    return PublishedQualification(
        profile=profile,
        status=fields.text("status"),
        record=fields.text("record"),
        record_sha256=fields.digest("sha256"),
        activation_receipt_sha256=fields.digest("activation_receipt_sha256") if has_receipt else None,
        pointer=f"/qualification{step(profile)}",
    )


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.utcoffset() is not None and moment.astimezone(UTC) else None
    except (ValueError, OverflowError):
        return None
