"""Routes that create and delete images, which are read like every other record, and serve their pictures."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

import orjson
from fastapi import APIRouter, Depends, Query
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from libs.catalogue.records import Written
from libs.catalogue.resource_table import ACCOUNTS, CONTESTS, IMAGES, PARTICIPANTS
from libs.catalogue.schemas.base import Document
from libs.catalogue.schemas.media import SIZES, Image, picture_version
from libs.contracts.catalogue_events import ApiKey, Stored
from libs.contracts.limits import ADDRESS, FORM_FIELDS_BODY
from libs.contracts.validation import Problem, checked, refuse_many
from libs.media.image_store import ImageStore, StoredPicture
from libs.media.images import Images
from libs.media.picture_encoding import FORMATS
from libs.tally.errors import NotFound
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.web.documents.openapi import LEGACY_ANSWERS, UNCHANGED, Schema, limited, named, problems
from libs.web.door.auth import Authenticator, header, headers_of, require
from libs.web.door.query_parameters import refuse_unknown_parameters
from libs.web.door.request_parsing import MAX_DEPTH, as_fields, open_form, parse_json, read_object
from libs.web.door.typed_routes import IdempotencyKey, IfMatch, IfNoneMatch, Permitted, TypedRoute
from libs.web.errors import MalformedJson, MethodNotAllowed, allow
from libs.web.responses import SAFE, etag, json_response, not_modified
from libs.web.server.http_service import Complete
from services.catalogue.openapi import created as created_answer
from services.catalogue.routes import entity_tag, fits, write_request

FORM: Final = "multipart/form-data"
MEMBERS: Final = frozenset(Image.model_fields)
"""Members of an image that a client may set beside its picture."""
IGNORED: Final = Image.ignored - Image.owned
"""Members of a read record that the server computes; ignored when sent back."""
TEXTS: Final = ("title", "image_text")
"""Members sent as plain text; other members are JSON text."""
MAX_TITLE: Final = 255
NOT_IN_TITLES: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Form:
    """An uploaded picture, and the members of its record."""

    file: IO[bytes]
    body: Document

    def content(self) -> bytes:
        """Return the content that identifies the request: its members and the file's SHA-256.

        Reads the whole file. The multipart boundary is excluded, as clients choose a new one for each attempt.
        """
        digest = hashlib.sha256(self.file.read())
        self.file.seek(0)
        return orjson.dumps([digest.hexdigest(), self.body], option=orjson.OPT_SORT_KEYS)


@asynccontextmanager
async def read_form(request: Request, max_bytes: int) -> AsyncIterator[Form]:
    """Parse a multipart form with the part `file`. Raises as `open_form`."""
    async with open_form(request, max_bytes, (FORM,), len(MEMBERS | IGNORED)) as form:
        parts = dict(form)
        file = parts.pop("file", None)
        body, problems = _parse_members({name: value for name, value in parts.items() if name not in IGNORED})
        if isinstance(file, UploadFile):
            yield Form(file.file, titled(file.filename or "", body, problems))
        else:
            titled("", body, [Problem("/file", "is required, as a part with a filename"), *problems])


def titled(path: str, body: Document, others: Iterable[Problem] = ()) -> Document:
    """Return the body; without a title, it gets the file's name as title.

    Raises `ValidationFailed` with all problems of the body, `others` first.
    """
    unknown = body.keys() - MEMBERS - IGNORED
    refuse_many(len(unknown))
    problems = [*others, *(Problem(f"/{name}", "is not accepted with a picture") for name in sorted(unknown))]
    checked(Image, {name: value for name, value in body.items() if name not in unknown}, problems)
    name = NOT_IN_TITLES.sub("", PurePosixPath(path.replace("\\", "/")).stem)[:MAX_TITLE]
    return {"title": name} | body if name else body


def name_at(url: str) -> str:
    """Return the path of a URL, from which the file name is taken."""
    try:
        return unquote(urlsplit(url).path)
    except ValueError:
        return ""


def _parse_members(members: Mapping[str, Any]) -> tuple[Document, list[Problem]]:
    """Parse the members, with exact integers; return them with the problems of those that cannot be parsed.

    Raises `PayloadTooLarge` for too many values.
    """
    body: Document = {}
    problems: list[Problem] = []
    for name, value in members.items():
        try:
            body[name] = value if name in TEXTS else parse_json(value.encode())
            if body[name] is None:
                problems.append(Problem(f"/{name}", "must be a value: leave the part out instead of null"))
        except (MalformedJson, AttributeError):
            message = f"must be JSON text, nested at most {MAX_DEPTH} levels deep"
            problems.append(Problem(f"/{name}", message))
    return body, problems


FILE: Final[Schema] = {"type": "string", "format": "binary", "description": "jpg, png, webp or gif."}
URL: Final[Schema] = {
    "type": "string",
    "format": "uri",
    "maxLength": ADDRESS.code_points,
    "description": "By http or https.",
    "examples": ["https://example.com/stage.jpg"],
}
NO_URL: Final = Problem("/url", "must be a URL")
MADE: Final = {201: created_answer(IMAGES), **problems("malware_found", "scanner_unavailable", "quota_exceeded")}


class OnlyPost:
    """Answers 405 for other methods at an address that no image can have."""

    async def __call__(self, *_: object) -> None:
        raise MethodNotAllowed(allow(("POST",)))


def image_router(auth: Authenticator, images: Images, urls: Complete, max_bytes: int) -> APIRouter:
    """Build the routes; all need the permission content:write."""
    router = APIRouter(tags=["images"], route_class=TypedRoute)
    Caller = Annotated[ApiKey, Depends(Permitted(auth, "content:write"))]

    async def created(request: Request, caller: ApiKey, image: Written) -> Response:
        shown = IMAGES.show(image.stored)
        await urls(caller, str(request.base_url).rstrip("/"), [shown])
        headers = {"Location": f"/images/{image.stored.key}", "ETag": entity_tag(image.stored, shown)}
        return json_response(shown, 201, headers, replayed=image.replayed)

    @router.post(
        "/images",
        status_code=201,
        responses=MADE,
        openapi_extra={
            "requestBody": limited(_body("ImageUpload", FORM, TEXTS, file=FILE), max_bytes + FORM_FIELDS_BODY)
        },
    )
    async def create_image(request: Request, caller: Caller, idempotency_key: IdempotencyKey = None) -> Response:
        """Upload a picture.

        jpg, png, webp or gif, detected from the bytes and not from the name. The stored picture is encoded again
        from its pixels: rotated as its metadata says, in sRGB, without metadata; of an animation the first
        picture. Files that are also valid as another type, such as an archive or a page, are refused. Without a
        title, the file's name becomes the title. The picture is served at `url`.
        """
        async with read_form(request, max_bytes) as form:
            content = b"" if idempotency_key is None else await asyncio.to_thread(form.content)
            write = write_request(caller.account, request, idempotency_key, content)
            made = await images.upload(caller.account, form.file, form.body, write)
            return await created(request, caller, made)

    @router.post(
        "/images/upload_from_url",
        summary="Create an image from an address",
        status_code=201,
        responses=MADE,
        openapi_extra={
            "requestBody": limited(_body("ImageFetch", "application/json", url=URL), IMAGES.body_bytes)
        },
    )
    async def create_image_from_url(
        request: Request, caller: Caller, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Create an image from a URL.

        The picture is fetched over http or https, from public addresses, without user name or password, following
        at most five redirects; other URLs are refused.
        """
        content, given = await read_object(request, IMAGES.body_bytes)
        url = given.pop("url", None)
        body = titled(name_at(url), given) if isinstance(url, str) else titled("", given, [NO_URL])
        write = write_request(caller.account, request, idempotency_key, content)
        return await created(request, caller, await images.fetch(caller.account, url, body, write))

    router.routes.append(Route("/images/upload_from_url", OnlyPost()))

    @router.delete(
        "/images/{image_key}",
        operation_id="delete_image",
        status_code=204,
        responses={204: {"description": "Deleted, with its picture."}, **problems("not_found", "in_use")},
    )
    async def delete_image(caller: Caller, image_key: str, if_match: IfMatch = None) -> Response:
        """Delete an image.

        Caches may serve its picture for another day.
        """
        await images.delete(caller.account, image_key, fits(if_match))
        return Response(status_code=204)

    return router


def _body(name: str, media_type: str, texts: tuple[str, ...] = (), **source: Schema) -> Schema:
    """Describe the body: the picture's source and the image's members; in a form, as `texts` and JSON text."""
    schema = Image.model_json_schema()
    if media_type == FORM:
        sent = {name: member for name, member in schema["properties"].items() if name not in IGNORED}
        schema["properties"] = as_fields(sent, texts)
    schema |= {"required": list(source), "properties": source | schema["properties"] | source}
    schema["description"] = "A picture and the members of its image."
    return {"required": True, "content": {media_type: {"schema": named(name, schema)}}}


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
