"""Previews and executes an operation that voids or restores votes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from libs.audit.ballots import Ballots, VoidEvent
from libs.audit.void_effects import effect
from libs.deployment.deployment import Deployment
from libs.tally.errors import TallyError
from services.cli.commands.void.recorder import append, read_back
from services.cli.commands.void.render import as_json, show
from services.cli.operator import record_action
from services.cli.progress import ProgressBar
from services.cli.runner import print_json


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; `void` is its name, `again` the command that resumes it after an interruption."""

    void: str
    verb: str
    again: str
    ballots: Ballots
    events: Sequence[tuple[int, VoidEvent]]

    async def run(self, stack: Deployment, *, execute: bool, in_json: bool) -> None:
        """Show the effect, or execute the operation and show the views' counts.

        Raises as `append` and `read_back`.
        """
        before = self.ballots.record()
        for event in self.events:
            self.ballots.fold(*event)
        after = self.ballots.record()
        if execute and self.events:
            recorded = await self._execute(stack, in_json)
            after = after if self.ballots.is_over else recorded
        found = effect(self.ballots, before, after, self.events)
        if in_json:
            print_json(as_json(self.void, self.ballots, found, executed=execute))
        else:
            show(self.void, self.verb, self.ballots, found, executed=execute)

    async def _execute(self, stack: Deployment, in_json: bool) -> dict[str, Any]:
        contest, votes = self.ballots.contest.key, len(self.events)
        await record_action(stack, f"votes {self.verb}", contest=contest, void=self.void, votes=votes)
        try:
            with ProgressBar("Recording", enabled=not in_json) as progress:
                await append(stack, self.events, progress)
        except TallyError as error:
            error.message = f"{error.message.rstrip('.')}. Part of it may be recorded: resume with `{self.again}`."
            raise
        return await read_back(stack, self.ballots, {partition for partition, _ in self.events})
