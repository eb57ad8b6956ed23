"""The scope key: what exactly a qualification is about (evidence-model §7.1).

Image, source, model target and draft, TP, DCP, publication schema, manifest schema. Nothing transfers from
one key to another; an axis nobody recorded is an axis of its own and equals no recorded one.
"""

from dataclasses import dataclass, fields
from typing import Final

from app.core.canonical_json import encode_canonical
from app.core.digest import Digest, sha256
from app.core.qualify.subject import ModelIdentity, SourceIdentity, Subject
from app.core.qualify.values import Fact, Found


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeKey:
    """The axes as text; empty where nothing is recorded."""

    image: str = ""
    source: str = ""
    target: str = ""
    draft: str = ""
    tp: str = ""
    dcp: str = ""
    publication_schema: str = ""
    manifest_schema: str = ""

    def digest(self) -> Digest:
        """SHA-256 of the canonical form: the key of every row about this scope."""
        return sha256(encode_canonical({**self.axes()}))

    def axes(self) -> dict[str, str]:
        """The axes by name, in their order."""
        return {name: getattr(self, name) for name in _AXES}

    def differences(self, other: "ScopeKey") -> tuple[str, ...]:
        """Names of the axes in which the two differ, in the order of the key."""
        return tuple(name for name in _AXES if getattr(self, name) != getattr(other, name))


_AXES: Final = tuple(axis.name for axis in fields(ScopeKey))


def scope_of(subject: Subject) -> ScopeKey:
    """The scope a subject is evidence about."""
    return ScopeKey(
        image=_text(subject.image),
        source=_source(subject.source),
        target=_model(subject.target),
        draft=_model(subject.draft),
        tp=_text(subject.topology.tp),
        dcp=_text(subject.topology.dcp),
        publication_schema=_text(subject.workload.publication_schema),
        manifest_schema=_text(subject.workload.manifest_schema),
    )


def _source(source: SourceIdentity) -> str:
    parts = (source.commit, source.tree, source.sha256, source.wheel_sha256)
    names = ("commit", "tree", "sha256", "wheel")
    said = [f"{name}={_text(fact)}" for name, fact in zip(names, parts, strict=True) if _text(fact)]
    return " ".join(said)


def _model(model: ModelIdentity) -> str:
    """Repository and revision, digests; the alias only where there is nothing else."""
    said = [_text(model.repository), _text(model.revision), *sorted({one.value for one in model.digests})]
    known = [part for part in said if part]
    has_identity = isinstance(model.revision, Found) or model.digests
    if has_identity:
        return " ".join(known)
    alias = _text(model.alias) or _text(model.repository)
    return f"alias={alias}" if alias else ""


def _text(fact: Fact[str] | Fact[int]) -> str:
    return str(fact.value) if isinstance(fact, Found) else ""
