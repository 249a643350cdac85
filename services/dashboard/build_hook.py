"""Adds uPlot to the wheel: the package that brings it to a build needs IPython and numpy where it is installed."""

from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER: Final = "tallykeeper_charts"
"""The folder beside the packages; `services/dashboard/pages.py` serves it."""
FILES: Final = ("uPlot.iife.js", "uPlot.min.css")


class ChartsBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include uPlot's files, whose first lines name its author and licence."""
        found = {Path(file).name: str(file.locate()) for file in distribution("uplot-python").files or ()}
        included = {found[name]: f"{FOLDER}/{name}" for name in FILES}
        build_data["force_include_editable" if version == "editable" else "force_include"].update(included)
