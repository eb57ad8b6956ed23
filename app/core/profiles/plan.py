"""What one rank would be started with: a document to review and download, never executed
(profile-contract §6.2, §7).

The planner fills what follows from documents: rank, head address, namespace. Every other placeholder must be
given, and a value the profile fixes cannot be given again. Targets of mounts and arguments that no published
page names are left open and said to be.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from app.core.canonical_json import ExactValue, JsonObject, JsonValue
from app.core.digest import Digest, sha256
from app.core.errors import FormatError, shown
from app.core.profiles.budget import buffer_plan, buffer_plan_object
from app.core.profiles.contract import Contract
from app.core.profiles.effective import EffectiveProfile, EffectiveValue
from app.core.profiles.findings import CheckResult, ProfileFinding, finding, finding_object, overall
from app.core.profiles.guards import RankCase, rank_findings
from app.core.profiles.namespace import IMAGE_ID, derive_namespace
from app.core.profiles.observed import ObservedRank
from app.core.profiles.profile_entry import ProfileEntry
from app.core.profiles.secrets import masked
from app.core.profiles.site import Site, chosen_finding
from app.core.profiles.template import has_control, is_placeholder, is_variable
from app.core.qualify.pointer import step

PLAN_SCHEMA: Final = "sparkgate-rank-plan/v1"
BAKED_ENTRYPOINT: Final = "/opt/sparkring/bin/sparkring-r33"
OVERLAY_ENTRYPOINT: Final = "/opt/sparkring/bin/sparkring-r33-overlay"
CONTRACT_TARGET: Final = "/opt/sparkring/profile-contract"
OVERLAY_VARIABLE: Final = "R33_PROFILE_CONTRACT_HOST_ROOT"
NAMESPACE_FOLDER: Final = "/cache/jit/sparkcache-context/"
MOST_GIVEN: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOrder:
    """What a plan is asked for.

    Attributes:
        image_id: ``sha256:`` and 64 hexadecimal characters, or none if it is not known.
        receipt: the image receipt as a JSON value; guards that need it answer ``not_tested`` without it.
        given: values for placeholders, and for variables that no document names.
    """

    rank: int
    image_id: str | None = None
    image_reference: str | None = None
    receipt: ExactValue = None
    given: Mapping[str, str]
    site: Site | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedValue:
    """One variable of a rank; ``origin`` is where it comes from."""

    key: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMount:
    """One folder of the host; ``target`` is none where no published page names it."""

    source: str
    target: str | None
    writable: bool
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """One rank of a start that nobody has ordered.

    Attributes:
        command: entrypoint and sub-command; the launcher's further arguments are not published.
        findings: of inheritance, given values and site, REN_NOT_AUTHORIZED, and every guard of §5 on the
            planned environment.
    """

    contract_sha256: Digest
    entry: ProfileEntry
    rank: int
    image_id: str | None
    image_reference: str | None
    namespace: str | None
    environment: tuple[PlannedValue, ...]
    mounts: tuple[PlannedMount, ...]
    command: tuple[str, ...]
    findings: tuple[ProfileFinding, ...]

    @property
    def values(self) -> dict[str, str]:
        """The variables by name."""
        return {one.key: one.value for one in self.environment}


def rank_plan(effective: EffectiveProfile, *, contract: Contract, order: RankOrder) -> RankPlan:
    """Plan one rank of a profile and hold the planned environment to every guard.

    Raises: FormatError: no such rank, an image id of another form, too many given values, a given name that
    is no variable, a value with a line end or another control character.
    """
    entry = effective.entry
    if not 0 <= order.rank < entry.node_count:
        raise FormatError("rank", expected=f"0 to {entry.node_count - 1}", found=shown(order.rank))
    if order.image_id is not None and IMAGE_ID.fullmatch(order.image_id) is None:
        expected = "sha256: and 64 hexadecimal characters"
        raise FormatError("image id", expected=expected, found=shown(order.image_id))
    if len(order.given) > MOST_GIVEN:
        raise FormatError("given values", expected=f"at most {MOST_GIVEN}", found=str(len(order.given)))
    _check_given(order.given)
    namespace = None
    if entry.sparkcache and order.image_id is not None:
        namespace = derive_namespace(order.image_id, entry.name)
    environment = tuple(_environment(effective, order, namespace).values())
    for one in environment:
        if has_control(one.value):
            expected = "a value without control characters"
            raise FormatError(one.key, expected=expected, found=f"one from {one.origin}")
    case = RankCase(
        contract=contract,
        effective=effective,
        observed=_planned_rank(effective, order, environment),
        receipt=order.receipt,
        image_id=order.image_id,
        diagnostic_namespace=order.site.diagnostic_namespace if order.site is not None else None,
    )
    return RankPlan(
        contract_sha256=effective.contract_sha256,
        entry=entry,
        rank=order.rank,
        image_id=order.image_id,
        image_reference=order.image_reference,
        namespace=namespace,
        environment=environment,
        mounts=tuple(_mounts(entry, order)),
        command=(OVERLAY_ENTRYPOINT if _has_overlay(order) else BAKED_ENTRYPOINT, "serve"),
        findings=(*_findings(effective, order), *rank_findings(case)),
    )


def plan_object(plan: RankPlan) -> JsonObject:
    """The plan as ``sparkgate-rank-plan/v1``; values of secret names are masked."""
    return {
        "schema": PLAN_SCHEMA,
        "status": "research-only",
        "execution_authorized": False,
        "contract_sha256": plan.contract_sha256,
        "profile": plan.entry.name,
        "rank": plan.rank,
        "image_id": plan.image_id,
        "image_reference": plan.image_reference,
        "namespace": plan.namespace,
        "namespace_folder": f"{NAMESPACE_FOLDER}{plan.namespace}" if plan.namespace is not None else None,
        "environment": [
            {"key": one.key, "value": masked(one.key, one.value), "origin": one.origin}
            for one in plan.environment
        ],
        "mounts": [
            {"source": one.source, "target": one.target, "writable": one.writable, "says": one.says}
            for one in plan.mounts
        ],
        "command": list(plan.command),
        "buffers": _buffers(plan),
        "result": overall(plan.findings).value,
        "findings": [finding_object(one) for one in plan.findings],
    }


def environment_text(plan: RankPlan) -> str:
    """The environment file of the rank as it would be written; values of secret names are masked, so that
    a file with one in it cannot start anything."""
    head = f"# {plan.entry.name} rank {plan.rank}: to review, not authorised to run\n"
    return head + "".join(f"{one.key}={masked(one.key, one.value)}\n" for one in plan.environment)


def _check_given(given: Mapping[str, str]) -> None:
    for key in given:
        if not is_variable(key):
            raise FormatError("given value", expected="a variable of A-Z, 0-9 and _", found=shown(key[:80]))


def _buffers(plan: RankPlan) -> JsonValue:
    try:
        return buffer_plan_object(buffer_plan(plan.values, plan.entry))
    except FormatError:
        return None


def _has_overlay(order: RankOrder) -> bool:
    return order.site is not None and bool(order.site.contract_roots)


def _environment(
    effective: EffectiveProfile, order: RankOrder, namespace: str | None
) -> dict[str, PlannedValue]:
    planned: dict[str, PlannedValue] = {}
    for one in (*effective.common, *effective.values):
        planned[one.key] = PlannedValue(
            key=one.key, value=one.value, origin=f"{one.source.value} {one.origin}"
        )
    for derived in _derived(effective, order, namespace):
        planned[derived.key] = derived
    for key, value in order.given.items():
        if key not in planned or is_placeholder(planned[key].value):
            planned[key] = PlannedValue(key=key, value=value, origin="given")
    return planned


def _derived(effective: EffectiveProfile, order: RankOrder, namespace: str | None) -> Iterator[PlannedValue]:
    """What a renderer supplies and follows from the documents."""
    yield PlannedValue(key="NODE_RANK", value=str(order.rank), origin="rank")
    site = order.site
    if site is not None:
        head = site.management_addresses[0]
        yield PlannedValue(key="MASTER_ADDR", value=head, origin="site /management_addresses/0")
        if site.contract_roots:
            root = site.contract_roots[order.rank]
            origin = f"site /r33_profile_contract_roots/{order.rank}"
            yield PlannedValue(key=OVERLAY_VARIABLE, value=root, origin=origin)
    diagnostic = site.diagnostic_namespace if site is not None else None
    if effective.entry.sparkcache and diagnostic is not None:
        for key, value in (
            ("SPARKCACHE_CACHE_NAMESPACE", diagnostic),
            ("SPARKCACHE_ACCESS_MODE", "restore-only"),
            ("SPARKCACHE_ASYNC_PAGE_CAPTURE", "0"),
        ):
            yield PlannedValue(key=key, value=value, origin="site /cache_diagnostics")
    elif namespace is not None:
        yield PlannedValue(
            key="SPARKCACHE_CACHE_NAMESPACE", value=namespace, origin="derived from image id and profile"
        )


def _mounts(entry: ProfileEntry, order: RankOrder) -> Iterator[PlannedMount]:
    site, rank = order.site, order.rank
    if site is None or rank >= len(site.model_roots):
        return
    open_target = "target inside the container: not published"
    yield PlannedMount(
        source=site.model_roots[rank], target=None, writable=False, says=f"model; {open_target}"
    )
    yield PlannedMount(
        source=site.cache_roots[rank], target=None, writable=entry.sparkcache, says=f"cache; {open_target}"
    )
    if site.contract_roots:
        root = site.contract_roots[rank]
        beside = f"{root.rstrip('/').rpartition('/')[0]}/image/entrypoint.py"
        yield PlannedMount(source=root, target=CONTRACT_TARGET, writable=False, says="contract overlay")
        yield PlannedMount(
            source=beside, target=OVERLAY_ENTRYPOINT, writable=False, says="overlay entrypoint"
        )


def _planned_rank(
    effective: EffectiveProfile, order: RankOrder, environment: tuple[PlannedValue, ...]
) -> ObservedRank:
    """The planned environment as if it were real, for the guards."""
    values = {one.key: one.value for one in environment}
    text = "".join(f"{key}={value}\n" for key, value in values.items())
    name = f"plan of {effective.entry.name} rank {order.rank}"
    return ObservedRank(name=name, sha256=sha256(text.encode()), environment=values, rank=order.rank)


def _findings(effective: EffectiveProfile, order: RankOrder) -> Iterator[ProfileFinding]:
    yield from effective.findings
    if effective.missing:
        detail = "not given: " + ", ".join(effective.missing)
        yield finding("TPL_VALUE", CheckResult.NOT_TESTED, detail=detail, rank=order.rank)
    yield from _given_findings(effective, order)
    yield chosen_finding(order.site, profile=effective.entry.name, rank=order.rank)
    yield finding(
        "REN_NOT_AUTHORIZED",
        CheckResult.FAIL,
        detail="a plan is a document to review; nothing here starts anything",
        expected="an approval by a person",
        found="none recorded",
        rank=order.rank,
    )


def _given_findings(effective: EffectiveProfile, order: RankOrder) -> Iterator[ProfileFinding]:
    """A given value that the profile fixes is refused: the plan keeps the profile's."""
    fixed: dict[str, EffectiveValue] = {one.key: one for one in (*effective.common, *effective.values)}
    for key, value in order.given.items():
        one = fixed.get(key)
        if one is not None and not one.is_placeholder and one.value != value:
            yield finding(
                "TPL_VALUE",
                CheckResult.FAIL,
                pointer=step(key),
                detail=f"fixed by {one.source.value} {one.origin}",
                expected=masked(key, one.value),
                found=masked(key, value),
                rank=order.rank,
            )
