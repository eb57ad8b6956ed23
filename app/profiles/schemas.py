"""JSON shapes of profiles."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from app.core.profiles.documents import DocumentKind
from app.core.profiles.matrix import Recommendation, Status
from app.core.qualify.claim import ClaimState
from app.web.schemas import Resource, TotalResource

CheckResultName = Literal["pass", "fail", "not_applicable", "not_tested", "indeterminate"]
SeverityName = Literal["B", "W"]
ChangeName = Literal["added", "removed", "changed"]


class FindingResource(Resource):
    """One check: its code, what came of it, and where."""

    code: str = Field(examples=["GUARD_DCP_NAME"])
    result: CheckResultName
    severity: SeverityName = Field(description="what a failure does: B blocks, W warns")
    says: str = Field(description="the sentence that must hold")
    pointer: str = Field(description="JSON pointer; `/KEY` in an environment, a relative path for a file")
    detail: str
    expected: str
    found: str = Field(description="bounded; never the value of a secret")
    rank: int | None
    document_sha256: str | None = Field(description="the document the pointer belongs to")
    reason: str


class FindingsResource(Resource):
    """A list of checks and what it comes to."""

    result: CheckResultName = Field(description="fail if a check that blocks failed")
    findings: list[FindingResource]


class PlaceResource(Resource):
    """Where a document stood when it was submitted."""

    repository: str
    path: str
    commit: str
    created_at: datetime
    created_by: str


class ProfileDocumentSummary(Resource):
    """One line of a list of documents."""

    sha256: str = Field(description="SHA-256 of the bytes: the name of the document")
    kind: DocumentKind
    schema_name: str | None
    title: str
    byte_count: int
    is_evidence: bool = Field(description="it is a receipt too, under the same digest, and judged as one")
    places: list[PlaceResource]
    created_at: datetime
    created_by: str


class AddedProfileDocument(ProfileDocumentSummary):
    """What became of submitted bytes."""

    changed: int = Field(description="verdicts that are new because of it; evidence only")


class ProfileDocumentResource(ProfileDocumentSummary):
    """A document with what was read in it."""

    value: Any = Field(description="the JSON value; of a template its keys and values")


class ProfileDocumentList(Resource):
    documents: list[ProfileDocumentSummary]
    next_page_token: str = ""
    total: TotalResource


class EvidenceResource(Resource):
    """One document behind a status, and what it says there."""

    kind: str
    sha256: str
    pointer: str
    says: str


class ProfileLine(Resource):
    """One TP, DCP and cache mode of one contract. Status and recommendation are two questions."""

    contract_sha256: str
    profile: str | None = Field(description="null: the contract has no profile of these degrees")
    tensor_parallel_size: int
    decode_context_parallel_size: int
    sparkcache: bool
    status: Status
    status_evidence: EvidenceResource = Field(description="what the word was read from")
    recommendation: Recommendation | None = Field(description="null: no document says")
    recommendation_evidence: EvidenceResource | None
    evidence: list[EvidenceResource] = Field(description="what else speaks of the profile")


class ProfileList(Resource):
    """The profiles of one page of contracts, the newest contract first."""

    profiles: list[ProfileLine]
    activations_complete: bool = Field(description="false: only the newest activations were looked at")
    contracts: list[ProfileDocumentSummary]
    next_page_token: str = Field(default="", description="of the contracts that follow")
    total: TotalResource = Field(description="contracts")


class ValueResource(Resource):
    """One value of the environment a profile comes to, and where it is from."""

    key: str
    value: str
    source: str = Field(description="parent_template, own_template, contract")
    origin: str = Field(description="file and line, or the pointer in the contract")
    replaced: str | None = Field(description="what it takes the place of")
    is_placeholder: bool


class TemplateResource(Resource):
    """The document a template's values were read from, and why that one."""

    name: str
    document_sha256: str
    chosen: str = Field(description="beside the contract, same name, template set")


class ProfileResource(Resource):
    """One profile: its entry, the environment it comes to, and every check of it."""

    contract_sha256: str
    profile: str
    entry: dict[str, Any] = Field(description="as the contract has it")
    values: list[ValueResource]
    templates: list[TemplateResource]
    missing_templates: list[str] = Field(description="named by the contract and not stored")
    image_receipt_sha256: str | None = Field(description="the image receipt it was held against")
    result: CheckResultName
    findings: list[FindingResource]


class DiffLineResource(Resource):
    pointer: str
    change: ChangeName
    left: str | None = Field(description="null: nothing there; a secret's value is masked")
    right: str | None
    note: str = Field(description="where each side's value comes from")


class DiffResource(Resource):
    """Two contracts, or two profiles, line by line; what is equal is left out."""

    left_contract: str
    right_contract: str
    left_profile: str | None
    right_profile: str | None
    lines: list[DiffLineResource]
    is_cut: bool = Field(description="there are more lines")


class DriftLineResource(Resource):
    """One line of a rank's real environment beside the one it should have."""

    place: str
    name: str
    state: Literal["same", "changed", "missing", "extra", "open", "not observed"]
    expected: str
    found: str
    masked: bool = Field(description="the name looks like a secret's: equal or not is told, nothing else")


class DriftResource(Resource):
    """What differs between a rank and its plan. Nothing of what was sent is kept."""

    contract_sha256: str
    profile: str
    rank: int
    result: CheckResultName
    lines: list[DriftLineResource]
    findings: list[FindingResource]


class NamespaceResource(Resource):
    """The cache namespace of a profile on an image, and who else would write there."""

    contract_sha256: str
    profile: str
    image_id: str
    namespace: str | None = Field(description="null: a profile without cache has none")
    result: CheckResultName
    findings: list[FindingResource]


class DeploymentResource(Resource):
    """A profile on an image, as far as stored documents tell."""

    name: str
    namespace: str
    image_id: str
    tensor_parallel_size: int
    decode_context_parallel_size: int
    model_revision: str


class NamespaceList(FindingsResource):
    """The namespaces of the newest contracts' cache profiles."""

    deployments: list[DeploymentResource]
    without_image: list[str] = Field(description="contracts that no stored image receipt fits")
    is_complete: bool = Field(description="false: only the newest contracts were looked at")


class RankLine(Resource):
    """One rank of an activation, as far as it can be read."""

    rank: str
    values: dict[str, str] = Field(description="what it says, bounded and as text")
    failed: list[str] = Field(description="names of values that a rule refused")


class ActivationResource(FindingsResource):
    """An activation judged by all published rules and ours."""

    sha256: str
    schema_name: str | None
    profile: str | None
    contract_sha256: str | None
    contract_used: str | None = Field(description="the contract it was judged against")
    pinned: bool = Field(description="a release selection names these bytes")
    rules: Literal["strict", "upstream"]
    ranks: list[RankLine]


class ActivationList(Resource):
    activations: list[ActivationResource]
    next_page_token: str = ""
    total: TotalResource


class ClaimResource(Resource):
    """A claim about a document, and what it does to what was judged of it."""

    sha256: str
    subject_sha256: str | None = Field(description="null: what came as a receipt is no claim in form")
    subject_is_stored: bool
    pointer: str
    state: ClaimState | None
    author: str
    at: str
    reason: str
    replacement_sha256: str | None
    stands: bool = Field(description="it is the newest about its place: the one that counts")
    effect: str = Field(description="what it changes, in a sentence")
    findings: list[FindingResource]
    created_at: datetime
    created_by: str


class ClaimList(Resource):
    claims: list[ClaimResource]
    next_page_token: str = ""
    total: TotalResource
