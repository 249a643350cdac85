"""Participants in the legacy API: their table, and the images and brands that other shapes use too."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from libs.catalogue.references import find_usable
from libs.catalogue.resource_table import ACCOUNT_KEY, ACCOUNTS, IMAGES
from libs.catalogue.schemas.app import AccountSettings
from libs.catalogue.schemas.contest import Participant
from libs.contracts.catalogue_events import Stored
from libs.legacy.translator import (
    COUNT,
    INTEGER,
    OBJECT_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TIME,
    Field,
    Translator,
    array,
    described,
    of,
    or_null,
    shape,
)
from libs.tally.counts import VoteSums
from libs.tally.time_conversion import timestamp
from libs.views.catalogue.catalogue_views import CatalogueViews

Totals = Mapping[str, VoteSums] | None
"""Counts by participant in the results, "" for the contest; None, shown as null, while hidden from the caller."""
Images = Mapping[str, Mapping[str, Any]]
"""Existing image records by key, each with its `account`."""

FIELDS: Final = (
    *Field.same("title", "story", "data"),
    Field("image_id", "image_key", "reads show the image itself", reads=False, names_record=True),
)
"""Members of a participant that legacy writes, in `add_participants`. Reads show more."""

PARTICIPANT: Final = Translator(Participant, FIELDS)
BRAND: Final = shape(
    "Brand",
    {
        "brand_id": TEXT,
        "brand_name": described(TEXT, "`brand_name` of the account's settings; by default the brand's id."),
        "image_id": described(TEXT_OR_NULL, "`image_key` of the account's settings."),
    },
)
NOT_KEPT: Final = described(INTEGER, "Always 0: this service does not keep it.")
IMAGE_OR_NULL: Final = or_null(
    shape(
        "Image",
        {"image_id": TEXT, "brand": BRAND, "ratio": {"type": ["number", "null"]}, "tags": array(TEXT)}
        | of(TEXT_OR_NULL, "title", "story", "created")
        | of(NOT_KEPT, "love_count", "message_count"),
    )
)
"""An image inside another record."""
SHAPE: Final = shape(
    "Participant",
    of(TEXT, "participant_key", "status", "contest_id", "contest_key", "number_string")
    | of(TEXT_OR_NULL, "title", "story")
    | {"message_count": NOT_KEPT, "running_number": INTEGER}
    | {"vote_count": COUNT, "rater_count": described(COUNT, f"Distinct voters. {COUNT['description']}")}
    | {"participated": TIME, "user": OBJECT_OR_NULL, "image": OBJECT_OR_NULL},
)


async def images_of(views: CatalogueViews, account: str, *records: Stored) -> Images:
    """Return the images that the account's records reference: its own, and others' for public use."""
    return await images_at(views, account, (key for stored in records for key in _image_keys(stored)))


async def images_at(views: CatalogueViews, account: str, keys: Iterable[str]) -> Images:
    """Return the images with these keys that the account may use."""
    found = await asyncio.gather(*(find_usable(views, IMAGES, account, key) for key in sorted(set(keys))))
    return {stored.key: IMAGES.show(stored) | {"account": owner} for owner, stored in filter(None, found)}


def participant_read(account: str, stored: Stored, totals: Totals, images: Images) -> dict[str, Any]:
    """Return the read shape of a participant with any status."""
    entry = Participant.model_validate(stored.document)
    figures = sums_of_participant(totals, stored.key)
    user = _user(entry)
    image = image_read(entry.image_key, account, images)
    return {
        "participant_key": stored.key,
        "title": entry.title,
        "story": entry.story,
        "vote_count": figures.count if figures else None,
        "rater_count": figures.unique if figures else None,
        "message_count": 0,
        "status": entry.status,
        "contest_id": stored.parent,
        "contest_key": stored.parent,
        "number_string": entry.number_string if entry.number_string is not None else str(stored.number),
        "running_number": stored.number,
        "participated": timestamp(stored.created),
        "user": user,
        "image": None if image is None else image | _own(images.get(image["image_id"], {})) | {"user": user},
    }


def sums_of_participant(totals: Totals, participant: str) -> VoteSums | None:
    """Return a participant's counts: zero if it is not in the results, None while they are hidden."""
    return None if totals is None else totals.get(participant, VoteSums())


class Brand(dict[str, Any]):
    """The brand of an account inside a shape; `name_brands` completes it by the account's settings."""

    def __init__(self, account: str) -> None:
        super().__init__(brand_id=account, brand_name=account, image_id=None)


async def name_brands(views: CatalogueViews, shape: Any) -> None:
    """Give the brands inside `shape` the names and images of their accounts' settings."""
    brands = list(_brands(shape))
    accounts = {brand["brand_id"] for brand in brands}
    found = await asyncio.gather(*(views.get(account, ACCOUNTS.name, ACCOUNT_KEY) for account in accounts))
    settings = {
        account: AccountSettings.model_validate(stored.document)
        for account, stored in zip(accounts, found, strict=True)
        if stored is not None
    }
    for brand in brands:
        if (own := settings.get(brand["brand_id"])) is not None:
            brand |= {"brand_name": own.brand_name or brand["brand_id"], "image_id": own.image_key}


def _brands(shape: Any) -> Iterator[Brand]:
    if isinstance(shape, Brand):
        yield shape
        return
    for inner in shape.values() if isinstance(shape, dict) else shape if isinstance(shape, list) else ():
        yield from _brands(inner)


def image_read(key: str | None, account: str, images: Images) -> dict[str, Any] | None:
    """Return an image as shown in contests and participants, or None."""
    if not key:
        return None
    record = images.get(key, {})
    return {
        "image_id": key,
        "brand": Brand(record.get("account", account)),
        "title": record.get("title"),
        "story": record.get("image_text"),
        "ratio": record.get("ratio"),
        "love_count": 0,
        "message_count": 0,
        "tags": record.get("tags", []),
        "created": record.get("created"),
    }


def _own(image: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that only the image read shape has, which a participant's image shows too."""
    return {name: image.get(name) for name in ("image_text", "is_icon", "public_use")}


def _image_keys(stored: Stored) -> Iterable[str]:
    document = stored.document
    return filter(None, (document.get("image_key"), document.get("image", {}).get("key")))


def _user(entry: Participant) -> dict[str, Any] | None:
    return None if entry.user is None else entry.user.model_dump(mode="json")
