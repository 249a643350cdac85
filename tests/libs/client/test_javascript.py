"""The client for browsers and node: its own tests, and its types."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from libs.client import JAVASCRIPT
from tests.support.programs import NODE, NPM, Programs, must_be_complete, not_to_be_had

pytestmark = pytest.mark.pure
TESTS: Final = Path(__file__).with_name("tallykeeper.test.js")
TYPESCRIPT: Final = "typescript@5.9.3"
STRICT: Final = (
    "--strict", "--noUncheckedIndexedAccess", "--checkJs", "--allowJs", "--noEmit", "--target", "es2022",
    "--module", "es2022", "--lib", "es2022,dom,dom.iterable",
)  # fmt: skip
TIMEOUT_S: Final = 300


def test_it_does_what_its_tests_say(programs: Programs) -> None:
    run(programs.path(NODE), "--test", str(TESTS))


@pytest.mark.skipif(not must_be_complete(), reason="Needs TypeScript: with TALLY_TESTS_COMPLETE=1, as in .ci/run.")
def test_its_types_are_strict(programs: Programs, tmp_path: Path) -> None:
    npm, node = programs.path(NPM), programs.path(NODE)
    install = (npm, "install", "--no-save", "--prefix", str(tmp_path), TYPESCRIPT)
    if subprocess.run(install, timeout=TIMEOUT_S, capture_output=True, check=False).returncode:
        not_to_be_had("TypeScript")
    compiler = str(tmp_path / "node_modules" / "typescript" / "bin" / "tsc")
    run(node, compiler, *STRICT, str(JAVASCRIPT))


def run(*command: str) -> None:
    ran = subprocess.run(command, timeout=TIMEOUT_S, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
