"""The threat model names existing files and tests."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "deploy" / "security" / "threat-model.md"
NAMED: Final = sorted(set(re.findall(r"`((?:\w+|\.ci)/[\w./-]+(?:::\w+)?)`", PAGE.read_text())))


def test_what_the_threat_model_names_is_there() -> None:
    assert len(NAMED) > 50
    missing = []
    for named in NAMED:
        path, _, test = named.partition("::")
        found = (ROOT / path).exists() and (
            not test or re.search(rf"^(async )?def {test}\(", (ROOT / path).read_text(), re.MULTILINE)
        )
        missing += [] if found else [named]
    assert missing == []


def test_each_attack_that_is_stopped_names_a_test() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert len(rows) > 50
    for attack, stopped, shown in rows:
        assert stopped.strip()
        assert attack.strip() in ("attack", "mistake") or "::" in shown or "(none: " in shown, attack
