"""From what services and the core say to the shapes of answers."""

from collections.abc import Iterable

from app.core.canonical_json import JsonObject, JsonValue
from app.core.profiles.codes import CODES
from app.core.profiles.diff import Diff
from app.core.profiles.drift import DriftLine, drift_object
from app.core.profiles.effective import EffectiveValue
from app.core.profiles.findings import ProfileFinding, finding_object, overall
from app.core.profiles.matrix import MatrixRow, matrix_object
from app.core.profiles.namespace import deployment_object
from app.core.profiles.secrets import masked
from app.profiles.schemas import (
    ActivationResource,
    ClaimResource,
    DeploymentResource,
    DiffLineResource,
    DiffResource,
    DriftLineResource,
    FindingResource,
    NamespaceList,
    ProfileLine,
    ProfileResource,
    RankLine,
    TemplateResource,
    ValueResource,
)
from app.profiles.service.activations import JudgedActivation
from app.profiles.service.checks import profile_findings
from app.profiles.service.claims import StoredClaim
from app.profiles.service.contracts import StoredProfile
from app.profiles.service.differences import Side
from app.profiles.service.namespaces import Registered
from app.profiles.service.values import plain


def finding_resources(findings: Iterable[ProfileFinding]) -> list[FindingResource]:
    """Findings with the sentence that must hold."""
    return [
        FindingResource.model_validate({**finding_object(one), "says": CODES[one.code].says})
        for one in findings
    ]


def line_resource(row: MatrixRow) -> ProfileLine:
    """One line of the matrix."""
    (line,) = _rows(matrix_object([row]))
    return ProfileLine.model_validate(line)


def profile_resource(profile: StoredProfile) -> ProfileResource:
    """A profile with its values, the templates they are from, and every check."""
    effective, findings = profile.effective, profile_findings(profile)
    entry = plain(effective.entry.value)
    return ProfileResource(
        contract_sha256=profile.contract.sha256,
        profile=effective.entry.name,
        entry=entry if isinstance(entry, dict) else {},
        values=[_value(one) for one in (*effective.common, *effective.values)],
        templates=[
            TemplateResource(
                name=one.template.name, document_sha256=one.document_sha256, chosen=one.chosen.value
            )
            for one in profile.templates
        ],
        missing_templates=list(effective.missing),
        image_receipt_sha256=None if profile.image_receipt is None else profile.image_receipt.sha256,
        result=overall(findings).value,
        findings=finding_resources(findings),
    )


def diff_resource(left: Side, right: Side, diff: Diff) -> DiffResource:
    """Two sides and their differences."""
    return DiffResource(
        left_contract=left.contract,
        right_contract=right.contract,
        left_profile=left.profile,
        right_profile=right.profile,
        lines=[
            DiffLineResource(
                pointer=line.pointer,
                change=line.change.value,
                left=line.left,
                right=line.right,
                note=line.note,
            )
            for line in diff.lines
        ],
        is_cut=diff.is_cut,
    )


def drift_resources(lines: Iterable[DriftLine]) -> list[DriftLineResource]:
    """The lines of a drift; secrets are masked already."""
    return [DriftLineResource.model_validate(one) for one in drift_object(tuple(lines))]


def namespace_list(found: Registered) -> NamespaceList:
    """All namespaces with their collisions."""
    return NamespaceList(
        result=overall(found.findings).value,
        findings=finding_resources(found.findings),
        deployments=[DeploymentResource.model_validate(deployment_object(one)) for one in found.deployments],
        without_image=list(found.without_image),
        is_complete=found.is_complete,
    )


def activation_resource(judged: JudgedActivation) -> ActivationResource:
    """An activation with every finding and its ranks."""
    ranks = () if judged.judgement is None else judged.judgement.ranks
    return ActivationResource(
        result=judged.result.value,
        findings=finding_resources(judged.findings),
        sha256=judged.sha256,
        schema_name=judged.schema,
        profile=judged.profile,
        contract_sha256=judged.said,
        contract_used=None if judged.contract is None else judged.contract.sha256,
        pinned=judged.pinned,
        rules=judged.rules.value,
        ranks=[RankLine(rank=one.rank, values=dict(one.values), failed=list(one.failed)) for one in ranks],
    )


def claim_resource(stored: StoredClaim) -> ClaimResource:
    """A claim with what it changes."""
    claim = stored.claim
    return ClaimResource(
        sha256=stored.sha256,
        subject_sha256=None if claim is None else claim.subject_sha256,
        subject_is_stored=stored.subject_is_stored,
        pointer="" if claim is None else claim.pointer,
        state=None if claim is None else claim.state,
        author="" if claim is None else claim.author,
        at="" if claim is None else claim.at,
        reason="" if claim is None else claim.reason,
        replacement_sha256=None if claim is None else claim.replacement_sha256,
        stands=stored.stands,
        effect=stored.effect,
        findings=finding_resources(stored.findings),
        created_at=stored.created_at,
        created_by=stored.document.created_by,
    )


def _value(one: EffectiveValue) -> ValueResource:
    return ValueResource(
        key=one.key,
        value=masked(one.key, one.value),
        source=one.source.value,
        origin=one.origin,
        replaced=None if one.replaced is None else masked(one.key, one.replaced),
        is_placeholder=one.is_placeholder,
    )


def _rows(shown: JsonObject) -> list[JsonValue]:
    rows = shown["rows"]
    return rows if isinstance(rows, list) else []
