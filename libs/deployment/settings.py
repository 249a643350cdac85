"""Settings of a deployment: its log, its views and its object store."""

from libs.kafka.settings import KafkaSettings
from libs.storage.settings import StorageSettings
from libs.views.valkey.settings import ViewsSettings


class DeploymentSettings(KafkaSettings, ViewsSettings, StorageSettings):
    """Settings that all processes of a deployment must share."""
