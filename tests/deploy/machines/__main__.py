"""`.ci/containers [compose|kubernetes [OPTIONS]]`: tests images, compose and Kubernetes on a second machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from tests.deploy.machines import images, kubernetes_node
from tests.deploy.machines.kubernetes_node import kept_sysctls
from tests.deploy.machines.machine import (
    INSIDE,
    OF_KUBERNETES,
    TOOLS,
    CannotRun,
    Machine,
    check_machine,
    debootstrap,
)

ARCHIVE = "images.tar"
HERE = Path(__file__).parent
LOCK_S = 1800
TESTS = {
    "compose": ("test_compose.py", "test_stack_in_containers.py"),
    "kubernetes": ("test_kubernetes.py",),
}


def main(subject: str = "compose", *options: str) -> int:
    if subject not in TESTS:
        sys.exit(__doc__)
    directory = Path(os.environ.get("TALLY_TESTS_MACHINES", user_cache_path("tallykeeper") / "machines"))
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not without restoring what was changed

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True)

    try:
        check_machine()
        directory.mkdir(parents=True, exist_ok=True)
        with FileLock(directory / "lock", LOCK_S):  # the runs share the tree and what Docker keeps in it
            return run(directory, subject, options, say)
    except Timeout:
        print("NOT RUN: containers. Another run has not ended", file=sys.stderr)
        return 3
    except CannotRun as error:
        print(f"NOT RUN: containers. {error}", file=sys.stderr)
        return 3
    finally:
        say("end")


def run(directory: Path, subject: str, options: Sequence[str], say: Callable[[str], None]) -> int:
    """Return pytest's exit code; raises `CannotRun` if this machine cannot hold another."""
    shared, log = directory / "shared", directory / "log"
    packages = TOOLS if subject == "compose" else (*TOOLS, *OF_KUBERNETES)
    tree = directory / ("tools" if subject == "compose" else "node")
    debootstrap(tree, packages, log)
    say("the tools' tree is there")
    with Machine(tree, shared, own_network=False) as machine:
        machine.start_docker(networks=False)
        size = images.build_all(machine)
        if subject == "kubernetes":
            machine.docker("save", f"--output={INSIDE}/{ARCHIVE}", *images.ALL)
    say(f"images built; the service's has {size}")
    if subject == "kubernetes":
        kubernetes_node.build_programs(shared / "bin", log)
        say("Kubernetes built")
    with kept_sysctls(), Machine(tree, shared, own_network=True) as machine:
        if subject == "kubernetes":
            kubernetes_node.Kubernetes(machine).start(shared / ARCHIVE)
            say("two nodes are ready")
        else:
            machine.start_docker(networks=True)
            images.run_one(machine, "bridge")
        return _test(machine, subject, options)


def _test(machine: Machine, subject: str, options: Sequence[str]) -> int:
    environment = os.environ | {"TALLY_TESTS_MACHINE": f"{machine.pid}:{machine.tree}:{machine.shared}"}
    files = [str(HERE / name) for name in TESTS[subject]]
    command = machine.command(sys.executable, "-m", "pytest", "-n", "0", "-x", *options, *files, only_network=True)
    return subprocess.run(command, env=environment, cwd=HERE.parents[2], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
