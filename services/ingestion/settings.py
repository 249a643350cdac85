"""Settings of the ingestion service."""

from pydantic import Field

from libs.kafka.settings import KafkaSettings
from libs.storage.settings import StorageSettings
from libs.views.settings import ViewsSettings
from libs.web.settings import HttpSettings


class Settings(KafkaSettings, ViewsSettings, StorageSettings, HttpSettings):
    ingest_max_in_flight: int = Field(
        20_000, ge=1, description="Votes that a worker records at once; one more is answered 503."
    )
