"""One partition of real views in a test's hands: its log, its gate, and reservations in few words."""

from __future__ import annotations

from typing import Any

from libs.contracts.log import Position
from libs.tally.admission import Answer, Granted, Stale, cast_of
from libs.tally.commands import CastVote
from libs.tally.contest import Contest
from libs.tally.events import Event, LogCreated, VoteCast
from libs.views.states import FoldInput
from libs.views.votes import VoteViews
from tests.libs.views.simulation.lua import request_of
from tests.support.builders import a_contest

LOG = Position("log", 0)


class Partition:
    """Partition 0 of `views`."""

    def __init__(self, views: VoteViews) -> None:
        self.views = views
        self.end = 0

    async def fold(self, *events: Event) -> None:
        items = [FoldInput(event, at, 1_000 + at) for at, event in enumerate(events, self.end)]
        await self.views.apply(0, Position("log", self.end), items, self.end + len(events))
        self.end += len(events)

    async def fence(self) -> int:
        """End all doubt, as the projector does; the new incarnation."""
        fence = await self.views.shut(0, (await self.views.state(0)).incarnation)
        assert fence is not None
        await self.fold(*([] if self.end else [LogCreated("log")]), fence)
        return fence.incarnation

    async def reserve(self, command: CastVote, contest: Contest | None = None, declined: bool = False) -> Answer:
        """As it is answered once the contest's configuration is in force."""
        request = request_of(contest or a_contest(), command, declined=declined)
        [answer] = await self.views.reserve(0, [request])
        if isinstance(answer, Stale) and answer.in_force is None:
            await self.views.raise_config(0, request.contest.key, request.contest.version, answer.incarnation)
            [answer] = await self.views.reserve(0, [request])
        return answer

    async def grant(self, command: CastVote, contest: Contest | None = None) -> Granted:
        answer = await self.reserve(command, contest)
        assert isinstance(answer, Granted), answer
        return answer

    async def record(self, command: CastVote, granted: Granted, **changes: Any) -> VoteCast:
        """Fold the vote's record."""
        cast = cast_of(command, granted, "receipt")
        await self.fold(cast)
        return cast
