"""The commands of README.md and of the guides, run as a reader would paste them."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from libs.local_stack.supervisor import Supervisor
from services.cli.__main__ import app

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "deploy" / "guides"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRELUDE = """
set -eo pipefail
tally() { "$PYTHON" -m services.cli "$@"; }
uv() { shift; "$@"; }
curl() { command curl --fail "$@"; }
"""


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


FIRST_VOTE = blocks(ROOT / "README.md")


async def run(stack: Supervisor, script: str, directory: Path) -> tuple[int, str]:
    """Run a script as in a second terminal, after the lines that `tally up` prints."""
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "TALLY_URL": stack.stack["base_url"],
        "TALLY_API_KEY": stack.stack["api_key"],
        "TALLY_DATA_DIR": str(stack.data_dir.absolute()),
        "BACKUP": str(directory),
    }
    bash = shutil.which("bash") or "/bin/bash"
    process = await asyncio.create_subprocess_exec(
        bash, "-c", PRELUDE + script, env=environment, cwd=directory, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_the_first_vote_of_the_readme_counts_and_the_second_after_the_change(
    stack: Supervisor, tmp_path: Path
) -> None:
    code, output = await run(stack, "\n".join(FIRST_VOTE), tmp_path)
    assert code == 0, output
    assert '"count":2' in output
    again = "\n".join([*FIRST_VOTE[:2], FIRST_VOTE[1]]).replace("curl -s", "command curl -s")
    assert "participant_limit_reached" in (await run(stack, again, tmp_path))[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["developer", "producer"])
async def test_the_commands_of_a_guide_work_as_pasted(name: str, stack: Supervisor, tmp_path: Path) -> None:
    voted = FIRST_VOTE[1].replace("post ", "VOTED=$(post ", 1).rstrip() + ")"
    receipt = """RECEIPT=$(echo "$VOTED" | sed 's/.*"receipt":"\\([^"]*\\)".*/\\1/')"""
    script = "\n".join(["set -u", FIRST_VOTE[0], voted, receipt, "set -x", *blocks(GUIDES / f"{name}.md")])
    code, output = await run(stack, script, tmp_path)
    assert code == 0, output[-4_000:]


@pytest.mark.parametrize("page", sorted(GUIDES.glob("*.md")), ids=lambda page: page.stem)
def test_every_command_of_a_guide_exists_with_its_options(page: Path) -> None:
    lines = [line for block in blocks(page) for line in block.splitlines() if line.startswith("tally ")]
    assert lines
    for line in lines:
        words = shlex.split(line.partition(" > ")[0].partition(" || ")[0])[1:]
        at: Any = typer.main.get_command(app)
        while words and hasattr(at, "commands"):
            if words[0] not in at.commands:
                break
            at = at.commands[words.pop(0)]
        at = at.commands["run"] if "run" in getattr(at, "commands", {}) else at
        known = {option for parameter in at.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


def test_every_guide_is_one_page_long() -> None:
    assert {page.stem for page in GUIDES.glob("*.md")} == {"developer", "producer", "operator"}
    assert all(len(page.read_text().splitlines()) <= 140 for page in GUIDES.glob("*.md"))
