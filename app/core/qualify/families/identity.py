"""The subject of a document or case, the images it names, registry pairs (evidence-model §7.1, §9,
Appendix B).
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard, TypeVar

from app.core.qualify.families.ranks import rank_of
from app.core.qualify.pointer import last_step
from app.core.qualify.reading import (
    Place,
    any_image,
    axis,
    degree,
    flag,
    found_only,
    hex40,
    hex64,
    image,
    manifest,
    manifest_named,
    name,
    repository_of,
    revision_of,
    taken,
)
from app.core.qualify.schema_table import Spec
from app.core.qualify.subject import (
    Disagreement,
    ImageMention,
    ImageRole,
    LabelsOnlyLink,
    ModelIdentity,
    RankImage,
    RegistryPair,
    SourceIdentity,
    Subject,
    Topology,
    Workload,
)
from app.core.qualify.values import UNMAPPED, Basis, Fact, Found, Gap, Missing

T = TypeVar("T")
_BLOCK_NAME = re.compile(r"dcp([0-9]{1,4})(?!\d)")


def subject_of(
    place: Place,
    spec: Spec,
    *,
    pairs: tuple[RegistryPair, ...] = (),
    malformed: tuple[Missing, ...] = (),
) -> Subject:
    """The subject at a place; ``pairs`` give it the manifest digest of its image, ``malformed`` what stands
    where one should."""
    return Subject(
        image=_image(place, spec),
        rank_images=tuple(_rank_images(place, spec.part("rank_images"))),
        same_on_every_rank=place.fact(spec.paths("same"), flag, basis=Basis.ATTESTED),
        manifest_digest=_manifest_digest(place, spec, pairs, malformed),
        source=_source(place, spec),
        builder_commit=place.fact(spec.paths("builder"), hex40),
        target=_model(place, spec.part("target")),
        draft=_model(place, spec.part("draft")),
        topology=_topology(place, spec),
        workload=_workload(place, spec),
        disagreements=tuple(_disagreements(place, spec)),
    )


def overlaid(whole: Subject, place: Place, spec: Spec) -> Subject:
    """A case's subject: the document's, with the axes the case names itself."""
    if not spec.members:
        return whole
    own = subject_of(place, spec)
    return replace(
        whole,
        image=_first(own.image, whole.image),
        target=_over(own.target, whole.target),
        draft=_over(own.draft, whole.draft),
        topology=Topology(
            tp=_first(own.topology.tp, whole.topology.tp),
            dcp=_first(own.topology.dcp, whole.topology.dcp),
            pp=_first(own.topology.pp, whole.topology.pp),
        ),
        workload=replace(
            whole.workload, cache_enabled=_first(own.workload.cache_enabled, whole.workload.cache_enabled)
        ),
        disagreements=whole.disagreements + own.disagreements,
    )


def registry_pairs(place: Place, spec: Spec) -> tuple[RegistryPair, ...]:
    """Every manifest digest that stands beside the config id it serves; a repeated config id is no
    digest."""
    pairs: dict[tuple[str, str], RegistryPair] = {}
    for part in spec.parts("registry"):
        served = place.fact(part.paths("manifest"), manifest)
        ran = place.fact(part.paths("image"), image)
        if isinstance(served, Found) and isinstance(ran, Found) and served.value != ran.value:
            pairs.setdefault((served.value, ran.value), RegistryPair(manifest_digest=served, image=ran))
    return tuple(pairs.values())


def malformed_manifests(place: Place, spec: Spec) -> tuple[Missing, ...]:
    """Registry references beside the document's own image whose digest can be none."""
    own = _image(place, spec.part("subject"))
    every = (
        place.fact(part.paths("manifest"), manifest_named)
        for part in spec.parts("registry")
        if isinstance(own, Found) and place.fact(part.paths("image"), image) == own
    )
    return tuple(one for one in every if _is_malformed(one))


def mentions(place: Place, spec: Spec) -> tuple[ImageMention, ...]:
    """Other images by role."""
    part = spec.part("mentions")
    return tuple(
        ImageMention(role=role, image=fact)
        for role in ImageRole
        for fact in found_only(place.facts(part.paths(role.value), any_image))
    )


def labels_only(place: Place, spec: Spec) -> tuple[LabelsOnlyLink, ...]:
    """The link from an image to its labels-only child, if both are named."""
    part = spec.part("labels_only")
    runtime = place.fact(part.paths("runtime"), image)
    child = place.fact(part.paths("child"), image)
    if not isinstance(runtime, Found) or not isinstance(child, Found):
        return ()
    return (
        LabelsOnlyLink(
            runtime=runtime,
            child=child,
            layers_equal=place.fact(part.paths("layers"), flag, basis=Basis.ATTESTED),
            configuration_equal=place.fact(part.paths("configuration"), flag, basis=Basis.ATTESTED),
        ),
    )


def _image(place: Place, spec: Spec) -> Fact[str]:
    """The config id at the first place that holds anything: what stands there malformed does not give way
    to another image."""
    every = spec.paths("image")
    return place.fact(next(((one,) for one in every if place.has(one)), every), image)


