"""Exit codes of all commands: 2 for bad usage, 3 while a server is away."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from services.cli.__main__ import COMMANDS as HEADINGS
from services.cli.__main__ import app
from services.cli.output import ExitCode
from tests.support.clients.commands import command_tree

ROOT = Path(__file__).parents[3]

AT_ONCE = {"keys create", "topics create"}
"""Commands that change the deployment without --execute, since they only add to it."""
READ = {
    *("ask between", "ask patterns", "ask recount", "ask voter"),
    *("certificate check", "certificate prove", "certificate show", "certificate verifier", "certificate verify"),
    *("config show", "contests deleted", "contests list", "count", "dashboard", "doctor", "export", "keys list"),
    *("log", "lost list", "lost votes"),
    *("purchases reconcile", "purchases refunds", "quarantine list", "quarantine show", "replay plan"),
    *("secrets list", "sources list"),
    *("status", "topics check", "verify", "void list"),
}
WITHOUT_SERVERS = {
    *("certificate check", "certificate verifier", "certificate verify", "config show", "demo", "doctor"),
    *("serve", "up", "voting-page"),
}
"""Commands that need no running servers, start them, or first read a file."""
REQUIRED = {
    "ask between": "contest 2030-01-01T00:00:00Z 2031-01-01T00:00:00Z",
    "ask patterns": "contest",
    "ask recount": "contest --set free.max_contest=1",
    "ask voter": "--account a --voter me",
    "certificate prove": "contest receipt",
    "certificate show": "contest",
    "contests restore": "contest",
    "count": "contest",
    "erase-contest-secret": "contest",
    "export": "--to {new}",
    "import": "--from {directory}",
    "keys create": "--account a --permission operations",
    "keys revoke": "key",
    "log": "contest",
    "purchases import": "{file} --execute",
    "quarantine drop": "votes 0 0",
    "quarantine show": "votes 0 0",
    "reopen": "contest --end 2030-01-01T00:00:00Z",
    "seal": "contest",
    "secrets retire": "sessions",
    "secrets rotate": "sessions",
    "sources list": "contest",
    "sources release": "contest source",
    "topics grow": "--partitions 1",
    "unseal": "contest",
    "void run": "contest --all",
    "void undo": "contest void",
    "wipe": "--environment test",
}
"""Arguments that a command requires."""


def leaves(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command that is no group, with its full name."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for word, each in command.commands.items():
        yield from leaves(each, f"{name} {word}".strip())


COMMANDS = dict(leaves(command_tree()))


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_is_bad_usage(name: str) -> None:
    assert CliRunner().invoke(app, [*name.split(), "--no-such-option"]).exit_code == ExitCode.BAD_USAGE


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - WITHOUT_SERVERS))
def test_without_servers_a_server_is_away(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("KAFKA_BOOTSTRAP_SERVERS", "VALKEY_URL", "DATA_DIR"):
        monkeypatch.delenv(f"TALLY_{variable}", raising=False)
    file, new, directory = tmp_path / "file", tmp_path / "new", tmp_path / "directory"
    file.touch()
    directory.mkdir()
    arguments = REQUIRED.get(name, "").format(file=file, new=new, directory=directory).split()
    ended = CliRunner().invoke(app, [*name.split(), *arguments, "--data-dir", str(tmp_path / "none")])
    assert ended.exit_code == ExitCode.SERVER_AWAY, ended.output
    assert "tally up" in ended.stderr
    assert "Traceback" not in ended.output


def test_commands_that_change_something_without_execute_say_so() -> None:
    at_once = {name for name, command in COMMANDS.items() if not takes(command, "--execute")}
    assert at_once - READ - {"demo", "serve", "up", "voting-page"} == AT_ONCE
    everywhere = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout
    guide = (ROOT / "deploy/guides/operator.md").read_text()
    for name in (*AT_ONCE, "keys revoke --now"):
        assert f"`{name}`" in everywhere
        assert f"`{name}`" in guide
    assert all("at once" in COMMANDS[name].help for name in AT_ONCE)


def takes(command: Any, option: str) -> bool:
    return any(option in parameter.opts for parameter in command.params)


def test_contests_have_one_place_in_all_commands() -> None:
    """A contest is an argument, the first one, and no option."""
    for name, command in COMMANDS.items():
        places = [parameter for parameter in command.params if parameter.name == "contest"]
        assert all(one.param_type_name == "argument" for one in places), name
        arguments = [one.name for one in command.params if one.param_type_name == "argument"]
        assert not places or arguments[0] == "contest", name


def test_the_version_is_printed() -> None:
    printed = CliRunner().invoke(app, ["--version"])
    assert (printed.exit_code, printed.stdout) == (0, f"tally {version('tallykeeper')}\n")


def test_help_lists_commands_in_groups_with_lines_as_wide_as_the_terminal() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"TERM": "dumb", "COLUMNS": "100"}).stdout
    assert all(heading in shown for heading in HEADINGS)
    wide = CliRunner().invoke(app, ["import", "--help"], env={"TERM": "dumb", "COLUMNS": "200"}).stdout
    assert "before the import ends; then the projector processes the logs as usual." in wide
