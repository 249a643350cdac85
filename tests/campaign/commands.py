"""Operators at the command line during everything else: replays, voids that are undone, keys that are replaced.

A command may fail while servers are away; what it then leaves behind must do no harm.
"""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.campaign.clients import Crowd
from tests.support.eventually import eventually

COMMANDER: Final = -3
ROOT: Final = Path(__file__).parents[2]
LONGEST_ANSWER_S: Final = 25.0
"""A request with a former key is answered or given up by then."""


@dataclass
class Commands:
    crowd: Crowd
    data_dir: Path
    rng: Random
    done: Counter[str] = field(default_factory=Counter)
    """Commands by name and outcome."""
    key_id: str = ""

    async def work(self) -> None:
        first = self.crowd.client.headers["authorization"]
        while not self.crowd.stop.is_set():
            await asyncio.sleep(self.rng.uniform(5, 15))
            act = self.rng.choice(("replay", "replay", "void", "key"))
            if act == "replay":
                await self.replay()
            elif act == "void":
                await self.void()
            else:
                await self.replace_key(first)

    async def replay(self) -> None:
        """Rebuild the views beside the live ones, swap them in, and at times return to the former ones."""
        _, is_done = await self.tally("replay", "run", "--projection", "votes", "--execute")
        if is_done and self.rng.random() < 0.5:
            await self.tally("replay", "rollback", "--projection", "votes", "--execute")
        elif is_done:
            await self.tally("replay", "drop", "--projection", "votes", "--execute")

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
        answer = await self.crowd.insist(COMMANDER, lambda: client.post("/keys", json=body, headers=headers))
        if answer.status_code != 201:
            self.crowd.oracle.untrue(f"creating a key is answered {answer.status_code} {answer.text}")
            return
        former, self.key_id = self.key_id, answer.json()["key_id"]
        client.headers["authorization"] = f"Bearer {answer.json()['api_key']}"
        if former:
            await asyncio.sleep(LONGEST_ANSWER_S)
            revoke = f"/keys/{former}"
            await self.crowd.insist(COMMANDER, lambda: client.delete(revoke, headers=headers))
        self.done["key"] += 1

    async def finish(self) -> None:
        """Undo what was voided, and drop what replays left."""
        await eventually(self.undo_all)
        await self.tally("replay", "drop", "--projection", "votes", "--execute")

    async def check(self, contest: str) -> None:
        """The views equal the log, nothing is wrong, and a closed contest's certificate matches the log."""
        for command in (["verify"], ["status"], ["doctor"], ["seal", contest, "--execute"]):
            await self.must(*command)
        certificate = self.data_dir / "certificate.json"
        certificate.write_text(json.dumps(await self.must("certificate", "show", contest)))
        await self.must("certificate", "verify", str(certificate))

    async def must(self, *command: str) -> Any:
        """Run a command that nothing prevents: an exit code other than 0 is untrue."""
        printed, is_done = await self.tally(*command)
        if not is_done:
            self.crowd.oracle.untrue(f"tally {' '.join(command)} fails: {str(printed)[-2000:]}")
        return printed

    async def tally(self, *command: str) -> tuple[Any, bool]:
        """Run a command; returns its JSON and whether it succeeded; else what it printed."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.cli", *command, "--json", "--data-dir", str(self.data_dir)),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        output, errors = await process.communicate()
        is_done = process.returncode == 0
        name = " ".join(word for word in command[:2] if word.isalpha())
        self.done[name if is_done else f"{name} (ended with {process.returncode})"] += 1
        if is_done:
            return json.loads(output), True
        printed = (output + errors).decode().strip()
        print(f"tally {' '.join(command)}: {printed[-200:]}", flush=True)
        return printed, False


PERMISSIONS: Final = [
    *("content:read", "content:write", "votes:write", "results:read", "results:read_hidden"),
    *("purchases:read", "purchases:write", "sources:write", "operations"),
]
