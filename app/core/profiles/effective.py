"""A profile's effective values: one level of inheritance, and where each value comes from
(profile-contract §4.3, §18.12).

The parent's template, the profile's own on top, the contract's common environment beside. Entry fields are
never inherited (§3.1).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from app.core.canonical_json import JsonObject
from app.core.digest import Digest
from app.core.profiles.contract import Contract, ancestors
from app.core.profiles.documents import refusal
from app.core.profiles.findings import CheckResult, ProfileFinding, finding, finding_object
from app.core.profiles.profile_entry import ProfileEntry
from app.core.profiles.secrets import masked
from app.core.profiles.template import Template, is_placeholder
from app.core.qualify.pointer import step


class Source(StrEnum):
    """Where a value of a profile was taken from."""

    PARENT_TEMPLATE = "parent_template"
    OWN_TEMPLATE = "own_template"
    CONTRACT = "contract"
    """The common environment, or what the entry puts in its place (§2.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveValue:
    """One variable.

    Attributes:
        origin: file name of the template with its line, or the pointer in the contract.
        replaced: the value of the parent that the profile's own took the place of, if it did.
    """

    key: str
    value: str
    source: Source
    origin: str
    replaced: str | None = None

    @property
    def is_placeholder(self) -> bool:
        """Whether a renderer has still to supply it."""
        return is_placeholder(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveProfile:
    """A profile resolved.

    Attributes:
        values: of parent and own template, in that order; complete only if both were there.
        common: what every container must hold besides (§2.5); a template that holds a key agrees.
        findings: CT_PARENT_UNKNOWN, CT_INHERIT_CYCLE, TPL_INHERIT_DEPTH.
        missing: templates that were needed and not given.
    """

    contract_sha256: Digest
    entry: ProfileEntry
    values: tuple[EffectiveValue, ...]
    common: tuple[EffectiveValue, ...]
    findings: tuple[ProfileFinding, ...]
    missing: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every template it needs was there."""
        return not self.missing

    @property
    def template_values(self) -> dict[str, str]:
        """The values of the templates alone (§4.3 counts these)."""
        return {one.key: one.value for one in self.values}

    @property
    def environment(self) -> dict[str, str]:
        """What a container must hold: common values and those of the templates."""
        common = {one.key: one.value for one in self.common}
        return common | self.template_values


def effective_profile(
    contract: Contract, name: str, *, templates: Mapping[str, Template]
) -> EffectiveProfile:
    """Resolve one profile.

    Args: templates: by file name; a missing one is named in the result, and checks that need it answer
    ``not_tested``.

    Raises: ProfileDocumentError: CT_PROFILE_UNKNOWN.
    """
    entry = contract.profiles.get(name)
    if entry is None:
        raise refusal(
            "profile contract",
            code="CT_PROFILE_UNKNOWN",
            expected="one of " + ", ".join(contract.profiles),
            found=name,
            pointer=f"/profiles{step(name)}",
            sha256=contract.sha256,
        )
    parent = contract.profiles.get(entry.inherits) if entry.inherits is not None else None
    needed = ([parent.template] if parent is not None else []) + [entry.template]
    return EffectiveProfile(
        contract_sha256=contract.sha256,
        entry=entry,
        values=_laid_over(
            templates.get(parent.template) if parent is not None else None, templates.get(entry.template)
        ),
        common=common_environment(contract, entry),
        findings=_findings(contract, entry, templates),
        missing=tuple(file for file in needed if file not in templates),
    )


def common_environment(contract: Contract, entry: ProfileEntry) -> tuple[EffectiveValue, ...]:
    """What every container of a profile must hold; a profile with its own loader replaces two values
    (§2.1)."""
    replaced: dict[str, tuple[str, str]] = {}
    if entry.load_format is not None:
        at = f"/profiles{step(entry.name)}"
        replaced = {
            "LOAD_FORMAT": (entry.load_format, f"{at}/load_format"),
            "VLLM_PLUGINS": (entry.plugins or "", f"{at}/plugins"),
        }
    taken = []
    for key, value in contract.common_environment.items():
        own, origin = replaced.get(key, (value, f"/common_environment{step(key)}"))
        taken.append(
            EffectiveValue(
                key=key,
                value=own,
                source=Source.CONTRACT,
                origin=origin,
                replaced=value if own != value else None,
            )
        )
    return tuple(taken)


def effective_object(effective: EffectiveProfile) -> JsonObject:
    """The effective profile as JSON; values of secret names are masked."""
    entry = effective.entry
    return {
        "contract_sha256": effective.contract_sha256,
        "profile": entry.name,
        "inherits": entry.inherits,
        "tensor_parallel_size": entry.tensor_parallel_size,
        "decode_context_parallel_size": entry.decode_context_parallel_size,
        "node_count": entry.node_count,
        "sparkcache": entry.sparkcache,
        "kv_cache_memory_bytes": entry.kv_cache_memory_bytes,
        "cudagraph_capture_sizes": list(entry.cudagraph_capture_sizes),
        "values": [_value_object(one) for one in effective.values],
        "common_environment": [_value_object(one) for one in effective.common],
        "missing_templates": list(effective.missing),
        "findings": [finding_object(one) for one in effective.findings],
    }


def _value_object(one: EffectiveValue) -> JsonObject:
    return {
        "key": one.key,
        "value": masked(one.key, one.value),
        "source": one.source.value,
        "origin": one.origin,
        "replaced": masked(one.key, one.replaced) if one.replaced is not None else None,
        "placeholder": one.is_placeholder,
    }


def _laid_over(parent: Template | None, own: Template | None) -> tuple[EffectiveValue, ...]:
    taken: dict[str, EffectiveValue] = {}
    for template, source in ((parent, Source.PARENT_TEMPLATE), (own, Source.OWN_TEMPLATE)):
        for key, value in template.pairs.items() if template is not None else ():
            before = taken.get(key)
            taken[key] = EffectiveValue(
                key=key,
                value=value,
                source=source,
                origin=f"{template.name}:{template.lines[key]}" if template is not None else "",
                replaced=before.value if before is not None else None,
            )
    return tuple(taken.values())


def _findings(
    contract: Contract, entry: ProfileEntry, templates: Mapping[str, Template]
) -> tuple[ProfileFinding, ...]:
    if entry.inherits is None:
        return ()
    chain = ancestors(contract, entry.name)
    return (_chain_finding(contract, entry, chain), _depth_finding(contract, entry, chain, templates))


def _chain_finding(contract: Contract, entry: ProfileEntry, chain: tuple[str, ...]) -> ProfileFinding:
    """The chain of parents ends at a profile of the contract that has none."""
    last = contract.profiles.get(chain[-1] if chain else entry.name)
    code, result, found = "CT_PARENT_UNKNOWN", CheckResult.PASS, " → ".join(chain)
    if last is None:
        result, found = CheckResult.FAIL, chain[-1]
    elif last.inherits is not None:
        code, result = "CT_INHERIT_CYCLE", CheckResult.FAIL
        found = " → ".join((entry.name, *chain, last.inherits))
    return finding(
        code,
        result,
        pointer=f"/profiles{step(entry.name)}/inherits",
        expected="a profile of the contract, and never the same one again",
        found=found,
        document_sha256=contract.sha256,
    )


def _depth_finding(
    contract: Contract, entry: ProfileEntry, chain: tuple[str, ...], templates: Mapping[str, Template]
) -> ProfileFinding:
    """No grandparent holds a key that one level of inheritance does not give (§4.3)."""
    known = [contract.profiles[name].template for name in chain if name in contract.profiles]
    missing = [file for file in (entry.template, *known) if file not in templates]
    pointer = f"/profiles{step(entry.name)}/inherits"
    if missing:
        return finding(
            "TPL_INHERIT_DEPTH",
            CheckResult.NOT_TESTED,
            pointer=pointer,
            detail="not given: " + ", ".join(missing),
            document_sha256=contract.sha256,
        )
    single = templates[entry.template].pairs.keys() | templates[known[0]].pairs.keys() if known else set()
    lost = [f"{key} ({file})" for file in known[1:] for key in templates[file].pairs if key not in single]
    return finding(
        "TPL_INHERIT_DEPTH",
        CheckResult.FAIL if lost else CheckResult.PASS,
        pointer=pointer,
        expected="every key of a grandparent's template in the parent's or the profile's own",
        found=", ".join(lost[:10]) if lost else "all of them",
        document_sha256=contract.sha256,
    )
