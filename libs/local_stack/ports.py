"""Loopback ports: which are free, and which a data directory used last."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

LOOPBACK = "127.0.0.1"
SERVER_PORTS = range(20000, 32000)


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen here now, as servers do: an address in TIME_WAIT is no obstacle."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def accepts(port: int, host: str = LOOPBACK) -> bool:
    """Whether something listens here."""
    try:
        socket.create_connection((host, port), timeout=0.5).close()
    except OSError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Distinct free ports below those that systems lend to outgoing connections (32768 and up).

    One of the lent ones, as port 0 gives, could be gone before its server listens, or while it is down.
    """
    return list(islice(filter(is_free, random.sample(SERVER_PORTS, len(SERVER_PORTS))), count))


def remembered(file: Path, names: Iterable[str]) -> dict[str, int]:
    """A port for each name: the one `file` remembers while it is free, else a new one, remembered there.

    So addresses stay the same from run to run of one data directory. A damaged file counts as none.
    """
    try:
        known = {str(name): int(port) for name, port in json.loads(file.read_text()).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        known = {}
    wanted = list(names)
    fresh = iter(free_ports(len(wanted)))
    ports = {name: known[name] if name in known and is_free(known[name]) else next(fresh) for name in wanted}
    file.write_text(json.dumps(known | ports))
    return ports
