"""Finds free loopback ports, and remembers those of a data directory."""

import json
import random
import socket
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from libs.storage.private_files import write_private

LOOPBACK = "127.0.0.1"
SERVER_PORTS = range(20000, 32000)
CLAIMS = 256
"""The last claims are kept: servers at ports that were claimed before listen by now."""

_claims: dict[int, socket.socket] = {}


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server could listen here now (with SO_REUSEADDR, so despite TIME_WAIT)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def accepts(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server listens here."""
    try:
        socket.create_connection((host, port), timeout=0.5).close()
    except OSError:
        return False
    return True


def lan_address() -> str | None:
    """Return this machine's address on its network; None without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # chooses a route, and sends nothing
        except OSError:
            return None
        address: str = probe.getsockname()[0]
        return None if address.startswith("127.") else address


def free_ports(count: int) -> list[int]:
    """Return distinct free ports below the ephemeral range (32768 and up), and claim them.

    An ephemeral port, as from port 0, could be taken before its server listens, or while it is down.
    """
    return list(islice(_choose(), count))


def _choose() -> Iterator[int]:
    chosen = random.sample(SERVER_PORTS, len(SERVER_PORTS))
    return (port for port in chosen if port not in _claims and _claim(port))


def _claim(port: int) -> bool:
    """Keep a port from other stacks that start now, and return whether it is this process's, and free.

    A claim is a UDP socket at the port's number, so it ends with the process. It comes before the port is tried,
    which would be in the way of another stack's server that starts there.
    """
    if port not in _claims:
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            claim.bind((LOOPBACK, port))
        except OSError:
            claim.close()
            return False
        _claims[port] = claim
    if not is_free(port):
        _claims.pop(port).close()
        return False
    if len(_claims) > CLAIMS:
        _claims.pop(next(iter(_claims))).close()
    return True


def remembered(file: Path, names: Iterable[str]) -> dict[str, int]:
    """Return a port for each name: the one stored in `file` if free, otherwise a new one, stored there.

    Addresses thus stay the same between runs on one data directory. A damaged file is ignored.
    """
    try:
        known = {str(name): int(port) for name, port in json.loads(file.read_text()).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        known = {}
    wanted = list(names)
    fresh = (port for port in _choose() if port not in known.values())
    ports = {name: known[name] if name in known and _claim(known[name]) else next(fresh) for name in wanted}
    write_private(file, json.dumps(known | ports))
    return ports
