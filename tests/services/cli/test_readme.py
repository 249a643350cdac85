"""The table of commands in README.md lists exactly the existing commands."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from services.cli.__main__ import app

README = Path(__file__).parents[3] / "README.md"
ROW = re.compile(r"^\| (`.*?) \| ", re.MULTILINE)


def listed() -> Iterator[str]:
    text = README.read_text()
    section = text[text.index("## Commands") : text.index("## Deployment")]
    for cell in ROW.findall(section.partition("|---|")[2]):
        for quoted in re.findall(r"`([^`]+)`", cell):
            command, _, inner = re.sub(r" \[.*\]", "", quoted).partition(" ")
            yield from (f"{command} {name}" for name in inner.split(r"\|")) if inner else [command]


def commands(group: Any, prefix: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


def test_the_readme_lists_every_command_and_no_other() -> None:
    assert sorted(listed()) == sorted(commands(typer.main.get_command(app)))
