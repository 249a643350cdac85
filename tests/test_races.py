"""Every test that `.ci/run` may repeat is there, with a date and an issue."""

import re
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"(?P<file>tests/\S+\.py)::(?P<test>\w+) (?P<day>\d{4}-\d\d-\d\d) issue \d+")


ALLOWANCE = re.compile(r"unnamed [0-3] \d{4}-\d\d-\d\d issue \d+")


def test_a_known_race_names_its_test_its_date_and_its_issue() -> None:
    rows = [line for line in (ROOT / ".ci/races").read_text().splitlines() if not line.startswith("#")]
    assert ALLOWANCE.fullmatch(rows[0]), rows[0]
    for row in rows[1:]:
        found = ROW.fullmatch(row)
        assert found, row
        date.fromisoformat(found["day"])
        source = (ROOT / found["file"]).read_text()
        assert re.search(rf"^(async )?def {found['test']}\(", source, re.MULTILINE), row
