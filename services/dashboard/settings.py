"""Settings of the dashboard."""

from typing import Literal

from pydantic import Field

from libs.deployment.settings import DeploymentSettings
from libs.web.settings import HttpSettings


class Settings(DeploymentSettings, HttpSettings):
    """Settings of every service, the addresses of the projectors' metrics, and the pages' language."""

    projector_metrics_urls: str = Field(
        "",
        description="Addresses of the projectors' /metrics, comma-separated: the operator's page lists their "
        "stopped and failed tasks.",
    )

    command_options: str = Field(
        "",
        description="Options that the operator's page adds to the commands it shows, such as "
        "`--data-dir /var/lib/tally`, so that they work as pasted.",
    )

    dashboard_language: Literal["auto", "en", "de"] = Field(
        "auto", description="Language of the dashboard until a user chooses another; auto: the browser's."
    )

    def projector_urls(self) -> list[str]:
        return [url for each in self.projector_metrics_urls.split(",") if (url := each.strip())]
