"""Routes of verdicts: lists, those of a day, one, its history, two images side by side."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Request, Response

from app.core.canonical_json import decode_canonical
from app.core.qualify.facts import Capability
from app.errors import FieldProblem, Refused
from app.models import VerdictRow
from app.verdicts.schemas import (
    ComparisonResource,
    Grade,
    OutcomeName,
    PairResource,
    VerdictKind,
    VerdictList,
    VerdictResource,
    VerdictSummary,
)
from app.verdicts.service import current
from app.verdicts.service.current import VerdictFilter
from app.verdicts.service.rows import term
from app.web.deps import ImagesReader, ReadSession
from app.web.etag import conditional_json
from app.web.members import ApiRouter
from app.web.paging import PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import Hex64, TotalResource

router = ApiRouter(prefix="/api/v1/verdicts", tags=["verdicts"])

Degree = Annotated[int | None, Query(ge=1, le=1_000_000, description="parallel degree, exactly")]
Words = Annotated[str, Query(max_length=200)]


def verdict_filter(
    *,
    kind: Annotated[VerdictKind, Query(description="what was judged")] = "scope",
    outcome: Annotated[OutcomeName | None, Query()] = None,
    deployable: Annotated[bool | None, Query()] = None,
    tp: Degree = None,
    dcp: Degree = None,
    capability: Annotated[Capability | None, Query()] = None,
    grade: Annotated[Grade | None, Query(description="evidence grade, exactly")] = None,
    image: Annotated[Hex64 | None, Query(description="config id")] = None,
    receipt: Annotated[Hex64 | None, Query(description="with kind receipt or case")] = None,
    model: Annotated[Words | None, Query(description="repository, revision or digest, exactly")] = None,
    commit: Annotated[Words | None, Query(description="source commit in full")] = None,
    code: Annotated[Words | None, Query(description="a finding, with or without its detail")] = None,
    gate: Annotated[Words | None, Query(description="gate=state, for example semantic=failed")] = None,
    q: Annotated[
        Words | None,
        Query(description="words, each as the start of one; other characters alone find nothing"),
    ] = None,
) -> VerdictFilter:
    if gate is not None and "=" not in gate:
        raise _wrong("gate", f"expected gate=state, found {gate}")
    named = {"model": model, "commit": commit, "code": code, "gate": gate}
    return VerdictFilter(
        kind=kind,
        outcome=outcome,
        deployable=deployable,
        tp=None if tp is None else str(tp),
        dcp=None if dcp is None else str(dcp),
        capability=capability and capability.value,
        evidence_grade=grade,
        image_config_id=image,
        receipt_sha256=receipt,
        terms=tuple(term(name, value) for name, value in named.items() if value is not None),
        search=current.searched(q or ""),
    )


def _wrong(name: str, detail: str) -> Refused:
    return Refused(f"{name}: {detail}", errors=(FieldProblem(pointer=f"/{name}", detail=detail),))


@router.get(
    "",
    operation_id="list_verdicts",
    summary="List verdicts, newest first",
    description=(
        "The newest verdict of everything judged; with `on`, what was the newest at the end of that day "
        "(UTC). `on=2026-11-30&tp=4&dcp=4&outcome=qualified` is what was qualified for this topology then."
    ),
    response_model=VerdictList,
    responses=problem_responses("page-token-invalid", "page-size-invalid", "refused"),
)
def list_verdicts(
    request: Request,
    _principal: ImagesReader,
    session: ReadSession,
    page: PageDep,
    wanted: Annotated[VerdictFilter, Depends(verdict_filter)],
    on: Annotated[date | None, Query(description="a day, UTC; not with q")] = None,
) -> Response:
    if on is not None and wanted.search:
        raise _wrong("q", "expected none beside `on`, found one")
    rows = current.list_verdicts(session, wanted=wanted, on=on, after=page.after, limit=page.size + 1)
    shown, token = next_token(page, rows)
    total = current.count_verdicts(session, wanted=wanted, on=on)
    return conditional_json(request, _list(shown, token, total=TotalResource.model_validate(total)))


@router.get(
    "/comparison",
    operation_id="compare_images",
    summary="The verdicts about two images side by side",
    response_model=ComparisonResource,
    responses=problem_responses(),
)
def compare_images(
    left: Annotated[Hex64, Query(description="config id")],
    right: Annotated[Hex64, Query(description="config id")],
    request: Request,
    _principal: ImagesReader,
    session: ReadSession,
) -> Response:
    pairs = [
        PairResource(left=_summary(one), right=_summary(other))
        for one, other in current.side_by_side(session, left=left, right=right)
    ]
    return conditional_json(request, ComparisonResource(left=left, right=right, pairs=pairs))


@router.get(
    "/{verdict_id}",
    operation_id="get_verdict",
    summary="One verdict with everything it says",
    response_model=VerdictResource,
    responses=problem_responses("not-found"),
)
def get_verdict(
    verdict_id: UUID, request: Request, _principal: ImagesReader, session: ReadSession
) -> Response:
    row = current.get_verdict(session, verdict_id=verdict_id)
    shown = VerdictResource(
        **VerdictSummary.model_validate(row).model_dump(),
        is_current=current.is_current(session, row=row),
        document=decode_canonical(row.document, subject=f"verdict {row.id}"),
        document_sha256=row.document_sha256,
    )
    return conditional_json(request, shown)


@router.get(
    "/{verdict_id}/history",
    operation_id="list_verdict_history",
    summary="Every verdict about the same thing, newest first",
    response_model=VerdictList,
    responses=problem_responses("not-found", "page-token-invalid", "page-size-invalid"),
)
def list_verdict_history(
    verdict_id: UUID, request: Request, _principal: ImagesReader, session: ReadSession, page: PageDep
) -> Response:
    row = current.get_verdict(session, verdict_id=verdict_id)
    rows = current.list_history(session, row=row, after=page.after, limit=page.size + 1)
    shown, token = next_token(page, rows)
    total = current.count_history(session, row=row)
    return conditional_json(request, _list(shown, token, total=TotalResource.model_validate(total)))


def _list(rows: Sequence[VerdictRow], token: str, *, total: TotalResource) -> VerdictList:
    verdicts = [VerdictSummary.model_validate(row) for row in rows]
    return VerdictList(verdicts=verdicts, next_page_token=token, total=total)


def _summary(row: VerdictRow | None) -> VerdictSummary | None:
    return None if row is None else VerdictSummary.model_validate(row)
