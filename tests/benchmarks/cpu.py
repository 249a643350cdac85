"""CPU time of the server processes below this one, by name."""

import os
from collections.abc import Collection, Iterator, Mapping

import psutil

NAMES = {
    "tests.benchmarks.peers": "peer",
    "tests/benchmarks/peers": "peer",
    "KafkaStreamsFold": "peer",
    "services.gateway": "gateway",
    "services.projector": "projector",
    "tests.benchmarks.our_": "Tallykeeper",
    "valkey-server": "Valkey",
    "kafka.Kafka": "Kafka",
}
"""Names of processes by a part of their command lines; their children have the same name."""


class CpuMeter:
    """CPU time since it was created, of all descendants with a name and of this process if `own` names it.

    One that has ended counts with what it had used when the meter was last read.
    """

    def __init__(self, own: str = "") -> None:
        self._own = own
        self._before = dict(self._used())
        self._latest = dict(self._before)

    def seconds(self) -> dict[str, float]:
        found: dict[str, float] = {}
        self._latest.update(self._used())
        for (name, pid), used in self._latest.items():
            found[name] = found.get(name, 0.0) + used - self._before.get((name, pid), 0.0)
        return found

    def each_us(self, units: float, parts: Collection[str]) -> Mapping[str, float]:
        """Return the microseconds per unit of work of the processes with these names, if they took any."""
        spent = self.seconds()
        each = {name: round(spent.get(name, 0.0) / units * 1_000_000, 2) for name in parts}
        return {name: used for name, used in each.items() if used >= 0.05}

    def _used(self) -> Iterator[tuple[tuple[str, int], float]]:
        if self._own:
            times = os.times()
            yield (self._own, os.getpid()), times.user + times.system
        for child in psutil.Process().children():
            yield from _of(child, "")


def _of(process: psutil.Process, inherited: str) -> Iterator[tuple[tuple[str, int], float]]:
    try:
        command, times, children = " ".join(process.cmdline()), process.cpu_times(), process.children()
    except psutil.Error:
        return
    name = next((name for part, name in NAMES.items() if part in command), inherited)
    if name:
        yield (name, process.pid), times.user + times.system
    for child in children:
        yield from _of(child, name)


def used_s(process: psutil.Process) -> float:
    """Return the CPU time of one process, in seconds."""
    times = process.cpu_times()
    return float(times.user + times.system)
