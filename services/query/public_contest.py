"""`GET /public/contests/<key>`: a contest as voters see it, without counts and without a key, as bare ASGI."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from libs.catalogue.pagination import size_of
from libs.catalogue.resource_table import IMAGES
from libs.catalogue.schemas.contest import Contest as ContestRecord
from libs.catalogue.schemas.contest import Participant
from libs.catalogue.schemas.media import picture_url, picture_urls
from libs.concurrency.turns import off_loop
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.tally.contest import Phase
from libs.tally.time_conversion import timestamp
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.partition_reads import Mark
from libs.web.door.auth import header
from libs.web.door.query_parameters import refuse_unknown_parameters
from libs.web.server.hot_requests import HotRequest, Reply
from services.query.counts_snapshot import Snapshot
from services.query.encoded_response import EncodedResponse, encoded
from services.query.public_results import PublicResults, for_all, shared_for
from services.query.response_models import CONTEST, DISPLAYED_NUMBER, TIME, ImageKey
from services.query.result_details import displayed_numbers
from services.query.snapshot_cache import SnapshotCache, now

MOST_CONTESTS: Final = 1_000
Images = Mapping[str, Stored]


class PublicImage(ImageKey):
    """A picture that needs no key. Addresses that begin with / are relative to this API's origin."""

    url: str = Field(description="Address of the picture; it changes with the picture.")
    sizes: dict[str, str] = Field(description="Addresses by size.", examples=[{"thumb": "/media/image/..."}])


class Entrant(BaseModel):
    """An approved participant of a contest."""

    participant_key: str = Field(description="Key of the participant.")
    running_number: int = Field(description="Number within the contest, from 1.")
    number_string: str = Field(description=DISPLAYED_NUMBER)
    title: str | None = Field(description="Display name.")
    story: str | None = Field(description="Displayed text.")
    image: PublicImage | None = Field(description="The participant's picture; null also if it is private.")


class PublicSubRating(BaseModel):
    """An aspect that is rated in addition to the overall rating."""

    model_config = ConfigDict(from_attributes=True)

    sub_rating_id: str = Field(description="Its id, in votes.")
    title: str | None = Field(description="Display name.")
    max_votes: int | None = Field(description="The highest value; null: that of `max_rating`.")


class PublicRating(BaseModel):
    """The scale of ratings."""

    model_config = ConfigDict(from_attributes=True)

    max_rating: int = Field(description="The highest value.")
    step_size: str | None = Field(description="Ratings are whole numbers unless this is `fraction`.")
    sub_ratings: list[PublicSubRating] = Field(description="Aspects.", validation_alias="sub_rating_configs")


class PublicPosition(BaseModel):
    """A position on a ballot."""

    model_config = ConfigDict(from_attributes=True)

    id: str = Field(description="Its id, in votes.")
    index: int | None = Field(description="Place among the positions.")
    title: str | None = Field(description="Display name.")
    votes: int = Field(description="Votes for the participant at this position.")


class PublicContest(BaseModel):
    """A published contest, as its voters see it, without counts."""

    contest_key: str = Field(description=CONTEST)
    title: str | None = Field(description="Display name.")
    description: str | None = Field(description="Displayed text.")
    image: PublicImage | None = Field(description="The contest's picture; null also if it is private.")
    contest_type: str = Field(description="The kind of vote that the contest accepts.", examples=["voteonly"])
    phase: str = Field(description="The contest's current phase.", examples=["announced", "running", "finished"])
    start: str | None = Field(description="Votes are accepted from this time.", json_schema_extra=TIME)
    end: str | None = Field(description="Votes are accepted before this time.", json_schema_extra=TIME)
    is_anonymous_voting_enabled: bool = Field(description="Voters without a login may cast free votes.")
    is_contest_time_shown: bool = Field(description="Show the time that remains.")
    is_grid_hidden: bool = Field(description="Show no grid of participants.")
    is_randomize: bool = Field(description="Shuffle the participants.")
    is_vote_removal_allowed: bool = Field(description="Voters may remove their votes.")
    participant_style: dict[str, Any] = Field(description="The style of participants; free-form.")
    share_top_x: int = Field(description="Number of shared participants; -1: all.")
    rating: PublicRating | None = Field(None, description="Only in contests of type rating.")
    positions: list[PublicPosition] | None = Field(None, description="Only in contests of type ordering.")
    participants: list[Entrant] = Field(
        description="Approved participants in running order; none with the visibility `owner_only`."
    )
    updated: str = Field(description="Time of the last change to the contest's records.", json_schema_extra=TIME)


class CachedContest(NamedTuple):
    """A response with what it was made from: the images as of `mark`."""

    mark: Mark
    config: ContestRecords
    phase: Phase
    images: Images
    answer: EncodedResponse


