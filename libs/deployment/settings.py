"""Settings of a deployment: its log, its views and its object store."""

from dataclasses import dataclass
from typing import Any

from libs.kafka.settings import KafkaSettings
from libs.storage.object_store import StorageSettings
from libs.views.valkey.settings import ViewsSettings


class DeploymentSettings(KafkaSettings, ViewsSettings, StorageSettings):
    """Settings that all processes of a deployment must share."""


@dataclass(frozen=True, slots=True)
class DeploymentAddresses:
    """Addresses of a deployment's servers, and the names of its logs.

    `description` is the content of stack.json, {} for external servers.
    """

    kafka: str
    valkey: str
    namespace: str
    partitions: int
    storage_url: str
    description: dict[str, Any]

    @property
    def kafka_settings(self) -> KafkaSettings:
        of_stack: dict[str, Any] = self.description.get("kafka_settings", {})
        return KafkaSettings(kafka_bootstrap_servers=self.kafka, **of_stack)
