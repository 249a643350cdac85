"""Settings of the dashboard."""

from pydantic import Field

from libs.deployment.settings import DeploymentSettings
from libs.web.settings import HttpSettings


class Settings(DeploymentSettings, HttpSettings):
    """Those of every service, and where projectors are asked how they are."""

    projector_metrics_urls: str = Field(
        "",
        description="Addresses of the projectors' /metrics, comma-separated: the operator's page names the tasks "
        "that stopped or failed there.",
    )

    def projector_urls(self) -> list[str]:
        return [url for each in self.projector_metrics_urls.split(",") if (url := each.strip())]
