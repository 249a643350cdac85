"""Contests in the legacy API: their table and the routes that write them; the query service reads them.

`FIELDS` maps legacy members to canonical ones; the functions below compute derived members.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, Final

from libs.catalogue.contests.contest_mapper import contest_of, listed
from libs.catalogue.contests.corrections import in_running_order
from libs.catalogue.errors import RecordTooLarge
from libs.catalogue.pagination import size_of
from libs.catalogue.records import MAX_TOGETHER
from libs.catalogue.resource_table import CONTESTS, PARTICIPANTS
from libs.catalogue.schemas.base import Document
from libs.catalogue.schemas.contest import Contest, Participant
from libs.concurrency.turns import off_loop
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.contracts.limits import ADDED_PARTICIPANTS, JSON_BODY
from libs.contracts.validation import Problem, ValidationFailed
from libs.legacy.participants import (
    BRAND,
    IMAGE_OR_NULL,
    PARTICIPANT,
    Brand,
    Images,
    Totals,
    image_read,
    images_of,
    sums_of_participant,
)
from libs.legacy.routing import LegacyCall, LegacyEnvironment, ResourceHandlers
from libs.legacy.translator import (
    COUNT,
    FLAG,
    INTEGER,
    TEXT,
    TIME,
    Field,
    JsonSchema,
    Translator,
    array,
    described,
    of,
    shape,
)
from libs.tally.contest import Phase
from libs.tally.errors import NotFound
from libs.tally.time_conversion import microseconds, parse_timestamp, timestamp
from libs.views.catalogue.catalogue_views import CatalogueViews

FIELDS: Final = (
    Field(
        "contest_type",
        "contest_type",
        "legacy creates only two types, with its own default; it shows and keeps the others",
        default="participation",
        allowed=("participation", "voteonly"),
    ),
    Field("title", "title"),
    Field("text", "description", "the legacy name of the same text"),
    Field("image_id", "image.key", "reads show the image itself", reads=False, names_record=True),
    *Field.same("tags", "custom_data"),
    Field("publish", "publish", "reads show `published`; so does a write without a time", reads=False),
    Field("countries", "countries", "legacy only, and not written", writes=False),
    Field("categories", "categories", "like countries", writes=False),
    Field("update_widget", "update_widget", "like countries", writes=False),
    Field("start", "contest_config.start", "the current shape has a contest's times among its rules"),
    Field("end", "contest_config.end", "like start"),
    *Field.same("contest_config.participant_order", "contest_config.is_vote_removal_allowed"),
    Field("contest_config.contest_visibility", "contest_config.contest_visibility", "legacy only"),
    *Field.same("contest_config.vote_visibility", "contest_config.limit_result_amount"),
    Field("contest_config.randomize_locally", "contest_config.is_randomize", "the client randomizes in both"),
    Field(
        "contest_config.show_video_play_button",
        "contest_config.show_video_play_button",
        "like countries",
        writes=False,
    ),
    Field("contest_config.participant_visibility", "contest_config.participant_visibility"),
    Field("contest_config.participant_default_status", "contest_config.participant_default_status", "legacy only"),
    Field(
        "contest_config.anonymous_voting",
        "contest_config.is_anonymous_voting_enabled",
        "free votes; paid votes have their own switch, paid.is_anonymous, unknown to legacy; not written",
        writes=False,
    ),
    Field("contest_config.ip_restriction_per_participant", "contest_config.ip_restriction_per_participant"),
    Field(
        "free_vote_config.max_free_votes_per_participant",
        "contest_config.free.max_participant",
        "the current shape has limits among a contest's rules",
    ),
    Field("free_vote_config.max_free_votes_in_contest", "contest_config.free.max_contest", "like the previous"),
    Field(
        "star_vote_config.max_star_votes_in_contest",
        "contest_config.paid.max_contest",
        "star votes are paid votes; legacy sells none by default",
        default=0,
    ),
    Field(
        "star_vote_config.max_star_votes_per_participant",
        "contest_config.paid.max_participant",
        "like the previous",
        default=0,
    ),
    Field("silver_vote_config.max_silver_votes_in_contest", "contest_config.silver.max_contest", "legacy only"),
    Field(
        "silver_vote_config.max_silver_votes_per_participant",
        "contest_config.silver.max_participant",
        "like the previous",
    ),
)

PUBLISHED: Final[JsonSchema] = {
    "type": "boolean",
    "default": False,
    "description": "True without `publish`: publish now, unless already published. True with a `publish` in "
    "the future is rejected, unless `start` is not before it: then the contest is in setup until `publish`, "
    "and announced until `start`. False: do not publish now; a `publish` in the future is kept, one in the "
    "past is rejected, and a contest published before is in setup again.",
}


def own_parameters() -> dict[str, JsonSchema]:
    item = {"anyOf": [{"type": "object", "properties": PARTICIPANT.parameters}, {}]}
    return {
        "published": PUBLISHED,
        "add_participants": {
            "anyOf": [{"type": "array", "maxItems": ADDED_PARTICIPANTS.items, "items": item}, {}],
            "description": f"New participants, {ADDED_PARTICIPANTS.items:,} at most; more are refused, and "
            "nothing is written then. Items that are not participants are ignored, as are images that cannot be "
            "used, and any other value.",
        },
    }


CONTEST: Final = Translator(Contest, FIELDS, own_parameters)


@cache
def listed_schema() -> JsonSchema:
    """Return the JSON schema of a participant inside its contest."""
    members = {"participant_key": TEXT, "contest_id": TEXT, "brand": BRAND, "vote_count": COUNT}
    members |= {"participated": TIME}
    return shape("ContestParticipant", members | PARTICIPANT.shape() | {"image": IMAGE_OR_NULL})


@cache
def contest_schema() -> JsonSchema:
    """Return the JSON schema of the contest read shape."""
    return shape(
        "Contest",
        {"contest_id": TEXT, "phase": {"type": "string", "enum": list(Phase)}, "brand": BRAND, "published": FLAG}
        | of(COUNT, "total_vote_count", "unique_voter_count")
        | of(INTEGER, "participant_count", "unique_participant_count")
        | {"created": TIME, "image": IMAGE_OR_NULL}
        | CONTEST.shape()
        | {"participants": described(array(listed_schema()), "Approved ones, in `participant_order`.")},
    )


def contest_written(body: Mapping[str, Any], before: Document | None, now: int) -> Document:
    """Apply the parameters to a contest at `now` (us), as `Translator.written`."""
    document = CONTEST.written(body, before, _published_problems(body, before, now))
    published, is_past = body.get("published"), _is_past(document.get("publish"), now)
    if published is False and is_past:
        document.pop("publish")
    elif published is True and body.get("publish") is None and not is_past:
        document["publish"] = timestamp(now)
    return document


def _published_problems(body: Mapping[str, Any], before: Document | None, now: int) -> list[Problem]:
    """Report a `published` that contradicts the `publish` of the same request."""
    published = body.get("published")
    if not isinstance(published, bool | None):
        return [Problem("/published", "must be true or false")]
    if published is False and _is_past(body.get("publish"), now):
        return [Problem("/published", "must be true if publish is not in the future")]
    start = body.get("start") if "start" in body else ((before or {}).get("contest_config") or {}).get("start")
    if published is True and _is_between(now, body.get("publish"), start):
        message = "must be false if publish is in the future, except with a start that is not before publish"
        return [Problem("/published", message)]
    return []


def _is_between(now: int, publish: object, start: object) -> bool:
    """Return whether `publish` is a timestamp after `now` (us), and `start` none at or after `publish`."""
    try:
        publishes = microseconds(parse_timestamp(publish))
    except ValueError:
        return False
    try:
        starts = microseconds(parse_timestamp(start))
    except ValueError:
        return publishes > now
    return publishes > now and starts < publishes


def _is_past(publish: object, now: int) -> bool:
    """Return whether `publish` is a timestamp not after `now` (us)."""
    try:
        return microseconds(parse_timestamp(publish)) <= now
    except ValueError:
        return False


def is_listed(stored: Stored) -> bool:
    """Return whether the brand's list contains the contest; one that is not listed is read by its id."""
    visibility = (stored.document.get("contest_config") or {}).get("contest_visibility")
    return visibility != "not_listed"


