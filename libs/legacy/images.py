"""Images in the legacy API: their table and routes; `image_routes` serves their pictures."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import IO, Any, Final

from starlette.datastructures import UploadFile

from libs.catalogue.commands import WriteRequest
from libs.catalogue.references import find_usable
from libs.catalogue.resource_table import IMAGES
from libs.catalogue.schemas.base import Document
from libs.catalogue.schemas.media import Image
from libs.contracts.catalogue_events import Stored
from libs.contracts.limits import ADDRESS, FORM_FIELDS_BODY
from libs.contracts.validation import Problem
from libs.legacy.bodies import FORMS, from_form
from libs.legacy.participants import BRAND, Brand
from libs.legacy.routing import LegacyCall, LegacyEnvironment, LegacyRoutes
from libs.legacy.translator import TEXT, TIME, Field, JsonSchema, Translator, shape
from libs.tally.time_conversion import timestamp
from libs.web.door.request_parsing import open_form

FIELDS: Final = (
    Field("title", "title"),
    Field("image_text", "image_text", "legacy only"),
    Field(
        "public_use",
        "public_use",
        "legacy only; `access` controls who can read the picture, this who can reference it",
    ),
    Field("is_icon", "is_icon", "legacy only; rejected in an update"),
    Field("tags", "tags", "read-only", writes=False),
)

OWN_PARAMETERS: Final[Mapping[str, JsonSchema]] = {
    "url": {
        "type": "string",
        "maxLength": ADDRESS.code_points,
        "description": "URL of the picture: http or https; spaces as %20, no backslashes.",
    },
    "src": {
        "type": "string",
        "format": "binary",
        "description": "The picture: jpg or png. Not allowed in an update.",
    },
}

IMAGE: Final = Translator(Image, FIELDS, lambda: OWN_PARAMETERS)
RATIO: Final = {"type": "number", "description": "Width divided by height."}


@cache
def image_schema() -> JsonSchema:
    """Return the JSON schema of the image read shape."""
    members = {"image_id": TEXT, "brand": BRAND, "ratio": RATIO, "created": TIME}
    return shape("ImageRecord", members | IMAGE.shape())


def image_record_read(account: str, stored: Stored) -> Document:
    """Return the image read shape; `account` is the image's owner."""
    shown = IMAGES.show(stored)
    return {
        "image_id": stored.key,
        "brand": Brand(account),
        "ratio": shown["ratio"],
        "created": timestamp(stored.created),
    } | IMAGE.read(Image.model_validate(stored.document))


FORMATS: Final = ("jpg", "png")
NOT_ON_UPDATE: Final = ("src", "is_icon")
MOST_FIELDS: Final = 100
"""Form fields at most: more than there are parameters, as unknown fields are ignored."""


def all_parameters() -> Mapping[str, JsonSchema]:
    return IMAGE.parameters


def update_parameters() -> Mapping[str, JsonSchema]:
    return {name: schema for name, schema in IMAGE.parameters.items() if name not in NOT_ON_UPDATE}


class ImageHandlers:
    def __init__(self, environment: LegacyEnvironment) -> None:
        self._environment = environment
        self._images = environment.images

    def add_to(self, routes: LegacyRoutes) -> None:
        one = "/images/{image_id}"
        form: dict[str, Any] = {"translator": IMAGE, "kinds": FORMS, "schema": image_schema}
        form["max_bytes"] = self._environment.image_max_bytes + FORM_FIELDS_BODY
        routes.add("GET", one, self.get_image, schema=image_schema)
        routes.add("POST", "/images", self.create_image, parameters=all_parameters, **form)
        routes.add("POST", one, self.update_image, parameters=update_parameters, body="image.update", **form)
        routes.add("DELETE", one, self.delete_image)

    async def get_image(self, call: LegacyCall) -> Document:
        """Returns an image of the brand, or another brand's public image."""
        found = await find_usable(self._environment.views, IMAGES, call.account, call.path("image_id"))
        if found is None:
            raise IMAGES.not_found(call.path("image_id"))
        return image_record_read(*found)

    async def create_image(self, call: LegacyCall) -> Document:
        """Takes a form, not JSON, with the picture as `src` or its address as `url`: jpg or png; for an icon png
        only.
        """
        async with self._form(call) as (body, file):
            url, request = body.get("url") or None, WriteRequest.once()
            problems = _source_problems(body)
            if (url is None) == (file is None):
                problems.append(Problem("/src", "is required if url is not given, and not allowed with it"))
            document = IMAGE.written(body, None, problems)
            if url is not None:
                made = await self._images.fetch(call.account, url, document, request, FORMATS)
            else:
                assert file is not None
                made = await self._images.upload(call.account, file, document, request, "/src", FORMATS)
        return image_record_read(call.account, made.stored)

    async def update_image(self, call: LegacyCall) -> Document:
        """Takes a form, not JSON. A `url` replaces the picture; `src` and `is_icon` are refused."""
        key = call.path("image_id")
        await self._environment.record_service.get(IMAGES, call.account, key)
        async with self._form(call) as (body, file):
            given = {name for name, value in body.items() if value != ""} | (
                {"src"} if file is not None else set()
            )
            problems = [
                Problem(f"/{name}", "is not available on update") for name in NOT_ON_UPDATE if name in given
            ]
            stored = await self._changed(call.account, key, body, problems)
        return image_record_read(call.account, stored)

    async def delete_image(self, call: LegacyCall) -> None:
        """Deletes the image and its picture; refused while a record of the brand refers to it."""
        await self._images.delete(call.account, call.path("image_id"), None)

    async def _changed(self, account: str, key: str, body: Document, problems: Sequence[Problem]) -> Stored:
        def change(before: Document) -> Document:
            return IMAGE.written(body, before, problems)

        if url := body.get("url"):
            return await self._images.replace(account, key, url, change, FORMATS)
        return await self._environment.record_service.change(IMAGES, account, key, change)

    @asynccontextmanager
    async def _form(self, call: LegacyCall) -> AsyncIterator[tuple[Document, IO[bytes] | None]]:
        """Parse the form: its parameters and its file."""
        async with open_form(call.request, self._environment.image_max_bytes, FORMS, MOST_FIELDS) as form:
            texts = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
            file = form.get("src")
            body = from_form(texts, IMAGE.parameters)
            yield body, file.file if isinstance(file, UploadFile) else None


def _source_problems(body: Document) -> list[Problem]:
    """Report a `src` that is not a file."""
    return [Problem("/src", "must be a part with a filename")] if body.get("src") else []
