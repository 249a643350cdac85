"""Schemas of contests, participants and vote sources: current members, and those that only the legacy API uses."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic.json_schema import JsonSchemaValue

from libs.catalogue.api_examples import EXAMPLES
from libs.catalogue.schemas.base import (
    CustomData,
    Description,
    FreeForm,
    Icon,
    Items,
    Key,
    Limit,
    Line,
    Linked,
    LinkedForm,
    Members,
    Parts,
    Picture,
    Record,
    ServerTime,
    Style,
    Tags,
    Texts,
    Timestamp,
    Title,
    TitleText,
    in_order,
    require_unique,
)
from libs.catalogue.schemas.content import Colour
from libs.contracts.limits import ADDRESS, MAPPED, TITLE
from libs.tally.contest import Phase

VoteVisibility = Literal["shown", "hidden_until_vote", "hidden_until_end", "hidden"]
"""In the order of what may be seen, most first: `contests/visibility.py`."""
ParticipantVisibility = Literal["shown", "owner_only"]
ParticipantOrder = Literal["participated", "running_number", "vote_count"]
ContestVisibility = Literal["listed", "not_listed"]
ContestType = Literal["voteonly", "participation", "rating", "ordering"]
Status = Literal["approved", "pending", "rejected"]
ResultRelease = Literal["at_end", "by_hand"]
"""As `VoteVisibility`."""


def _not_zero(value: int) -> int:
    if value == 0:
        raise ValueError("must not be 0: -1 is unlimited")
    return value


AddressLimit = Annotated[
    Limit,
    AfterValidator(_not_zero),
    Field(
        description="Free votes for one participant from one address; -1 is unlimited, 0 is rejected.",
        json_schema_extra={"not": {"const": 0}},
    ),
]


PartId = Annotated[str, Field(min_length=1, max_length=64)]
ParticipantKey = Annotated[str, Field(min_length=1, max_length=64)]
Scale = Annotated[int, Field(ge=0, le=1_000)]
PositionVotes = Annotated[int, Field(ge=0, le=1_000_000)]
Days = Annotated[int, Field(ge=-1, le=36_500)]


class Free(Members):
    """Limits on one voter's free votes."""

    is_mobile_only: bool = Field(False, description="Accept only votes from the platforms `ios` and `android`.")
    max_contest: Limit = Field(-1, description="Votes in the whole contest; -1 is unlimited.")
    max_participant: Limit = Field(1, description="Votes for one participant; -1 is unlimited.")


class Paid(Members):
    """Limits on one voter's paid votes (legacy: star votes)."""

    is_anonymous: bool = Field(False, description="Voters without a login may buy votes.")
    max_contest: Limit = Field(-1, description="Votes in the whole contest; -1 is unlimited.")
    max_participant: Limit = Field(-1, description="Votes for one participant; -1 is unlimited.")


class Silver(Members):
    """Legacy silver votes: stored and returned; they cannot be cast."""

    max_contest: Limit = 0
    max_participant: Limit = 0


class SubRating(Members):
    sub_rating_id: PartId = Field(description="Chosen by the account; unique in the list.")
    title: Title = None
    max_votes: Scale | None = Field(None, description="The highest value; unset: the value of `max_rating`.")
    style: Style = Field({})


