"""The ledger, counts and gate of every votes partition, stored in Valkey (`votes/*.lua`)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from hiredis import ReplyError

from libs.contracts.log_records import Position
from libs.contracts.topics import catalogue_topic
from libs.contracts.vote_states import VoteName
from libs.tally.contest import Contest
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import Fence
from libs.tally.reservations import RemovalAnswer, Request, Reserved, Take
from libs.tally.vote_commands import CastVote
from libs.views.generations.generations import apply
from libs.views.valkey.connection import part_error
from libs.views.valkey.function_libraries import call_function, call_together, call_with_keys, pack, unpack
from libs.views.valkey.partition_reads import raised
from libs.views.votes.address_counters import answer_to, counter_key, item_of
from libs.views.votes.serialization import SOURCES, digest, raw, removal_answer, span
from libs.views.votes.vote_reads import VoteReads
from libs.views.votes.votes_apply_items import OFFSET, Item

T = TypeVar("T")

APPLY_ITEMS = 128
"""Records folded by one call: 2 ms at most, so that reservations never wait longer for the fold."""
APPLY_BYTES = 96 * 1024
"""Maximum size of these records: more than so many votes need; it bounds long reports and ballots."""
RAISES = 256
"""Configuration versions raised by one call, of all partitions: less than 1 ms of Valkey's time."""


