"""Documents rendered from the results: the benchmarks' pages, the capacity page, the figures in README.md."""

from pathlib import Path

from tests.benchmarks import capacity_page, readme, summary
from tests.benchmarks.figures import NotMeasured
from tests.benchmarks.machine import ROOT
from tests.benchmarks.results import HERE, Results

CAPACITY = ROOT / "deploy" / "CAPACITY.md"
PROJECT = ROOT / "README.md"


def render(results: Results, folder: Path = HERE) -> dict[Path, str]:
    """Return the text of each document.

    Those outside the benchmarks' folder belong to the kept results only, and need all their figures.
    """
    found = {folder / "README.md": readme.render(results)}
    if folder == HERE:
        try:
            found[CAPACITY] = capacity_page.render(results)
            found[PROJECT] = summary.inserted(PROJECT.read_text(), results)
        except NotMeasured as missing:
            print(f"{CAPACITY.name} and {PROJECT.name} are as before: {missing}.")
    return found
