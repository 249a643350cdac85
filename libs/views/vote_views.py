"""The ledger, counts and gate of every votes partition, stored in Valkey (`lua/votes`)."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from hiredis import ReplyError

from libs.contracts.log_records import Position
from libs.contracts.topics import catalogue_topic
from libs.contracts.vote_states import Progress, VoteName, VoteState
from libs.contracts.votes_log import VotesLog, votes_log
from libs.tally.contest import Contest
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import Fence
from libs.tally.reservations import Answer, RemovalAnswer, Request, Stale
from libs.tally.voter_ledger import VoteStatus
from libs.views.address_counters import Take, counter_key
from libs.views.client import Valkey
from libs.views.closing_reads import CLOSING_PARTITIONS, read_closings
from libs.views.connection import part_error
from libs.views.counts_replies import (
    AFTER,
    LAST,
    LINEAGE,
    NO_COUNTS,
    ROWS,
    UPTO,
    contest_counts,
    follow_each_other,
    joined,
)
from libs.views.fold_items import OFFSET, Item, fold_item
from libs.views.function_libraries import call_function, call_together, call_with_keys, read_function
from libs.views.generations import apply
from libs.views.hash_tags import base_in
from libs.views.limited_requests import LimitedAnswer, LimitedRequest, answer_to, counters_of, item_of
from libs.views.partition_reads import Group, PartitionReads, raised
from libs.views.reply_types import (
    ClosingState,
    ContestCounts,
    Doubt,
    FoldInput,
    PartitionState,
    Refund,
    ReportState,
    SourceSize,
    UsedVotes,
    VoterAllowance,
)
from libs.views.serialization import (
    SOURCES,
    digest,
    limited,
    pack,
    raw,
    removal_answer,
    span,
    text,
    unpack,
)
from libs.views.watched_reads import LEAST_HOLD_S, ChangedPartitions, WatchedReads

T = TypeVar("T")

APPLY_ITEMS = 128
"""Records folded by one call: 2 ms at most, so that reservations never wait longer for the fold."""
APPLY_BYTES = 96 * 1024
"""Maximum size of these records: more than so many votes need; it bounds long reports and ballots."""

CHANGES_PAGE = 250
"""Numbered changes of participants and external figures read by one call: some 0.3 ms."""
CHANGED_PARTITIONS = 64
"""Partitions asked by one call if their counts have changed: less than 1 ms of Valkey's time."""
RAISES = 256
"""Configuration versions raised by one call, of all partitions: less than 1 ms of Valkey's time."""
ATTEMPTS = 3
"""Attempts to read counts whose view is swapped during the read."""
ALLOWANCE_ROWS, ALLOWANCE_NEXT, ALLOWANCE_STANDING = 3, 7, 8
"""Indexes in a reply of an allowance: used votes, beginning of the next page, hash of all that it depends on."""
GATE_SHUT = -1
"""Reply of a partition's doubts."""
NOTHING_KNOWN = -2, 0
"""Offset of the latest known change, and swaps, if the caller has no counts."""


