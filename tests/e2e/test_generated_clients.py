"""Clients that others generate from the served document compile strictly, and vote, count and change a contest."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path
from threading import Event
from typing import Final

import pytest
from platformdirs import user_cache_path

from libs.local_stack import java
from libs.local_stack.errors import StackError
from libs.local_stack.jars import JarStore, mirror
from libs.local_stack.startup_report import Report
from libs.local_stack.supervisor import Supervisor
from tests.support.clients.voting import Api
from tests.support.programs import MISSING, NODE, NPM, Programs, must_be_complete, not_to_be_had

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not must_be_complete(),
        reason="Generating clients takes a minute: with TALLY_TESTS_COMPLETE=1, as in .ci/run.",
    ),
]

GENERATOR: Final = java.Pin(
    "25d6bd8273dd2be99979d544b62ea43f0ce1975f1aa582678b5093d1e7fcfce8",
    30_971_683,
    "org.openapitools:openapi-generator-cli:7.17.0",
)
TYPESCRIPT: Final = "typescript@5.9.3"
STRICT: Final = ("--strict", "--target", "es2022", "--module", "commonjs", "--lib", "es2022,dom")
STORIES: Final = Path(__file__).with_name("generated_clients")


@pytest.fixture
async def generator(api: Api, tmp_path: Path) -> list[str]:
    """The command that generates from the document of the current API; the language and the directory follow."""
    document = tmp_path / "current.json"
    document.write_bytes((await api.client.get("/openapi/current.json")).content)
    jars = JarStore(user_cache_path("tallykeeper") / "tests", mirror())
    try:
        program = java.find()
    except StackError:
        pytest.skip(f"Java {MISSING}")
    try:
        [jar] = await asyncio.to_thread(jars.complete, [GENERATOR], Report(quiet=True), Event())
    except StackError:
        not_to_be_had("openapi-generator")
    return [str(program), "-jar", str(jar), "generate", "-i", str(document), "-g"]


async def test_a_client_generated_for_python_votes_and_patches_one_member(
    generator: list[str], stack: Supervisor, tmp_path: Path
) -> None:
    await run(*generator, "python", "-o", str(tmp_path / "client"))
    path = {"PYTHONPATH": str(tmp_path / "client")}
    story = (sys.executable, str(STORIES / "story.py"))
    assert (await run(*story, stack.base_url, stack.stack["api_key"], environment=path)).endswith("told\n")


async def test_a_client_generated_for_typescript_is_strict_votes_and_patches_one_member(
    generator: list[str], programs: Programs, stack: Supervisor, tmp_path: Path
) -> None:
    npm, node = programs.path(NPM), programs.path(NODE)
    install = npm, "install", "--no-save", "--prefix", str(tmp_path), TYPESCRIPT
    if (await finished(*install))[0]:
        not_to_be_had("TypeScript")
    await run(*generator, "typescript-fetch", "-o", str(tmp_path / "client"))
    shutil.copy(STORIES / "story.ts", tmp_path)
    compiler = str(tmp_path / "node_modules" / "typescript" / "bin" / "tsc")
    await run(node, compiler, *STRICT, "--outDir", str(tmp_path / "built"), str(tmp_path / "story.ts"))
    story = str(tmp_path / "built" / "story.js")
    assert (await run(node, story, stack.base_url, stack.stack["api_key"])).endswith("told\n")


async def run(*command: str, environment: dict[str, str] | None = None) -> str:
    """Run a command and return its output; the test fails with it unless the command succeeds."""
    code, printed = await finished(*command, environment=environment)
    assert code == 0, printed
    return printed


async def finished(*command: str, environment: dict[str, str] | None = None) -> tuple[int | None, str]:
    """Run a command; return its exit code and output."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=PIPE, stderr=STDOUT, env=os.environ | (environment or {})
    )
    printed = (await process.communicate())[0].decode()
    return process.returncode, printed
