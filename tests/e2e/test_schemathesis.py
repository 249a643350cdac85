"""The whole API against its own description, by schemathesis: examples, borders, random and stateful requests.

TALLY_SCHEMATHESIS_S gives it more time than the suite does; TALLY_SCHEMATHESIS_SEED another seed.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import pytest

from services.operations.stack.supervisor import Supervisor

SECONDS: Final = float(os.environ.get("TALLY_SCHEMATHESIS_S", "36"))
SEED: Final = os.environ.get("TALLY_SCHEMATHESIS_SEED", "1")
HERE: Final = Path(__file__).parent


@pytest.mark.parametrize(("phases", "share"), [("examples,coverage,fuzzing", 2 / 3), ("stateful", 1 / 3)])
async def test_the_api_does_what_its_description_says(
    stack: Supervisor, tmp_path: Path, phases: str, share: float
) -> None:
    description = stack.stack
    headers = {
        "Authorization": f"Bearer {description['api_key']}",
        "service-brand": description["service_brand"],
        "service-key": description["service_key"],
    }
    command = [
        *(
            sys.executable,
            "-m",
            "schemathesis.cli",
            "--config-file",
            str(HERE / "schemathesis.toml"),
            "--no-color",
        ),
        *("run", f"{description['base_url']}/openapi.json"),
        *(part for name, value in headers.items() for part in ("--header", f"{name}: {value}")),
        *(
            "--phases",
            phases,
            "--max-time",
            str(round(SECONDS * share)),
            "--seed",
            SEED,
            "--generation-database",
            "none",
        ),
        *("--continue-on-failure", "--warnings", "off"),
    ]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=tmp_path,
        env=os.environ
        | {"SCHEMATHESIS_HOOKS": "tests.e2e.schemathesis_hooks", "PYTHONPATH": str(HERE.parents[1])},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
