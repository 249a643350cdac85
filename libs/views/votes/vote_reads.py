"""Reads of the ledger, counts and gate of every votes partition, stored in Valkey (`votes/*.lua`)."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from libs.contracts.log_records import Position
from libs.contracts.topics import VotesLog, votes_log
from libs.contracts.vote_states import FoldProgress, VoteName, VoteState
from libs.tally.errors import ViewsUnavailable
from libs.tally.reservations import Stale
from libs.tally.sources import FoldedReport
from libs.tally.voter_ledger import VoteStatus
from libs.views.generations.generations import Generations
from libs.views.generations.key_scan import generation_keys
from libs.views.valkey.client import Valkey
from libs.views.valkey.function_libraries import pack, read_function, unpack
from libs.views.valkey.hash_tags import base_in
from libs.views.valkey.partition_reads import Group, PartitionReads
from libs.views.valkey.watched_reads import LEAST_HOLD_S, ChangedPartitions, WatchedReads
from libs.views.votes.closing_reads import CLOSING_PARTITIONS, read_closings
from libs.views.votes.counts_replies import (
    AFTER,
    LAST,
    LINEAGE,
    NO_COUNTS,
    ROWS,
    UPTO,
    contest_counts,
    folded_report,
    follow_each_other,
    joined,
)
from libs.views.votes.reply_types import (
    ClosingState,
    ContestCounts,
    Doubt,
    PartitionState,
    SourceSize,
    UsedVotes,
    VoterAllowance,
)
from libs.views.votes.serialization import SOURCES, digest, limited, raw, text, vote_terms

CHANGES_PAGE = 250
"""Numbered changes of participants and external figures read by one call: some 0.3 ms."""
CHANGED_PARTITIONS = 64
"""Partitions asked by one call if their counts have changed: less than 1 ms of Valkey's time."""
ATTEMPTS = 3
"""Attempts to read counts whose view is swapped during the read."""
ALLOWANCE_ROWS, ALLOWANCE_NEXT, ALLOWANCE_STANDING = 3, 7, 8
"""Indexes in a reply of an allowance: used votes, beginning of the next page, hash of all that it depends on."""
FOLDED = 2
"""State of a vote in a reply of `votes_lookup`."""
GATE_SHUT = -1
"""Reply of a partition's doubts."""
NOTHING_KNOWN = -2, 0
"""Offset of the latest known change, and swaps, if the caller has no counts."""


