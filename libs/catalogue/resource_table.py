"""The table of resources. To add one: write its schema in `schemas/` and a row here.

Routes, documentation, lists, references and cascades derive from the row, whose members
`resource_definition.py` explains.

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
from libs.catalogue.contests import closing_record
from libs.catalogue.contests.contest_mapper import phase_of
from libs.catalogue.errors import StatusTransition
from libs.catalogue.resource_definition import OPERATIONS, Offer, Reference, Resource, Table
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


def _default_status(document: Document, contest: Document) -> None:
    default = contest.get("contest_config", {}).get("participant_default_status", "approved")
    document.setdefault("status", default)


def _judge_status(before: Document, after: Document) -> None:
    if "status" in before and "status" not in after:
        raise ValidationFailed([Problem("/status", "must be approved, pending or rejected: it cannot be cleared")])
    old, new = before.get("status", "approved"), after.get("status", "approved")
    if new == "pending" and old != "pending":
        raise StatusTransition(f"The status of a participant cannot change from {old} to pending.", status=old)


def _computed_of_participant(stored: Stored) -> Document:
    image_key = stored.document.get("image_key")
    return {
        "participant_key": stored.key,
        "contest_key": stored.parent,
        "contest_id": stored.parent,
        "running_number": stored.number,
        "participated": timestamp(stored.created),
        "image": {"key": image_key} if image_key else {},
        "vote_count": None,
        "rater_count": None,
        "message_count": 0,
        "waits_for_reopening": None,
    }


def _computed_of_file(stored: Stored) -> Document:
    return {"is_scanned": is_scanned(stored.document), "upload_url": None}


def _computed_of_image(stored: Stored) -> Document:
    picture = stored.document["picture"]
    return {
        "format": picture["format"],
        "ratio": picture["width"] / picture["height"],
        "url": picture_url(stored.key, stored.document),
        "sizes": picture_urls(stored.key, stored.document),
    }


def _judge_icon(before: Document, after: Document) -> None:
    if bool(before.get("is_icon")) != bool(after.get("is_icon")):
        raise ValidationFailed([Problem("/is_icon", "cannot be changed")])


def _phase(stored: Stored, now: int) -> Document:
    return {"phase": phase_of(stored.document, now)}


def _by_start(document: Document) -> str:
    start: str = document.get("start") or "~"
    return start


IMAGE: Final = Reference("/image/key", "images")


def _shop(name: str, singular: str) -> Resource:
    return Resource(
        name=name,
        singular=singular,
        schema=Shop,
        example=EXAMPLES["shops"],
        references=(Reference("/article", "articles"), IMAGE),
        arrange=nested_items.keyed("packages", Package),
    )


SHOPS: Final = _shop("shops", "shop")
MASTER_SHOPS: Final = _shop("master_shops", "master_shop")

CONVENTIONS: Final = Resource(
    name="conventions",
    singular="convention",
    schema=Convention,
    example=EXAMPLES["conventions"],
    references=(Reference("/venues/*/article_key", "articles"), Reference("/search_helps/*/icon_id", "images")),
    offers=(Offer("/days/*/id", "conventions/days"), Offer("/venues/*/id", "conventions/venues")),
    kept={"days": ("top_text",), "venues": ("article_key", "navigation")},
    arrange=nested_items.shared_terms("search_help"),
)

TIMESLOTS: Final = Resource(
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
    sort_key=_by_start,
    arrange=nested_items.shared_terms("search_terms"),
)

CONTESTS: Final = Resource(
    name="contests",
    singular="contest",
    schema=Contest,
    example=EXAMPLES["contests"],
    contest="self",
    due=closing_record.due,
    references=(Reference("/shop/key", "shops"), IMAGE),
    judge=closing_record.judge_change,
    judge_deletion=closing_record.judge_deletion,
    refusals={"PATCH": ("contest_final", "in_use"), "DELETE": ("contest_final",)},
    timed=_phase,
)

PARTICIPANTS: Final = Resource(
    name="participants",
    singular="participant",
    schema=Participant,
    example=EXAMPLES["participants"],
    parent="contests",
    contest="parent",
    references=(Reference("/image_key", "images"),),
    complete=_default_status,
    judge=_judge_status,
    refusals={"PATCH": ("status_transition",), "DELETE": ("contest_final",)},
    computed=_computed_of_participant,
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


def _stamp_show(before: Document | None, after: Document, at: int) -> None:
    """Set since when the show is held, with the counts of that time, and since when its result is released.

    A reveal begins anew after a hold, and with no place revealed: it shows the result, not counts of while votes
    went on. After a reopening all begins anew.
    """
    if before is None or closing_record.reopened_of(before) != closing_record.reopened_of(after):
        before = {}
    frozen = {"held_at": timestamp(at), "frozen": after.pop("frozen", None)}
    begins = after.get("state") == "reveal" and not after.get("revealed")
    if before.get("state") == after.get("state") and not begins:
        frozen = {name: before.get(name) for name in frozen}
    released_at = before.get("released_at") if before.get("is_released") else timestamp(at)
    for name in ("held_at", "released_at"):
        after.pop(name, None)
    if after.get("state") in FROZEN:
        after |= frozen
    if after.get("is_released"):
        after["released_at"] = released_at


FROZEN: Final = ("held", "reveal")
"""States in which screens show the counts of an earlier time."""
SHOWS: Final = Resource(
    name="shows",
    singular="show",
    schema=Show,
    example=EXAMPLES["shows"],
    parent="contests",
    arrange=_stamp_show,
    operations=frozenset(),
)

LINK_US: Final = 7 * 24 * 3600 * MILLION
"""How long a link is valid by default."""


def _end_link(_: Document | None, after: Document, at: int) -> None:
    after.setdefault("expires", timestamp(at + LINK_US))


LINKS: Final = Resource(
    name="links",
    singular="link",
    schema=Link,
    example=EXAMPLES["links"],
    parent="contests",
    arrange=_end_link,
    operations=frozenset(),
)


APPS: Final = Resource(
    name="apps",
    singular="app",
    schema=App,
    example=EXAMPLES["apps"],
    references=(Reference("/master_shop_key", "master_shops"), IMAGE, Reference("/toolbar/image/key", "images")),
    arrange=nested_items.stamped("config", "cloud_settings", schema=CloudSettings),
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

FILES: Final = Resource(
    name="files",
    singular="file",
    schema=File,
    example=EXAMPLES["files"],
    arrange=nested_items.stamped("access", schema=Access, default={"access": "private"}),
    computed=_computed_of_file,
    operations=OPERATIONS - {"list", "delete"},
)

IMAGES: Final = Resource(
    name="images",
    singular="image",
    schema=Image,
    example=EXAMPLES["images"],
    shared=lambda document: bool(document.get("public_use")),
    arrange=nested_items.stamped("access", schema=PublicAccess, default={"access": "public"}),
    computed=_computed_of_image,
    judge=_judge_icon,
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
