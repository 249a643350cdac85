"""A contest: the current shape, with the members that only the legacy generation names at the same level."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from libs.catalogue.schemas.base import (
    FreeForm,
    Items,
    Limit,
    Members,
    Record,
    Timestamp,
    refuse_disorder,
    refuse_doubles,
)

VoteVisibility = Literal["shown", "hidden_until_vote", "hidden_until_end", "hidden"]
ParticipantVisibility = Literal["shown", "owner_only"]
ParticipantOrder = Literal["participated", "running_number", "vote_count"]
ContestVisibility = Literal["listed", "not_listed"]
Status = Literal["approved", "pending", "rejected"]


def _not_zero(value: int) -> int:
    if value == 0:
        raise ValueError("must not be 0: -1 is unlimited")
    return value


AddressLimit = Annotated[
    Limit,
    AfterValidator(_not_zero),
    Field(description="Free votes for one participant from one address; -1 is unlimited, 0 is refused."),
]


PartId = Annotated[str, Field(min_length=1, max_length=64)]
Scale = Annotated[int, Field(ge=0, le=1_000)]
PositionVotes = Annotated[int, Field(ge=0, le=1_000_000)]
Days = Annotated[int, Field(ge=-1, le=36_500)]


class Free(Members):
    """Bounds on one voter's free votes."""

    is_mobile_only: bool = False
    max_contest: Limit = -1
    max_participant: Limit = 1


class Paid(Members):
    """Bounds on one voter's paid votes (legacy: star votes)."""

    is_anonymous: bool = False
    max_contest: Limit = -1
    max_participant: Limit = -1


class Silver(Members):
    """Legacy silver votes: kept and returned, not castable."""

    max_contest: Limit = 0
    max_participant: Limit = 0


class SubRating(Members):
    sub_rating_id: PartId
    title: str = ""
    max_votes: Scale | None = Field(None, description="The highest value; unset: as `max_rating`.")
    style: FreeForm = Field({})


class Rating(Members):
    """How a rating contest is rated."""

    max_per_participant: Limit = Field(
        1, description="Ratings of one participant by one voter. With 1 a new one replaces the old."
    )
    max_rating: Scale = 5
    step_size: str | None = Field(None, description="Ratings are whole unless this is `fraction`.")
    style: FreeForm = Field({})
    sub_rating_configs: list[SubRating] = Field([])

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        refuse_doubles("sub_rating_id", [item.sub_rating_id for item in self.sub_rating_configs])
        return self


class OrderingPosition(Members):
    id: PartId
    index: int | None = None
    votes: PositionVotes = Field(1, description="What the participant at this position gets.")
    title: str = ""
    style: FreeForm = Field({})
    icon: FreeForm = Field({})


class Ordering(Members):
    """The places that a ballot of an ordering contest gives."""

    skin: str | None = None
    position_style: FreeForm = Field({})
    position_icon: FreeForm = Field({})
    positions: list[OrderingPosition] = Field([], max_length=100)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        refuse_doubles("id", [item.id for item in self.positions])
        return self


class RenewFreeVote(Members):
    """When a voter's free allowance starts afresh; values above 0 take effect."""

    cooldown: Limit | None = Field(None, description="Seconds after the voter's latest free vote.")
    days_between: Days | None = Field(None, description="At 00:00 UTC, this many days after the latest free vote.")


class ContestConfig(Members):
    """The rules of a contest."""

    start: Timestamp | None = None
    end: Timestamp | None = Field(None, description="Half-open: a vote at exactly `end` is late.")
    free: Free = Field(default_factory=Free)
    paid: Paid = Field(default_factory=Paid)
    silver: Silver = Field(default_factory=Silver, description="Legacy.")
    rating: Rating | None = None
    ordering: Ordering | None = None
    ip_config: str | None = None
    ip_restriction_per_participant: AddressLimit = 10
    limit_result_amount: Limit = -1
    share_top_x: Limit = -1
    is_anonymous_voting_enabled: bool = False
    is_contest_time_shown: bool = False
    is_grid_hidden: bool = False
    is_randomize: bool = False
    is_vote_removal_allowed: bool = True
    participant_order: ParticipantOrder = "participated"
    participant_visibility: ParticipantVisibility = "shown"
    vote_visibility: VoteVisibility = "shown"
    participant_style: FreeForm = Field({})
    renew_free_vote: RenewFreeVote | None = None
    contest_visibility: ContestVisibility = Field("listed", description="Legacy.")
    participant_default_status: Status = Field("approved", description="Legacy: the status of new participants.")
    show_video_play_button: bool = Field(False, description="Legacy.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        refuse_disorder(self.start, self.end)
        return self


class Contest(Record):
    """A contest collects votes for participants."""

    owned: ClassVar[frozenset[str]] = frozenset({"closing", "reopened", "seal", "secret_erased"})
    ignored: ClassVar[frozenset[str]] = Record.ignored | owned

    title: str | None = None
    description: str | None = None
    publish: Timestamp | None = Field(None, description="Published from then on; not at all while unset.")
    contest_type: Literal["voteonly", "participation", "rating", "ordering"] = "voteonly"
    contest_config: ContestConfig = Field(default_factory=ContestConfig)
    image: FreeForm = Field({})
    share: FreeForm = Field({})
    shop: FreeForm = Field({})
    style: FreeForm = Field({})
    video: FreeForm = Field({})
    custom_data: FreeForm = Field({}, description="Free-form.")
    tags: list[str] = Field([])
    thumbnail: Items = Field([])
    countries: list[str] = Field([], description="Legacy.")
    categories: list[FreeForm] = Field([], description="Legacy.")
    update_widget: bool = Field(False, description="Legacy.")
