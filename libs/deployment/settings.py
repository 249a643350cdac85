"""Settings of a deployment: its log, its views and its object store."""

from dataclasses import dataclass
from typing import Any

from libs.kafka.settings import KafkaSettings
from libs.storage.object_store import StorageSettings
from libs.telemetry.redaction import revealed
from libs.views.valkey.settings import ViewsSettings


@dataclass(frozen=True, slots=True)
class DeploymentAddresses:
    """Addresses of a deployment's servers, and the names of its logs.

    `description` is the content of stack.json, {} for external servers. `of_service` are a service's settings of
    Kafka; a command's are those of the environment and the description.
    """

    kafka: str
    valkey: str
    namespace: str
    partitions: int
    storage_url: str
    description: dict[str, Any]
    of_service: KafkaSettings | None = None

    @property
    def kafka_settings(self) -> KafkaSettings:
        if self.of_service is not None:
            return self.of_service
        of_stack: dict[str, Any] = self.description.get("kafka_settings", {})
        return KafkaSettings(kafka_bootstrap_servers=self.kafka, **of_stack)


class DeploymentSettings(KafkaSettings, ViewsSettings, StorageSettings):
    """Settings that all processes of a deployment must share."""

    @property
    def addresses(self) -> DeploymentAddresses:
        valkey, storage = revealed(self.valkey_url), revealed(self.storage_url)
        return DeploymentAddresses(
            self.kafka_bootstrap_servers, valkey, self.namespace, self.partitions, storage, {}, self
        )
