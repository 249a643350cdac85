"""The table of resources. To add one: write its schema in `schemas/` and a row here.

Routes, documentation, lists, references and cascades derive from the row, whose members
`resource_definition.py` explains. A resource with rules of its own is a subclass of `Resource`.

Only the references in this table are enforced. All others are neither checked nor block a DELETE:
- keys in free-form members (an article's `content`, a feed's `header`, an app's `screens`, every `navigation`):
  only clients interpret them;
- contests, participants and surveys in an article's legacy `fields`: reads omit deleted ones;
- a participant's `user`, which is stored in another system;
- a purchase's package and shop: a purchase outlives them.
"""

from typing import Final

from libs.catalogue import nested_items
from libs.catalogue.api_examples import EXAMPLES
from libs.catalogue.contests.closing_record import reopened_of
from libs.catalogue.contests.contest_rules import ContestResource, ParticipantResource
from libs.catalogue.resource_definition import OPERATIONS, Offer, Reference, Resource, Table, Target
from libs.catalogue.schemas.app import AccountSettings, App, CloudSettings, Package, Shop
from libs.catalogue.schemas.base import Document
from libs.catalogue.schemas.content import Article, Convention, Feed, Survey, Timeslot
from libs.catalogue.schemas.contest import Contest, Link, Participant, Show, StoredVoteSource
from libs.catalogue.schemas.media import (
    Access,
    File,
    Image,
    PublicAccess,
    is_scanned,
    picture_url,
    picture_urls,
)
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.contest import MILLION
from libs.tally.time_conversion import timestamp

IMAGE: Final = Reference("/image/key", "images")


class ShopResource(Resource):
    """Shops, whose packages have keys."""

    def complete(self, document: Document, target: Target) -> None:
        nested_items.set_keys("packages", Package, target.old, document, target.at)


def _shop(name: str, singular: str) -> Resource:
    return ShopResource(
        name=name,
        singular=singular,
        schema=Shop,
        example=EXAMPLES["shops"],
        references=(Reference("/article", "articles"), IMAGE),
    )


SHOPS: Final = _shop("shops", "shop")
MASTER_SHOPS: Final = _shop("master_shops", "master_shop")


class ConventionResource(Resource):
    """Conventions: a PATCH without the members of list items that only the legacy API uses keeps them."""

    def merged(self, before: Document, patch: Document) -> Document:
        kept = {"days": ("top_text",), "venues": ("article_key", "navigation")}
        return nested_items.keep_item_members(kept, before, super().merged(before, patch))

    def complete(self, document: Document, target: Target) -> None:
        nested_items.share_terms("search_help", target.old, document)


CONVENTIONS: Final = ConventionResource(
    name="conventions",
    singular="convention",
    schema=Convention,
    example=EXAMPLES["conventions"],
    references=(Reference("/venues/*/article_key", "articles"), Reference("/search_helps/*/icon_id", "images")),
    offers=(Offer("/days/*/id", "conventions/days"), Offer("/venues/*/id", "conventions/venues")),
)


class TimeslotResource(Resource):
    """Timeslots, in the order of their starts; those without a start follow."""

    def complete(self, document: Document, target: Target) -> None:
        nested_items.share_terms("search_terms", target.old, document)

    def sort_key(self, document: Document) -> str:
        start: str = document.get("start") or "~"
        return start


TIMESLOTS: Final = TimeslotResource(
    name="timeslots",
    singular="timeslot",
    schema=Timeslot,
    example=EXAMPLES["timeslots"],
    parent="conventions",
    references=(
        Reference("/article", "articles"),
        Reference("/image", "images"),
        Reference("/day_id", "conventions/days", within_parent=True),
        Reference("/venue_id", "conventions/venues", within_parent=True),
        Reference("/search_helps/*/icon_id", "images"),
    ),
)

CONTESTS: Final = ContestResource(
    name="contests",
    singular="contest",
    schema=Contest,
    example=EXAMPLES["contests"],
    contest="self",
    references=(Reference("/shop/key", "shops"), IMAGE),
    refusals={"PATCH": ("contest_final", "in_use"), "DELETE": ("contest_final",)},
    is_timed=True,
)

PARTICIPANTS: Final = ParticipantResource(
    name="participants",
    singular="participant",
    schema=Participant,
    example=EXAMPLES["participants"],
    parent="contests",
    contest="parent",
    references=(Reference("/image_key", "images"),),
    refusals={"PATCH": ("status_transition",), "DELETE": ("contest_final",)},
)

VOTE_SOURCES: Final = Resource(
    name="vote_sources",
    singular="vote_source",
    schema=StoredVoteSource,
    example=EXAMPLES["vote_sources"],
    parent="contests",
    contest="parent",
    operations=frozenset(),
)

FROZEN: Final = ("held", "reveal")
"""States in which screens show the counts of an earlier time."""


