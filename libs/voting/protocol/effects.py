"""Effects that the protocols of votes and removals request of their driver.

A protocol is a generator: it yields one effect, and is resumed with its reply. It has no clock: the driver also
replies to an effect that takes too long, as documented at each. A `TallyError` as reply means that the effect
failed or that its outcome is unknown.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from libs.contracts.vote_states import FoldProgress, VoteState
from libs.tally.contest import Contest
from libs.tally.events import VoteCast, VoteRemoved
from libs.tally.reservations import Request

T = TypeVar("T")
IsDecided = Callable[[VoteState], bool]
"""Returns whether a vote's state in the ledger decides what is waited for."""


class TakeAddress(NamedTuple):
    """Use the address's limit of each participant for its votes, in the name of `taker`.

    `Reserve` follows, of the request `then`, or of one without a selection if a limit is exhausted: the driver may
    already make it in the same call. Reply: `AddressTaken | TallyError`.
    """

    contest: Contest
    taker: str
    votes: tuple[tuple[str, int], ...]
    then: Request


class AddressTaken(NamedTuple):
    """Participants whose counter `taker` holds by this attempt; none whose counter is away, as its limit is not
    applied. `used`: votes used of an exhausted limit, or None."""

    participants: tuple[str, ...]
    used: int | None = None


class GiveAddress(NamedTuple):
    """Give back the address's votes that an attempt holds by participant and taker, or all of a `removed` vote.

    Best effort; reply: None.
    """

    address: str
    uses: tuple[tuple[str, str], ...]
    removed: bool = False


class Reserve(NamedTuple):
    """Reserve a vote. Reply: `Answer | TallyError`; a grant after the error is to be released by the driver."""

    request: Request


class ReserveRemoval(NamedTuple):
    """Reserve the removal of a vote by its voter, or, without a contest, by a refund.

    Reply: `RemovalAnswer | TallyError`.
    """

    contest: Contest | None


class Release(NamedTuple):
    """Release an attempt of a reservation whose record is certainly not in the log. Best effort; reply: None."""

    incarnation: int
    removal: bool


class Append(NamedTuple):
    """Append the event to the log. Reply: `Appended | NotAppended | AppendUnknown`."""

    event: VoteCast | VoteRemoved


class Confirm(NamedTuple):
    """Check, after the acknowledgement, that the gate is still open under the fence epoch.

    Reply: `bool | TallyError`.
    """

    incarnation: int


class AwaitRecord(NamedTuple):
    """Wait until the fold has decided a record in doubt, or a fence has ended its fence epoch.

    Its `offset` is None if unknown. Reply: `VoteState`, or None after the deadline.
    """

    is_decided: IsDecided
    incarnation: int
    offset: int | None


class AwaitVote(NamedTuple):
    """Wait until another attempt's vote is decided, at a progress other than `since`.

    Reply: `VoteState`, or None after the deadline.
    """

    is_decided: IsDecided
    since: FoldProgress | None


class AwaitGate(NamedTuple):
    """Wait for an open gate at a progress other than `since`. Reply: `FoldProgress`, None after the deadline."""

    since: FoldProgress | None


class LoadContest(NamedTuple):
    """Load the contest after the effect, or return one of version `at_least`. Reply: `Contest | TallyError`.

    `former` was stale: the driver waits before it returns the same version.
    """

    former: Contest
    at_least: int | None


class PutInForce(NamedTuple):
    """Put a configuration in force under a fence epoch. Reply: `bool | TallyError`.

    False: the catalogue's view that it was read from lacked records that the catalogue's log had.
    """

    contest: Contest
    incarnation: int


class ReadVote(NamedTuple):
    """Read the record of the vote to remove, if it counts. Best effort; reply: `VoteCast | None`."""


class ReadCast(NamedTuple):
    """Read the record of a folded vote. Reply: `VoteCast | TallyError`, or None if the id was never cast."""

    offset: int


Effect = (
    TakeAddress
    | GiveAddress
    | Reserve
    | ReserveRemoval
    | Release
    | Append
    | Confirm
    | AwaitRecord
    | AwaitVote
    | AwaitGate
    | LoadContest
    | PutInForce
    | ReadVote
    | ReadCast
)
Steps = Generator[Effect, Any, T]
"""Effects of a protocol that returns a `T`. The reply to an effect has the type documented at the effect."""
