"""Settings of everything that works on a deployment: its log, its views and its object store."""

from libs.kafka.settings import KafkaSettings
from libs.storage.settings import StorageSettings
from libs.views.settings import ViewsSettings


class DeploymentSettings(KafkaSettings, ViewsSettings, StorageSettings):
    """All of one deployment; processes whose settings differ must not work beside one another."""
