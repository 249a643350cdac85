"""The ledger, counts and gate of every votes partition, as Valkey keeps them (`lua/votes`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from libs.contracts.codec import Undecodable
from libs.contracts.log import Behind, Position
from libs.tally.admission import Answer, Known, Request
from libs.tally.events import Event, Fence
from libs.tally.figures import Figures
from libs.tally.standing import VoteStatus
from libs.views.client import Valkey
from libs.views.packing import (
    SOURCES,
    answer,
    digest,
    fold_item,
    limited,
    pack,
    raw,
    request_item,
    text,
    unpack,
)

APPLY_ITEMS = 128
"""Records folded by one call: 2 ms at most, so that reservations never wait longer for the fold."""


class FoldInput(NamedTuple):
    """One record: its event, or why it is none, its offset and the broker's append time."""

    event: Event | Undecodable
    offset: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Gate, position and doubt of one partition. Times are microseconds since 1970 UTC, by Valkey's clock."""

    position: Position
    open: bool
    incarnation: int
    now: int
    fence: int
    pending: int
    oldest_pending: int | None
    fenced: int
    duplicates: int
    quarantined: int
    overruled: int


@dataclass(frozen=True, slots=True)
class VoteState:
    """What the ledger knows of one vote id: nothing (`pending` False, `status` None), pending, or folded.

    Folded, `content` and the first answer are those of the attempt that was recorded, which may be another one
    than the caller's: the same id, reserved anew after a fence, may stand for other content.
    """

    position: Position
    open: bool
    incarnation: int
    pending: bool = False
    status: VoteStatus | None = None
    accepted_at: int | None = None
    offset: int | None = None
    participant: str | None = None
    count: int = 0
    source: str | None = None
    content: str | None = None
    remaining_participant: int | None = None
    remaining_contest: int | None = None
    next_free_vote_at: int | None = None

    @property
    def known(self) -> Known | None:
        """The first answer, once the vote is folded."""
        if self.status is None or self.accepted_at is None or self.offset is None:
            return None
        left = self.remaining_participant, self.remaining_contest
        return Known(self.accepted_at, *left, self.next_free_vote_at, self.offset, self.status)


@dataclass(frozen=True, slots=True)
class ContestCounts:
    """One contest's counts in one partition, at `position`.

    `figures` is keyed by (participant or "" for the contest, source or "" for both); the count of the latter is
    the sum of the former. `changed` is the offset of the last event that changed it (-1: none yet).
    """

    position: Position
    changed: int
    figures: Mapping[tuple[str, str], Figures]
    updated_ms: int | None = None
    counted_ids: int = 0
    overruled_ids: int = 0


class UsedVotes(NamedTuple):
    """Votes a voter has used, folded and pending; `participant` "" is the whole contest."""

    participant: str
    source: str
    epoch: int
    votes: int


class VoteViews:
    """One method a function. All raise `ViewsUnavailable` when Valkey's answer is not known."""

    def __init__(self, valkey: Valkey, namespace: str) -> None:
        self._valkey = valkey
        self._namespace = namespace

    def _base(self, partition: int) -> str:
        return f"{self._namespace}:{{{partition}}}"

    async def _call(self, function: str, partition: int, *args: Any) -> Any:
        return await self._valkey.call("FCALL", function, 1, self._base(partition), *args)

    async def reserve(self, partition: int, requests: Sequence[Request]) -> list[Answer]:
        """Decide about `requests` in their order, each after those before it."""
        packed = pack([request_item(request) for request in requests])
        return [answer(reply) for reply in unpack(await self._call("votes_reserve", partition, packed))]

    async def release(self, partition: int, contest: str, voter: str, vote_id: str, incarnation: int) -> None:
        """Take back a reservation's attempt that the log definitely refused."""
        await self._call("votes_release", partition, contest, raw(voter), digest(vote_id), incarnation)

    async def confirm(self, partition: int, incarnation: int) -> bool:
        """Whether the gate is still open under `incarnation`: only then is an acknowledged vote sure to count."""
        return bool(await self._call("votes_confirm", partition, incarnation))

    async def raise_config(
        self, partition: int, contest: str, version: int, incarnation: int | None = None
    ) -> None:
        """Put a configuration version in force, as a maximum.

        A worker names the incarnation of the `Stale` answer that made it load; the projector names none, and where
        no version is in force, its word only bars older ones.
        """
        by = "" if incarnation is None else incarnation
        await self._call("votes_raise", partition, contest, version, by)

    async def shut(self, partition: int, incarnation: int) -> Fence | None:
        """Shut the gate that stood open under `incarnation`; the fence to append, None if moot.

        The same one again until a fence was folded: appending it twice does no harm.
        """
        n, *bound = await self._call("votes_shut", partition, incarnation)
        return Fence(int(n), int(bound[0]), bound[1].decode()) if bound else None

    async def position(self, partition: int) -> Position | None:
        state = await self.state(partition)
        return state.position if state.position.log_id else None

    async def apply(self, partition: int, start: Position, items: Sequence[FoldInput], end: int) -> None:
        """Fold `items` and store `end` as the next offset; raises `Behind` when the view is not at `start`."""
        packed = pack([fold_item(*item) for item in items])
        reply = await self._call("votes_apply", partition, start.log_id, start.offset, end, packed)
        if reply[0] == 0:
            raise Behind(Position(reply[1].decode(), int(reply[2])) if reply[1] else None)

    async def state(self, partition: int) -> PartitionState:
        r = unpack(await self._call("votes_state", partition))
        position, (n, now, fence, pending, oldest), judged = Position(r[0].decode(), r[1]), r[3:8], r[8:]
        return PartitionState(position, r[2] == 1, n, now, fence, pending, oldest or None, *judged)

    async def counts(self, partition: int, contest: str, known: int | None = None) -> ContestCounts | None:
        """The contest's counts; None when nothing changed since the change at offset `known`."""
        r = unpack(await self._call("votes_counts", partition, contest, -2 if known is None else known))
        return None if r[3] == 0 else _counts(r)

    async def lookup(self, partition: int, contest: str, voter: str, vote_id: str) -> VoteState:
        r = unpack(await self._call("votes_lookup", partition, contest, raw(voter), digest(vote_id)))
        head = Position(r[0].decode(), r[1]), r[2] == 1, r[3]
        if r[4] == 2:
            status, at, offset, participant, count, source, content, left_p, left_c, next_at = r[5:]
            what = participant.decode(), count, SOURCES[source], text(content)
            answered = limited(left_p), limited(left_c), next_at or None
            return VoteState(*head, False, VoteStatus(status), at, offset, *what, *answered)
        return VoteState(*head, True, None, r[5]) if r[4] == 1 else VoteState(*head)

    async def allowance(self, partition: int, contest: str, voter: str) -> list[UsedVotes]:
        rows = unpack(await self._call("votes_allowance", partition, contest, raw(voter)))
        return [UsedVotes(p.decode(), SOURCES[source], epoch, votes) for p, source, epoch, votes in rows]


def _counts(reply: Sequence[Any]) -> ContestCounts:
    figures: dict[tuple[str, str], Figures] = {}
    top: Sequence[int] = ()
    for name, row in reply[3]:
        participant = name.decode()
        figures[participant, "c-free"] = Figures(*row[1:4])
        figures[participant, "c-paid"] = Figures(*row[4:7])
        figures[participant, ""] = Figures(row[1] + row[4], *row[7:9])
        if not participant:
            top = row
    position = Position(reply[0].decode(), reply[1])
    if not top:
        return ContestCounts(position, reply[2], figures)
    return ContestCounts(position, reply[2], figures, top[10], top[11], top[12])
