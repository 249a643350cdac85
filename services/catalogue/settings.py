"""Settings of the catalogue service."""

from pydantic import Field

from libs.kafka.settings import KafkaSettings
from libs.storage.settings import StorageSettings
from libs.views.settings import ViewsSettings


class Settings(KafkaSettings, ViewsSettings, StorageSettings):
    host: str = Field("127.0.0.1", description="Where the HTTP server listens.")
    port: int = Field(8080, ge=0, le=65535, description="Port of the HTTP server.")
