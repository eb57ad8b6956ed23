"""Routes of the ledger."""

from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query, Request, Response

from app.core.ledger.checkpoint import NoteSigner, encode_base64
from app.ledger.schemas import CheckpointResource, EntryList, EntryResource, HeadResource
from app.ledger.service import proofs
from app.models import LedgerLeaf
from app.web.deps import EvidenceExporter, ReadSession, WriteSession
from app.web.etag import IMMUTABLE, conditional, conditional_json
from app.web.members import ApiRouter
from app.web.problems import problem_responses
from app.web.schemas import EXACT

router = ApiRouter(prefix="/api/v1/ledger", tags=["ledger"])

LARGEST_PAGE: Final = 1000
TEXT: Final = "text/plain; charset=utf-8"
_SIGNING: Final = ("ledger-key-missing", "ledger-inconsistent")

# A size beyond the log is a 400 that says so, however large; a document's reader still wants a bound.
EXACT_TO_READ: Final[dict[str, Any]] = {"maximum": EXACT}
EntryIndex = Annotated[
    int, Path(ge=0, json_schema_extra=EXACT_TO_READ, description="entries are numbered from 0")
]


def ledger_signer(request: Request) -> NoteSigner | None:
    signer: NoteSigner | None = request.app.state.ledger_signer
    return signer


SignerDep = Annotated[NoteSigner | None, Depends(ledger_signer)]


SIGNED_EXAMPLE: Final = (
    "example.org/log\n1\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n\n"
    "— example.org/log Az3grlgtzPICa5Os…\n"
)


def _text_answers(description: str, *codes: str, example: str) -> dict[int | str, dict[str, Any]]:
    content = {"schema": {"type": "string"}, "example": example}
    answer = {"description": description, "content": {"text/plain": content}}
    return {200: answer, **problem_responses("bad-request", *codes)}


def _entry(row: LedgerLeaf) -> EntryResource:
    return EntryResource(
        index=row.index,
        kind=row.kind,
        document=encode_base64(row.document),
        leaf_hash=row.leaf_hash,
        created_at=row.created_at,
    )


def _lasting(response: Response, *, when: bool) -> Response:
    """What a size and an index name never changes."""
    if when:
        response.headers["Cache-Control"] = IMMUTABLE
    return response


@router.get(
    "",
    operation_id="get_ledger",
    summary="Size and root of the ledger, its key, the newest checkpoint handed out",
    response_model=HeadResource,
    responses=problem_responses(),
)
def get_ledger(
    request: Request, _principal: EvidenceExporter, session: ReadSession, signer: SignerDep
) -> Response:
    head = proofs.head(session)
    latest = CheckpointResource.model_validate(head.latest) if head.latest else None
    shown = HeadResource(
        size=head.size,
        root=head.root.hex(),
        origin=signer.name if signer else None,
        key=signer.verifier.vkey if signer else None,
        latest_checkpoint=latest,
    )
    return conditional_json(request, shown)


@router.get(
    "/checkpoint",
    operation_id="get_ledger_checkpoint",
    summary="The signed tree head (C2SP tlog-checkpoint): of now, or one handed out earlier",
    response_class=Response,
    responses=_text_answers(
        "A signed checkpoint", "not-found", "ledger-out-of-range", *_SIGNING, example=SIGNED_EXAMPLE
    ),
)
def get_checkpoint(
    request: Request,
    _principal: EvidenceExporter,
    session: WriteSession,
    signer: SignerDep,
    size: Annotated[
        int | None,
        Query(ge=0, json_schema_extra=EXACT_TO_READ, description="of a checkpoint handed out earlier"),
    ] = None,
) -> Response:
    note = proofs.checkpoint(session, size=size, signer=signer)
    return _lasting(conditional(request, note, media_type=TEXT), when=size is not None)


@router.get(
    "/entries",
    operation_id="list_ledger_entries",
    summary="Entries in the order of their index",
    response_model=EntryList,
    responses=problem_responses("ledger-out-of-range"),
)
def list_entries(
    request: Request,
    _principal: EvidenceExporter,
    session: ReadSession,
    start: Annotated[
        int,
        Query(
            ge=0,
            json_schema_extra=EXACT_TO_READ,
            description="index of the first; the log's size: nothing yet",
        ),
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = 100,
) -> Response:
    rows, size = proofs.entries(session, start=start, limit=limit)
    end = start + len(rows)
    shown = EntryList(
        entries=[_entry(row) for row in rows], next_start=end if end < size else None, size=size
    )
    return conditional_json(request, shown)


@router.get(
    "/entries/{index}",
    operation_id="get_ledger_entry",
    summary="One entry",
    response_model=EntryResource,
    responses=problem_responses("not-found"),
)
def get_entry(
    index: EntryIndex, request: Request, _principal: EvidenceExporter, session: ReadSession
) -> Response:
    shown = _entry(proofs.entry(session, index=index))
    return _lasting(conditional_json(request, shown), when=True)


@router.get(
    "/proofs/inclusion",
    operation_id="prove_ledger_inclusion",
    summary="Proof that an entry is in the log (C2SP tlog-proof), verifiable offline",
    response_class=Response,
    responses=_text_answers(
        "A .tlog-proof file",
        "ledger-out-of-range",
        *_SIGNING,
        example=f"c2sp.org/tlog-proof@v1\nindex 0\n\n{SIGNED_EXAMPLE}",
    ),
)
def prove_inclusion(
    request: Request,
    _principal: EvidenceExporter,
    session: WriteSession,
    signer: SignerDep,
    index: Annotated[int, Query(ge=0, json_schema_extra=EXACT_TO_READ)],
    size: Annotated[
        int | None,
        Query(ge=0, json_schema_extra=EXACT_TO_READ, description="tree size; the log's size if not given"),
    ] = None,
) -> Response:
    text = proofs.inclusion(session, index=index, size=size, signer=signer)
    return _lasting(conditional(request, text, media_type=TEXT), when=size is not None)


@router.get(
    "/proofs/consistency",
    operation_id="prove_ledger_consistency",
    summary="Proof that an earlier state of the log is the start of a later one (C2SP add-checkpoint body)",
    response_class=Response,
    responses=_text_answers(
        "`old N`, hashes, checkpoint", "ledger-out-of-range", *_SIGNING, example=f"old 0\n\n{SIGNED_EXAMPLE}"
    ),
)
def prove_consistency(
    request: Request,
    _principal: EvidenceExporter,
    session: WriteSession,
    signer: SignerDep,
    first: Annotated[
        int, Query(alias="from", ge=0, json_schema_extra=EXACT_TO_READ, description="the earlier tree size")
    ],
    second: Annotated[
        int | None,
        Query(
            alias="to",
            ge=0,
            json_schema_extra=EXACT_TO_READ,
            description="the later one; the log's size if not given",
        ),
    ] = None,
) -> Response:
    text = proofs.consistency(session, first=first, second=second, signer=signer)
    return _lasting(conditional(request, text, media_type=TEXT), when=second is not None)
