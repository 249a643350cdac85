"""The whole API against its own description, by schemathesis: examples, borders, random and stateful requests.

The document, the profile and TALLY_SCHEMATHESIS_SEED decide the cases, not the machine's speed. The short profile
sends border cases to a few operations, which have 800 of them, and leaves out the legacy test environment, whose
operations are those of production.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from libs.local_stack.supervisor import Supervisor
from tests.support.clients.stack_keys import new_key
from tests.support.run_profile import by_profile, is_long

pytestmark = pytest.mark.slow

SEED: Final = os.environ.get("TALLY_SCHEMATHESIS_SEED", "1")
HERE: Final = Path(__file__).parent
SHORT: Final = ("--exclude-path-regex", "^/legacy-test/")
BORDERS: Final = (
    *("cast_vote", "cast_votes", "remove_vote", "list_votes_of_voter", "get_vote_counts"),
    *("list_contests", "create_key", "report_counts"),
)
"""Operations, one of each kind, whose border cases the short profile sends."""
SHORT_BORDERS: Final = tuple(part for name in BORDERS for part in ("--include-operation-id", name))
EXAMPLES: Final = by_profile(short=1, long=20)
"""Random requests of an operation, and sequences of requests."""


@pytest.mark.parametrize(("phases", "short"), [("examples,fuzzing,stateful", SHORT), ("coverage", SHORT_BORDERS)])
async def test_the_api_does_what_its_description_says(
    stack: Supervisor, tmp_path: Path, phases: str, short: Sequence[str]
) -> None:
    owner, stranger = stack.stack, await new_key(stack, account="stranger")
    accounts = [
        account("owner", owner["account"], owner["api_key"]),
        account("stranger", stranger.account, stranger.api_key),
    ]
    (tmp_path / "accounts.json").write_bytes(orjson.dumps({"auth": accounts}))
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml")),
        *("--no-color", "run", f"{stack.base_url}/openapi.json"),
        *("--phases", phases, "--max-examples", str(EXAMPLES)),
        *("--seed", SEED, "--generation-database", "none", "--continue-on-failure", "--warnings", "off"),
        *(() if is_long() else short),
    ]
    environment = {
        "SCHEMATHESIS_HOOKS": "tests.e2e.schemathesis_hooks",
        "TALLY_SCHEMATHESIS_ACCOUNTS": str(tmp_path / "accounts.json"),
        "PYTHONPATH": str(HERE.parents[1]),
    }
    process = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, env=os.environ | environment, stdout=PIPE, stderr=STDOUT
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()


def account(name: str, brand: str, key: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}", "service-brand": brand, "service-key": key}
    return {"name": name, "fixedHeaders": [{"name": name, "value": value} for name, value in headers.items()]}
