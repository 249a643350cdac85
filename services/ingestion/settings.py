"""Settings of the ingestion service."""

from pydantic import Field

from libs.deployment.settings import DeploymentSettings
from libs.purchases.service import PurchaseSettings
from libs.web.settings import HttpSettings


class Settings(DeploymentSettings, HttpSettings, PurchaseSettings):
    ingest_max_in_flight: int = Field(
        20_000, ge=1, description="Votes that a worker records at once; further ones get a 503."
    )
    ingest_max_batch_bytes: int = Field(
        128 << 20,
        ge=8 << 20,
        description="Total size of the batches that a worker holds at once; further ones get a 503.",
    )
