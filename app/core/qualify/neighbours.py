"""From a list of stored documents to the surroundings of one of them (evidence-model §7.4, §7.5, §8, B.3).

For the whole of a small corpus: a judgement without a server, a replay, the tests. Who keeps many receipts
looks up the same relations by their keys.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from app.core.qualify.claim import standing_claims
from app.core.qualify.facts import DocumentFacts, Meaning
from app.core.qualify.gates import Pin, PinForm
from app.core.qualify.scope import scope_of
from app.core.qualify.subject import Subject
from app.core.qualify.surroundings import (
    ClaimAbout,
    Declaration,
    Elsewhere,
    OtherIdentity,
    PinCheck,
    PinState,
    Surroundings,
)
from app.core.qualify.values import Fact, Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One stored document with its origin. ``age`` orders the versions of one path, newest 0; ``commit`` is
    empty where none is known."""

    facts: DocumentFacts
    repository: str = ""
    path: str = ""
    commit: str = ""
    age: int = 0


def surroundings_of(
    own: Stored, others: Sequence[Stored], *, declarations: tuple[Declaration, ...] = ()
) -> Surroundings:
    """What ``others`` say about ``own``, which may be among them."""
    rest = [one for one in others if one.facts.sha256 != own.facts.sha256]
    return Surroundings(
        failures=tuple(_failures(own, rest)),
        withdrawals=tuple(_withdrawals(own, rest)),
        identities=tuple(dict.fromkeys(_identities(own, rest))),
        registry=tuple(_registry(own, rest)),
        linked=_linked(own, rest),
        pins=tuple(_pin_checks(own, rest)),
        superseded_by=tuple(_superseding(own, rest)),
        path_reused=tuple(_reusing(own, rest)),
        claims_withdrawn=tuple(_normalised(own, rest)),
        claims=tuple(_claims(own, rest)),
        unproven_pulls=tuple(_unproven(own, rest)),
        declarations=declarations,
    )


def linked_pins(facts: DocumentFacts) -> Iterator[Pin]:
    """The documents that hold answers of this one's cases."""
    for case in facts.cases:
        if case.oracle.elsewhere is not None:
            yield case.oracle.elsewhere


def pinned_path(own: Stored, pin: Pin) -> str:
    """The repository path a pin names; empty where it names none."""
    if pin.path:
        return posixpath.normpath(pin.path)
    if pin.sibling:
        return posixpath.normpath(posixpath.join(posixpath.dirname(own.path), pin.sibling))
    return ""


def _failures(own: Stored, rest: Sequence[Stored]) -> Iterator[Elsewhere]:
    """A failure with an image is that image's; one without is of its document's image, model and
    topology."""
    image = _value(own.facts.subject.image)
    for one in rest if image else ():
        for remark in one.facts.remarks:
            if remark.meaning is not Meaning.KNOWN_FAILURE:
                continue
            named = _value(remark.image)
            if named == image or (not named and _same_scope(own.facts, one.facts)):
                yield _there(one, remark.pointer, remark.text)


def _withdrawals(own: Stored, rest: Sequence[Stored]) -> Iterator[Elsewhere]:
    for one in rest:
        withdrawal = one.facts.lifecycle.withdrawal
        if withdrawal is None:
            continue
        digest = _value(withdrawal.manifest_digest)
        if _same_release(own, one) or (digest and digest in _manifests(own.facts)):
            reason = withdrawal.reason if isinstance(withdrawal.reason, Found) else withdrawal.manifest_digest
            yield _there(one, _pointer(reason), _value(reason))


def _identities(own: Stored, rest: Sequence[Stored]) -> Iterator[OtherIdentity]:
    image = _value(own.facts.subject.image)
    for one in rest if image else ():
        if _value(one.facts.subject.image) != image:
            continue
        for axis, fact in _axes(one.facts.subject):
            if isinstance(fact, Found):
                yield OtherIdentity(
                    axis=axis, value=fact.value, read_from=_there(one, fact.pointer, fact.value)
                )


def _registry(own: Stored, rest: Sequence[Stored]) -> Iterator[Elsewhere]:
    images = {_value(own.facts.subject.image)} - {""}
    for one in (own, *rest):
        for link in one.facts.lifecycle.labels_only:
            proven = all(
                isinstance(fact, Found) and fact.value
                for fact in (link.layers_equal, link.configuration_equal)
            )
            if proven and _value(link.runtime) in images:
                images |= {_value(link.child)}
    for one in (own, *rest):
        for pair in one.facts.registry:
            if pair.image.value in images:
                yield _there(one, pair.manifest_digest.pointer, pair.manifest_digest.value)


def _linked(own: Stored, rest: Sequence[Stored]) -> Mapping[str, DocumentFacts]:
    linked: dict[str, DocumentFacts] = {}
    for pin in linked_pins(own.facts):
        target = _target(own, pin, rest)
        if target is not None:
            linked[pin.pointer] = target.facts
    return MappingProxyType(linked)


def _pin_checks(own: Stored, rest: Sequence[Stored]) -> Iterator[PinCheck]:
    for pin in own.facts.pins:
        path = pinned_path(own, pin)
        if not path or not isinstance(pin.sha256, Found):
            continue
        versions = [one for one in rest if one.repository == own.repository and one.path == path]
        yield _checked(own, pin, pin.sha256.value, versions)


