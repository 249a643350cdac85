"""The commands of README.md and of the guides, run as a reader would paste them."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from string import Template
from typing import Any

import pytest
from typer.testing import Result

from libs.client import Client
from libs.local_stack.servers import Servers
from libs.local_stack.supervisor import Supervisor
from services.cli.__main__ import PLACES, import_command
from tests.support.clients.commands import run as tally
from tests.support.clients.voting import Api
from tests.support.eventually import eventually
from tests.support.programs import CURL, Programs
from tests.support.servers.own_stack import open_own_stack

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "deploy" / "guides"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRELUDE = """
set -eo pipefail
tally() { "$PYTHON" -m services.cli "$@"; }
curl() { command curl --fail "$@"; }
"""
RECEIPT = """RECEIPT=$(echo "$VOTED" | sed 's/.*"receipt":"\\([^"]*\\)".*/\\1/')"""
DELETION = (
    'curl -s -X DELETE "$TALLY_URL/contests/$CONTEST" -H "Authorization: Bearer $TALLY_API_KEY"; echo "$CONTEST"'
)
NAMES = 'echo "CONTEST=$CONTEST"; echo "SINGER=$SINGER"; echo "RECEIPT=$RECEIPT"'
INLINE = re.compile(r"`(tally [^`]+)`")
HEADINGS = [
    "For the operator", "Daily", "Before a show", "During", "Closing", "Sealing", "A dispute", "A lost server",
    "More partitions", "Upgrade",
]  # fmt: skip
NOT_RUN = {
    "tally up": "runs already: the test's own stack",
    "tally --help": "the test below reads the help of all commands",
    "tally status --watch": "runs until it is interrupted; tests/services/cli/test_status.py runs it",
    "tally keys revoke KEY_ID": "would end a key in use; tests/services/cli/test_keys.py runs it",
    "tally reopen CONTEST --end TIME": "would undo the closing; tests/e2e/test_closing.py runs it",
    "tally unseal": "would undo the sealing; tests/e2e/test_sealing.py runs it",
}
"""Commands in the text of the operator's guide that the test of it does not run, with the reason."""
MOMENTARY = ("tally status", "tally doctor")
"""Commands that tell of a moment: on a busy machine, also of one in which a part is slow to answer."""


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


FIRST_VOTE = blocks(ROOT / "README.md")
VOTED = FIRST_VOTE[1].replace("post ", "VOTED=$(post ", 1).rstrip() + ")"


@pytest.fixture
def curl(programs: Programs) -> None:
    """The scripts call it."""
    programs.path(CURL)


