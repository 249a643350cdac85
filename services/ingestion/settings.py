"""Settings of the ingestion service."""

from pydantic import Field

from libs.deployment.settings import DeploymentSettings
from libs.web.settings import HttpSettings


class Settings(DeploymentSettings, HttpSettings):
    ingest_max_in_flight: int = Field(
        20_000, ge=1, description="Votes that a worker records at once; one more is answered 503."
    )
