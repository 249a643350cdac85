"""One partition of real views under a test's control: log, gate, clock, and short calls for reservations."""

from typing import Any

from libs.contracts.codec import Undecodable
from libs.contracts.log_records import Position
from libs.tally.contest import Contest
from libs.tally.events import Event, Fence, LogCreated, VoteCast, VoteRemoved
from libs.tally.reservations import Answer, Granted, RemovalAnswer, Stale, cast_of
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.tally.voter_ledger import VoteStatus
from libs.views.votes.reply_types import ContestCounts
from libs.voting.protocol.removal import event_of
from tests.libs.views.lua_ledger import request_of
from tests.support.builders.contests import a_contest, pseudonym
from tests.support.clients.vote_views import FoldInput, VoteViews


def removal_event(command: CastVote | RemoveVote, granted: Any) -> VoteRemoved:
    """Return the record of a granted removal."""
    return event_of(command, granted, None, None)


class Partition:
    """Partition `number` of `views`."""

    def __init__(self, views: VoteViews, number: int = 0) -> None:
        self.views = views
        self.number = number
        self.end = 0

    async def fold(self, *events: Event | Undecodable) -> None:
        items = [FoldInput(event, at, 1_000 + at) for at, event in enumerate(events, self.end)]
        await self.views.apply(self.number, Position("log", self.end), items, self.end + len(events))
        self.end += len(events)

    async def incarnation(self) -> int:
        return (await self.views.state(self.number)).incarnation

    async def shut(self) -> Fence:
        """Shut the gate; the fence that opens it again."""
        fence = await self.views.shut(self.number, await self.incarnation())
        assert fence is not None
        return fence

    async def fence(self) -> int:
        """End all doubt, as the projector does; the new incarnation."""
        fence = await self.shut()
        await self.fold(*([] if self.end else [LogCreated("log")]), fence)
        return fence.incarnation

    async def reserve(self, command: CastVote, contest: Contest | None = None, declined: bool = False) -> Answer:
        """As it is answered once the contest's configuration is in force."""
        request = request_of(contest or a_contest(), command, declined=declined)
        [answer] = await self.views.reserve(self.number, [request])
        if isinstance(answer, Stale) and answer.in_force is None:
            await self.views.put_in_force(self.number, request.contest, answer.incarnation)
            [answer] = await self.views.reserve(self.number, [request])
        return answer

    async def grant(self, command: CastVote, contest: Contest | None = None) -> Granted:
        answer = await self.reserve(command, contest)
        assert isinstance(answer, Granted), answer
        return answer

    async def record(self, command: CastVote, granted: Granted) -> VoteCast:
        """Fold the vote's record."""
        cast = cast_of(command, granted, "receipt")
        await self.fold(cast)
        return cast

    async def cast(self, command: CastVote, contest: Contest | None = None) -> Granted:
        """Reserve and fold."""
        granted = await self.grant(command, contest)
        await self.record(command, granted)
        return granted

    async def ask_removal(self, command: RemoveVote | CastVote, contest: Contest | None = None) -> RemovalAnswer:
        """Of a vote by its voter, or with its purchase (a `CastVote`)."""
        if isinstance(command, CastVote):
            return await self.views.refund(self.number, command)
        contest = contest or a_contest()
        declined = not contest.is_vote_removal_allowed
        return await self.views.remove(self.number, contest, command.voter, command.vote_id, declined)

    async def remove(self, command: RemoveVote | CastVote, contest: Contest | None = None) -> None:
        """Reserve and fold."""
        granted = await self.ask_removal(command, contest)
        await self.fold(removal_event(command, granted))

    async def status(self, vote_id: str = "vote", voter: str = "voter") -> VoteStatus | None:
        return (await self.views.lookup(self.number, "contest", pseudonym(voter), vote_id)).status

    async def counts(self, known: ContestCounts | None = None) -> ContestCounts:
        counts = await self.views.counts(self.number, "contest", known)
        assert counts is not None
        return counts

    async def set_clock(self, now: int) -> None:
        """The next moment is `now` (us), which must be ahead of the real time: the clock never goes back."""
        await self.views._valkey.call("HSET", f"{self.views._base(self.number)}:gate", "clock", now - 1)
