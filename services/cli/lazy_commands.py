"""Commands whose modules are imported when they are used: importing all of them takes seconds."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.main import get_group


class LazyCommands(Mapping[str, Any]):
    """Commands by name, of a table of their places (`module:attribute`) by heading and name."""

    def __init__(self, package: str, places: Mapping[str, Mapping[str, str]]) -> None:
        self._package = package
        self._places = {name: (heading, place) for heading, own in places.items() for name, place in own.items()}
        self._imported: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._imported:
            self._imported[name] = self._import(name, *self._places[name])
        return self._imported[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _import(self, name: str, heading: str, place: str) -> Any:
        module, _, attribute = place.partition(":")
        found = getattr(import_module(f"{self._package}.{module}"), attribute)
        holder = typer.Typer()
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=name, rich_help_panel=heading)
        else:
            holder.command(name, rich_help_panel=heading)(found)
        return get_group(holder).commands[name]
