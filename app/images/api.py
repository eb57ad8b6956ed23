"""Routes of images."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Request, Response

from app.core.image import ConfigId, ImageDigests, IndexDigest, ManifestDigest
from app.images import service
from app.images.schemas import ImageBody, ImageList, ImageResource
from app.web.deps import ImagesReader, ImagesWriter, ReadSession, WriteSession
from app.web.etag import conditional_json
from app.web.members import ApiRouter
from app.web.paging import PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import Hex64, TotalResource

router = ApiRouter(prefix="/api/v1/images", tags=["images"])


def digest_filters(
    config_id: Annotated[Hex64 | None, Query(description="SHA-256 of the image configuration")] = None,
    manifest_digest: Annotated[Hex64 | None, Query(description="SHA-256 of one platform's manifest")] = None,
    index_digest: Annotated[Hex64 | None, Query(description="SHA-256 of a multi-platform index")] = None,
) -> dict[str, str]:
    """The digests a list is filtered by, each of its own kind."""
    asked = {"config_id": config_id, "manifest_digest": manifest_digest, "index_digest": index_digest}
    return {kind: value for kind, value in asked.items() if value is not None}


def _digests(body: ImageBody) -> ImageDigests:
    return ImageDigests(
        config_id=ConfigId(body.config_id) if body.config_id else None,
        manifest_digest=ManifestDigest(body.manifest_digest) if body.manifest_digest else None,
        index_digest=IndexDigest(body.index_digest) if body.index_digest else None,
    )


@router.post(
    "",
    operation_id="register_image",
    summary="Register an image",
    status_code=201,
    responses={
        200: {"model": ImageResource, "description": "Already there"},
        **problem_responses("document-refused", "digests-mixed", "conflict", "not-found"),
    },
)
def register_image(
    body: ImageBody, response: Response, principal: ImagesWriter, session: WriteSession
) -> ImageResource:
    statement = service.ImageStatement(
        digests=_digests(body),
        title=body.title,
        origin=body.origin,
        record=body.record,
        source_id=body.source_id,
    )
    image, created = service.register_image(session, statement=statement, by=principal.name)
    response.status_code = 201 if created else 200
    response.headers["Location"] = f"/api/v1/images/{image.id}"
    return ImageResource.model_validate(image)


@router.get(
    "",
    operation_id="list_images",
    summary="List images, newest first",
    response_model=ImageList,
    responses=problem_responses("page-token-invalid", "page-size-invalid", "digests-mixed"),
)
def list_images(
    request: Request,
    _principal: ImagesReader,
    session: ReadSession,
    page: PageDep,
    digests: Annotated[dict[str, str], Depends(digest_filters)],
) -> Response:
    service.check_kinds(session, digests=digests)
    rows = service.list_images(session, digests=digests, after=page.after, limit=page.size + 1)
    shown, token = next_token(page, rows)
    images = [ImageResource.model_validate(row) for row in shown]
    total = TotalResource.model_validate(service.count_images(session, digests=digests))
    return conditional_json(request, ImageList(images=images, next_page_token=token, total=total))


@router.get(
    "/{image_id}",
    operation_id="get_image",
    summary="One image",
    response_model=ImageResource,
    responses=problem_responses("not-found"),
)
def get_image(image_id: UUID, request: Request, _principal: ImagesReader, session: ReadSession) -> Response:
    image = service.get_image(session, image_id=image_id)
    return conditional_json(request, ImageResource.model_validate(image))
