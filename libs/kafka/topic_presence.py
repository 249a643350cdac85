"""Checks which of some topics exist, over one connection."""

from collections.abc import Collection

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, NoError, UnknownTopicOrPartitionError, for_code

from libs.kafka.cancellation import StartedOnce, call
from libs.kafka.errors import NO_ANSWER
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.tally.errors import LogUnavailable

ANSWER_S = 5.0
"""Timeout of a check."""
ANY_SETTING = "cleanup.policy"


class TopicPresence:
    """Asks for a setting of each topic.

    Kafka's list of topics has all their partitions, which takes aiokafka 20 us each to read; and its requests for
    the metadata of named topics create those that do not exist where a broker permits that.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._admin = StartedOnce(lambda: AIOKafkaAdminClient(**connection(settings)), AIOKafkaAdminClient.close)

    async def existing(self, names: Collection[str]) -> set[str]:
        """Return those of the topics that exist. Raises `LogUnavailable`."""
        try:
            return await call(self._existing(names), ANSWER_S)
        except (KafkaError, OSError, TimeoutError) as error:
            await self.close()
            raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause=error) from error

    async def close(self) -> None:
        await self._admin.drop()

    async def _existing(self, names: Collection[str]) -> set[str]:
        admin = await self._admin.get()
        wanted = [ConfigResource(ConfigResourceType.TOPIC, name, {ANY_SETTING: None}) for name in names]
        found = set()
        for answer in await admin.describe_configs(wanted):
            for code, _, _, name, *_ in answer.resources:
                error = for_code(code)
                if error is NoError:
                    found.add(name)
                elif error is not UnknownTopicOrPartitionError:
                    raise error(name)
        return found
