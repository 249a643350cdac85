"""Every package that is imported is declared, so that an installation does not depend on what others bring."""

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
PEERS: Final = ROOT / "tests" / "benchmarks" / "peers"
"""Programs that run in environments of their own."""
IMPORT: Final = re.compile(
    r"^[ \t]*(?:from ([a-z_]\w*)[\w.]* import |import ([a-z_]\w*)[\w.]*(?: as \w+)?$)", re.MULTILINE
)
OF_CHART: Final[Mapping[str, list[str]]] = {"helm_python": ["helm-python-sdk"]}
"""Modules of the group `chart` by their packages: where it is not installed, nothing else says whose they are."""
STORY: Final = "tests/e2e/generated_clients/story.py"
"""Imports a client that its test generates."""
BUILD_HOOK: Final = "services/dashboard/build_hook.py"
"""Imports what a build requires."""


def declared(project: dict[str, Any], *groups: str) -> set[str]:
    """Return the names of the packages that the project, its extras and `groups` require."""
    lists = [project["project"]["dependencies"], *project["project"]["optional-dependencies"].values()]
    lists += [project["dependency-groups"][group] for group in groups]
    return {normal(re.split(r"[\[<>=]", each)[0]) for requirements in lists for each in requirements}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def undeclared(files: Iterable[Path], packages: set[str]) -> dict[str, set[str]]:
    """Return what each file imports of others than the standard library, this project and `packages`."""
    brought = {**OF_CHART, **packages_distributions()}
    known = {*sys.stdlib_module_names, "libs", "services", "tests"}
    known |= {module for module, names in brought.items() if packages & {normal(name) for name in names}}
    found = {
        str(file.relative_to(ROOT)): {one or other for one, other in IMPORT.findall(file.read_text())} - known
        for file in files
    }
    return {file: modules for file, modules in found.items() if modules}


def test_every_imported_package_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shipped = [file for folder in ("libs", "services") for file in (ROOT / folder).rglob("*.py")]
    assert undeclared(shipped, declared(project)) == {BUILD_HOOK: {"hatchling"}}
    tests = (file for file in (ROOT / "tests").rglob("*.py") if PEERS not in file.parents)
    assert undeclared(tests, declared(project, "dev", "chart")) == {STORY: {"openapi_client"}}


def test_what_others_bring_is_found() -> None:
    file = ROOT / "libs" / "web" / "errors.py"
    assert undeclared([file], declared({"project": {"dependencies": [], "optional-dependencies": {}}}))
