"""Operators at the command line: replays, growths, voids that are undone, secrets and keys that are replaced.

A command may fail while servers are away; what it then leaves behind must do no harm.
"""

import asyncio
import json
import math
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from services.cli.output import ExitCode
from tests.campaign.clients import MOST, Crowd, open_poll
from tests.campaign.oracle import LIMITS
from tests.support.clients.voting import hours_from_now, running
from tests.support.eventually import eventually

COMMANDER: Final = -3
PROJECTIONS: Final = "votes", "votes", "votes", "catalogue", "purchases"
SECRETS: Final = "receipts", "receipts", "positions", "sessions", "uploads", "links"
GROWTHS: Final = 2, 3, 2
"""Partitions of the topics that are created meanwhile; there are no more."""
GROWTH_EVERY_S: Final = 240.0
ROOT: Final = Path(__file__).parents[2]
LONGEST_ANSWER_S: Final = 25.0
"""A request with a former key is answered or given up by then."""
AGAIN_S: Final = 1.0


@dataclass
class Commands:
    crowd: Crowd
    data_dir: Path
    rng: Random
    done: Counter[str] = field(default_factory=Counter)
    """Commands by name and outcome."""
    key_id: str = ""
    _grown: int = 0
    _grows_at: float = 0.0

    async def work(self) -> None:
        replace_key = partial(self.replace_key, self.crowd.client.headers["authorization"])
        acts = self.replay, self.replay, self.void, replace_key, self.rotate, self.grow
        while not self.crowd.stop.is_set():
            await asyncio.sleep(self.rng.uniform(5, 15))
            await self.rng.choice(acts)()

    async def rotate(self) -> None:
        await self.tally("secrets", "rotate", self.rng.choice(SECRETS), "--execute")

    async def replay(self) -> None:
        """Rebuild views beside the live ones, swap them in, and at times return to the former ones."""
        projection = self.rng.choice(PROJECTIONS)
        _, is_done = await self.tally("replay", "run", "--projection", projection, "--execute")
        if is_done and self.rng.random() < 0.5:
            await self.tally("replay", "rollback", "--projection", projection, "--execute")
        elif is_done:
            await self.tally("replay", "drop", "--projection", projection, "--execute")

    async def grow(self) -> None:
        """Create another topic of the votes, and a contest in it; after a failure the next call completes it."""
        if self._grown == len(GROWTHS) or time.monotonic() < self._grows_at:
            return
        partitions = str(GROWTHS[self._grown])
        _, is_done = await self.tally("topics", "grow", "--partitions", partitions, "--execute")
        if is_done:
            self._grown, self._grows_at = self._grown + 1, time.monotonic() + GROWTH_EVERY_S
            body = running(free={"max_participant": MOST, "max_contest": MOST}, end=hours_from_now(24))
            poll = await open_poll(self.crowd.client, f"later {self._grown}", MOST, LIMITS, body, math.inf)
            self.crowd.later.append(poll)
            self.crowd.oracle.polls.append(poll)

    async def void(self) -> None:
        """Take the votes for a participant out of the count; `undo_all` restores them."""
        contest = self.crowd.polls["plain"].contest
        participant = self.rng.choice(contest.participants)
        await self.tally("void", "run", contest.key, "--participant", participant, "--execute")
        await self.undo_all()

    async def undo_all(self) -> bool:
        """Undo each operation, also those that seem to be undone; returns whether all are."""
        contest = self.crowd.polls["plain"].contest.key
        listed, is_done = await self.tally("void", "list", contest)
        for operation in listed["voids"] if is_done else ():
            _, is_undone = await self.tally("void", "undo", contest, operation["void"], "--execute")
            is_done = is_done and is_undone
        return is_done

    async def replace_key(self, first: str) -> None:
        """Create another key, use it from now on, and revoke the one before; the first key does it."""
        client, headers = self.crowd.client, {"Authorization": first}
        body = {"name": "campaign", "permissions": PERMISSIONS, "rate": 0}
        answer = await self.crowd.demand(COMMANDER, "POST", "/keys", status=201, json=body, headers=headers)
        if answer.status_code != 201:
            return
        former, self.key_id = self.key_id, answer.json()["key_id"]
        client.headers["authorization"] = f"Bearer {answer.json()['api_key']}"
        if former:
            await asyncio.sleep(LONGEST_ANSWER_S)
            await self.crowd.insist(COMMANDER, lambda: client.delete(f"/keys/{former}", headers=headers))
        self.done["key"] += 1

    async def finish(self) -> None:
        """Undo what was voided, and drop what replays left."""
        await eventually(self.undo_all)
        for projection in sorted({*PROJECTIONS}):
            await self.tally("replay", "drop", "--projection", projection, "--execute")

    async def check(self) -> None:
        """The views equal the log, and nothing is wrong."""
        await self.must("verify")
        for command in ("status", "doctor"):
            await self.must(command, heals=True)

    async def seal(self, contest: str) -> None:
        """A closed contest's certificate matches the log."""
        await self.must("seal", contest, "--execute")
        certificate = self.data_dir / "certificate.json"
        certificate.write_text(json.dumps(await self.must("certificate", "show", contest)))
        await self.must("certificate", "verify", str(certificate))

    async def must(self, *command: str, heals: bool = False) -> Any:
        """Run a command that nothing prevents: an exit code other than 0 is untrue.

        It runs again while servers do not answer it in time, and one that `heals` until it finds nothing wrong.
        """
        printed: Any = ""
        exit_code = -1

        async def is_final() -> bool:
            nonlocal printed, exit_code
            printed, exit_code = await self.run(*command)
            return exit_code == 0 or not (heals or exit_code == ExitCode.SERVER_AWAY)

        with suppress(AssertionError):  # it is not final: then it is untrue
            await eventually(is_final, every_s=AGAIN_S)
        if exit_code:
            self.crowd.oracle.untrue(f"tally {' '.join(command)} fails: {str(printed)[-2000:]}")
        return printed

    async def tally(self, *command: str) -> tuple[Any, bool]:
        """Run a command; returns its JSON and whether it succeeded; else what it printed."""
        printed, exit_code = await self.run(*command)
        return printed, exit_code == 0

    async def run(self, *command: str) -> tuple[Any, int]:
        """Run a command; returns its JSON, or else what it printed, and its exit code."""
        where = () if command[:2] == ("certificate", "check") else ("--data-dir", str(self.data_dir))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.cli", *command, "--json", *where),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        output, errors = await process.communicate()
        exit_code = process.returncode or 0
        name = " ".join(word for word in command[:2] if word.isalpha())
        self.done[f"{name} (ended with {exit_code})" if exit_code else name] += 1
        if exit_code == 0:
            return json.loads(output), 0
        printed = (output + errors).decode().strip()
        print(f"tally {' '.join(command)}: {printed[-200:]}", flush=True)
        return printed, exit_code


PERMISSIONS: Final = [
    *("content:read", "content:write", "votes:write", "results:read", "results:read_hidden"),
    *("purchases:read", "purchases:write", "sources:write", "show:control", "operations"),
]