class VoteViews(VoteReads):
    """Client of all functions in `votes/*.lua`, one method per function. All raise `ViewsUnavailable`.

    With a `generation`, `apply` also uses that one.
    """

    async def _call(self, function: str, partition: int, *args: Any) -> Any:
        return await call_function(self._valkey, function, self._base(partition), *args)

    async def _together(
        self, function: str, arguments: Sequence[tuple[int, Any]], named: Sequence[str] = ()
    ) -> Sequence[Any]:
        """Call a function once for several partitions, each with an argument; return each one's reply or error."""
        pairs = [(self._base(partition), argument) for partition, argument in arguments]
        replies = await call_together(self._valkey, function, pairs, named)
        return [part_error(reply) if isinstance(reply, ReplyError) else reply for reply in replies]

    @property
    def is_cluster(self) -> bool:
        """Return whether the keys of one call must be in one slot."""
        return self._valkey.is_cluster

    def call_group(self, partition: int) -> int:
        """Return the partition's group: only partitions of the same group may share a call."""
        return partition if self._valkey.is_cluster else 0

    async def reserve_together(
        self, requests: Sequence[tuple[int, Sequence[Request]]]
    ) -> list[list[Reserved] | ViewsUnavailable]:
        """Decide requests of several partitions of one group; return each partition's answers, or its error.

        None takes from a counter in a cluster, where counters lie anywhere.
        """
        packed = [
            (partition, pack([item_of(self._namespace, each) for each in its])) for partition, its in requests
        ]
        takes = [request.take for _, its in requests for request in its if request.take is not None]
        counters = [counter_key(self._namespace, take.counter) for take in takes]
        replies = await self._together("votes_reserve", packed, counters)
        return [
            reply if isinstance(reply, ViewsUnavailable) else list(map(answer_to, its, unpack(reply)))
            for (_, its), reply in zip(requests, replies, strict=True)
        ]

    async def remove(
        self, partition: int, contest: Contest, voter: str, vote_id: str, declined: bool
    ) -> RemovalAnswer:
        """Reserve the removal of a vote by its voter; `declined`: the caller refuses it."""
        judged = contest.version, *span(contest), contest.reopened, declined, False
        return await self._remove(partition, contest.key, voter, vote_id, *judged)

    async def refund(self, partition: int, paid: CastVote) -> RemovalAnswer:
        """Reserve the removal of a refunded vote at any time; an id that was never cast is used up."""
        vote = paid.anonymous, raw(paid.content), SOURCES.index(paid.source)
        return await self._remove(partition, paid.contest, paid.voter, paid.vote_id, 0, 0, 0, 0, False, vote)

    async def _remove(self, partition: int, contest: str, voter: str, vote_id: str, *judged: Any) -> RemovalAnswer:
        packed = pack([contest, raw(voter), digest(vote_id), *judged])
        return removal_answer(unpack(await self._call("votes_remove", partition, packed)))

    async def release(
        self,
        partition: int,
        vote: VoteName,
        incarnation: int,
        *,
        removal: bool = False,
        take: Take | None = None,
    ) -> None:
        """Release an attempt of a reservation, or of a removal's, that the log definitely rejected.

        It gives back the attempt's use of an address's limit, which its request `take`s.
        """
        name = digest(vote.vote_id)
        attempt = vote.contest, raw(vote.voter), b"R" + name if removal else name, incarnation
        if take is None:
            await self._call("votes_release", partition, *attempt)
        else:
            keys = self._base(partition), counter_key(self._namespace, take.counter)
            await call_with_keys(self._valkey, "votes_release", keys, *attempt, digest(take.taker))

    async def confirm_together(self, gates: Sequence[tuple[int, int]]) -> list[bool | ViewsUnavailable]:
        """Return whether each gate of one group is still open under its incarnation, or its error.

        Only then acknowledged votes count.
        """
        replies = await self._together("votes_confirm", gates)
        return [reply if isinstance(reply, ViewsUnavailable) else bool(reply) for reply in replies]

    async def raise_together(
        self, partitions: Sequence[int], versions: Mapping[str, int]
    ) -> list[ViewsUnavailable | None]:
        """Raise configuration versions in force in partitions of one group; return each one's error, if any.

        The projector does so before the versions can be read. If none is in force, they only exclude older ones.
        """
        errors = dict[int, ViewsUnavailable | None].fromkeys(partitions)
        for raises in _slices(versions.items(), RAISES):
            packed = pack(raises)
            for its in _slices(partitions, max(1, RAISES // len(raises))):
                replies = await self._together("votes_raise", [(partition, packed) for partition in its])
                for partition, reply in zip(its, replies, strict=True):
                    if isinstance(reply, ViewsUnavailable):
                        errors[partition] = reply
        return [errors[partition] for partition in partitions]

    async def put_in_force(self, partition: int, contest: Contest, incarnation: int) -> bool:
        """Put a worker's configuration in force, under the `incarnation` of the `Stale` answer before its load.

        False if the catalogue view it was read from lacked records that the catalogue's log had when the gate was
        closed.
        """
        place = catalogue_topic(self._namespace).partition_of(contest.account), contest.as_of
        packed = pack([(contest.key, contest.version, incarnation, *place)])
        done: int = raised((await self._together("votes_raise", [(partition, packed)]))[0])
        return done >= 0

    async def need(self, partition: int, fence: Fence, catalogue_ends: Mapping[int, int]) -> None:
        """Store, before `fence` is appended, the catalogue log's end offsets read after the gate was closed."""
        ends = [number for place in catalogue_ends.items() for number in place]
        await self._call("votes_need", partition, fence.incarnation, *ends)

    async def shut(self, partition: int, incarnation: int, *, forget_clock: bool = False) -> Fence | None:
        """Close the gate that is open under `incarnation`; return the fence to append, None if not needed.

        Returns the same fence until one is folded; appending it twice is harmless. With `forget_clock` the
        partition's clock may go back to the server's when the gate opens.
        """
        n, *bound = await self._call("votes_shut", partition, incarnation, int(forget_clock))
        return Fence(int(n), int(bound[0]), bound[1].decode()) if bound else None

    async def apply_items(self, partition: int, start: Position, items: Sequence[Item], end: int) -> int:
        """Fold records, see `generations.apply`; return how many of them one call folded at most."""
        rest, width = items, max(1, len(items))
        while True:
            piece = rest[:width]
            till = end if len(rest) <= width else piece[-1][OFFSET] + 1
            args = self._base(partition), start, till, pack(piece), self.generation
            reached = await apply(self._valkey, "votes", *args)
            if reached >= end:
                return width
            folded = sum(item[OFFSET] < reached for item in piece)
            if reached < till:  # the rest costs about as much
                width = folded
            rest, start = rest[folded:], Position(start.log_id, reached)


def _slices(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while piece := list(islice(rest, size)):
        yield piece
