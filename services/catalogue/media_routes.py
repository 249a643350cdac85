"""Media routes: pictures by image key, for production and the test environment alike."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal, NamedTuple

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from libs.catalogue.resource_table import ACCOUNTS, CONTESTS, IMAGES, PARTICIPANTS
from libs.catalogue.schemas.media import SIZES, picture_version
from libs.contracts.catalogue_events import Stored
from libs.media.image_store import ImageStore, StoredPicture
from libs.media.picture_encoding import FORMATS
from libs.tally.errors import NotFound
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.web.documents.openapi import LEGACY_ANSWERS, UNCHANGED
from libs.web.door.auth import Authenticator, header, headers_of, require
from libs.web.door.query_parameters import refuse_unknown_parameters
from libs.web.door.typed_routes import IfNoneMatch
from libs.web.responses import SAFE, etag, not_modified

PUBLIC: Final = "public, max-age=86400"
"""Caching of an address with the current version; the image may become private or be deleted meanwhile."""
PUBLIC_UNVERSIONED: Final = "public, max-age=300"
"""Caching of an address whose picture may be replaced, or already was."""
PRIVATE: Final = "private, no-cache"
OF_RESULTS: Final = (CONTESTS.name, PARTICIPANTS.name, ACCOUNTS.name)
"""Resources whose images come with the results."""
Size = Annotated[
    Literal["thumb", "default", "large"],
    Query(
        description="The longer side: "
        + ", ".join(f"{name} {pixels} pixels" for name, pixels in SIZES.items())
        + "; never enlarged."
    ),
]
Version = Annotated[
    str | None,
    Query(
        description="From the image's `url`, which is another one for another picture: caches keep it for a day."
    ),
]


class MediaEnvironment(NamedTuple):
    """The images of one environment."""

    views: CatalogueViews
    auth: Authenticator
    image_store: ImageStore


class Found(NamedTuple):
    environment: MediaEnvironment
    account: str
    image: Stored


def media_router(environments: Sequence[MediaEnvironment]) -> APIRouter:
    """Build the route. An image key exists in at most one environment."""
    router = APIRouter(tags=["images"])

    @router.get(
        "/media/image/{image_id}",
        response_class=Response,
        responses=LEGACY_ANSWERS
        | {
            200: {
                "description": "The picture.",
                "headers": {
                    "ETag": {"schema": {"type": "string"}, "description": "Identifies this picture and size."}
                },
                "content": {
                    made.media_type: {"schema": {"type": "string", "format": "binary"}}
                    for made in FORMATS.values()
                },
            },
            **UNCHANGED,
        },
    )
    async def get_picture(
        request: Request,
        image_id: str,
        size: Size = "default",
        v: Version = None,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """Read the picture of an image, by its key.

        It is the current picture, also with the `v` of an earlier one.

        Public images need no API key. Private images need a key of the account that has `content:read`, as Bearer
        or as `service-brand` and `service-key`; for images of contests, of participants and of the account's
        brand, `results:read` suffices. Errors have the legacy API's form.
        """
        refuse_unknown_parameters(request.scope)
        environment, account, image = await _find(environments, image_id)
        is_public = image.document["access"]["access"] == "public"
        if not is_public:
            await _admit(request, environment, account, image.key)
        kept, is_current = StoredPicture.of(image.document), v == picture_version(image.document)
        tag = etag(f"{kept.object}-{size}")
        headers = {
            **SAFE,
            "ETag": tag,
            "Cache-Control": PRIVATE if not is_public else PUBLIC if is_current else PUBLIC_UNVERSIONED,
        }
        if not_modified(if_none_match, tag):
            return Response(status_code=304, headers=headers)
        data = await environment.image_store.show(account, image.key, kept, size)
        if data is None:  # deleted, or replaced meanwhile
            if (await _find(environments, image_id)).image.version == image.version:
                raise _unknown()
            return await get_picture(request, image_id, size, v, if_none_match)
        return Response(data, headers=headers, media_type=FORMATS[kept.format].media_type)

    return router


async def _find(environments: Sequence[MediaEnvironment], key: str) -> Found:
    for environment in environments:
        account = await environment.views.find_owner(IMAGES.name, key)
        image = None if account is None else await environment.views.get(account, IMAGES.name, key)
        if account is not None and image is not None:
            return Found(environment, account, image)
    raise _unknown()


async def _admit(request: Request, environment: MediaEnvironment, account: str, image: str) -> None:
    """Admit a key that may read the account's records, or its results if the image is part of them.

    Raises `Unauthorized`, `Forbidden`, and `NotFound` for other accounts' keys.
    """
    headers = headers_of(request.scope)
    is_legacy = header(headers, b"service-key") is not None
    auth = environment.auth
    key = await (auth.authenticate_legacy(request.scope) if is_legacy else auth.authenticate(request.scope))
    if key.account != account:
        require(key, "content:read")
        raise _unknown()
    if "results:read" not in key.permissions or not await environment.views.is_referred(
        account, IMAGES.name, image, OF_RESULTS
    ):
        require(key, "content:read")


def _unknown() -> NotFound:
    return NotFound("image not found")
