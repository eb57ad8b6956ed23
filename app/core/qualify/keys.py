"""The words under which judging finds a receipt: ``role:value``; what is indexed of a document.

A receipt's verdict depends on what other receipts say of its image, release, digests and place
(`neighbours.py`). Each such relation has a role on either side, and both sides carry the
same value:

    who says it                              whom it concerns
    image, failure, registry, labels         image
    withdrawn-release, unproven-release      release
    withdrawn-manifest, unproven-manifest    manifest
    supersedes                               artifact
    claim                                    the receipt with this digest
    place                                    place, points
"""

from collections.abc import Iterator
from typing import Final

from app.core.canonical_json import JsonValue
from app.core.digest import sha256
from app.core.qualify.facts import DocumentFacts, Meaning
from app.core.qualify.neighbours import Stored, linked_pins, pinned_path
from app.core.qualify.values import Fact, Found

LONGEST_VALUE: Final = 100
LONGEST_TEXT: Final = 200
LONGEST_TITLE: Final = 120


def word(role: str, *parts: str) -> str:
    """One key. A value that is long, or that a database text cannot hold, stands as its SHA-256."""
    value = "\n".join(parts)
    if len(value) > LONGEST_VALUE or "\0" in value:
        value = f"#{sha256(value.encode())}"
    return f"{role}:{value}"


def index_text(text: str, *, limit: int = LONGEST_TEXT) -> str:
    """Text of a document for a column: cut, and without NUL, which a database text cannot hold."""
    return text[:limit].replace("\0", "\N{REPLACEMENT CHARACTER}")


def config_id(image: str) -> str | None:
    """The 64 digits of an image's config id; none where there is none."""
    digits = image.removeprefix("sha256:")
    return digits if image.startswith("sha256:") and len(digits) == 64 else None


def receipt_keys(facts: DocumentFacts) -> list[str]:
    """What the document says wherever it stands, and what concerns it."""
    return sorted(set(_said(facts)) | set(_concerned(facts)))


def origin_keys(facts: DocumentFacts, *, repository: str, path: str) -> list[str]:
    """Its place, and the places it points to from there."""
    if not path:
        return []
    own = Stored(facts=facts, repository=repository, path=path)
    targets = {pinned_path(own, pin) for pin in (*facts.pins, *linked_pins(facts))} - {""}
    return sorted({word("place", repository, path)} | {word("points", repository, one) for one in targets})


def receipt_columns(facts: DocumentFacts) -> dict[str, JsonValue]:
    """What is indexed of a document beside its bytes: texts are cut."""
    schema, release = known(facts.schema.schema), known(facts.lifecycle.release)
    return {
        "sha256": str(facts.sha256),
        "canonical_sha256": str(facts.canonical_sha256),
        "byte_count": facts.byte_count,
        "schema_name": index_text(schema) if schema else None,
        "kind": facts.schema.kind.value,
        "family": facts.schema.family,
        "capability": facts.schema.capability.value,
        "image_config_id": config_id(known(facts.subject.image)),
        "release": index_text(release) if release else None,
        "title": _title(facts),
        "keys": [*receipt_keys(facts)],
    }


def identity_axes(facts: DocumentFacts) -> dict[str, str]:
    """What the document says of its image's identity, by axis."""
    subject = facts.subject
    axes = {
        "commit": known(subject.source.commit),
        "tree": known(subject.source.tree),
        "sha256": known(subject.source.sha256),
        "sparkring_commit": known(subject.builder_commit),
    }
    return {axis: value for axis, value in axes.items() if value}


def known(fact: Fact[str]) -> str:
    """The value, or nothing."""
    return fact.value if isinstance(fact, Found) else ""


def manifests(facts: DocumentFacts) -> set[str]:
    """Registry manifest digests that name the document's artifact."""
    pairs = {pair.manifest_digest.value for pair in facts.registry}
    return (pairs | {known(facts.subject.manifest_digest)}) - {""}


def _concerned(facts: DocumentFacts) -> Iterator[str]:
    image, release = known(facts.subject.image), known(facts.lifecycle.release)
    if image:
        yield word("image", image)
    if release:
        yield word("release", release)
    yield from (word("manifest", one) for one in manifests(facts))
    if schema := known(facts.schema.schema):
        yield word("artifact", schema, image)


def _said(facts: DocumentFacts) -> Iterator[str]:
    image, lifecycle = known(facts.subject.image), facts.lifecycle
    for remark in facts.remarks:
        if remark.meaning is Meaning.KNOWN_FAILURE and (failed := known(remark.image) or image):
            yield word("failure", failed)
    if lifecycle.withdrawal is not None:
        yield from _of_artifact("withdrawn", known(lifecycle.release), lifecycle.withdrawal.manifest_digest)
    pulled = facts.admission.clean_pull
    if isinstance(pulled, Found) and not pulled.value:
        yield from _of_artifact("unproven", known(lifecycle.release), *_pulled(facts))
    yield from (word("registry", pair.image.value) for pair in facts.registry)
    for link in lifecycle.labels_only:
        equal = (link.layers_equal, link.configuration_equal)
        if all(isinstance(fact, Found) and fact.value for fact in equal) and known(link.runtime):
            yield word("labels", known(link.runtime))
            yield word("labels-child", known(link.child))
    if schema := known(lifecycle.supersedes_schema):
        yield word("supersedes", schema, image)
    if facts.claim is not None:
        yield word("claim", facts.claim.subject_sha256)
    for mention in lifecycle.mentions:
        if known(mention.image):
            yield word(f"mention-{mention.role.value}", known(mention.image))


def _pulled(facts: DocumentFacts) -> Iterator[Fact[str]]:
    yield facts.subject.manifest_digest
    yield from (pair.manifest_digest for pair in facts.registry)


def _of_artifact(said: str, release: str, *digests: Fact[str]) -> Iterator[str]:
    if release:
        yield word(f"{said}-release", release)
    yield from (word(f"{said}-manifest", known(one)) for one in digests if known(one))


def _title(facts: DocumentFacts) -> str:
    """Schema, release or image: what tells one document from another in a list."""
    schema = known(facts.schema.schema).rpartition("/")[0] or known(facts.schema.schema)
    parts = (schema or "no schema", known(facts.lifecycle.release), known(facts.subject.image)[:19])
    return index_text(" · ".join(part for part in parts if part), limit=LONGEST_TITLE)
