"""Commands whose modules are imported when they are used: importing all of them takes seconds.

Lists of commands, in the help and for completion by shells, need only their names and descriptions, which are read
from the modules' text.
"""

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_group


class LazyCommands(Mapping[str, Any]):
    """Commands by name, of a table of their places (`module:attribute`) by heading and name."""

    def __init__(self, package: str, places: Mapping[str, Mapping[str, str]]) -> None:
        self._package = package
        self._places = {name: (heading, place) for heading, own in places.items() for name, place in own.items()}
        self._imported: dict[str, Any] = {}
        self._lists = False

    def __getitem__(self, name: str) -> Any:
        heading, place = self._places[name]
        if self._lists and name not in self._imported:
            return TyperCommand(name, help=self.description(name), rich_help_panel=heading)
        if name not in self._imported:
            self._imported[name] = self._import(name, heading, place)
        return self._imported[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    @contextmanager
    def listing(self) -> Iterator[None]:
        """Give commands that have a name and a description, and cannot be called, without importing them."""
        self._lists = True
        try:
            yield
        finally:
            self._lists = False

    def description(self, name: str) -> str:
        """Return the docstring of a command's function, or the argument of its `command_group`."""
        module, _, attribute = self._places[name][1].partition(":")
        path = Path(import_module(self._package).__path__[0]).joinpath(*module.split("."))
        source = path.with_suffix(".py")
        source = source if source.exists() else path / "__init__.py"
        for node in ast.parse(source.read_text()).body:
            match node:
                case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) if found == attribute:
                    return " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
                case ast.Assign([ast.Name(id=found)], ast.Call(args=[ast.Constant(str(text)), *_])) if (
                    found == attribute
                ):
                    return text
        raise AttributeError(f"{source} has no description of {attribute}")

    def _import(self, name: str, heading: str, place: str) -> Any:
        module, _, attribute = place.partition(":")
        found = getattr(import_module(f"{self._package}.{module}"), attribute)
        holder = typer.Typer()
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=name, rich_help_panel=heading)
        else:
            holder.command(name, rich_help_panel=heading)(found)
        return get_group(holder).commands[name]
