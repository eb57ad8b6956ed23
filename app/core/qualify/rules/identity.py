"""Identity gate: which image, source, model and topology is this about (evidence-model §5, §7.1)?"""

from collections.abc import Iterator

from app.core.qualify.facts import Capability, Meaning
from app.core.qualify.findings import Finding, Gate, GateResult, GateState
from app.core.qualify.gates import Comparison
from app.core.qualify.rules.joined import linked
from app.core.qualify.rules.rule import Judged, elsewhere, found, rule
from app.core.qualify.rules.whole import MOST_SHOWN
from app.core.qualify.scope import scope_of
from app.core.qualify.subject import ImageMention, ImageRole, ModelIdentity
from app.core.qualify.values import UNMAPPED, Basis, Fact, Found, Gap, Missing

BUILDER_AXIS = "sparkring_commit"
OWN_SCHEMA = "sparkgate-restore-receipt/v1"
_OUTSIDE = "none"
"""What a worker outside a container measures as its image (app/core/runtime.py)."""


@rule(
    Gate.IDENTITY,
    question="Which image ran, with which source?",
    needs="the config id; the commit, tree or digest of the cache engine's source",
    leaves_open="whether the image holds what its labels say",
    codes=("IDENTITY_INCOMPLETE", "IDENTITY_INCOMPLETE_WARN", "ENGINE_SELF_TEST"),
    version=3,
)
def the_artifact_is_named(judged: Judged) -> Iterator[Finding]:
    subject = judged.subject
    if is_self_test(judged):
        yield found("ENGINE_SELF_TEST", subject.image)
    elif not isinstance(subject.image, Found):
        yield found("IDENTITY_INCOMPLETE", subject.image, detail="image")
    else:
        unnamed = (one.image for one in subject.rank_images if isinstance(one.image, Missing))
        for image in unnamed:
            if not _is_outside(image):
                yield found("IDENTITY_INCOMPLETE", image, detail="image")
    source = subject.source
    if not any(isinstance(one, Found) for one in (source.commit, source.sha256, source.wheel_sha256)):
        missing = "IDENTITY_INCOMPLETE" if is_self_test(judged) else "IDENTITY_INCOMPLETE_WARN"
        yield found(missing, source.commit, detail="source")


@rule(
    Gate.IDENTITY,
    question="Which model was served?",
    needs="repository and revision, or a digest of the checkpoint",
    leaves_open="the draft model, unless it is named too",
    codes=("IDENTITY_INCOMPLETE", "IDENTITY_ALIAS_ONLY"),
    version=3,
)
def the_model_is_named(judged: Judged) -> Iterator[Finding]:
    if judged.capability not in NEEDS_MODEL:
        return
    model = judged.subject.target
    if has_model(model):
        return
    alias = model.alias if isinstance(model.alias, Found) else model.repository
    if isinstance(alias, Found):
        yield found("IDENTITY_ALIAS_ONLY", alias)
    else:
        yield found("IDENTITY_INCOMPLETE", model.alias, detail="model")


@rule(
    Gate.IDENTITY,
    question="At which degrees of parallelism did it run?",
    needs="TP and DCP; a profile name binds neither",
    leaves_open="other degrees: nothing transfers",
    codes=("TOPOLOGY_UNBOUND",),
    version=3,
)
def the_topology_is_bound(judged: Judged) -> Iterator[Finding]:
    if judged.capability is not Capability.RESTORE:
        return
    topology = judged.subject.topology
    for axis, fact in (("tp", topology.tp), ("dcp", topology.dcp)):
        if not isinstance(fact, Found):
            yield found("TOPOLOGY_UNBOUND", fact, detail=axis)


@rule(
    Gate.IDENTITY,
    question="Is every digest one that can be one?",
    needs="lower-case hexadecimal at full length, not all zero",
    leaves_open="whether it is the right digest",
    codes=("DIGEST_MALFORMED",),
    version=3,
)
def digests_are_well_formed(judged: Judged) -> Iterator[Finding]:
    for axis, fact in _digests(judged):
        if isinstance(fact, Missing) and fact.gap is Gap.MALFORMED and not _is_outside(fact):
            yield found("DIGEST_MALFORMED", fact, value=f"{axis}: {fact.found}")


