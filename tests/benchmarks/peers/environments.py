"""Installs the peers: Python packages by uv in environments of their own, Kafka Streams from its jars.

Their pinned dependencies contradict one another's and the project's, so no dependency group can hold them.
"""

import asyncio
import os
import shutil
import sys
from pathlib import Path
from threading import Event

from platformdirs import user_cache_path

from libs.local_stack import java
from libs.local_stack.errors import StackError
from libs.local_stack.java import pins
from libs.local_stack.startup_report import Silence

HERE = Path(__file__).parent
JAVA_SOURCE, PINS = HERE / "KafkaStreamsFold.java", HERE / "kafka-streams-4.3.0.sha256"
CACHE = user_cache_path("tallykeeper") / "benchmarks"
INSTALL_S = 300


class Unavailable(Exception):
    """A peer that cannot be had here; the message is the reason."""


async def script(name: str) -> list[str]:
    """Install the dependencies in the head of a script, and return the command that runs it."""
    if shutil.which("uv") is None:
        raise Unavailable("uv is not installed")
    chosen = ["--quiet", "--python", sys.executable, "--script", str(HERE / name)]
    await _done(["uv", "sync", *chosen])
    return ["uv", "run", *chosen]


async def kafka_streams() -> list[str]:
    """Download the jars and compile the topology, by a compiler that is itself a jar; no JDK is needed."""
    try:
        class_path = await asyncio.to_thread(_class_path)
        runtime = str(java.find())
    except (StackError, ImportError) as error:
        raise Unavailable(str(error)) from error
    classes = CACHE / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join(map(str, class_path))
    compiler = [runtime, "-cp", path, "org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-nowarn"]
    await _done([*compiler, "-cp", path, "-d", str(classes), str(JAVA_SOURCE)])
    return [runtime, "-Xmx2g", "-cp", os.pathsep.join([str(classes), path]), JAVA_SOURCE.stem]


def _class_path() -> list[Path]:
    from jgo.config import GlobalSettings  # noqa: PLC0415 (these three need the extra `local`)
    from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415

    from libs.local_stack import jars  # noqa: PLC0415

    home = CACHE / "kafka-streams"
    home.mkdir(parents=True, exist_ok=True)
    repositories = {**GlobalSettings.load().repositories, "central": MAVEN_CENTRAL_URL}
    own = jars.JarStore(home, repositories).complete(pins(PINS), Silence(), Event())
    return [*jars.class_path(Silence()), *own]


async def _done(command: list[str]) -> None:
    """Run to the end. Raises `Unavailable` with the last line of a command that failed."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), INSTALL_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Unavailable(f"not installed after {INSTALL_S} s") from None
    if process.returncode:
        lines = out.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        raise Unavailable(lines[-1][:200])
