"""What `/operations/status` answers, for the OpenAPI document; `libs/monitoring` makes it."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from libs.monitoring.projection_names import Fold
from libs.views.generations import State

TIME: dict[str, Any] = {"format": "date-time"}
SCOPE = Field(description="The contest that alone is folded into it, `*timeline`, or empty for all.")
BEHIND = Field(description="How many records what is read is ahead.")
KEPT_SINCE = Field(
    description="Since when it is kept, to be read again; null where it is not.", json_schema_extra=TIME
)
HELD = Field(description="Whether it is kept until somebody drops it, rather than for a stated time.")
PER_SECOND = Field(description="Records a second since the look before; null at a first one.")


class OfVotes(BaseModel):
    """What only the votes have."""

    model_config = ConfigDict(extra="forbid")

    pending: int | None = Field(None, description="Votes that were reserved, and neither folded nor given up yet.")
    oldest_pending_s: float | None = Field(None, description="How long the first of them has been waiting.")
    fenced: int | None = Field(None, description="Records that a fence kept out: uncounted, their ids still free.")
    duplicates: int | None = Field(None, description="Records of vote ids that were folded before.")
    overruled: int | None = Field(
        None, description="Accepted votes that the fold did not count: expected to be 0."
    )


class OtherGeneration(BaseModel):
    """A generation of one partition beside the one that is read."""

    model_config = ConfigDict(extra="forbid")

    number: int = Field(description="What commands call it by.")
    scope: str = SCOPE
    state: State = Field(description="What it is for, and how far that is.")
    position: int = Field(description="The offset behind the last record in it.")
    behind: int = BEHIND
    folded_per_s: float | None = PER_SECOND
    kept_since: str | None = KEPT_SINCE
    held: bool = HELD


class OpenPurchase(BaseModel):
    """A purchase whose votes are still to be cast or taken back."""

    model_config = ConfigDict(extra="forbid")

    offset: int = Field(description="Of the record since which it is so.")
    for_s: float = Field(description="How long that is ago.")
    unreadable: str = Field(description="Why it cannot be read; empty where it can.")


class PartitionStatus(OfVotes):
    """How far one partition of a fold is."""

    partition: int = Field(description="Its number.")
    generation: int = Field(description="The one that is read.")
    position: int = Field(description="The offset behind the last folded record.")
    end: int = Field(description="The offset behind the last record of the log.")
    lag: int = Field(description="Records that the log has and the view has not.")
    lag_s: float = Field(description="The age of the first of them.")
    last_event: str | None = Field(description="When the last folded record was appended.", json_schema_extra=TIME)
    stalled_since: str | None = Field(
        description="Where the log has had more for over 10 s, and the view does not move.", json_schema_extra=TIME
    )
    quarantined: int = Field(description="Records that could not be folded, and were not dropped.")
    dropped: int = Field(description="Records that were decided never to be folded.")
    schema_: int = Field(alias="schema", description="The layout that is stored.")
    code_schema: int = Field(description="The layout that the code reads.")
    generations: list[OtherGeneration] = Field(description="Those beside the one that is read.")
    folded_per_s: float | None = PER_SECOND
    oldest_open: OpenPurchase | None = Field(None, description="Of purchases: the oldest that is not done.")
    open: bool | None = Field(None, description="Whether votes are taken there.")
    incarnation: int | None = Field(None, description="Of the gate.")
    valkey_clock_off_s: float | None = Field(
        None, description="How far Valkey's clock is ahead of this server's; less than 0: behind."
    )
    clock_ahead_s: float | None = Field(
        None, description="How far the moments that votes are stamped with are ahead of Valkey's clock."
    )


class FoldTotals(OfVotes):
    """The sums over the partitions of a fold; of times, the worst."""

    position: int = Field(description="Records that were folded.")
    end: int = Field(description="Records of the log.")
    lag: int = Field(description="Records that are still to be folded.")
    lag_s: float = Field(description="The age of the oldest of them.")
    last_event: str | None = Field(description="When the last folded record was appended.", json_schema_extra=TIME)
    stalled: int = Field(description="Partitions that do not move.")
    shut: int | None = Field(None, description="Partitions that take no votes.")
    quarantined: int = Field(description="Records that could not be folded, and were not dropped.")
    dropped: int = Field(description="Records that were decided never to be folded.")
    folded_per_s: float | None = PER_SECOND


class GenerationStatus(BaseModel):
    """A generation beside the ones that are read, in all its partitions together."""

    model_config = ConfigDict(extra="forbid")

    fold: Fold = Field(description="Of what it is.")
    generation: int = Field(description="Its number.")
    scope: str = SCOPE
    state: State = Field(description="Of the partition that is least far.")
    partitions: int = Field(description="How many have it.")
    folded: int = Field(description="Records in it.")
    end: int = Field(description="Records of their logs.")
    behind: int = BEHIND
    folded_per_s: float | None = PER_SECOND
    left_s: float | None = Field(
        description="How long the rest takes at this pace; null where it is not being built, or does not move."
    )
    kept_since: str | None = KEPT_SINCE
    held: bool = HELD


class SealedContest(BaseModel):
    """A sealed contest of the key's account."""

    model_config = ConfigDict(extra="forbid")

    contest: str = Field(description="Its key.")
    closing: int = Field(description="The number of the closing that was sealed.")
    sealed_at: str = Field(description="When.", json_schema_extra=TIME)
    sha256: str = Field(description="Of its certificate.")


class StandingProblem(BaseModel):
    """What somebody has to see to."""

    model_config = ConfigDict(extra="forbid")

    kind: str = Field(
        description="What is wrong, in a word.", examples=["away", "stalled", "gate", "quarantine", "overruled"]
    )
    where: str = Field(description="What is away, or a fold and its partitions.")
    detail: str = Field(description="What is wrong, for a person.")
    way_out: str = Field(description="What to do; commands in backticks.")


class OperationsStatus(BaseModel):
    """What is known of the deployment."""

    model_config = ConfigDict(extra="forbid")

    now: str = Field(description="When this was answered.", json_schema_extra=TIME)
    at: str | None = Field(description="When it was read; null: never yet.", json_schema_extra=TIME)
    version: str = Field(description="Of the code that answers.")
    dependencies: dict[str, str] = Field(description="As `/readyz` says: `ready`, or why not.")
    problems: list[StandingProblem] = Field(description="What somebody has to see to; empty: nothing.")
    notes: list[str] = Field(description="What costs something, and is no problem.")
    folds: dict[Fold, list[PartitionStatus]] = Field(description="By partition.")
    totals: dict[Fold, FoldTotals] = Field(description="Over all partitions.")
    generations: list[GenerationStatus] = Field(description="Those beside the ones that are read.")
    sealed: list[SealedContest] = Field(description="Contests of the key's account that are sealed.")