class VoteViews:
    """Client of the functions in `lua/votes`, one method per function. All raise `ViewsUnavailable`.

    With a `generation`, `apply`, `position`, `state` and `counts` use that one; all others use the live one.
    """

    def __init__(
        self, valkey: Valkey, namespace: str, partitions: int | VotesLog, *, generation: int | None = None
    ) -> None:
        self._valkey = valkey
        self._namespace = namespace
        self._log = votes_log(namespace, partitions)
        self._bases: dict[int, str] = {}
        self.generation = generation
        self.live = PartitionReads(valkey, "votes", self._base)
        self._named = "" if generation is None else generation

    def _base(self, partition: int) -> str:
        base = self._bases.get(partition)
        if base is None:
            base = self._bases[partition] = base_in(self._log, self._namespace, "votes", partition)
        return base

    async def _call(self, function: str, partition: int, *args: Any) -> Any:
        return await call_function(self._valkey, function, self._base(partition), *args)

    async def _read(self, function: str, partition: int, *args: Any) -> Any:
        """Call a read-only function, which Valkey users without write permission may do."""
        return await read_function(self._valkey, function, self._base(partition), *args)

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

    async def reserve(self, partition: int, requests: Sequence[Request]) -> list[Answer]:
        """Decide `requests` in order, each after the previous ones."""
        answers = raised((await self.reserve_together([(partition, requests)]))[0])
        return [each for each in answers if not isinstance(each, LimitedAnswer)]

    async def reserve_together(
        self, requests: Sequence[tuple[int, Sequence[Request | LimitedRequest]]]
    ) -> list[list[Answer | LimitedAnswer] | ViewsUnavailable]:
        """Decide requests of several partitions of one group; return each partition's answers, or its error.

        A `LimitedRequest` has a `LimitedAnswer`; there is none in a cluster, where counters lie anywhere.
        """
        packed = [
            (partition, pack([item_of(self._namespace, each) for each in its])) for partition, its in requests
        ]
        counters = [key for _, its in requests for key in counters_of(self._namespace, its)]
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

    async def refund(
        self, partition: int, contest: str, voter: str, vote_id: str, refund: Refund
    ) -> RemovalAnswer:
        """Reserve the removal of a refunded vote at any time; an id that was never cast is used up."""
        vote = refund.anonymous, raw(refund.content), SOURCES.index(refund.source)
        return await self._remove(partition, contest, voter, vote_id, 0, 0, 0, 0, False, vote)

    async def _remove(self, partition: int, contest: str, voter: str, vote_id: str, *judged: Any) -> RemovalAnswer:
        packed = pack([contest, raw(voter), digest(vote_id), *judged])
        return removal_answer(unpack(await self._call("votes_remove", partition, packed)))

    async def release_removal(
        self, partition: int, contest: str, voter: str, vote_id: str, incarnation: int
    ) -> None:
        """Release an attempt of a removal that the log definitely rejected."""
        name = b"R" + digest(vote_id)
        await self._call("votes_release", partition, contest, raw(voter), name, incarnation)

    async def release(
        self, partition: int, contest: str, voter: str, vote_id: str, incarnation: int, take: Take | None = None
    ) -> None:
        """Release an attempt of a reservation that the log definitely rejected.

        If no other attempt is left, the use of an address's limit is given back that it `take`s as a
        `LimitedRequest`.
        """
        attempt = contest, raw(voter), digest(vote_id), incarnation
        if take is None:
            await self._call("votes_release", partition, *attempt)
        else:
            keys = self._base(partition), counter_key(self._namespace, take.counter)
            await call_with_keys(self._valkey, "votes_release", keys, *attempt, digest(take.taker))

    async def confirm(self, partition: int, incarnation: int) -> bool:
        """Return whether the gate is still open under `incarnation`: only then acknowledged votes count."""
        return raised((await self.confirm_together([(partition, incarnation)]))[0])

    async def confirm_together(self, gates: Sequence[tuple[int, int]]) -> list[bool | ViewsUnavailable]:
        """Confirm of several partitions of one group as `confirm` does; return each one's answer or error."""
        replies = await self._together("votes_confirm", gates)
        return [reply if isinstance(reply, ViewsUnavailable) else bool(reply) for reply in replies]

    async def raise_config(self, partition: int, contest: str, version: int) -> None:
        """Raise the configuration version of one contest in one partition, as `raise_together` does."""
        raised((await self.raise_together([partition], {contest: version}))[0])

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

    async def open_retired(self, partition: int, end: Position) -> bool:
        """Open the gate of a partition whose log has ended at `end`; False if its view is not there yet."""
        return bool(await self._call("votes_open_retired", partition, end.log_id, end.offset))

    async def position(self, partition: int) -> Position | None:
        state = await self.state(partition)
        return state.position if state.position.log_id else None

    async def apply(self, partition: int, start: Position, items: Sequence[FoldInput], end: int) -> None:
        """Fold events, see `generations.apply`."""
        await self.apply_items(partition, start, [fold_item(*item) for item in items], end)

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

    async def state(self, partition: int) -> PartitionState:
        r = unpack(await self._read("votes_state", partition, self._named))
        position, (n, now, fence, pending, oldest) = Position(r[0].decode(), r[1]), r[3:8]
        rest = *r[8:13], r[13] == 1
        return PartitionState(position, r[2] == 1, n, now, fence, pending, oldest or None, *rest)

    async def doubts(self, group: Group) -> Mapping[int, Doubt | ViewsUnavailable]:
        """Return signs of doubt about the group's partitions, by one call."""
        replies = await self.live.read("doubts", group)
        return {
            partition: reply if isinstance(reply, ViewsUnavailable) else _doubt(reply)
            for partition, reply in replies.items()
        }

    def watch_doubts(self) -> WatchedReads[Doubt]:
        """Watch for signs of doubt; reservations are noticed within about a second."""
        return WatchedReads(self.live, "doubts", "gates", _doubt, _doubt_holds_s, lambda doubt: doubt.is_sure)

    def watch_counts(self) -> ChangedPartitions:
        """Watch for partitions whose live views change."""
        return ChangedPartitions(self.live, "views")

    async def counts(
        self, partition: int, contest: str, known: ContestCounts | None = None
    ) -> ContestCounts | None:
        """Return the contest's counts; None if nothing changed since those `known`.

        Reads in short calls what changed since `known`, including changes during the read: so the result is
        consistent at the position of the last call. Raises `ViewsUnavailable` also if the views are swapped during
        the read.
        """
        since, after, lineage = NOTHING_KNOWN, 0, ""
        if known is not None:
            since, after, lineage = (known.changed, known.swaps), known.numbered, known.lineage
        for _ in range(ATTEMPTS):
            pages = [await self._counts(partition, contest, since, after, lineage)]
            if pages[0][ROWS] == 0:
                return None
            while pages[-1][UPTO] < pages[-1][LAST] and follow_each_other(pages):
                place = pages[-1][UPTO], pages[0][LINEAGE]
                pages.append(await self._counts(partition, contest, NOTHING_KNOWN, *place))
            if follow_each_other(pages):
                read = joined(pages, pages[-1])
                return contest_counts(read, known if known is not None and pages[0][AFTER] > 0 else NO_COUNTS)
        raise ViewsUnavailable("The counts were replaced while they were read; retry shortly.", retry_after_s=1)

    async def changed(self, contest: str, known: Mapping[int, ContestCounts | None]) -> list[int]:
        """Return the partitions whose counts may differ from those `known`, by few short calls for each server."""
        packed = {
            partition: pack([contest, held.changed, held.swaps, self._named])
            for partition, held in known.items()
            if held is not None
        }
        groups = self.live.divided(packed, CHANGED_PARTITIONS)
        found = await asyncio.gather(*(self.live.read("changed", group, packed) for group in groups))
        same = {partition for replies in found for partition, reply in replies.items() if reply == 0}
        return [partition for partition in known if partition not in same]

    async def _counts(
        self, partition: int, contest: str, since: tuple[int, int], after: int, lineage: str | bytes
    ) -> list[Any]:
        args = contest, *since, self._named, after, lineage, CHANGES_PAGE
        return list(unpack(await self._read("votes_counts", partition, *args)))

    async def source(self, partition: int, contest: str, source: str, ids: Collection[str]) -> SourceSize:
        """Return the size of an external source, and how many of `ids` (distinct) are new to it."""
        named, parts = list(ids), list[SourceSize]()
        for at in range(0, len(named) or 1, CHANGES_PAGE):
            args = contest, source, *named[at : at + CHANGES_PAGE]
            parts.append(SourceSize(*unpack(await self._read("votes_source", partition, *args))))
        return parts[-1]._replace(unknown=sum(part.unknown for part in parts))

    async def ids(self, partition: int) -> dict[VoteStatus, int]:
        """Return the number of folded vote ids of all contests by status, read page by page."""
        pages, contest = list[Sequence[int]](), b""
        while not pages or contest:
            contest, sums = unpack(await self._read("votes_ids", partition, contest))
            pages.append(sums)
        return {status: sum(sums[status] for sums in pages) for status in VoteStatus}

    async def lookup(self, partition: int, contest: str, voter: str, vote_id: str) -> VoteState:
        _, [state] = await self.lookups(partition, [VoteName(contest, voter, vote_id)])
        return state

    async def lookups(self, partition: int, votes: Sequence[VoteName]) -> tuple[Progress, Sequence[VoteState]]:
        """Return the state of each of `votes`, all at the same progress."""
        packed = pack([(vote.contest, raw(vote.voter), digest(vote.vote_id)) for vote in votes])
        log, offset, is_open, incarnation, *rows = unpack(await self._read("votes_lookup", partition, packed))
        progress = Progress(Position(log.decode(), offset), is_open == 1, incarnation)
        return progress, [vote_state(progress, row) for row in rows]

    async def votes_of(
        self, partition: int, contest: str, voter: str, after: bytes, most: int
    ) -> tuple[Progress, list[tuple[bytes, VoteState]]]:
        """Return up to `most` of a voter's folded votes, newest first, with the digests of their ids.

        They come after the vote with the digest `after`, empty for the first ones.
        """
        args = contest, raw(voter), after, most
        log, offset, is_open, incarnation, *rows = unpack(await self._read("votes_of_voter", partition, *args))
        progress = Progress(Position(log.decode(), offset), is_open == 1, incarnation)
        pairs = zip(rows[::2], rows[1::2], strict=True)
        return progress, [(name, vote_state(progress, row)) for name, row in pairs]

    async def allowance(self, partition: int, contest: str, voter: str) -> VoterAllowance:
        """Return what a voter has used, of many participants read in short calls between which nothing changed.

        Raises `ViewsUnavailable` also if the voter keeps voting during the read.
        """
        for _ in range(ATTEMPTS):
            pages = [await self._allowance(partition, contest, voter, 0)]
            while pages[-1][ALLOWANCE_NEXT] >= 0:
                pages.append(await self._allowance(partition, contest, voter, pages[-1][ALLOWANCE_NEXT]))
            if len({page[ALLOWANCE_STANDING] for page in pages}) > 1:
                continue
            now, epoch, latest, _, in_force, incarnation, is_open, *_ = pages[0]
            used = [
                UsedVotes(name.decode(), SOURCES[source], its, votes)
                for page in pages
                for name, source, its, votes in page[ALLOWANCE_ROWS]
            ]
            config = Stale(limited(in_force), incarnation)
            return VoterAllowance(now, epoch, latest or None, used, config, is_open == 1)
        raise ViewsUnavailable("The votes changed while they were read; retry shortly.", retry_after_s=1)

    async def _allowance(self, partition: int, contest: str, voter: str, share: int) -> list[Any]:
        args = contest, raw(voter), share
        return list(unpack(await self._read("votes_allowance", partition, *args)))

    async def report(self, partition: int, contest: str, source: str, report_id: str) -> ReportState:
        log, offset, *r = unpack(await self._read("votes_report", partition, contest, source, report_id))
        position = Position(log.decode(), offset)
        if not r:
            return ReportState(position)
        content, where, late, held = r
        return ReportState(position, text(content), where, late == 1, tuple([name.decode() for name in held]))

    async def closing(self, partition: int, contest: str) -> ClosingState:
        """Return the state of a contest's closing in a partition, as `closings` does."""
        return (await read_closings(self.live, (partition,), contest))[partition]

    async def closings(self, partitions: Iterable[int], contest: str) -> Mapping[int, ClosingState]:
        """Return the state of a contest's closing in each partition (`read_closings`)."""
        groups = self.live.divided(partitions, CLOSING_PARTITIONS)
        found = await asyncio.gather(*(read_closings(self.live, group, contest) for group in groups))
        return {partition: state for states in found for partition, state in states.items()}


def _slices(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while piece := list(islice(rest, size)):
        yield piece


def _doubt(reply: int) -> Doubt:
    return Doubt(reply != GATE_SHUT, reply < 0, max(reply, 0) or None)


def _doubt_holds_s(doubt: Doubt) -> float | None:
    if doubt.is_sure:
        return 0.0
    return None if doubt.oldest_pending is None else LEAST_HOLD_S


def vote_state(progress: Progress, row: Sequence[Any]) -> VoteState:
    """Decode a row of `votes_lookup`."""
    if row[0] != 2:
        return VoteState(progress, True, None, row[1]) if row[0] == 1 else VoteState(progress)
    status, at, offset, source, content, left_p, left_c, next_at, chosen, waits = row[1:]
    names = [name.decode() for name in chosen[::2]]
    return VoteState(
        progress,
        status=VoteStatus(status),
        accepted_at=at,
        offset=offset,
        choices=tuple(zip(names, chosen[1::2], strict=True)),
        source=SOURCES[source],
        content=text(content),
        remaining_participant=limited(left_p),
        remaining_contest=limited(left_c),
        next_free_vote_at=next_at or None,
        removal_waits=waits == 1,
    )