@dataclass(frozen=True, slots=True)
class ContestPage:
    """A contest with the participants in its results, and the counts that its reader may see.

    `account` is the legacy brand; `phase` is the contest's phase at the time of the read.
    """

    account: str
    phase: Phase
    contest: Stored
    participants: Sequence[Stored]
    totals: Totals
    images: Images


def contest_read(page: ContestPage) -> dict[str, Any]:
    """Return the contest read shape. The totals include participants beyond the listed ones."""
    record = Contest.model_validate(page.contest.document)
    entries = {stored.key: Participant.model_validate(stored.document) for stored in page.participants}
    votes = None if page.totals is None else {key: figures.count for key, figures in page.totals.items()}
    users = {
        ("user", entry.user.user_id) if entry.user and entry.user.user_id else ("entry", key)
        for key, entry in entries.items()
    }
    total = sums_of_participant(page.totals, "")
    shape: dict[str, Any] = {
        "contest_id": page.contest.key,
        "phase": str(page.phase),
        "brand": Brand(page.account),
        "total_vote_count": total.count if total else None,
        "unique_voter_count": total.unique if total else None,
        "participant_count": len(entries),
        "unique_participant_count": len(users),
        "published": page.phase is not Phase.SETUP,
        "created": timestamp(page.contest.created),
        "image": image_read(record.image.get("key"), page.account, page.images),
    }
    shape |= CONTEST.read(record)
    shown = listed(page.participants, record.contest_config, votes)
    shape["participants"] = [_listed(page, stored, entries[stored.key]) for stored in shown]
    return shape


