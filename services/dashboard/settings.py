"""Settings of the dashboard."""

from libs.kafka.settings import KafkaSettings
from libs.storage.settings import StorageSettings
from libs.views.settings import ViewsSettings
from libs.web.settings import HttpSettings


class Settings(KafkaSettings, ViewsSettings, StorageSettings, HttpSettings):
    """It has none of its own."""
