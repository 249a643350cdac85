"""Loopback ports: which are free, and which a data directory used last."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from pathlib import Path

LOOPBACK = "127.0.0.1"


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
    """Distinct ports that the system says are free, all held until the last is known."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((LOOPBACK, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


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