def _checked(own: Stored, pin: Pin, pinned: str, versions: Sequence[Stored]) -> PinCheck:
    found = {_digest(one, pin): one for one in versions}
    if pinned in found:
        return PinCheck(pointer=pin.pointer, state=PinState.EQUAL, found=pinned)
    if not versions:
        return PinCheck(pointer=pin.pointer, state=PinState.ABSENT)
    same = next((one for one in versions if one.commit and one.commit == own.commit), None)
    state = PinState.DIFFERS_SAME_COMMIT if same is not None else PinState.DIFFERS_OTHER_COMMIT
    return PinCheck(pointer=pin.pointer, state=state, found=_digest(same or versions[0], pin))


def _superseding(own: Stored, rest: Sequence[Stored]) -> Iterator[Elsewhere]:
    for one in rest:
        later = _same_path(own, one) and one.age < own.age
        if later and _same_image(own, one) and _family(own.facts) == _family(one.facts):
            yield _there(one, "", one.path)
    yield from _normalised(own, rest)


def _reusing(own: Stored, rest: Sequence[Stored]) -> Iterator[Elsewhere]:
    for one in rest:
        if _same_path(own, one) and _value(own.facts.subject.image) and not _same_image(own, one):
            yield _there(one, "", _value(one.facts.subject.image))


def _normalised(own: Stored, rest: Sequence[Stored]) -> Iterator[Elsewhere]:
    """A receipt of the same artifact that names this one's schema as superseded: its claim is withdrawn."""
    for one in rest:
        schema = one.facts.lifecycle.supersedes_schema
        if (
            isinstance(schema, Found)
            and schema.value == _value(own.facts.schema.schema)
            and _same_image(own, one)
        ):
            reason = one.facts.lifecycle.supersedes_reason
            yield _there(one, schema.pointer, _value(reason) or schema.value)


def _claims(own: Stored, rest: Sequence[Stored]) -> Iterator[ClaimAbout]:
    """Of claim documents about this one, the newest for each place (profile-contract §18.8)."""
    every = {one.facts.sha256: one.facts.claim for one in rest if one.facts.claim is not None}
    ours = [claim for claim in every.values() if claim.subject_sha256 == own.facts.sha256]
    for claim in standing_claims(ours):
        said = Elsewhere(document=claim.sha256, pointer="/reason", value=claim.reason)
        yield ClaimAbout(pointer=claim.pointer, state=claim.state, read_from=said)


def _unproven(own: Stored, rest: Sequence[Stored]) -> Iterator[Elsewhere]:
    """Another document of the same release or digest says that the pull did not complete."""
    for one in rest:
        pulled = one.facts.admission.clean_pull
        if not isinstance(pulled, Found) or pulled.value:
            continue
        shared = _manifests(own.facts) & _manifests(one.facts)
        if _same_release(own, one) or shared:
            yield _there(one, pulled.pointer, "false")


def _target(own: Stored, pin: Pin, rest: Sequence[Stored]) -> Stored | None:
    """The version the digest names, else the newest; none where the digest names another."""
    path = pinned_path(own, pin)
    versions = [one for one in rest if one.repository == own.repository and one.path == path]
    if isinstance(pin.sha256, Found):
        return next((one for one in versions if one.facts.sha256 == pin.sha256.value), None)
    return min(versions, key=lambda one: one.age, default=None)


def _digest(one: Stored, pin: Pin) -> str:
    return one.facts.canonical_sha256 if pin.form is PinForm.CANONICAL else one.facts.sha256


def _same_scope(own: DocumentFacts, other: DocumentFacts) -> bool:
    mine, theirs = scope_of(own.subject), scope_of(other.subject)
    axes = ("image", "target", "tp", "dcp")
    return bool(mine.image) and not set(axes) & set(mine.differences(theirs))


def _same_path(own: Stored, one: Stored) -> bool:
    return bool(own.path) and own.path == one.path and own.repository == one.repository


def _same_image(own: Stored, one: Stored) -> bool:
    return _value(own.facts.subject.image) == _value(one.facts.subject.image)


def _same_release(own: Stored, one: Stored) -> bool:
    release = _value(own.facts.lifecycle.release)
    return bool(release) and release == _value(one.facts.lifecycle.release)


def _manifests(facts: DocumentFacts) -> set[str]:
    own = {pair.manifest_digest.value for pair in facts.registry}
    return own | ({_value(facts.subject.manifest_digest)} - {""})


def _family(facts: DocumentFacts) -> str:
    return _value(facts.schema.schema).rpartition("/")[0] or _value(facts.schema.schema)


def _axes(subject: Subject) -> Iterator[tuple[str, Fact[str]]]:
    yield "commit", subject.source.commit
    yield "tree", subject.source.tree
    yield "sha256", subject.source.sha256
    yield "sparkring_commit", subject.builder_commit


def _value(fact: Fact[str] | Fact[bool]) -> str:
    return str(fact.value) if isinstance(fact, Found) else ""


def _pointer(fact: Fact[str]) -> str:
    return fact.pointer


def _there(one: Stored, pointer: str, value: str) -> Elsewhere:
    return Elsewhere(document=one.facts.sha256, pointer=pointer, value=value)
