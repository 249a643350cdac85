"""Previews and executes an operation that voids or restores votes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from libs.audit.recount import Ballots, VoidEvent
from libs.audit.void_effects import effect
from libs.deployment.deployment import Deployment
from libs.tally.errors import TallyError
from libs.tally.time_conversion import timestamp
from services.cli.commands.void.recorder import append, read_back
from services.cli.commands.void.render import VoidResult
from services.cli.operator_actions import record_action


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; `void` is its name, `again` the command that resumes it after an interruption."""

    void: str
    verb: str
    again: str
    ballots: Ballots
    events: Sequence[tuple[int, VoidEvent]]

    async def run(self, deployment: Deployment, *, execute: bool) -> VoidResult:
        """Return the effect, or execute the operation and return the views' counts.

        Raises as `append` and `read_back`.
        """
        ballots = self.ballots
        before = ballots.record()
        for event in self.events:
            ballots.fold(*event)
        after = ballots.record()
        if execute and self.events:
            recorded = await self._execute(deployment)
            after = after if ballots.is_over else recorded
        config, found = ballots.config.contest, effect(ballots, before, after, self.events)
        return VoidResult(
            void=self.void,
            verb=self.verb,
            contest_key=ballots.contest.key,
            title="" if config is None else config.document.get("title") or "",
            executed=execute,
            waits_for_reopening=ballots.is_over,
            votes=found.votes,
            voters=found.voters,
            contest=found.total,
            participants=found.rows,
            at=timestamp(ballots.at),
            position=ballots.positions,
        )

    async def _execute(self, deployment: Deployment) -> dict[str, Any]:
        contest, votes = self.ballots.contest.key, len(self.events)
        await record_action(deployment, f"votes {self.verb}", contest=contest, void=self.void, votes=votes)
        try:
            await append(deployment, self.events)
        except TallyError as error:
            error.message = f"{error.message.rstrip('.')}. Part of it may be recorded: resume with `{self.again}`."
            raise
        return await read_back(deployment, self.ballots, {partition for partition, _ in self.events})