async def run(
    stack: Supervisor, script: str, directory: Path, known: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a script as in a second terminal, after the lines that `tally up` prints."""
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "TALLY_URL": stack.stack["base_url"],
        "TALLY_API_KEY": stack.stack["api_key"],
        "TALLY_DATA_DIR": str(stack.data_dir.absolute()),
        "BACKUP": str(directory),
        **(known or {}),
    }
    bash = shutil.which("bash") or "/bin/bash"
    process = await asyncio.create_subprocess_exec(
        bash, "-c", PRELUDE + script, env=environment, cwd=directory, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


@pytest.mark.usefixtures("curl")
async def test_the_first_vote_of_the_readme_counts_and_the_second_after_the_change(
    stack: Supervisor, tmp_path: Path
) -> None:
    code, output = await run(stack, "\n".join(FIRST_VOTE), tmp_path)
    assert code == 0, output
    assert '"count":' in output, "the view may be a moment behind; the next command reads the log"
    assert "2 votes of 1 voter" in output
    again = "\n".join([*FIRST_VOTE[:2], FIRST_VOTE[1]]).replace("curl -s", "command curl -s")
    assert "participant_limit_reached" in (await run(stack, again, tmp_path))[1]


@pytest.mark.usefixtures("curl")
async def test_the_developer_s_commands_work_as_pasted(stack: Supervisor, tmp_path: Path) -> None:
    script = "\n".join(["set -u", FIRST_VOTE[0], VOTED, "set -x", *blocks(GUIDES / "developer.md")])
    code, output = await run(stack, script, tmp_path)
    assert code == 0, output[-4_000:]


@pytest.mark.usefixtures("curl")
@pytest.mark.slow
async def test_the_producer_s_commands_lead_from_the_first_vote_to_a_certificate(
    stack: Supervisor, tmp_path: Path
) -> None:
    known = await first_vote(stack, tmp_path)
    for block in blocks(GUIDES / "producer.md"):
        for part in steps(block):
            await step(stack, part, known, tmp_path)


def for_this_stack(code: str, replaced: Mapping[str, str]) -> str:
    """Return an example with the client of this repository, and with the values of a test in place of its own."""
    for shown, value in {"from tallykeeper import": "from libs.client import", **replaced}.items():
        assert shown in code
        code = code.replace(shown, value)
    return code


async def test_the_developer_s_python_casts_a_vote_once_and_tells_a_refusal(api: Api, stack: Supervisor) -> None:
    contest = await api.contest(1)
    [code] = PYTHON.findall((GUIDES / "developer.md").read_text())
    example: dict[str, Any] = {}
    exec(for_this_stack(code, {}), example)

    def story() -> None:
        with Client(stack.stack["base_url"], stack.stack["api_key"]) as client:
            act = contest.participants[0]
            told = [
                example["cast"](client, contest.key, order, act, voter, "192.0.2.1")
                for order, voter in (("a", "anna"), ("a", "anna"), ("b", "anna"), ("c", "ben"))
            ]
            assert [text.startswith("Thank you.") for text in told] == [True, True, False, True]
            assert "limit of 1" in told[2]
            with pytest.raises(ValueError, match="no participant nobody"):
                example["cast"](client, contest.key, "d", "nobody", "anna", "192.0.2.1")
        with Client("http://127.0.0.1:1", patience_s=0) as away:
            assert "on its way" in example["cast"](away, contest.key, "e", act, "anna", "192.0.2.1")
            assert [vote.vote_id for vote in away.store.all()] == ["e"]

    await asyncio.to_thread(story)


async def test_the_first_lines_of_the_clients_readme_vote(
    api: Api, stack: Supervisor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contest = await api.contest(1)
    code = PYTHON.findall((ROOT / "libs" / "client" / "README.md").read_text())[0]
    known = {"https://api.example": stack.stack["base_url"], "tk_your_key": stack.stack["api_key"]}
    own = {
        '"contest"': f'"{contest.key}"',
        '"anna"': f'"{contest.participants[0]}"',
        "votes.db": f"{tmp_path}/votes",
    }
    for told in ("Thank you.", "Thank you."):
        await asyncio.to_thread(exec, for_this_stack(code, known | own), {})
        assert told in capsys.readouterr().out


@pytest.fixture
async def own_stack(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Supervisor]:
    """A service of which the operator's commands show nothing but what this test did."""
    async with open_own_stack(servers, tmp_path_factory.mktemp("guide")) as supervisor:
        yield supervisor


@pytest.mark.usefixtures("curl")
@pytest.mark.slow
async def test_the_operator_s_guide_leads_from_the_daily_look_through_a_show_to_an_upgrade(
    own_stack: Supervisor, tmp_path: Path
) -> None:
    text = (GUIDES / "operator.md").read_text()
    titles, sections = HEADINGS, re.split(r"^#+ .*$", text, flags=re.MULTILINE)[1:]
    assert re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE) == titles
    pasted = {line for block in BLOCK.findall(text) for line in block.splitlines()}
    assert set(INLINE.findall(text)) - pasted == NOT_RUN.keys()
    known = await first_vote(own_stack, tmp_path)
    code, deleted = await run(own_stack, "\n".join([FIRST_VOTE[0], DELETION]), tmp_path)
    assert code == 0, deleted
    known |= {"DELETED": deleted.split()[-1], "BACKUP": str(tmp_path), "NEW": own_stack.stack["namespace"] + "new"}
    shown = {}
    for title, section in zip(titles, sections, strict=True):
        for block in BLOCK.findall(section):
            shown[title] = "".join([await step(own_stack, part, known, tmp_path) for part in steps(block)])
    assert list(shown) == titles[1:]
    assert "All is well" in shown["Daily"]
    assert "The views equal the log." in shown["Before a show"]
    assert "Ada" in shown["During"]
    assert "tally-final: final" in shown["Closing"].lower()
    assert "Run again with --execute" in shown["Sealing"]
    assert "Restored." in shown["A dispute"]
    assert "the vote is in the sealed set and counted" in shown["A dispute"]
    assert f"started with TALLY_NAMESPACE={known['NEW']} serve it" in shown["A lost server"]
    assert "There is nothing to rebuild." in shown["Upgrade"]


async def first_vote(stack: Supervisor, directory: Path) -> dict[str, str]:
    """Cast the vote of the README; return the shell's variables by then."""
    code, output = await run(stack, "\n".join([FIRST_VOTE[0], VOTED, RECEIPT, NAMES]), directory)
    assert code == 0, output
    return dict(line.split("=", 1) for line in output.splitlines())


def steps(block: str) -> list[str]:
    """Return the commands of `tally` one by one, and the lines between them together."""
    return [part.strip() for part in re.split(r"^(tally .*)$", block, flags=re.MULTILINE) if part.strip()]


async def step(stack: Supervisor, part: str, known: dict[str, str], directory: Path) -> str:
    """Run a part of a block, with the shell's variables `known`; `tally` runs in this process, which is faster."""
    if not part.startswith("tally "):
        code, output = await run(stack, part, directory, known)
        assert code == 0, (part, output)
        return output
    line, _, file = part.partition(" > ")
    _, *words = [Template(word).substitute(known) for word in shlex.split(line)]
    done = await succeeds(part, words, {"TALLY_DATA_DIR": str(stack.data_dir.absolute())})
    if file:
        [name] = shlex.split(file)
        await asyncio.to_thread(Path(Template(name).substitute(known)).write_text, done.stdout)
    return done.stdout


async def succeeds(line: str, words: list[str], environment: Mapping[str, str | None]) -> Result:
    """Run the words of a line as a command of `tally`; again until it succeeds, if it tells of a moment."""

    async def once() -> Result:
        done = await tally(*words, env=environment)
        assert done.exit_code == 0, (line, done.output)
        return done

    return await (eventually(once) if line in MOMENTARY else once())


@pytest.mark.parametrize("page", sorted(GUIDES.glob("*.md")), ids=lambda page: page.stem)
def test_every_command_of_a_guide_exists_with_its_options(page: Path) -> None:
    lines = [line for block in blocks(page) for line in block.splitlines() if line.startswith("tally ")]
    assert lines or page.stem in ("limits", "proxies")
    for line in lines:
        words = shlex.split(line.partition(" > ")[0].partition(" || ")[0])[1:]
        if words == ["--version"]:
            continue
        assert words[0] in PLACES, line
        at: Any = import_command(words.pop(0))
        while words and words[0] in getattr(at, "commands", {}):
            at = at.commands[words.pop(0)]
        at = at.commands["run"] if "run" in getattr(at, "commands", {}) else at
        known = {option for parameter in at.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line