@rule(
    Gate.IDENTITY,
    question="Did every rank run the same image?",
    needs="an image per rank where ranks name theirs, or a statement about all",
    leaves_open="ranks that name none",
    codes=("IMAGE_NOT_UNIFORM",),
    version=3,
)
def ranks_ran_one_image(judged: Judged) -> Iterator[Finding]:
    subject = judged.subject
    named = [one.image for one in subject.rank_images if isinstance(one.image, Found)]
    engines = [one.source_sha256 for one in subject.rank_images if isinstance(one.source_sha256, Found)]
    for every in (named, engines):
        if len({one.value for one in every}) > 1:
            value = ", ".join(dict.fromkeys(one.value.removeprefix("sha256:")[:12] for one in every))
            yield found("IMAGE_NOT_UNIFORM", every[0], value=value)
    if named and any(_is_outside(one.image) for one in subject.rank_images):
        yield found("IMAGE_NOT_UNIFORM", named[0], value="some ranks ran in no container")
    if isinstance(subject.same_on_every_rank, Found) and not subject.same_on_every_rank.value:
        yield found("IMAGE_NOT_UNIFORM", subject.same_on_every_rank)
    for place in subject.disagreements:
        if place.axis == "image" and len({one.value for one in named}) < 2:
            value = ", ".join(dict.fromkeys(str(one.value) for one in place.values))
            yield found("IMAGE_NOT_UNIFORM", place.values[-1], value=value)
    for remark in judged.facts.remarks:
        if remark.meaning is Meaning.IMAGE_NOT_UNIFORM:
            yield found("IMAGE_NOT_UNIFORM", at=remark.pointer, value=remark.text)


@rule(
    Gate.IDENTITY,
    question="Was the source what a commit holds?",
    needs="a flag about uncommitted changes",
    leaves_open="sources whose state nobody recorded",
    codes=("UNCOMMITTED_SOURCE",),
    version=3,
)
def the_source_is_committed(judged: Judged) -> Iterator[Finding]:
    flag = judged.subject.source.uncommitted
    if isinstance(flag, Found) and flag.value:
        yield found("UNCOMMITTED_SOURCE", flag)


@rule(
    Gate.IDENTITY,
    question="Do all places and documents give this image one identity?",
    needs="the same axis at two places, or in two documents about one image",
    leaves_open="which of the two is right",
    codes=("IDENTITY_CONFLICT", "IDENTITY_CONFLICT_WARN"),
    version=3,
)
def the_identity_is_one(judged: Judged) -> Iterator[Finding]:
    for one in judged.subject.disagreements:
        if one.axis != "image":
            value = ", ".join(str(place.value) for place in one.values)
            yield found("IDENTITY_CONFLICT", one.values[0], value=f"{one.axis}: {value}")
    own = {axis: fact for axis, fact in _own_axes(judged) if isinstance(fact, Found)}
    for other in judged.around.identities:
        mine = own.get(other.axis)
        if mine is None or mine.value == other.value:
            continue
        builder = other.axis == BUILDER_AXIS
        yield elsewhere(
            "IDENTITY_CONFLICT_WARN" if builder else "IDENTITY_CONFLICT",
            other.read_from.document,
            at=other.read_from.pointer,
            value=f"{other.axis}: {mine.value} here, {other.value} there",
            detail=other.axis if builder else "",
        )


@rule(
    Gate.IDENTITY,
    question="Was the evidence taken on this very image?",
    needs="the image the evidence names, directly or in the document it points to",
    leaves_open="images that nobody named",
    codes=(
        "EVIDENCE_OTHER_IMAGE",
        "PREDECESSOR_EVIDENCE",
        "PREDECESSOR_EVIDENCE_EXCLUDED",
        "PARENT_NOT_UPGRADED",
        "WRITER_OTHER_IMAGE",
    ),
    version=3,
)
def the_evidence_is_of_this_image(judged: Judged) -> Iterator[Finding]:
    own = judged.subject.image
    other = linked(judged)
    if other is not None and _differs(own, other.subject.image):
        yield found("EVIDENCE_OTHER_IMAGE", own, value=_names(own, other.subject.image))
    for mention in judged.facts.lifecycle.mentions:
        yield from _mentioned(mention, own)
    for remark in judged.facts.remarks:
        if remark.meaning is Meaning.EVIDENCE_OTHER_IMAGE:
            yield found("EVIDENCE_OTHER_IMAGE", at=remark.pointer, value=remark.text)
        if remark.meaning is Meaning.WRITER_OTHER_IMAGE:
            yield found("WRITER_OTHER_IMAGE", at=remark.pointer, value=remark.text)


@rule(
    Gate.IDENTITY,
    question="Is this evidence about the scope that was asked for?",
    needs="every axis of the scope key equal",
    leaves_open="nothing transfers: not to a parent, child, rebuild, other model or degree",
    codes=("NOT_TRANSFERABLE",),
    version=3,
)
def the_asked_scope_is_this_one(judged: Judged) -> Iterator[Finding]:
    asked = judged.around.asked
    if asked is None:
        return
    own = scope_of(judged.subject)
    for axis in own.differences(asked):
        value = f"asked {getattr(asked, axis) or 'nothing'}, found {getattr(own, axis) or 'nothing'}"
        yield found("NOT_TRANSFERABLE", at=judged.case.pointer, value=f"{axis}: {value}")


NEEDS_MODEL = frozenset(
    (
        Capability.RESTORE,
        Capability.RECOVERY,
        Capability.ISOLATION,
        Capability.SERVING,
        Capability.CAPTURE,
        Capability.CAPACITY,
        Capability.READINESS,
    )
)


