"""`GET /public/contests/<key>`: a contest as voters see it, without counts and without a key, as bare ASGI."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from starlette.types import Receive, Scope, Send

from libs.catalogue.resource_table import IMAGES
from libs.catalogue.schemas.contest import Contest as ContestRecord
from libs.catalogue.schemas.contest import Participant
from libs.catalogue.schemas.media import picture_url, picture_urls
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.tally.contest import Phase
from libs.tally.time_conversion import timestamp
from libs.views.valkey.partition_reads import Mark
from libs.web.door.auth import header
from libs.web.door.query_parameters import refuse_unknown_parameters
from libs.web.responses import not_modified
from services.query.counts_snapshot import Snapshot
from services.query.encoded_response import EncodedResponse, encoded
from services.query.public_results import PublicResults, for_all, shared_for
from services.query.snapshot_cache import SnapshotCache, now

MOST_CONTESTS: Final = 1_000
SHOWN: Final = (
    "is_anonymous_voting_enabled",
    "is_contest_time_shown",
    "is_grid_hidden",
    "is_randomize",
    "is_vote_removal_allowed",
    "participant_style",
    "share_top_x",
)
"""Members of `contest_config` that are shown as they are."""

Images = Mapping[str, Stored]


class ImageReader(Protocol):
    """Interface of the catalogue's views."""

    async def records(self, account: str, resource: str, keys: Sequence[str]) -> list[Stored]: ...


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

    def __init__(self, results: PublicResults, snapshots: SnapshotCache, views: ImageReader, origin: str) -> None:
        self._results = results
        self._snapshots = snapshots
        self._views = views
        self._origin = origin
        self._made: OrderedDict[str, CachedContest] = OrderedDict()

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        refuse_unknown_parameters(scope)
        snapshot = (await self._results.published(scope["path_params"]["contest_key"])).at(moment := now())
        answer = await self._answer(snapshot)
        shared_s = shared_for(snapshot.contest, moment)
        unchanged = shared_s > 0 and not_modified(header(scope["headers"], b"if-none-match"), answer.tag)
        sent = [*(answer.not_modified if unchanged else answer.headers), (b"cache-control", for_all(shared_s))]
        await send({"type": "http.response.start", "status": 304 if unchanged else 200, "headers": sent})
        await send({"type": "http.response.body", "body": b"" if unchanged else answer.body})

    async def _answer(self, snapshot: Snapshot) -> EncodedResponse:
        key, mark = snapshot.contest.key, await self._snapshots.mark(snapshot.account)
        made = self._made.get(key)
        if made is not None and (made.config, made.phase) == (snapshot.config, snapshot.phase):
            if made.mark == mark:
                return made.answer
            images = await self._images(snapshot)
            answer = made.answer if images == made.images else public_contest(snapshot, images, self._origin)
        else:
            images = await self._images(snapshot)
            answer = public_contest(snapshot, images, self._origin)
        self._made[key] = CachedContest(mark, snapshot.config, snapshot.phase, images, answer)
        self._made.move_to_end(key)
        if len(self._made) > MOST_CONTESTS:
            self._made.popitem(last=False)
        return answer

    async def _images(self, snapshot: Snapshot) -> Images:
        """Return the account's images that the contest and its listed participants name."""
        named = [snapshot.record.image.get("key")]
        named += [stored.document.get("image_key") for stored in listed(snapshot)]
        keys = sorted({key for key in named if key})
        return {stored.key: stored for stored in await self._views.records(snapshot.account, IMAGES.name, keys)}


def listed(snapshot: Snapshot) -> Sequence[Stored]:
    """Return the participants shown to the public, by running number: an order independent of votes."""
    is_hidden = snapshot.record.contest_config.participant_visibility == "owner_only"
    return [] if is_hidden else snapshot.approved


def public_contest(snapshot: Snapshot, images: Images, origin: str) -> EncodedResponse:
    """Build the response; without the addresses of private pictures."""

    def image(key: str | None) -> dict[str, Any] | None:
        if not key:
            return None
        stored = images.get(key)
        if stored is None:  # of another account, which shares it: its picture's version is not known here
            return {"key": key, "url": f"{origin}/media/image/{key}", "sizes": {}}
        if stored.document["access"]["access"] != "public":
            return None
        urls = {size: origin + url for size, url in picture_urls(key, stored.document).items()}
        return {"key": key, "url": origin + picture_url(key, stored.document), "sizes": urls}

    def participant(stored: Stored) -> dict[str, Any]:
        entry = Participant.model_validate(stored.document)
        return {
            "participant_key": stored.key,
            "running_number": stored.number,
            "number_string": entry.number_string,
            "title": entry.title,
            "story": entry.story,
            "image": image(entry.image_key),
        }

    record, contest = snapshot.record, snapshot.contest
    rules = record.contest_config.model_dump(mode="json")
    shown = {
        "contest_key": contest.key,
        "title": record.title,
        "description": record.description,
        "image": image(record.image.get("key")),
        "contest_type": record.contest_type,
        "phase": snapshot.phase,
        "start": timestamp(contest.start),
        "end": timestamp(contest.end),
        **{name: rules[name] for name in SHOWN},
        **_scale(record),
        "participants": [participant(stored) for stored in listed(snapshot)],
        "updated": timestamp(max(each.updated for each in (snapshot.stored, *snapshot.config.participants))),
    }
    return encoded(shown, [], [])


def _scale(record: ContestRecord) -> dict[str, Any]:
    """Return the choices of a voter in contests in which a vote is more than a participant."""
    rules = record.contest_config
    if record.contest_type == "rating":
        subs = [
            {"sub_rating_id": each.sub_rating_id, "title": each.title, "max_votes": each.max_votes}
            for each in rules.rating.sub_rating_configs
        ]
        rating = {"max_rating": rules.rating.max_rating, "step_size": rules.rating.step_size, "sub_ratings": subs}
        return {"rating": rating}
    if record.contest_type == "ordering":
        positions = [] if rules.ordering is None else rules.ordering.positions
        shown = [
            {"id": each.id, "index": each.index, "title": each.title, "votes": each.votes} for each in positions
        ]
        return {"positions": shown}
    return {}