class VoteReads:
    """Client of the functions in `votes/*.lua` that only read. All methods raise `ViewsUnavailable`.

    With a `generation`, `position`, `state` and `counts` use that one; all others use the live one.
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
        self.generations = Generations(valkey, namespace, "votes", self._log)
        self.named = "" if generation is None else generation

    def _base(self, partition: int) -> str:
        base = self._bases.get(partition)
        if base is None:
            base = self._bases[partition] = base_in(self._log, self._namespace, "votes", partition)
        return base

    async def read(self, function: str, partition: int, *args: Any) -> Any:
        """Call a read-only function, which Valkey users without write permission may do."""
        return await read_function(self._valkey, function, self._base(partition), *args)

    async def position(self, partition: int) -> Position | None:
        state = await self.state(partition)
        return state.position if state.position.log_id else None

    async def contests(self) -> dict[int, set[str]]:
        """Return the contests with data in each partition, by a SCAN over all keys of the server."""
        found: dict[tuple[int, int], set[str]] = {}
        async for key in generation_keys(self._valkey, self._namespace, "votes", self._log):
            _, colon, contest = key.name.partition(":")
            if colon:
                found.setdefault((key.partition, key.generation), set()).add(contest)
        return {
            partition: found.get(
                (partition, self.generation or (await self.generations.read(partition)).live.number), set()
            )
            for partition in {partition for partition, _ in found}
        }

    async def state(self, partition: int) -> PartitionState:
        r = unpack(await self.read("votes_state", partition, self.named))
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
            partition: pack([contest, held.changed, held.swaps, self.named])
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
        args = contest, *since, self.named, after, lineage, CHANGES_PAGE
        return list(unpack(await self.read("votes_counts", partition, *args)))

    async def source(self, partition: int, contest: str, source: str, ids: Collection[str]) -> SourceSize:
        """Return the size of an external source, and how many of `ids` (distinct) are new to it."""
        named, parts = sorted(ids), list[SourceSize]()
        for at in range(0, len(named) or 1, CHANGES_PAGE):
            args = contest, source, *named[at : at + CHANGES_PAGE]
            parts.append(SourceSize(*unpack(await self.read("votes_source", partition, *args))))
        return parts[-1]._replace(unknown=sum(part.unknown for part in parts))

    async def ids(self, partition: int) -> dict[VoteStatus, int]:
        """Return the number of folded vote ids of all contests by status, read page by page."""
        pages, contest = list[Sequence[int]](), b""
        while not pages or contest:
            contest, sums = unpack(await self.read("votes_ids", partition, contest))
            pages.append(sums)
        return {status: sum(sums[status] for sums in pages) for status in VoteStatus}

    async def lookup(self, partition: int, contest: str, voter: str, vote_id: str) -> VoteState:
        _, [state] = await self.lookups(partition, [VoteName(contest, voter, vote_id)])
        return state

    async def lookups(self, partition: int, votes: Sequence[VoteName]) -> tuple[FoldProgress, Sequence[VoteState]]:
        """Return the state of each of `votes`, all at the same progress."""
        packed = pack([(vote.contest, raw(vote.voter), digest(vote.vote_id)) for vote in votes])
        log, offset, is_open, incarnation, *rows = unpack(await self.read("votes_lookup", partition, packed))
        progress = FoldProgress(Position(log.decode(), offset), is_open == 1, incarnation)
        return progress, [vote_state(progress, row) for row in rows]

    async def has(self, partition: int, contest: str, voter: str, vote: bytes) -> bool:
        """Return whether a vote is folded, by the digest of its id."""
        *_, row = unpack(await self.read("votes_lookup", partition, pack([(contest, raw(voter), vote)])))
        return bool(row[0] == FOLDED)

    async def votes_of(
        self, partition: int, contest: str, voter: str, after: bytes, most: int
    ) -> tuple[FoldProgress, list[tuple[bytes, VoteState]]]:
        """Return up to `most` of a voter's folded votes, newest first, with the digests of their ids.

        They come after the vote with the digest `after`, empty for the first ones.
        """
        args = contest, raw(voter), after, most
        log, offset, is_open, incarnation, *rows = unpack(await self.read("votes_of_voter", partition, *args))
        progress = FoldProgress(Position(log.decode(), offset), is_open == 1, incarnation)
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
        return list(unpack(await self.read("votes_allowance", partition, *args)))

    async def report(self, partition: int, contest: str, source: str, report_id: str) -> FoldedReport | None:
        """Return a report of an external source; None until it is folded."""
        packed = await self.read("votes_report", partition, contest, source, report_id)
        return None if packed is None else folded_report(unpack(packed))

    async def closings(self, partitions: Iterable[int], contest: str) -> Mapping[int, ClosingState]:
        """Return the state of a contest's closing in each partition (`read_closings`)."""
        groups = self.live.divided(partitions, CLOSING_PARTITIONS)
        found = await asyncio.gather(*(read_closings(self.live, group, contest) for group in groups))
        return {partition: state for states in found for partition, state in states.items()}


def _doubt(reply: int) -> Doubt:
    return Doubt(reply != GATE_SHUT, reply < 0, max(reply, 0) or None)


def _doubt_holds_s(doubt: Doubt) -> float | None:
    if doubt.is_sure:
        return 0.0
    return None if doubt.oldest_pending is None else LEAST_HOLD_S


def vote_state(progress: FoldProgress, row: Sequence[Any]) -> VoteState:
    """Decode a row of `votes_lookup`."""
    if row[0] != FOLDED:
        return VoteState(progress, pending=row[0] == 1)
    status, at, offset, source, content, left_p, left_c, next_at, chosen, waits = row[1:]
    return VoteState(
        progress,
        status=VoteStatus(status),
        terms=vote_terms(at, left_p, left_c, next_at, chosen),
        offset=offset,
        source=SOURCES[source],
        content=text(content),
        removal_waits=waits == 1,
    )
