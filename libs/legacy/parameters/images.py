"""Legacy API: mapping of images."""

from typing import Final

from libs.catalogue.resource_definition import Document
from libs.catalogue.resource_table import IMAGES
from libs.catalogue.schemas.media import Image
from libs.contracts.catalogue_events import Stored
from libs.legacy.parameters.participants import BRAND, brand_of
from libs.legacy.parameters.read_shapes import TEXT, TIME, shape
from libs.legacy.parameters.translator import Field, JsonSchema, Translator
from libs.tally.time_conversion import timestamp

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

OWN_PARAMETERS: Final[dict[str, JsonSchema]] = {
    "url": {
        "type": "string",
        "description": "URL of the picture: http or https; spaces as %20, no backslashes.",
    },
    "src": {
        "type": "string",
        "format": "binary",
        "description": "The picture: jpg or png. Not allowed in an update.",
    },
}

IMAGE: Final = Translator(Image, FIELDS, OWN_PARAMETERS)
RATIO: Final = {"type": "number", "description": "Width divided by height."}
SHAPE: Final = shape(
    "ImageRecord", {"image_id": TEXT, "brand": BRAND, "ratio": RATIO, "created": TIME} | IMAGE.shape()
)


def image_record_read(account: str, stored: Stored) -> Document:
    """Return the image read shape; `account` is the image's owner."""
    shown = IMAGES.show(stored)
    return {
        "image_id": stored.key,
        "brand": brand_of(account),
        "ratio": shown["ratio"],
        "created": timestamp(stored.created),
    } | IMAGE.read(Image.model_validate(stored.document))