def has_model(model: ModelIdentity) -> bool:
    """A revision of 40 digits or a digest; a repository alone is a name."""
    return isinstance(model.revision, Found) or bool(model.digests)


def is_self_test(judged: Judged) -> bool:
    """A restore by our own engine outside a container: about that engine build, about no image (§7.6)."""
    schema, ranks = judged.facts.schema.schema, judged.subject.rank_images
    own = isinstance(schema, Found) and schema.value == OWN_SCHEMA
    return own and bool(ranks) and all(_is_outside(one.image) for one in ranks)


def _is_outside(image: Fact[str]) -> bool:
    return isinstance(image, Missing) and image.found.strip("'\"") == _OUTSIDE


def identity_gate(judged: Judged) -> GateResult:
    """Demonstrated with image, source, model by revision or digest and both degrees; attested with an
    alias, without a commit, or where nobody said that all ranks ran the image."""
    blocking = [one for one in _all(judged) if one.row.blocks]
    if blocking:
        failed = any(one.code in _FAILURES for one in blocking)
        state = GateState.FAILED if failed else GateState.INCONCLUSIVE
        return _gate(state, says=", ".join(dict.fromkeys(one.name for one in blocking)))
    subject = judged.subject
    weak = not has_model(subject.target) or not isinstance(subject.source.commit, Found)
    unsaid = isinstance(subject.same_on_every_rank, Missing) and subject.same_on_every_rank != UNMAPPED
    weak = judged.capability in NEEDS_MODEL and (weak or unsaid)
    basis = Basis.ATTESTED if weak else Basis.DEMONSTRATED
    state = GateState.ATTESTED if weak else GateState.DEMONSTRATED
    return _gate(state, basis=basis, says="image, source, model and topology")


_FAILURES = frozenset(("DIGEST_MALFORMED", "IMAGE_NOT_UNIFORM", "UNCOMMITTED_SOURCE", "IDENTITY_CONFLICT"))


def _all(judged: Judged) -> Iterator[Finding]:
    for one in (
        the_artifact_is_named,
        the_model_is_named,
        the_topology_is_bound,
        digests_are_well_formed,
        ranks_ran_one_image,
        the_source_is_committed,
        the_identity_is_one,
    ):
        yield from one.answer(judged)


def _gate(state: GateState, *, basis: Basis | None = None, says: str = "") -> GateResult:
    return GateResult(gate=Gate.IDENTITY, state=state, basis=basis, says=says)


def _own_axes(judged: Judged) -> Iterator[tuple[str, Fact[str]]]:
    source = judged.subject.source
    yield "commit", source.commit
    yield "tree", source.tree
    yield "sha256", source.sha256
    yield BUILDER_AXIS, judged.subject.builder_commit


def _digests(judged: Judged) -> Iterator[tuple[str, Fact[str]]]:
    subject, span = judged.subject, judged.case.span
    yield "image", subject.image
    yield from _own_axes(judged)
    yield "wheel", subject.source.wheel_sha256
    yield "manifest", subject.manifest_digest
    yield "model", subject.target.revision
    yield "draft", subject.draft.revision
    yield from (("model", one) for one in subject.target.unreadable)
    yield from (("draft", one) for one in subject.draft.unreadable)
    yield "context", span.context_digest
    yield "prompt", span.prompt_sha256
    for rank in subject.rank_images:
        yield "image", rank.image
    for record in judged.case.ranks.records:
        yield "context", record.context_prefix
    for one in _comparisons(judged):
        yield "response", one.response_sha256
        yield "prompt", one.prompt_sha256
    for pin in judged.whole.malformed_pins[:MOST_SHOWN]:
        yield "pin", pin.sha256


def _comparisons(judged: Judged) -> Iterator[Comparison]:
    yield from judged.case.oracle.comparisons
    for one in (judged.case.oracle.published, judged.case.control.comparison, judged.case.fault.comparison):
        if one is not None:
            yield one


def _mentioned(mention: ImageMention, own: Fact[str]) -> Iterator[Finding]:
    same = isinstance(own, Found) and isinstance(mention.image, Found) and mention.image.value == own.value
    if mention.role is ImageRole.EVIDENCE and not same:
        yield found("EVIDENCE_OTHER_IMAGE", mention.image)
    if mention.role is ImageRole.PREDECESSOR:
        yield found("PREDECESSOR_EVIDENCE" if same else "PREDECESSOR_EVIDENCE_EXCLUDED", mention.image)
    if mention.role is ImageRole.PARENT and not same:
        yield found("PARENT_NOT_UPGRADED", mention.image)


def _differs(own: Fact[str], other: Fact[str]) -> bool:
    return isinstance(own, Found) and isinstance(other, Found) and own.value != other.value


def _names(own: Fact[str], other: Fact[str]) -> str:
    here = own.value if isinstance(own, Found) else "nothing"
    return f"{here} here, {other.value} in the evidence" if isinstance(other, Found) else here
