"""Commands at 80 and 120 columns, as recorded and read by eye; TALLY_UPDATE_DOCUMENTS=1 records them again."""

import os
import re
from pathlib import Path

import pytest

from libs.local_stack.supervisor import Supervisor
from tests.support.clients.commands import run, tally
from tests.support.clients.stack_keys import client_with
from tests.support.clients.voting import Api, running
from tests.support.eventually import eventually

SCREENS = Path(__file__).parent / "screens"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
KEY = re.compile(r"\b[0-9a-f]{24}\b")
TITLE = (
    "The Grand Final of the Thirty-Second Annual Festival of Songs, Live from the Concert Hall on the Square, "
    "with Twelve Acts"
)


@pytest.mark.parametrize("columns", [80, 120])
async def test_what_a_terminal_shows_is_whole(stack: Supervisor, columns: int) -> None:
    account = f"screens{columns}"
    async with await client_with(stack, account) as client:
        api = Api(client)
        long = await api.contest(body=running() | {"title": TITLE})
        deleted = await api.contest()
        closed = await api.contest(participants=3)
        votes = [
            await deleted.vote(),
            *[await closed.vote(0, voter) for voter in ("ann", "bob")],
            await closed.vote(1),
        ]
        await closed.counts_with(*votes[1:])
        await deleted.counts_with(votes[0])
        assert (await client.delete(deleted.path)).status_code == 204
        await closed.end(final=False)
        reopening = "reopen", closed.key, "--end", "2036-01-01T00:00:00Z"

        async def is_closed() -> bool:
            return (await tally(stack, *reopening)).exit_code == 0

        await eventually(is_closed)
        await client.patch(f"/participants/{closed.participants[0]}", json={"status": "rejected"})
    commands = {
        "contests": ("contests", "--account", account),
        "contests deleted": ("contests", "deleted", "--account", account),
        "reopen": reopening,
    }
    terminal = {"TTY_COMPATIBLE": "1", "TERM": "dumb", "COLUMNS": str(columns), "LINES": "50", "NO_COLOR": "1"}
    shown = ""
    for name, words in commands.items():
        done = await run(*words, "--data-dir", stack.data_dir, env=terminal)
        assert done.exit_code == 0, done.output
        text = KEY.sub("k" * 24, TIME.sub("2026-01-01T00:00:00.000000Z", done.stdout))
        shown += f"$ tally {name}\n" + "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    assert long.key not in shown
    recorded = SCREENS / f"{columns}.txt"
    if os.environ.get("TALLY_UPDATE_DOCUMENTS"):
        recorded.write_text(shown)
    assert recorded.read_text() == shown
