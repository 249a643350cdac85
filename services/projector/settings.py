"""Settings of the projector service."""

from pydantic import Field

from libs.kafka.settings import KafkaSettings
from libs.projection.settings import ProjectorSettings
from libs.storage.settings import StorageSettings
from libs.views.settings import ViewsSettings


class Settings(KafkaSettings, ViewsSettings, StorageSettings, ProjectorSettings):
    """What it reads, where it writes, and how it takes turns with other projectors."""

    source_grace_s: float = Field(
        900, ge=0, description="How long a contest's external sources may report after its end, in seconds."
    )