class Rating(Members):
    """The scale and limits of a rating contest."""

    max_per_participant: Limit = Field(
        1, description="Ratings of one participant by one voter. With 1 a new rating replaces the old one."
    )
    max_rating: Scale = Field(5, description="The highest value.")
    step_size: Line | None = Field(None, description="Ratings are whole numbers unless this is `fraction`.")
    style: Style = Field({})
    sub_rating_configs: Parts[SubRating] = Field(
        [], description="Aspects that are rated in addition to the overall rating."
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        require_unique("sub_rating_id", [item.sub_rating_id for item in self.sub_rating_configs])
        return self


class OrderingPosition(Members):
    id: PartId = Field(description="Chosen by the account; unique in the list.")
    index: int | None = Field(None, description="Place among the positions.")
    votes: PositionVotes = Field(1, description="Votes for the participant at this position.")
    title: Title = None
    style: Style = Field({})
    icon: Icon = Field({})


class Ordering(Members):
    """The positions on a ballot of an ordering contest."""

    skin: Line | None = Field(None, description="Appearance of a ballot, such as `list`.")
    position_style: Style = Field({})
    position_icon: Icon = Field({})
    positions: list[OrderingPosition] = Field(
        [], max_length=100, description="The positions that a ballot can fill."
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        require_unique("id", [item.id for item in self.positions])
        return self


class RenewFreeVote(Members):
    """Renewal of a voter's allowance of free votes; only values above 0 take effect."""

    cooldown: Limit | None = Field(None, description="Seconds after the voter's latest free vote.")
    days_between: Days | None = Field(None, description="At 00:00 UTC, this many days after the latest free vote.")


class ContestConfig(Members):
    """The rules of a contest."""

    start: Timestamp | None = Field(None, description="Votes are accepted from this time.")
    end: Timestamp | None = Field(
        None, description="Votes are accepted before this time; a vote at exactly `end` is late."
    )
    free: Free = Field(default_factory=Free, description="Limits on free votes.")
    paid: Paid = Field(default_factory=Paid, description="Limits on paid votes.")
    silver: Silver = Field(default_factory=Silver, description="Legacy.")
    rating: Rating = Field(default_factory=Rating, description="The rules of a rating contest.")
    ordering: Ordering | None = Field(None, description="The positions on a ballot of an ordering contest.")
    ip_config: Line | None = Field(None, description="The address rules, such as `default`.")
    ip_restriction_per_participant: AddressLimit = 10
    limit_result_amount: Limit = Field(-1, description="Participants in public results; -1: all.")
    share_top_x: Limit = Field(-1, description="Number of shared participants; -1: all.")
    is_anonymous_voting_enabled: bool = Field(False, description="Voters without a login may cast free votes.")
    is_contest_time_shown: bool = Field(False, description="Clients show the time that remains.")
    is_grid_hidden: bool = Field(False, description="Clients show no grid of participants.")
    is_randomize: bool = Field(False, description="Clients shuffle the participants.")
    is_vote_removal_allowed: bool = Field(True, description="Voters may remove their votes.")
    participant_order: ParticipantOrder = Field(
        "participated",
        description="The order in public results: by `vote_count`, or else the contest's `running_order`.",
    )
    participant_visibility: ParticipantVisibility = Field(
        "shown", description="With `owner_only` public results name no participants."
    )
    vote_visibility: VoteVisibility = Field(
        "shown",
        description="Visibility of counts in public results; those that are hidden until the end are until the "
        "contest is closed, seconds later. To show more needs the permission `show:control` or "
        "`results:read_hidden`, too; so does an earlier `end`, if votes are hidden until then.",
    )
    result_release: ResultRelease = Field(
        "at_end",
        description="With `by_hand` counts are hidden from the end on, until the contest's show `is_released`, "
        "and again after a reopening. To change it to `at_end` needs the permission `show:control` or "
        "`results:read_hidden`, too.",
    )
    participant_style: Style = Field({})
    renew_free_vote: RenewFreeVote | None = Field(
        None, description="Renewal of a voter's allowance of free votes."
    )
    contest_visibility: ContestVisibility = Field(
        "listed",
        description="With `not_listed` the legacy list of the brand's contests, and public pages, leave the "
        "contest out; it can be read by its key.",
    )
    participant_default_status: Status = Field("approved", description="Legacy: the status of new participants.")
    show_video_play_button: bool = Field(False, description="Legacy.")

    _in_order = model_validator(mode="after")(in_order)


class Contest(Record):
    """A contest collects votes for participants."""

    owned: ClassVar[frozenset[str]] = frozenset(
        {"closing", "ordered", "reopened", "seal", "secret_erased", "titled", "votes_from"}
    )
    computed_members: ClassVar[Mapping[str, JsonSchemaValue]] = {
        "phase": {
            "type": "string",
            "enum": [phase.value for phase in Phase],
            "description": "`setup` until `publish`, `announced` until `start`, `running` until `end`, then "
            "`finished`.",
        },
    }
    ignored: ClassVar[frozenset[str]] = Record.ignored | owned | computed_members.keys()

    title: TitleText | None = Field(
        None,
        description=f"The displayed title: at most {TITLE.visible} visible characters; a contest needs none.",
    )
    description: Description = None
    publish: Timestamp | None = Field(
        None, description="Publication time; until then, and if unset, the contest is in setup."
    )
    contest_type: ContestType = Field("voteonly", description="The kind of vote that the contest accepts.")
    contest_config: ContestConfig = Field(default_factory=ContestConfig, description="The rules.")
    running_order: list[ParticipantKey] = Field(
        [],
        max_length=1_000,
        description="Keys of participants in the order in which they are shown. Others follow by running number; "
        "keys of no participant are ignored.",
    )
    image: Picture = Field(Linked())
    share: FreeForm = Field({}, description="Content for sharing the contest; free-form.")
    shop: LinkedForm = Field(Linked(), description="The shop that sells votes: free-form; `key` names a shop.")
    style: Style = Field({})
    video: FreeForm = Field({}, description="Free-form.")
    custom_data: CustomData = Field({})
    tags: Tags = Field([])
    thumbnail: Items = Field([], description="The parts of the thumbnail; free-form.")
    countries: Texts = Field([], description="Legacy.")
    categories: Parts[FreeForm] = Field([], description="Legacy.")
    update_widget: bool = Field(False, description="Legacy.")

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        require_unique("key of running_order", self.running_order)
        return self


class User(Members):
    """The user who entered the participant."""

    user_id: Line | None = Field(None, description="Id chosen by the account; not checked.")
    user_name: Line | None = Field(None, description="The displayed name.")
    image_id: Key | None = Field(None, description="Key of the user's image; not checked.")


class Participant(Record):
    """A participant of a contest. Only approved participants receive votes and appear in results."""

    owned: ClassVar[frozenset[str]] = frozenset({"titled", "judged"})
    computed_members: ClassVar[Mapping[str, JsonSchemaValue]] = {
        "participant_key": {"type": "string", "description": "The same as `key`."},
        "contest_key": {"type": "string", "description": "Key of the participant's contest."},
        "contest_id": {"type": "string", "description": "The same as `contest_key`."},
        "running_number": {
            "type": "integer",
            "description": "Number of the participant within the contest, from 1.",
        },
        "participated": {"type": "string", "format": "date-time", "description": "The same as `created`."},
        "image": {"type": "object", "description": "Its `key` is `image_key`; empty without one."},
        "vote_count": {
            "type": ["integer", "null"],
            "description": "0 unless approved; null while hidden, and for API keys without results:read.",
        },
        "rater_count": {
            "type": ["integer", "null"],
            "description": "Distinct voters; null whenever `vote_count` is.",
        },
        "message_count": {"type": "integer", "description": "Always 0: this service does not keep it."},
        "waits_for_reopening": {
            "type": ["boolean", "null"],
            "description": "True if `status` was changed after the contest's end: the result changes only if the "
            "contest is reopened. Null if that cannot be read at the moment.",
        },
    }
    ignored: ClassVar[frozenset[str]] = Record.ignored | owned | computed_members.keys()

    title: Title = None
    story: Description = None
    image_key: Key | None = Field(None, description="Key of an image.")
    status: Status = Field("approved", description="Default: the contest's `participant_default_status`.")
    number_string: Line | None = Field(None, description="The displayed number, such as a jersey's.")
    color: Colour | None = Field(None, description="Colour of the participant on walls and in charts.")
    data: FreeForm = Field({}, description="Free-form.")
    user: User | None = Field(None, description="The user who entered the participant.")


SOURCE_NAME: Final = re.compile(r"(?!c-|\.{1,2}$)[A-Za-z0-9_.-]{1,64}")
"""Names that begin with `c-` are reserved for internal sources; clients resolve . and .. in a URL."""
MAX_MAPPED_ID_BYTES: Final = 128


def _mapped_id(value: str) -> str:
    if not 1 <= len(value.encode()) <= MAX_MAPPED_ID_BYTES:
        raise ValueError(f"must be 1 to {MAX_MAPPED_ID_BYTES} bytes of UTF-8")
    if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in value):
        raise ValueError("must not contain control characters")
    return value


MappedId = Annotated[
    str,
    AfterValidator(_mapped_id),
    Field(
        description="The source's own id of a participant.", json_schema_extra={"maxLength": MAX_MAPPED_ID_BYTES}
    ),
]
Mode = Literal["cumulative", "delta"]


class VoteSource(Record):
    """An external source of votes: SMS, a social network, a television show."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLES["vote_sources"]]})
    ignored: ClassVar[frozenset[str]] = Record.ignored | {"source", "contest_key"}

    title: TitleText | None = Field(None, description="The displayed title; unset: the source's name.")
    is_in_total: bool = Field(True, description="The counts of the contest and participants include its votes.")
    mode: Mode = Field(
        "cumulative",
        description="`cumulative`: reports give the total votes; `delta`: the votes since the previous report.",
    )
    mapping: Annotated[dict[MappedId, Key], MAPPED] = Field(
        {},
        description="Participant keys by the source's own ids. Reports of an unmapped id count once it is mapped.",
    )


ShowState = Literal["live", "held", "reveal", "result"]


class CallToVote(Members):
    """Where the audience votes. Kept also while it is not shown."""

    is_shown: bool = Field(False, description="Screens show it.")
    url: str | None = Field(None, max_length=ADDRESS.code_points, description="The address in the QR code.")
    text: str | None = Field(None, max_length=200, description="A short address or number to read out.")


class Show(Record):
    """What screens show of a contest, and whether its result is released."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLES["shows"]]})
    owned: ClassVar[frozenset[str]] = frozenset({"frozen", "reopened"})
    ignored: ClassVar[frozenset[str]] = Record.ignored | owned | {"contest_key"}

    state: ShowState = Field(
        "live",
        description="`live`: present counts, while the public may see them; `held`: those of `held_at`, likewise; "
        "`reveal`: the last `revealed` places of `held_at`; `result`: present counts, also hidden ones.",
    )
    held_at: ServerTime = Field(None, description="Since when the show is held or reveals; null otherwise.")
    revealed: int = Field(
        0,
        ge=0,
        le=10_000,
        description="Number of revealed places, from the last one up; participants that share a place are "
        "revealed together.",
    )
    reveals: Literal["counts", "points"] = Field(
        "counts",
        description="What a reveal shows of a place: its counts, or 12, 10, 8, 7 and so on down to 1 point for "
        "the ten best places, and no counts.",
    )
    is_released: bool = Field(
        False, description="The result may be seen, if the contest's `result_release` is `by_hand`."
    )
    released_at: ServerTime = Field(None, description="Since when; null unless it is released.")
    call_to_vote: CallToVote = Field(default_factory=CallToVote, description="Where the audience votes.")
    message: str | None = Field(None, max_length=280, description="A text on all screens.")


class Link(Record):
    """A link that opens the screens of a contest without an API key."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLES["links"]]})
    ignored: ClassVar[frozenset[str]] = Record.ignored | {"contest_key", "url"}

    name: str | None = Field(None, max_length=100, description="A label, such as where the screen is.")
    expires: Timestamp | None = Field(
        None, description="The link opens nothing from then on; by default a week after its creation."
    )


class StoredVoteSource(VoteSource):
    """The registration with the server's members. A retired source accepts no reports; its counts remain."""

    retired: bool = Field(False, description="The source accepts no more reports.")
