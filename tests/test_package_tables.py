"""The tables of packages in `libs/README.md` and `services/README.md` list the packages, in layers."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def listed(folder: str) -> list[str]:
    """Return the packages in the first table of a folder's README."""
    text = (ROOT / folder / "README.md").read_text()
    table = text[text.index("|---|") :].partition("\n\n")[0]
    return ROW.findall(table)


def packages(folder: str) -> set[str]:
    return {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}


def layers() -> list[set[str]]:
    """Return the packages of `libs` by layer, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [rows] = [contract["layers"] for contract in contracts if contract.get("containers") == ["libs"]]
    return [set(row.split(" | ")) for row in rows]


def test_every_package_has_one_row() -> None:
    for folder in ("libs", "services"):
        assert sorted(listed(folder)) == sorted(packages(folder))


def test_libraries_are_listed_in_the_order_of_their_layers() -> None:
    layer_of = {package: index for index, layer in enumerate(layers()) for package in layer}
    found = [layer_of[package] for package in listed("libs")]
    assert found == sorted(found)
