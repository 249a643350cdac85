"""Settings of the brokers on which the clients' deadlines depend."""

from typing import Final, NamedTuple

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import NoError, for_code

from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import open_admin

SESSION_TIMEOUT: Final = "broker.session.timeout.ms"
ELECTION_MS: Final = 3_000
"""Time after a lost broker's session until its successors acknowledge records."""


class Brokers(NamedTuple):
    """The number of brokers, and the time after which a silent one is replaced (ms; None: may not be read)."""

    number: int
    session_ms: int | None

    @property
    def shortest_deadline_ms(self) -> int | None:
        """Return the shortest deadline of an append that outlasts the loss of a broker; 0 for a single one."""
        if self.number == 1:
            return 0
        return None if self.session_ms is None else self.session_ms + ELECTION_MS


async def read_brokers(settings: KafkaSettings) -> Brokers:
    """Read the brokers' settings. Raises `LogUnavailable`."""
    async with open_admin(settings) as admin:
        nodes = [broker["node_id"] for broker in (await admin.describe_cluster())["brokers"]]
        resources = [
            ConfigResource(ConfigResourceType.BROKER, str(node), {SESSION_TIMEOUT: None}) for node in nodes
        ]
        sessions = [
            int(entry[1])
            for answer in await admin.describe_configs(resources)
            for code, _, _, _, entries in answer.resources
            if for_code(code) is NoError
            for entry in entries
            if entry[0] == SESSION_TIMEOUT
        ]
    return Brokers(len(nodes), max(sessions, default=None))