class ShowResource(Resource):
    """Shows: held ones keep the counts of the time since which they are held."""

    def complete(self, document: Document, target: Target) -> None:
        """Set since when the show is held, with the counts of that time, and since when its result is released.

        A reveal begins anew after a hold, and with no place revealed: it shows the result, not counts of while
        votes went on. After a reopening all begins anew.
        """
        before, now = target.old, timestamp(target.at)
        if before is None or reopened_of(before) != reopened_of(document):
            before = {}
        frozen = {"held_at": now, "frozen": document.pop("frozen", None)}
        begins = document.get("state") == "reveal" and not document.get("revealed")
        if before.get("state") == document.get("state") and not begins:
            frozen = {name: before.get(name) for name in frozen}
        released_at = before.get("released_at") if before.get("is_released") else now
        for name in ("held_at", "released_at"):
            document.pop(name, None)
        if document.get("state") in FROZEN:
            document |= frozen
        if document.get("is_released"):
            document["released_at"] = released_at


SHOWS: Final = ShowResource(
    name="shows",
    singular="show",
    schema=Show,
    example=EXAMPLES["shows"],
    parent="contests",
    operations=frozenset(),
)

LINK_US: Final = 7 * 24 * 3600 * MILLION
"""How long a link is valid by default."""


class LinkResource(Resource):
    """Links, which all have an end."""

    def complete(self, document: Document, target: Target) -> None:
        document.setdefault("expires", timestamp(target.at + LINK_US))


LINKS: Final = LinkResource(
    name="links",
    singular="link",
    schema=Link,
    example=EXAMPLES["links"],
    parent="contests",
    operations=frozenset(),
)


class AppResource(Resource):
    """Apps, whose settings of the cloud have a time of their own."""

    def complete(self, document: Document, target: Target) -> None:
        nested_items.set_updated(("config", "cloud_settings"), CloudSettings, target.old, document, target.at)


APPS: Final = AppResource(
    name="apps",
    singular="app",
    schema=App,
    example=EXAMPLES["apps"],
    references=(Reference("/master_shop_key", "master_shops"), IMAGE, Reference("/toolbar/image/key", "images")),
)

SURVEYS: Final = Resource(
    name="surveys",
    singular="survey",
    schema=Survey,
    example=EXAMPLES["surveys"],
    references=(IMAGE,),
    operations=OPERATIONS - {"create"} | {"place"},
)

FEEDS: Final = Resource(name="feeds", singular="feed", schema=Feed, example=EXAMPLES["feeds"])

ARTICLES: Final = Resource(
    name="articles",
    singular="article",
    schema=Article,
    example=EXAMPLES["articles"],
    references=(
        Reference("/origin_template", "articles"),
        IMAGE,
        Reference("/fields/*/image_id", "images"),
        Reference("/draft/image_id", "images"),
        Reference("/draft/fields/*/image_id", "images"),
    ),
)


class FileResource(Resource):
    """Files, private by default."""

    def complete(self, document: Document, target: Target) -> None:
        nested_items.set_updated(("access",), Access, target.old, document, target.at, {"access": "private"})

    def computed(self, stored: Stored, now: int) -> Document:
        return {"is_scanned": is_scanned(stored.document), "upload_url": None}


FILES: Final = FileResource(
    name="files",
    singular="file",
    schema=File,
    example=EXAMPLES["files"],
    operations=OPERATIONS - {"list", "delete"},
)


class ImageResource(Resource):
    """Images, public by default. An icon stays one."""

    def complete(self, document: Document, target: Target) -> None:
        nested_items.set_updated(("access",), PublicAccess, target.old, document, target.at, {"access": "public"})

    def judge(self, before: Document, after: Document) -> None:
        if bool(before.get("is_icon")) != bool(after.get("is_icon")):
            raise ValidationFailed([Problem("/is_icon", "cannot be changed")])

    def computed(self, stored: Stored, now: int) -> Document:
        picture = stored.document["picture"]
        return {
            "format": picture["format"],
            "ratio": picture["width"] / picture["height"],
            "url": picture_url(stored.key, stored.document),
            "sizes": picture_urls(stored.key, stored.document),
        }


IMAGES: Final = ImageResource(
    name="images",
    singular="image",
    schema=Image,
    example=EXAMPLES["images"],
    shared_by="public_use",
    operations=frozenset({"get", "patch"}),
)


ACCOUNT_KEY: Final = "account"
"""Key of the one record with an account's settings."""
ACCOUNTS: Final = Resource(
    name="accounts",
    singular="account",
    schema=AccountSettings,
    example=EXAMPLES["accounts"],
    references=(Reference("/image_key", "images"), Reference("/looks/logo_key", "images")),
    operations=frozenset(),
)

RESOURCES: Final = Table(
    SHOPS,
    MASTER_SHOPS,
    CONVENTIONS,
    TIMESLOTS,
    CONTESTS,
    PARTICIPANTS,
    VOTE_SOURCES,
    SHOWS,
    LINKS,
    APPS,
    SURVEYS,
    FEEDS,
    ARTICLES,
    FILES,
    IMAGES,
    ACCOUNTS,
)
