"""Finds free loopback ports, and remembers those of a data directory."""

import json
import random
import socket
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

LOOPBACK = "127.0.0.1"
SERVER_PORTS = range(20000, 32000)


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
    """Return distinct free ports below the ephemeral range (32768 and up).

    An ephemeral port, as from port 0, could be taken before its server listens, or while it is down.
    """
    return list(islice(filter(is_free, random.sample(SERVER_PORTS, len(SERVER_PORTS))), count))


def remembered(file: Path, names: Iterable[str]) -> dict[str, int]:
    """Return a port for each name: the one stored in `file` if free, otherwise a new one, stored there.

    Addresses thus stay the same between runs on one data directory. A damaged file is ignored.
    """
    try:
        known = {str(name): int(port) for name, port in json.loads(file.read_text()).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        known = {}
    wanted = list(names)
    fresh = (port for port in free_ports(len(wanted) + len(known)) if port not in known.values())
    ports = {name: known[name] if name in known and is_free(known[name]) else next(fresh) for name in wanted}
    file.write_text(json.dumps(known | ports))
    return ports
