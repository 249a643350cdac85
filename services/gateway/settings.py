"""Settings of the gateway: those of every service that it mounts."""

from services.catalogue.settings import Settings as CatalogueSettings
from services.dashboard.settings import Settings as DashboardSettings
from services.ingestion.settings import Settings as IngestionSettings
from services.query.settings import Settings as QuerySettings


class Settings(IngestionSettings, QuerySettings, CatalogueSettings, DashboardSettings):
    """Settings from one environment; a setting that several services share means the same in each."""
