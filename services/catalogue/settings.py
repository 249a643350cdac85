"""Settings of the catalogue service."""

from pydantic import Field

from libs.kafka.settings import KafkaSettings
from libs.storage.settings import StorageSettings
from libs.views.settings import ViewsSettings


class Settings(KafkaSettings, ViewsSettings, StorageSettings):
    host: str = Field("127.0.0.1", description="Where the HTTP server listens.")
    port: int = Field(8080, ge=0, le=65535, description="Port of the HTTP server.")
    public_url: str = Field(
        "",
        pattern=r"^(https?://[^/?#]+)?$",
        description="Origin at which callers reach the API, for upload addresses; each request's own by default.",
    )
    file_max_bytes: int = Field(100 << 20, ge=1, description="Largest file that is taken.")
