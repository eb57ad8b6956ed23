"""Routes of profiles: the matrix, one profile, what it comes to, and what differs."""

from typing import Annotated, Final

from fastapi import Depends, Path, Query, Request, Response

from app.core.profiles.documents import DocumentKind
from app.profiles import service
from app.profiles.api.shown import (
    diff_resource,
    drift_resources,
    finding_resources,
    line_resource,
    namespace_list,
    profile_resource,
)
from app.profiles.schemas import (
    DiffResource,
    DriftResource,
    NamespaceList,
    NamespaceResource,
    ProfileDocumentSummary,
    ProfileList,
    ProfileResource,
)
from app.profiles.service.contracts import get_profile, read_contracts
from app.profiles.service.differences import Side, difference
from app.profiles.service.matrix import matrix_of
from app.profiles.service.namespaces import OperatorSays, own_namespace, registered
from app.profiles.service.ranks import drift_of, plan_bytes
from app.web.body import raw_body
from app.web.deps import ProfilesReader, ReadSession
from app.web.etag import conditional, conditional_json
from app.web.members import ApiRouter
from app.web.paging import Page, PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import Hex64, TotalResource

router = ApiRouter(prefix="/api/v1/profiles", tags=["profiles"])

ProfileName = Annotated[
    str, Path(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", examples=["tp4-dcp4"])
]
Rank = Annotated[int, Query(ge=0, le=1023, description="which rank")]
ImageId = Annotated[
    str | None,
    Query(
        pattern="^sha256:[0-9a-f]{64}$", description="config id; else that of the contract's image receipt"
    ),
]
Text = Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
# A page of contracts is work: each is laid beside everything that speaks of its profiles.
MOST_CONTRACTS: Final = 20
# An environment, or the inspection of one container.
MOST_OBSERVED_BYTES: Final = 4 * 1024 * 1024
ENVIRONMENT: Final = "TENSOR_PARALLEL_SIZE=4\nDECODE_CONTEXT_PARALLEL_SIZE=1\n"


@router.get(
    "",
    operation_id="list_profiles",
    summary="All profiles of all contracts: status and recommendation, and the evidence behind each",
    response_model=ProfileList,
    responses=problem_responses("page-token-invalid", "page-size-invalid"),
)
def list_profiles(
    request: Request,
    _principal: ProfilesReader,
    session: ReadSession,
    page: PageDep,
    contract: Annotated[Hex64 | None, Query(description="of this contract only")] = None,
) -> Response:
    kind, size = DocumentKind.CONTRACT, min(page.size, MOST_CONTRACTS)
    small = Page(size=size, after=page.after, secret=page.secret, scope=page.scope)
    if contract is None:
        found = service.list_documents(session, kind=kind, text=None, after=page.after, limit=size + 1)
        total = service.count_documents(session, kind=kind, text=None)
    else:
        found, total = service.one_document(session, sha256=contract, kind=kind)
    shown, token = next_token(small, found)
    matrix = matrix_of(session, contracts=read_contracts(session, digests=[one.sha256 for one in shown]))
    listed = ProfileList(
        profiles=[line_resource(row) for row in matrix.rows],
        activations_complete=matrix.is_complete,
        contracts=[ProfileDocumentSummary.model_validate(one) for one in shown],
        next_page_token=token,
        total=TotalResource.model_validate(total),
    )
    return conditional_json(request, listed)


@router.get(
    "/comparison",
    operation_id="compare_profiles",
    summary="Two contracts, or two profiles, line by line",
    description="Without the two names the contracts are compared, with them what the profiles come to.",
    response_model=DiffResource,
    responses=problem_responses("not-found", "refused"),
)
def compare_profiles(
    request: Request,
    _principal: ProfilesReader,
    session: ReadSession,
    left: Annotated[Hex64, Query(description="SHA-256 of a contract")],
    right: Annotated[Hex64, Query(description="SHA-256 of a contract")],
    left_profile: Text = None,
    right_profile: Text = None,
) -> Response:
    sides = Side(contract=left, profile=left_profile), Side(contract=right, profile=right_profile)
    return conditional_json(request, diff_resource(*sides, difference(session, *sides)))


@router.get(
    "/namespaces",
    operation_id="list_namespaces",
    summary="The cache namespaces of all registered profiles, and their collisions",
    response_model=NamespaceList,
    responses=problem_responses(),
)
def list_namespaces(request: Request, _principal: ProfilesReader, session: ReadSession) -> Response:
    return conditional_json(request, namespace_list(registered(session)))


@router.get(
    "/{contract_sha256}/{name}",
    operation_id="get_profile",
    summary="One profile: the environment it comes to, where each value is from, and every check",
    response_model=ProfileResource,
    responses=problem_responses("not-found"),
)
def get_one_profile(
    contract_sha256: Hex64,
    name: ProfileName,
    request: Request,
    _principal: ProfilesReader,
    session: ReadSession,
) -> Response:
    profile = get_profile(session, contract_sha256=contract_sha256, name=name)
    return conditional_json(request, profile_resource(profile))


@router.get(
    "/{contract_sha256}/{name}/diff",
    operation_id="diff_profile",
    summary="What a profile comes to beside another, line by line",
    response_model=DiffResource,
    responses=problem_responses("not-found"),
)
def diff_profile(
    contract_sha256: Hex64,
    name: ProfileName,
    request: Request,
    _principal: ProfilesReader,
    session: ReadSession,
    with_profile: Annotated[
        str, Query(max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$", description="the other profile")
    ],
    with_contract: Annotated[Hex64 | None, Query(description="its contract; else the same contract")] = None,
) -> Response:
    left = Side(contract=contract_sha256, profile=name)
    right = Side(contract=with_contract or contract_sha256, profile=with_profile)
    return conditional_json(request, diff_resource(left, right, difference(session, left, right)))


@router.get(
    "/{contract_sha256}/{name}/plan",
    operation_id="get_rank_plan",
    summary="What a rank of the profile would be started with: a document to review, never executed",
    description="Values only a site knows stay placeholders and are listed; secrets are masked.",
    responses={
        200: {
            "description": "The plan, `sparkgate-rank-plan/v1`",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        **problem_responses("not-found", "refused"),
    },
    response_class=Response,
)
def get_rank_plan(
    contract_sha256: Hex64,
    name: ProfileName,
    request: Request,
    _principal: ProfilesReader,
    session: ReadSession,
    rank: Rank = 0,
    image_id: ImageId = None,
) -> Response:
    profile = get_profile(session, contract_sha256=contract_sha256, name=name)
    body = plan_bytes(profile, rank=rank, image_id=image_id)
    answer = conditional(request, body, media_type="application/json")
    file_name = f"{name}-rank{rank}.json"
    answer.headers["Content-Disposition"] = f'attachment; filename="{file_name}"'
    return answer


@router.post(
    "/{contract_sha256}/{name}/drift",
    operation_id="find_drift",
    summary="A rank's real environment beside the one it should have; nothing is kept",
    description=(
        "The body is the rank's environment file, or the inspection of its container, at most 4 MiB. Of what "
        "looks like a secret only whether it is equal is told."
    ),
    responses=problem_responses("not-found", "document-refused", "document-unknown", "content-too-large"),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "An environment file, or a container inspection as JSON",
            "content": {
                "text/plain": {"schema": {"type": "string"}, "example": ENVIRONMENT},
                "application/json": {"schema": {}, "example": {"Path": "serve", "Config": {"Env": []}}},
            },
        }
    },
)
def find_drift(
    contract_sha256: Hex64,
    name: ProfileName,
    raw: Annotated[bytes, Depends(raw_body(limit_bytes=MOST_OBSERVED_BYTES))],
    _principal: ProfilesReader,
    session: ReadSession,
    rank: Rank = 0,
    image_id: ImageId = None,
) -> DriftResource:
    profile = get_profile(session, contract_sha256=contract_sha256, name=name)
    found = drift_of(profile, raw=raw, rank=rank, image_id=image_id)
    return DriftResource(
        contract_sha256=contract_sha256,
        profile=name,
        rank=rank,
        result=found.result.value,
        lines=drift_resources(found.lines),
        findings=finding_resources(found.findings),
    )


@router.get(
    "/{contract_sha256}/{name}/namespace",
    operation_id="get_namespace",
    summary="The cache namespace of a profile, and who else would write there",
    response_model=NamespaceResource,
    responses=problem_responses("not-found", "refused"),
)
def get_namespace(
    contract_sha256: Hex64,
    name: ProfileName,
    request: Request,
    _principal: ProfilesReader,
    session: ReadSession,
    image_id: ImageId = None,
    host: Text = None,
    kv_dtype: Text = None,
    block_size: Annotated[int | None, Query(ge=1, le=1_048_576, description="tokens")] = None,
) -> Response:
    profile = get_profile(session, contract_sha256=contract_sha256, name=name)
    says = OperatorSays(image_id=image_id, host=host or "", kv_dtype=kv_dtype, block_size=block_size)
    own = own_namespace(session, profile=profile, says=says)
    shown = NamespaceResource(
        contract_sha256=contract_sha256,
        profile=name,
        image_id=own.image_id,
        namespace=own.namespace,
        result=own.result.value,
        findings=finding_resources(own.findings),
    )
    return conditional_json(request, shown)
