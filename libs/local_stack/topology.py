"""Topology of a stack: the numbers of brokers and of Valkey's servers, fixed for the life of a data directory."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from libs.local_stack import errors
from libs.local_stack.settings import StackSettings

FILE: Final = "topology.json"
QUORUM: Final = 3
"""The least number of brokers or shards of which the others can replace a lost one."""
FAILOVER_REPLICAS: Final = 2
"""The least number of replicas that leave a promoted primary the one that its writes wait for."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Numbers of brokers, of Valkey's shards, and of replicas of each shard; one shard is no cluster."""

    brokers: int = 1
    valkey_shards: int = 1
    valkey_replicas: int = 0

    @classmethod
    def of(cls, settings: StackSettings, data_dir: Path) -> Self:
        """Return the directory's topology; its first start decides, by the settings, one of each by default.

        Raises `StackError` for another one than the directory's, or one that cannot run.
        """
        file = data_dir / FILE
        asked: dict[str, Any] = {each.name: getattr(settings, each.name) for each in fields(cls)}
        asked = {name: number for name, number in asked.items() if number is not None}
        if file.exists():
            stored = cls(**json.loads(file.read_text()))
            if asked.items() <= asdict(stored).items():
                return stored
            raise errors.other_topology(data_dir, stored.options())
        wanted = cls(**asked)
        wanted._check(settings)
        file.write_text(json.dumps(asdict(wanted)))
        return wanted

    @property
    def is_clustered(self) -> bool:
        return self.valkey_shards > 1

    @property
    def replication_factor(self) -> int:
        """Replicas of a partition of the log."""
        return min(self.brokers, QUORUM)

    def options(self) -> str:
        """Return the options of `tally up` that ask for this topology."""
        return " ".join(f"--{name.replace('_', '-')} {number}" for name, number in asdict(self).items())

    def _check(self, settings: StackSettings) -> None:
        if 1 < self.brokers < QUORUM:
            raise errors.topology_cannot_run(f"{self.brokers} brokers elect no leader once one is lost", "1 or 3")
        if 1 < self.valkey_shards < QUORUM:
            raise errors.topology_cannot_run("two shards promote no replica once one is lost", "1 or 3 shards")
        if self.valkey_replicas and not self.is_clustered:
            raise errors.topology_cannot_run("a single shard promotes no replica", "--valkey-shards 3")
        if 0 < self.valkey_replicas < FAILOVER_REPLICAS:
            raise errors.topology_cannot_run(
                "of one replica, a promoted one has none and refuses writes", "0 or 2"
            )
        if self != Topology() and settings.stack == "containers":
            raise errors.topology_cannot_run("containers are one of each", "TALLY_STACK=native")
        for number, variable, given in (
            (self.brokers, "TALLY_KAFKA_BOOTSTRAP_SERVERS", settings.kafka_bootstrap_servers),
            (self.valkey_shards, "TALLY_VALKEY_URL", settings.valkey_url),
        ):
            if number > 1 and given is not None:
                raise errors.topology_cannot_run(f"{variable} names servers that run already", "without it")
