"""A Debian tree that is entered by namespaces: a second machine for Docker and Kubernetes, on the first.

Nothing is installed outside of the tree. Mounts, processes and, unless asked otherwise, networks are the tree's
own and end with its first process.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

RELEASE: Final = "trixie"
OF_BASE: Final = ("python3", "python3-venv", "ca-certificates")
"""What the base image of `deploy/Dockerfile` has."""
BASE_ARCHIVE: Final = "base.tar"
"""In a tree: the tree as it was with these packages only."""
TOOLS: Final = (
    "docker.io", "docker-cli", "docker-compose", "docker-buildx", "iptables", "iproute2", "procps",
)  # fmt: skip
OF_KUBERNETES: Final = (
    "containerd", "runc", "etcd-server", "containernetworking-plugins", "kubernetes-client", "conntrack",
    "dnsmasq-base", "openssl",
)  # fmt: skip
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
ENTER: Final = """
set -e
mount --bind "$TREE" "$TREE"
cd "$TREE"
mkdir -p old "$TREE$SHARED_INSIDE"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount --bind "$SHARED" "$TREE$SHARED_INSIDE"
mkdir -p run/lock tmp
pivot_root . old
umount -l /old
ip link set lo up 2>/dev/null || true
exec python3 -c '
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
print("entered", flush=True)
signal.pause()'
"""
INSIDE: Final = "/shared"
TRY: Final = """
set -e
tried=$(mktemp -d)
trap 'umount -l "$tried"; rmdir "$tried"' EXIT
mount -t tmpfs tmpfs "$tried"
mkdir "$tried/old"
mount --rbind /sys "$tried"
umount -l "$tried"
mount -t proc proc "$tried/old"
"""
"""What `ENTER` needs of the machine."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class CannotRun(Exception):
    """This machine lacks what the tree needs; the message says what."""


def check_machine() -> None:
    """Raises `CannotRun`."""
    if os.uname().sysname != "Linux" or os.getuid() != 0:
        raise CannotRun("Linux and root are needed, for mounts and namespaces")
    entered = subprocess.run(
        ["unshare", "-m", "-p", "-n", "-i", "-u", "-f", "--propagation", "private", "sh", "-c", TRY],
        capture_output=True,
        check=False,
    )
    if entered.returncode:
        raise CannotRun(f"no namespaces or mounts: {entered.stderr.decode().strip()}")
    if shutil.which("debootstrap") is None and shutil.which("apt-get") is None:
        raise CannotRun("debootstrap is needed, or apt-get to unpack it")


