"""What happened, in the past tense: the records of the votes log.

An event carries all that it was judged by, so that the fold reads no clock and no other topic. Times are
microseconds since 1970 UTC; -1 in a limit means unlimited. `voter` and `address` are pseudonyms, never the ids
themselves. A class never changes its meaning: a new shape is a new class with a type name of its own.
"""

from dataclasses import dataclass
from typing import Literal

Source = Literal["c-free", "c-paid"]
Platform = Literal["ios", "android", "web"]


@dataclass(frozen=True, slots=True)
class LogCreated:
    """The first record of every partition: its random id tells this log from a recreated one."""

    log_id: str
    type: Literal["LogCreated"] = "LogCreated"


@dataclass(frozen=True, slots=True)
class VoteCast:
    """A vote was accepted: reserved under `incarnation` of its partition's gate, judged by `config`."""

    contest: str
    voter: str
    anonymous: bool
    vote_id: str
    content: str
    """Hash of the request's content: the same id with another one is a misuse, not a repeat."""
    source: Source
    choices: tuple[tuple[str, int], ...]
    """(participant key, votes) pairs; one pair but for an ordering ballot."""
    accepted_at: int
    incarnation: int
    config: int
    """The contest's configuration version that the vote was judged by: an offset of the catalogue log."""
    max_participant: int
    max_contest: int
    epoch: int
    """Number of the voter's allowance period (renewals count it up)."""
    remaining_participant: int | None
    remaining_contest: int | None
    next_free_vote_at: int | None
    receipt: str
    platform: Platform | None = None
    address: str | None = None
    type: Literal["VoteCast"] = "VoteCast"


@dataclass(frozen=True, slots=True)
class Fence:
    """From here on only votes reserved under `incarnation` count; older ones still on their way never will.

    It holds only directly behind the fence `after` (None: behind any lower one), so that one which a Valkey asked
    for and forgot, landing late, cannot fence off what a later one admits, whatever their clocks say. `run` is the
    server run that asked for it: no other one opens its gate on it.
    """

    incarnation: int
    after: int | None = None
    run: str | None = None
    type: Literal["Fence"] = "Fence"


Event = LogCreated | VoteCast | Fence