class PublicContests:
    """Serves published contests of production; `origin` precedes the addresses of pictures.

    A response is made again only when the contest's records or phase change, or an image of the account.
    """

    def __init__(
        self, results: PublicResults, snapshots: SnapshotCache, views: CatalogueViews, origin: str
    ) -> None:
        self._results = results
        self._snapshots = snapshots
        self._views = views
        self._origin = origin
        self._made: OrderedDict[str, CachedContest] = OrderedDict()

    async def __call__(self, request: HotRequest) -> Reply:
        scope = request.scope
        refuse_unknown_parameters(scope)
        snapshot = (await self._results.published(scope["path_params"]["contest_key"])).at(moment := now())
        answer = await self._answer(snapshot)
        shared_s = shared_for(snapshot.contest, moment)
        condition = header(scope["headers"], b"if-none-match") if shared_s else None
        return answer.reply(condition, [(b"cache-control", for_all(shared_s))])

    async def _answer(self, snapshot: Snapshot) -> EncodedResponse:
        key, mark = snapshot.contest.key, await self._snapshots.mark(snapshot.account)
        made = self._made.get(key)
        if made is not None and (made.config, made.phase) == (snapshot.config, snapshot.phase):
            if made.mark == mark:
                return made.answer
            images = await self._images(snapshot)
            answer = made.answer if images == made.images else await self._made_of(snapshot, images)
        else:
            images = await self._images(snapshot)
            answer = await self._made_of(snapshot, images)
        self._made[key] = CachedContest(mark, snapshot.config, snapshot.phase, images, answer)
        self._made.move_to_end(key)
        if len(self._made) > MOST_CONTESTS:
            self._made.popitem(last=False)
        return answer

    async def _made_of(self, snapshot: Snapshot, images: Images) -> EncodedResponse:
        size = size_of([snapshot.stored, *snapshot.named])
        return await off_loop(size, public_contest, snapshot, images, self._origin)

    async def _images(self, snapshot: Snapshot) -> Images:
        """Return the account's images that the contest and its listed participants name."""
        named = [snapshot.record.image.get("key")]
        named += [stored.document.get("image_key") for stored in listed(snapshot)]
        keys = sorted({key for key in named if key})
        return {stored.key: stored for stored in await self._views.records(snapshot.account, IMAGES.name, keys)}


def listed(snapshot: Snapshot) -> Sequence[Stored]:
    """Return the participants shown to the public, in running order, which is independent of votes."""
    return snapshot.approved if snapshot.names_participants else []


def public_contest(snapshot: Snapshot, images: Images, origin: str) -> EncodedResponse:
    """Build the response; without the addresses of private pictures."""

    def image(key: str | None) -> PublicImage | None:
        if not key:
            return None
        stored = images.get(key)
        if stored is None:  # of another account, which shares it: its picture's version is not known here
            return PublicImage(key=key, url=f"{origin}/media/image/{key}", sizes={})
        if stored.document["access"]["access"] != "public":
            return None
        urls = {size: origin + url for size, url in picture_urls(key, stored.document).items()}
        return PublicImage(key=key, url=origin + picture_url(key, stored.document), sizes=urls)

    def participant(stored: Stored) -> Entrant:
        entry = Participant.model_validate(stored.document)
        return Entrant(
            participant_key=stored.key,
            running_number=stored.number,
            number_string=numbers[stored.key],
            title=entry.title,
            story=entry.story,
            image=image(entry.image_key),
        )

    numbers = displayed_numbers(snapshot)
    record, contest = snapshot.record, snapshot.contest
    rules = record.contest_config
    shown = PublicContest(
        contest_key=contest.key,
        title=record.title,
        description=record.description,
        image=image(record.image.get("key")),
        contest_type=record.contest_type,
        phase=snapshot.phase.value,
        start=timestamp(contest.start),
        end=timestamp(contest.end),
        is_anonymous_voting_enabled=rules.is_anonymous_voting_enabled,
        is_contest_time_shown=rules.is_contest_time_shown,
        is_grid_hidden=rules.is_grid_hidden,
        is_randomize=rules.is_randomize,
        is_vote_removal_allowed=rules.is_vote_removal_allowed,
        participant_style=rules.participant_style,
        share_top_x=rules.share_top_x,
        **_scale(record),
        participants=[participant(stored) for stored in listed(snapshot)],
        updated=timestamp(snapshot.updated),
    )
    return encoded(shown.model_dump(exclude_unset=True), [], [])


def _scale(record: ContestRecord) -> dict[str, Any]:
    """Return the choices of a voter in contests in which a vote is more than a participant."""
    rules = record.contest_config
    if record.contest_type == "rating":
        return {"rating": PublicRating.model_validate(rules.rating)}
    if record.contest_type == "ordering":
        positions = [] if rules.ordering is None else rules.ordering.positions
        return {"positions": [PublicPosition.model_validate(each) for each in positions]}
    return {}