def _listed(page: ContestPage, stored: Stored, entry: Participant) -> dict[str, Any]:
    """Return the shape of a participant inside its contest."""
    figures = sums_of_participant(page.totals, stored.key)
    return {
        "participant_key": stored.key,
        "contest_id": page.contest.key,
        "brand": Brand(page.account),
        "title": entry.title,
        "story": entry.story,
        "vote_count": figures.count if figures else None,
        "participated": timestamp(stored.created),
        "data": entry.data,
        "image": image_read(entry.image_key, page.account, page.images),
    }


IMAGE: Final = ("image_id", "image")
"""Members of a participant that name its image."""


class ContestHandlers(ResourceHandlers):
    name, several, one = "contest", "/contests", "/contests/{contest_id}"
    row, translator, schema = CONTESTS, CONTEST, staticmethod(contest_schema)
    operations = ("create", "update", "delete")
    max_bytes = JSON_BODY
    docs: ClassVar[Mapping[str, str]] = {
        "create": "All parameters are optional and have defaults. Unknown ones are ignored.",
        "delete": "Deletes the contest and its participants.",
    }

    def written(self, body: Mapping[str, Any], before: Document | None) -> Document:
        return contest_written(body, before, self.environment.now())

    async def answer(self, call: LegacyCall, stored: Stored, body: Document) -> Document:
        """Return the contest with its new participants, and with counts if available; the contest is already
        written.
        """
        await self._enter(call.account, stored.key, body.get("add_participants"))
        shape = await contest_shape(self.environment, call.account, stored.key)
        await self.environment.complete(call, CONTESTS, [shape])
        return shape

    async def body(self, call: LegacyCall) -> Document:
        """Parse the body. Raises `ValidationFailed` for too many participants, before anything is written."""
        body = await super().body(call)
        items = body.get("add_participants")
        if isinstance(items, list) and len(items) > ADDED_PARTICIPANTS.items:
            message = (
                f"must have at most {ADDED_PARTICIPANTS.items:,} items: add the others by updates of the contest"
            )
            raise ValidationFailed([Problem("/add_participants", message)])
        return body

    async def _enter(self, account: str, contest: str, items: Any) -> None:
        """Add the valid new participants, many by one event; invalid ones, and images that cannot be used, are
        skipped silently.

        Raises `LogUnavailable`, `ViewsUnavailable`, `QuotaExceeded`, and `RecordTooLarge` if the contest is full.
        """
        given = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        for start in range(0, len(given), MAX_TOGETHER):
            await self._enter_some(account, contest, given[start : start + MAX_TOGETHER])

    async def _enter_some(self, account: str, contest: str, items: list[Document]) -> None:
        """Add participants by one event, or by several if it would be too large."""
        while items:
            changes = [("", partial(_entered, item)) for item in items]
            try:
                await self.records.write_together(PARTICIPANTS, account, contest, changes)
            except ValidationFailed as error:
                wrong = {int(each["pointer"].split("/")[1]) for each in error.data["errors"]}
                items = [
                    _without_image(item) if index in wrong else item
                    for index, item in enumerate(items)
                    if index not in wrong or any(name in item for name in IMAGE)
                ]
                continue
            except RecordTooLarge:
                if len(items) == 1:
                    raise
                half = len(items) // 2
                await self._enter_some(account, contest, items[:half])
                await self._enter_some(account, contest, items[half:])
            except NotFound:
                return  # the contest was deleted meanwhile
            return


def _entered(item: Document, _: Document | None) -> Document:
    return PARTICIPANT.written(item, None)


def _without_image(item: Document) -> Document:
    return {name: value for name, value in item.items() if name not in IMAGE}


async def with_data(
    views: CatalogueViews, account: str, config: ContestRecords, participants: Sequence[Stored]
) -> list[Stored]:
    """Return participants of a contest's records with their `data`."""
    keys = [stored.key for stored in participants if stored.key in config.shortened]
    whole = {stored.key: stored for stored in await views.records(account, PARTICIPANTS.name, keys)}
    return [whole.get(stored.key, stored) for stored in participants]


async def contest_shape(environment: LegacyEnvironment, account: str, contest: str) -> Document:
    """Return the contest without counts: another service adds them. Raises `NotFound`."""
    config = await environment.views.contest_config(account, contest)
    loaded = contest_of(account, config)
    if loaded is None or config.contest is None:
        raise NotFound("contest not found")
    approved = [stored for stored in in_running_order(config) if loaded.participants[stored.key] == "approved"]
    participants = await with_data(environment.views, account, config, approved)
    page = ContestPage(
        account=account,
        phase=loaded.phase(environment.now()),
        contest=config.contest,
        participants=participants,
        totals=None,
        images=await images_of(environment.views, account, config.contest, *approved),
    )
    return await off_loop(size_of([config.contest, *participants]), contest_read, page)