def debootstrap(tree: Path, packages: Sequence[str], log: Path) -> None:
    """Make a Debian tree from the mirror that debootstrap chooses by itself; make an incomplete one again.

    It has `OF_BASE` and `packages`.
    """
    done = tree / ".complete"
    wanted = " ".join(sorted(packages))
    if done.exists() and done.read_text() == wanted:
        return
    shutil.rmtree(tree, ignore_errors=True)
    tree.parent.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    program = shutil.which("debootstrap")
    if program is None:
        unpacked = tree.parent / "debootstrap"
        unpacked.mkdir(exist_ok=True)
        _run(["apt-get", "update", "-qq"], log)
        _run(["apt-get", "download", "-qq", "debootstrap"], log, cwd=unpacked)
        _run(["dpkg-deb", "-x", str(next(unpacked.glob("*.deb"))), str(unpacked)], log)
        program = str(unpacked / "usr/sbin/debootstrap")
        environment["DEBOOTSTRAP_DIR"] = str(unpacked / "usr/share/debootstrap")
    # Its mounts are its own: one that outlived an interrupted run would be in the way of removing the tree.
    _run(["unshare", "-m", program, "--variant=minbase", RELEASE, str(tree)], log, environment)
    shutil.copy("/etc/resolv.conf", tree / "etc/resolv.conf")
    (tree / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")  # packages start no servers
    (tree / "usr/sbin/policy-rc.d").chmod(0o755)
    environment["DEBIAN_FRONTEND"] = "noninteractive"
    enter = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev"'
    install = 'chroot "$0" apt-get install -qy --no-install-recommends "$@" && chroot "$0" apt-get clean'
    update = f'{enter} && chroot "$0" apt-get update -q && {install}'
    _run(["unshare", "-m", "sh", "-c", update, str(tree), *OF_BASE], log, environment)
    if CERTIFICATES.exists():
        # of a network whose proxy signs by itself
        shutil.copy(CERTIFICATES, tree / CERTIFICATES.relative_to("/"))
    without = (f"--exclude=./{name}" for name in (BASE_ARCHIVE, "dev/*", "proc/*", "sys/*", "var/lib/apt/lists/*"))
    _run(["tar", "-C", str(tree), *without, "-cf", str(tree / BASE_ARCHIVE), "."], log)
    _run(["unshare", "-m", "sh", "-c", f"{enter} && {install}", str(tree), *packages], log, environment)
    done.write_text(wanted)


def _run(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> None:
    with log.open("ab") as output:
        ended = subprocess.run(command, stdout=output, stderr=output, env=environment, cwd=cwd, check=False)
    if ended.returncode:
        lines = log.read_text(errors="replace").splitlines()
        raise CannotRun(f"{command[0]} failed, see {log}: {' | '.join(lines[-3:])}")


class Machine:
    """The tree, entered; a context manager, at whose end nothing of it runs or is mounted."""

    def __init__(self, tree: Path, shared: Path, *, own_network: bool) -> None:
        """`shared` is seen in the tree as `/shared`."""
        self.tree = tree
        self.shared = shared
        self._own_network = own_network
        self._first: subprocess.Popen[bytes] | None = None
        self.pid = 0
        self._cgroups: set[Path] = set()

    def __enter__(self) -> "Machine":
        self.shared.mkdir(parents=True, exist_ok=True)
        self._cgroups = set(_cgroups())
        command = ["unshare", "-m", "-p", *(["-n"] if self._own_network else []), "-i", "-u", "-f", "--kill-child"]
        self._first = subprocess.Popen(
            [*command, "--propagation", "private", "sh", "-c", ENTER],
            env={
                "TREE": str(self.tree),
                "SHARED": str(self.shared),
                "SHARED_INSIDE": INSIDE,
                "PATH": PATH,
            },
            stdout=subprocess.PIPE,
            stderr=(self.shared / "enter.log").open("wb"),
            start_new_session=True,
        )
        assert self._first.stdout is not None
        if self._first.stdout.readline() != b"entered\n":
            raise CannotRun(f"the tree could not be entered, see {self.shared / 'enter.log'}")
        children = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children").read_text()
        self.pid = int(children.split()[0])
        return self

    def __exit__(self, *_: object) -> None:
        assert self._first is not None
        os.kill(self.pid, signal.SIGKILL)  # with it all processes of its namespace end
        self._first.wait(timeout=60)
        for group in sorted(set(_cgroups()) - self._cgroups, key=lambda path: -len(path.parts)):
            _remove(group)

    def command(self, *command: str, only_network: bool = False) -> list[str]:
        """Return the command that runs `command` in the tree, or here in the tree's network."""
        kinds = ["--net"] if only_network else ["--mount", "--pid", "--net", "--ipc", "--uts", "--root", "--wd"]
        return ["nsenter", f"--target={self.pid}", *kinds, *command]

    def run(self, *command: str, check: bool = True, **environment: str) -> str:
        """Run a command in the tree and return its output; raises `AssertionError` with what it printed."""
        ended = subprocess.run(
            self.command(*command),
            env=_environment(environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if check and ended.returncode:
            raise AssertionError(f"{' '.join(command)} ended with {ended.returncode}: {ended.stdout[-4000:]}")
        return ended.stdout

    def start(self, name: str, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a server in the tree, whose output goes to `<name>.log` in the shared directory."""
        with (self.shared / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                # as many files as a machine without privileges may open
                self.command("sh", "-c", 'ulimit -n 20000; exec "$@"', "sh", *command),
                env=_environment(environment),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start_docker(self, *, networks: bool) -> None:
        """Start Docker's daemon; without networks it can only build, with the network of the machine."""
        options = [] if networks else ["--bridge=none", "--iptables=false", "--ip6tables=false"]
        (self.shared / "docker.sock").unlink(missing_ok=True)
        daemon = self.start(
            "dockerd", "dockerd", f"--host=unix://{INSIDE}/docker.sock", "--exec-root=/run/docker", *options
        )
        deadline = time.monotonic() + 60
        while "Server Version" not in self.docker("info", check=False):
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise CannotRun(f"Docker does not start, see {self.shared / 'dockerd.log'}")
            time.sleep(0.2)

    def docker(self, *arguments: str, check: bool = True, **environment: str) -> str:
        return self.run(
            "docker", *arguments, check=check, DOCKER_HOST=f"unix://{INSIDE}/docker.sock", **environment
        )


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    return {"PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", **own}


def _cgroups() -> list[Path]:
    return [Path(path) for path, _, _ in os.walk("/sys/fs/cgroup")]


def _remove(group: Path) -> None:
    """Remove the control group, whose processes may take a moment to end."""
    for _ in range(50):
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