def _source(place: Place, spec: Spec) -> SourceIdentity:
    return SourceIdentity(
        commit=place.fact(spec.paths("commit"), hex40),
        tree=place.fact(spec.paths("tree"), hex40),
        sha256=place.fact(spec.paths("source_sha256"), hex64),
        wheel_sha256=place.fact(spec.paths("wheel_sha256"), hex64),
        uncommitted=place.fact(spec.paths("uncommitted"), flag),
    )


def _model(place: Place, spec: Spec) -> ModelIdentity:
    both = spec.paths("reference")
    digests = place.facts(spec.paths("digests"), hex64)
    return ModelIdentity(
        repository=_first(place.fact(spec.paths("repository"), name), place.fact(both, repository_of)),
        revision=_first(place.fact(spec.paths("revision"), hex40), place.fact(both, revision_of)),
        digests=found_only(digests),
        unreadable=tuple(one for one in digests if _is_malformed(one)),
        alias=place.fact(spec.paths("alias"), name, basis=Basis.ATTESTED),
    )


def _topology(place: Place, spec: Spec) -> Topology:
    text = spec.paths("topology")
    said = _both if spec.says("said_twice") else _first
    return Topology(
        tp=said(place.fact(spec.paths("tp"), degree), place.fact(text, axis("TP"))),
        dcp=said(_dcp(place, spec), place.fact(text, axis("DCP"))),
        pp=_first(place.fact(spec.paths("pp"), degree), place.fact(text, axis("PP"))),
    )


def _dcp(place: Place, spec: Spec) -> Fact[int]:
    """The degree from its field, or from the name of the block the case stands in (``dcp4``)."""
    if not spec.says("dcp_of_name"):
        return place.fact(spec.paths("dcp"), degree)
    named = _BLOCK_NAME.match(last_step(place.base))
    if named is None:
        return Missing(gap=Gap.ABSENT, pointer=place.base)
    return taken(int(named[1]), degree, pointer=place.base)


def _workload(place: Place, spec: Spec) -> Workload:
    return Workload(
        publication_schema=place.fact(spec.paths("publication_schema"), name),
        configured_schema=place.fact(spec.paths("configured_schema"), name),
        manifest_schema=place.fact(spec.paths("manifest_schema"), name),
        storage_mode=place.fact(spec.paths("storage_mode"), name),
        kv_dtype=place.fact(spec.paths("kv_dtype"), name),
        speculation=place.fact(spec.paths("speculation"), name),
        cache_enabled=place.fact(spec.paths("cache_enabled"), flag, basis=Basis.ATTESTED),
    )


def _rank_images(place: Place, spec: Spec) -> Iterator[RankImage]:
    for pattern in spec.paths("at"):
        for rank in place.places(pattern):
            yield RankImage(
                rank=rank_of(rank, spec),
                image=rank.fact(spec.paths("image"), image),
                source_sha256=rank.fact(spec.paths("source_sha256"), hex64),
            )


def _manifest_digest(
    place: Place, spec: Spec, pairs: tuple[RegistryPair, ...], malformed: tuple[Missing, ...]
) -> Fact[str]:
    """The registry digest of the image; where its reference names one that can be none, that."""
    ran = _image(place, spec)
    for pair in pairs:
        if isinstance(ran, Found) and pair.image.value == ran.value:
            return pair.manifest_digest
    named = place.fact(spec.paths("manifest"), manifest)
    return named if isinstance(named, Found) else next(iter(malformed), named)


def _disagreements(place: Place, spec: Spec) -> Iterator[Disagreement]:
    text = spec.paths("topology")
    for letters in ("tp", "dcp", "pp"):
        structured = place.fact(spec.paths(letters), degree)
        written = place.fact(text, axis(letters.upper()))
        if isinstance(structured, Found) and isinstance(written, Found) and structured.value != written.value:
            yield Disagreement(axis=letters, values=(structured, written))
    everywhere = found_only(place.facts((*spec.paths("image"), *spec.paths("image_again")), image))
    if spec.paths("image_again") and len({one.value for one in everywhere}) > 1:
        yield Disagreement(axis="image", values=everywhere)


def _over(own: ModelIdentity, whole: ModelIdentity) -> ModelIdentity:
    return ModelIdentity(
        repository=_first(own.repository, whole.repository),
        revision=_first(own.revision, whole.revision),
        digests=own.digests or whole.digests,
        unreadable=own.unreadable or whole.unreadable,
        alias=_first(own.alias, whole.alias),
    )


def _both(own: Fact[T], other: Fact[T]) -> Fact[T]:
    """The first fact where both have a value: what a schema says twice is not known if one place is
    silent."""
    return own if isinstance(own, Missing) or isinstance(other, Found) else other


def _is_malformed(fact: Fact[str]) -> TypeGuard[Missing]:
    return isinstance(fact, Missing) and fact.gap is Gap.MALFORMED


def _first(own: Fact[T], other: Fact[T]) -> Fact[T]:
    """The first fact with a value; without one the first that the schema has a place for."""
    if isinstance(own, Found) or (isinstance(other, Missing) and other.gap is Gap.UNMAPPED):
        return own
    if isinstance(other, Found) or own == UNMAPPED:
        return other
    return own
